"""The files of a log: SERVICE.NNNNNN.out, .err and .idx, flat in one directory.

Owns their names, listing, opening for reading and deletion. The keeper loads it, so it must stay
light. Only regular files are part of a log; anything else with such a name is left alone.
"""

from __future__ import annotations

import os
import stat

SUFFIXES = ("out", "err", "idx")
MOST_DIGITS = 12
SET_ASIDE = ".damaged"
"""Suffix of the file into which a writer moves the damaged end of an index."""


def path(directory: str, service: str, number: int, suffix: str) -> str:
    return f"{directory}/{service}.{number:06d}.{suffix}"


def parse(filename: str) -> tuple[str, int, str] | None:
    """Return (service, number, suffix), or None for a file that is not part of a log."""
    parts = filename.rsplit(".", 2)
    if len(parts) != 3 or not parts[0] or parts[2] not in SUFFIXES:
        return None
    number = parts[1]
    if not 6 <= len(number) <= MOST_DIGITS or not (number.isascii() and number.isdigit()):
        return None
    return parts[0], int(number), parts[2]


def list_all(directory: str) -> dict[str, list[int]]:
    """Return every service with a log here, and the numbers of its segments, oldest first."""
    found: dict[str, set[int]] = {}
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return {}
    for filename in names:
        if parsed := parse(filename):
            found.setdefault(parsed[0], set()).add(parsed[1])
    return {service: sorted(numbers) for service, numbers in found.items()}


def numbers(directory: str, service: str) -> list[int]:
    """Return the numbers of a service's segments, oldest first."""
    found: set[int] = set()
    prefix = service + "."
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    for filename in names:
        if filename.startswith(prefix):
            parsed = parse(filename)
            if parsed and parsed[0] == service:
                found.add(parsed[1])
    return sorted(found)


def size(directory: str, service: str, number: int) -> int:
    """Return the bytes that a segment takes, its index included; 0 if it is gone."""
    return sum(file_size(path(directory, service, number, suffix)) for suffix in SUFFIXES)


def open_file(filename: str) -> int:
    """Open for reading. Raises FileNotFoundError also if this is no regular file. Never waits, as
    opening a named pipe would."""
    try:
        fd = os.open(filename, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        if is_file(filename):
            raise
        raise FileNotFoundError(filename) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FileNotFoundError(filename)
    return fd


def is_file(filename: str) -> bool:
    """Return whether this is a regular file, and no link to one."""
    try:
        return stat.S_ISREG(os.lstat(filename).st_mode)
    except FileNotFoundError:
        return False


def is_free(directory: str, service: str, number: int) -> bool:
    """Return whether nothing at all has a name of this segment."""
    return not any(os.path.lexists(path(directory, service, number, suffix)) for suffix in SUFFIXES)


def file_size(filename: str) -> int:
    """Return the size of a regular file; 0 if there is none."""
    try:
        found = os.lstat(filename)
    except FileNotFoundError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def log_bytes(directory: str, service: str) -> int:
    """Return the bytes that a service's log takes, indexes included."""
    return sum(size(directory, service, number) for number in numbers(directory, service))


def remove(directory: str, service: str, number: int) -> int:
    """Delete a segment and return its size. The index is deleted last: without it, nobody could
    tell how much is missing."""
    removed = 0
    for suffix in SUFFIXES:
        filename = path(directory, service, number, suffix)
        size = file_size(filename)
        if _unlink(filename):
            removed += size
    _unlink(path(directory, service, number, "idx") + SET_ASIDE)
    return removed


def _unlink(filename: str) -> bool:
    """Delete a file. Return False if there is none, or if a folder has its name, which is not
    ours."""
    try:
        os.unlink(filename)
    except FileNotFoundError:
        return False
    except OSError:
        if os.path.isdir(filename):
            return False
        raise
    return True
