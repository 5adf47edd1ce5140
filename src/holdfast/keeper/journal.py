"""The exits that nobody has forgotten yet, on disk before they are announced.

Owns STATE/exits.jsonl: append-only, emptied when all is forgotten, rewritten when mostly
stale. A full disk never stops the keeper: what could not be written waits in memory.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Exit = dict[str, Any]

_COMPACT_ABOVE = 1 << 20


class Journal:
    """Exits by run id, in order of ending."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._exits: dict[str, Exit] = {}
        self._pending = b""
        self._size = 0
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._load()

    def exits(self) -> list[Exit]:
        return list(self._exits.values())

    def get(self, run_id: str) -> Exit | None:
        return self._exits.get(run_id)

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._exits

    def add(self, exits: Iterable[Exit]) -> None:
        """Write all of them at once; they are on disk (or waiting for room) on return."""
        lines = []
        for ended in exits:
            self._exits[ended["run_id"]] = ended
            lines.append(json.dumps({"exit": ended}))
        self._append(lines)

    def forget(self, run_ids: Iterable[str]) -> None:
        gone = [run_id for run_id in run_ids if self._exits.pop(run_id, None) is not None]
        if not gone:
            return
        if not self._exits:
            self._empty()
        elif self._size <= _COMPACT_ABOVE or not self._compact():
            self._append([json.dumps({"forget": gone})])

    def close(self) -> None:
        os.close(self._fd)

    def _load(self) -> None:
        with open(self._path, "rb") as file:
            data = file.read()
        self._size = len(data)
        for line in data.split(b"\n"):
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # a torn line: the writer died inside it
            if not isinstance(entry, dict):
                continue
            if isinstance(ended := entry.get("exit"), dict) and "run_id" in ended:
                self._exits[ended["run_id"]] = ended
            for run_id in entry.get("forget", ()):
                self._exits.pop(run_id, None)
        if data and not self._exits:
            self._empty()
        elif data and not data.endswith(b"\n"):
            self._pending = b"\n"

    def _append(self, lines: list[str]) -> None:
        self._pending += "".join(line + "\n" for line in lines).encode("ascii")
        try:
            written = os.write(self._fd, self._pending)
        except OSError:
            return
        self._pending = self._pending[written:]
        self._size += written

    def _empty(self) -> None:
        os.ftruncate(self._fd, 0)
        self._pending, self._size = b"", 0

    def _compact(self) -> bool:
        """Replace the file by one without the forgotten; on failure the old one stays."""
        fresh = self._path + ".new"
        data = "".join(json.dumps({"exit": ended}) + "\n" for ended in self._exits.values())
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        try:
            fd = os.open(fresh, flags, 0o600)
        except OSError:
            return False
        try:
            if os.write(fd, data.encode("ascii")) < len(data):
                return False
            os.rename(fresh, self._path)
            os.dup2(fd, self._fd, inheritable=False)
            self._size, self._pending = len(data), b""
            return True
        except OSError:
            return False
        finally:
            os.close(fd)
