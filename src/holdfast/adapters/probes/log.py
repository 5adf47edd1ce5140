"""Checks whether a service printed a matching line: in a run, or since the last look.

Reads the log files; the matcher's process does the matching. Blocking parts run in the thread that
the caller gives.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.adapters.output import RunLines
from holdfast.adapters.search.matcher import SharedMatcher
from holdfast.logbook import cursors
from holdfast.logbook.cursors import Cursor
from holdfast.logbook.entries import Line
from holdfast.logbook.lines import LineFollower
from holdfast.logbook.plain_text import shown
from holdfast.logbook.reader import Reader
from holdfast.vocabulary.errors import UsageError

BACKLOG_BYTES = 8 * 1024 * 1024
SHOWN_CHARACTERS = 120

InThread = Callable[..., Awaitable[Any]]


class RunSearch:
    """Looks for a line anywhere in a run, from its beginning, as the log grows."""

    def __init__(
        self,
        directory: str,
        service: str,
        run: int,
        matcher: SharedMatcher,
        in_thread: InThread,
        *,
        is_raw: bool,
    ) -> None:
        self._place = (directory, service, run)
        self._is_raw = is_raw
        self._matcher = matcher
        self._in_thread = in_thread
        self._lines: RunLines | None = None
        self._batch: list[bytes] = []

    async def look(self, pattern: str) -> str | None:
        """Return the first matching line in what was added since the last look.

        Raises UsageError for lines that take too long; they are skipped. If the matcher fails, the
        same lines are looked at again.
        """
        if self._lines is None:
            self._lines = await self._in_thread(RunLines, *self._place, pattern)
        while True:
            self._batch = self._batch or await self._in_thread(self._lines.batch, False)
            if not self._batch:
                if self._lines.is_at_end:
                    return None
                continue
            try:
                data = _matched(self._batch, is_raw=self._is_raw)
                found = await self._matcher.first(pattern, data)
            except UsageError:
                self._batch = []
                raise
            batch, self._batch = self._batch, []
            if found is not None:
                return event_text(batch[found])

    def unfinished(self) -> list[Line]:
        """Return the lines without their end that were read so far."""
        return [] if self._lines is None else self._lines.unfinished()

    async def look_at_unfinished(self, pattern: str) -> str | None:
        """Return the first of the unfinished lines that matches already."""
        lines = [line.data for line in self.unfinished()]
        found = await self._matcher.first(pattern, _matched(lines, is_raw=self._is_raw))
        return None if found is None else event_text(lines[found])

    def close(self) -> None:
        if self._lines is not None:
            self._lines.close()
            self._lines = None


class RecentSearch:
    """Looks for a line among those that were finished since the last look."""

    def __init__(
        self,
        directory: str,
        service: str,
        matcher: SharedMatcher,
        in_thread: InThread,
        *,
        is_raw: bool,
    ) -> None:
        self._is_raw = is_raw
        self._reader = Reader(directory, service)
        self._matcher = matcher
        self._in_thread = in_thread
        self._follower: LineFollower | None = None

    async def begin(self) -> None:
        """Skip everything that was printed before now."""
        self._start_at(await self._in_thread(self._reader.end))

    async def look(self, pattern: str) -> str | None:
        """Return a matching line; of a backlog, only the newest part is looked at."""
        if self._follower is None:
            await self.begin()
        end: Cursor = await self._in_thread(self._reader.end)
        assert self._follower is not None
        if max(end) - self._follower.cursor.start > BACKLOG_BYTES:
            self._start_at(cursors.at(max(end) - BACKLOG_BYTES))
        lines: list[bytes] = await self._in_thread(_lines_of, self._follower)
        found = await self._matcher.first(pattern, _matched(lines, is_raw=self._is_raw))
        return None if found is None else event_text(lines[found])

    def close(self) -> None:
        if self._follower is not None:
            self._follower.close()
            self._follower = None

    def _start_at(self, cursor: Cursor) -> None:
        self.close()
        self._follower = LineFollower(self._reader, cursor)


def event_text(data: bytes) -> str:
    """Return a line as an event may show it: short, and in one piece."""
    text = shown(data).decode("utf-8", "replace")
    plain = "".join(letter if letter.isprintable() else " " for letter in text[:1000]).strip()
    return plain if len(plain) <= SHOWN_CHARACTERS else plain[: SHOWN_CHARACTERS - 1] + "…"


def _matched(lines: list[bytes], *, is_raw: bool) -> list[bytes]:
    """Return what a pattern is compared with: the lines as they are shown, or their bytes."""
    return lines if is_raw else [shown(line) for line in lines]


def _lines_of(follower: LineFollower) -> list[bytes]:
    return [entry.data for entry in follower.wake() if isinstance(entry, Line)]
