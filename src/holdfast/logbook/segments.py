"""The files of a log: SERVICE.NNNNNN.out, .err and .idx, flat in one directory.

Owns names, listing and deletion. It is loaded by the keeper, so it must stay light, and
it never opens a file.
"""

from __future__ import annotations

import os

SUFFIXES = ("out", "err", "idx")


def path(directory: str, service: str, number: int, suffix: str) -> str:
    return f"{directory}/{service}.{number:06d}.{suffix}"


def parse(filename: str) -> tuple[str, int, str] | None:
    """(service, number, suffix), or None for a file that is not part of a log."""
    parts = filename.rsplit(".", 2)
    if len(parts) != 3 or not parts[0] or parts[2] not in SUFFIXES:
        return None
    number = parts[1]
    if len(number) < 6 or not (number.isascii() and number.isdigit()):
        return None
    return parts[0], int(number), parts[2]


def list_all(directory: str) -> dict[str, list[int]]:
    """Every service with a log here, and the numbers of its segments, oldest first."""
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
    """The numbers of a service's segments, oldest first."""
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
    """Bytes that a segment takes, its index included; 0 if it is gone."""
    return sum(_file_size(path(directory, service, number, suffix)) for suffix in SUFFIXES)


def _file_size(filename: str) -> int:
    try:
        return os.stat(filename).st_size
    except FileNotFoundError:
        return 0


def log_bytes(directory: str, service: str) -> int:
    """Bytes that a service's log takes, indexes included."""
    return sum(size(directory, service, number) for number in numbers(directory, service))


def remove(directory: str, service: str, number: int) -> int:
    """Delete a segment and return its size. The index goes last: without it nobody could
    tell what is missing."""
    removed = 0
    for suffix in SUFFIXES:
        filename = path(directory, service, number, suffix)
        removed += _file_size(filename)
        _unlink(filename)
    return removed


def _unlink(filename: str) -> None:
    try:
        os.unlink(filename)
    except FileNotFoundError:
        return
