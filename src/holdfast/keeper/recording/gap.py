"""Output that could not be recorded: why, how much, and what the index says of it.

A killed keeper takes its count along. So a gap is marked where it begins, as far as the file
system lets us; who finds a mark that is not its own says that the number is unknown.
"""

from __future__ import annotations

import time

from holdfast.logbook import index

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.keeper.recording.segment_files import SegmentFiles

_INTERRUPTED = "recording was interrupted"


class Gap:
    """Of one log; there is one while `why` says so."""

    __slots__ = ("_files", "_is_counted", "_marked", "_service", "_tell", "lost", "why")

    def __init__(
        self,
        files: SegmentFiles,
        service: str,
        tell: Callable[[str, str, int | None, str], None],
        state: dict[str, int],
    ) -> None:
        self._files = files
        self._service = service
        self._tell = tell
        self._is_counted = True
        self._marked = state.get("marked", 0)  # in which segment
        self.lost = state.get("lost", 0)
        self.why = _INTERRUPTED if self.lost or self._marked else ""
        files.is_mark_known = bool(self._marked)

    def state(self) -> dict[str, int]:
        return {"lost": self.lost, "marked": self._marked}

    def begin(self, why: str) -> None:
        if not self.why:
            self.why = why
            self._files.is_within_gap = True
            self._tell(self._service, "begin", 0, why)

    def inherit(self, why: str) -> None:
        """The log was left within a gap, or damaged: how much was lost then nobody knows."""
        self.why = self.why or why
        self._is_counted = False

    def mark(self) -> bool:
        """Say in the index that it began, once in a segment; whether that was written now, and
        with it all that was pending."""
        files = self._files
        if not files.is_open or self._marked == files.number:
            return False
        try:
            self._write(index.pack(index.GAP_BEGINS, stamp(), files.position, 0, 0))
        except OSError:
            return self._flag()
        self._marked = files.number
        return True

    def _flag(self) -> bool:
        """Say it in the header, because no record can be added; always False."""
        try:
            self._files.flag_gap()
        except OSError:
            return False
        self._marked = self._files.number
        return False

    def close(self, now: int) -> None:
        """Bytes come again: the index says first how many did not."""
        if self.lost:
            self._files.pending += index.pack_gap(now, self._files.position, self.lost)
        self._end()

    def close_now(self) -> None:
        """The same where no byte comes any more: it is over only if that can be written."""
        self._write(index.pack_gap(stamp(), self._files.position, self.lost))
        self._end()

    def _write(self, record: bytes) -> None:
        files = self._files
        files.pending += record
        try:
            files.write_index()
        except OSError:
            # Whole records are written in order, so the last one was not.
            del files.pending[-index.RECORD_SIZE :]
            raise

    def _end(self) -> None:
        lost, why = self.lost if self._is_counted else None, self.why
        self._files.is_flag_over = bool(self._marked)
        self._files.is_within_gap = False
        self.lost = self._marked = 0
        self.why = ""
        self._is_counted = True
        self._tell(self._service, "end", lost, why)


def stamp() -> int:
    """Now, in the microseconds of the index."""
    return time.time_ns() // 1000
