"""The directory of all logs: its segments, and the free space above the floor.

One listing serves every recorder, because only the keeper adds and removes segments. Writes
nothing.
"""

from __future__ import annotations

import os

from holdfast.logbook import segments

CHECK_EVERY_BYTES = 4 << 20
FLOOR_BYTES = 64 << 20


class LogDirectory:
    """Facts about the directory that all recorders share."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.unchecked_room = 0
        self._listing: dict[str, list[int]] | None = None

    def take(self, service: str) -> list[int]:
        """The segments of a service, oldest first. From now on its recorder keeps the list."""
        if self._listing is None:
            self._listing = segments.list_all(self.directory)
        return self._listing.pop(service, [])

    def give_back(self, service: str, numbers: list[int]) -> None:
        if self._listing is not None:
            self._listing[service] = numbers

    def has_space(self, *, is_resuming: bool = False) -> bool:
        """Ask the file system for free space. Allows some bytes until it must be asked again."""
        facts = os.statvfs(self.directory)
        free = facts.f_bavail * facts.f_frsize
        floor = _floor(facts.f_blocks * facts.f_frsize)
        if is_resuming:
            # Keep some distance from the floor, or recording would stop again at once.
            floor += floor // 4
        if free <= floor:
            self.unchecked_room = 0
            return False
        self.unchecked_room = min(CHECK_EVERY_BYTES, max(4096, (free - floor) // 4))
        return True


def _floor(total: int) -> int:
    override = os.environ.get("HOLDFAST_FREE_FLOOR", "")
    if override.isdecimal():
        return int(override)
    return min(FLOOR_BYTES, total // 100)


_log_directories: dict[str, LogDirectory] = {}


def log_directory_of(directory: str) -> LogDirectory:
    shelf = _log_directories.get(directory)
    if shelf is None:
        shelf = _log_directories[directory] = LogDirectory(directory)
    return shelf
