"""The journal of exits: each exit is on disk before it is announced, until somebody forgets it.

Owns STATE/exits.jsonl. The file is appended to, emptied when every exit is forgotten, and rewritten
when most of it is stale. A full disk never stops the keeper: lines that could not be written, or a
file that could not be opened, wait in memory until `retry` succeeds.
"""

from __future__ import annotations

import os

from holdfast.system import lean_json
from holdfast.system.private_files import open_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from holdfast.keeper.protocol.messages import ExitFacts

    State = dict[str, Any]

_COMPACT_ABOVE = 1 << 20


class Journal:
    """Exits by run id, in order of ending."""

    def __init__(
        self,
        path: str,
        *,
        inherited: State | None = None,
        may_wait: bool = False,
        on_refused: Callable[[], None] | None = None,
    ) -> None:
        """`inherited` is the `state` of the program image before this one. If the file cannot be
        opened, this raises OSError, or with `may_wait` leaves it to `retry`."""
        self._path = path
        self._on_refused = on_refused
        self._exits: dict[str, ExitFacts] = {}
        self._pending = b""
        self._size = 0
        self._fd = -1
        self._is_loaded = inherited is not None
        if inherited is not None:
            self._exits = {ended["run_id"]: ended for ended in inherited["exits"]}
            self._pending = inherited["pending"].encode("latin-1")
        try:
            self._open()
        except OSError:
            if not may_wait:
                raise
            self._refused()
        else:
            self._write()

    @property
    def is_settled(self) -> bool:
        """Whether every exit is in the file."""
        return self._fd >= 0 and not self._pending

    def state(self) -> State:
        """The exits for the next program image, also those that are not in the file."""
        return {"exits": self.exits(), "pending": self._pending.decode("latin-1")}

    def retry(self) -> None:
        """Try again to open the file and to write what waits."""
        if self._fd < 0:
            try:
                self._open()
            except OSError:
                return
        self._write()

    def renew(self) -> None:
        """Write the file again if it was deleted. Raises OSError if that cannot be done now."""
        if self._fd >= 0 and os.fstat(self._fd).st_nlink == 0 and not self._compact():
            raise OSError(f"{self._path} cannot be written anew")

    def exits(self) -> list[ExitFacts]:
        return list(self._exits.values())

    def get(self, run_id: str) -> ExitFacts | None:
        return self._exits.get(run_id)

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._exits

    def add(self, exits: Iterable[ExitFacts]) -> None:
        """Write all of them at once. They are in the file, or wait for room, when this returns."""
        lines = []
        for ended in exits:
            self._exits[ended["run_id"]] = ended
            lines.append(lean_json.encoded({"exit": ended}))
        self._append(lines)

    def forget(self, run_ids: Iterable[str]) -> None:
        # A file that could not be read yet may have any of them.
        gone = [
            run_id
            for run_id in run_ids
            if self._exits.pop(run_id, None) is not None or not self._is_loaded
        ]
        if not gone or (not self._exits and self._empty()):
            return
        if self._size <= _COMPACT_ABOVE or not self._compact():
            self._append([lean_json.encoded({"forget": gone})])

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        fd = open_plain(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            size = os.fstat(fd).st_size
            if not self._is_loaded:
                self._load(os.pread(fd, size, 0))
        except OSError:
            os.close(fd)
            raise
        self._fd, self._size = fd, size
        if size and not self._exits:
            self._empty()

    def _load(self, data: bytes) -> None:
        """Read the file. Its lines are older than those that wait in memory."""
        self._is_loaded = True
        if data and not data.endswith(b"\n"):
            self._pending = b"\n" + self._pending
        self._exits = {}
        for entry in lean_json.objects_in(data + self._pending):
            ended: Any = entry.get("exit")
            if isinstance(ended, dict) and isinstance(ended.get("run_id"), str):
                exit_facts: Any = ended
                self._exits[exit_facts["run_id"]] = exit_facts
            if isinstance(gone := entry.get("forget"), list):
                for run_id in gone:
                    if isinstance(run_id, str):
                        self._exits.pop(run_id, None)

    def _append(self, lines: list[bytes]) -> None:
        self._pending += b"".join(line + b"\n" for line in lines)
        self._write()

    def _write(self) -> None:
        if not self._pending:
            return
        try:
            if self._fd < 0:
                self._open()
            written = os.write(self._fd, self._pending)
        except OSError:
            self._refused()
            return
        self._pending = self._pending[written:]
        self._size += written
        if self._pending:
            self._refused()

    def _refused(self) -> None:
        if self._on_refused is not None:
            self._on_refused()

    def _empty(self) -> bool:
        """Empty the file, because no exit is left. False if that is refused."""
        if self._fd < 0:
            return False
        try:
            os.ftruncate(self._fd, 0)
        except OSError:
            return False
        self._pending, self._size = b"", 0
        return True

    def _compact(self) -> bool:
        """Replace the file by one without forgotten exits. If that fails, the old one stays."""
        if self._fd < 0:
            return False
        fresh = self._path + ".new"
        data = b"".join(
            lean_json.encoded({"exit": ended}) + b"\n" for ended in self._exits.values()
        )
        try:
            fd = open_plain(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        except OSError:
            return False
        try:
            if os.write(fd, data) < len(data):
                return False
            os.rename(fresh, self._path)
            os.dup2(fd, self._fd, inheritable=False)
            self._size, self._pending = len(data), b""
            return True
        except OSError:
            return False
        finally:
            os.close(fd)
            _discard(fresh)


def _discard(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return  # it was renamed, or cannot be removed
