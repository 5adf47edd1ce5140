"""The history of a run's numbers: one file a service, of a fixed size, three resolutions.

A record's place follows from its time, so nothing has to be remembered between two writes and
nothing is lost when the supervisor is killed. Written with `pwrite`, never mapped: history
costs no memory. A record says how many seconds it covers; what none covers is unknown.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

import msgspec

from holdfast.adapters.metrics.usage import Totals
from holdfast.system.private_files import open_plain

_MAGIC = b"HFMETR01"
_HEAD = struct.Struct("<8s64s12d")
_RECORD = struct.Struct("<IHHffQQIHHff")
HEAD_BYTES = 4096
RESOLUTIONS: dict[int, int] = {1: 600, 10: 720, 60: 1440}
"""Seconds of a record, and how many there are: ten minutes, two hours, a day."""
_OFFSETS: dict[int, int] = {}
_end = HEAD_BYTES
for _seconds, _count in RESOLUTIONS.items():
    _OFFSETS[_seconds] = _end
    _end += _count * _RECORD.size
FILE_BYTES = _end
_LARGEST = 65535


class Point(NamedTuple):
    """What a service used in the `seconds` before `time` (unix seconds)."""

    time: int
    seconds: int
    processes: int
    cpu: float
    """Percent of one core, on average."""
    cpu_max: float
    memory: int
    """Bytes, on average."""
    memory_max: int
    handles: int
    threads: int
    read_rate: float
    """Bytes from storage a second."""
    write_rate: float


class Kept(msgspec.Struct, frozen=True):
    """What is remembered beside the points: the totals of ended runs, and of the live one
    what can no longer be read from the system."""

    run_id: str
    finished: Totals
    carried: Totals


class Ring:
    """The history of one service. Any thread, one at a time."""

    __slots__ = ("_kept", "_latest", "_unwritten", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._latest: dict[int, Point] = {}
        self._unwritten: dict[int, Point] = {}
        self._kept: Kept | None = None

    def kept(self) -> Kept | None:
        """What an earlier supervisor wrote last; None if there is nothing, or another format."""
        data = self._read(0, _HEAD.size)
        if len(data) < _HEAD.size:
            return None
        magic, run_id, *numbers = _HEAD.unpack(data)
        if magic != _MAGIC:
            return None
        name = run_id.rstrip(b"\0").decode(errors="replace")
        return Kept(name, _totals(numbers[:6]), _totals(numbers[6:]))

    def add(self, point: Point) -> None:
        """Add what is newer than all before, to every resolution; `flush` writes it."""
        for resolution, count in RESOLUTIONS.items():
            offset = _OFFSETS[resolution] + point.time // resolution % count * _RECORD.size
            latest = self._latest.get(resolution)
            if latest is None:
                latest = self._begun(offset)
            merged = point
            if latest is not None and latest.time // resolution == point.time // resolution:
                merged = _merged(latest, point)
            self._latest[resolution] = merged
            self._unwritten[offset] = merged

    def flush(self, kept: Kept) -> None:
        """Write what was added since, and the totals."""
        if not self._unwritten and kept == self._kept:
            return
        fd = self._open()
        try:
            if kept != self._kept:
                name = kept.run_id.encode()[:64]
                os.pwrite(fd, _HEAD.pack(_MAGIC, name, *kept.finished, *kept.carried), 0)
            for offset, point in self._unwritten.items():
                os.pwrite(fd, _packed(point), offset)
        finally:
            os.close(fd)
        self._kept = kept
        self._unwritten.clear()

    def points(self, resolution: int, since: float, until: float) -> list[Point]:
        """What is remembered of that time, oldest first."""
        count = RESOLUTIONS[resolution]
        data = self._read(_OFFSETS[resolution], count * _RECORD.size)
        whole = len(data) // _RECORD.size * _RECORD.size
        found = [_point(record) for record in _RECORD.iter_unpack(data[:whole])]
        # What lies behind the ring's reach was not written over, since nothing was written.
        first = max(since, until - resolution * count)
        return sorted(it for it in found if it.seconds and first < it.time <= until + 1)

    def remove(self) -> None:
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass

    def _begun(self, offset: int) -> Point | None:
        """The record that a supervisor before us may have begun there."""
        data = self._read(offset, _RECORD.size)
        if len(data) < _RECORD.size:
            return None
        point = _point(_RECORD.unpack(data))
        return point if point.seconds else None

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        try:
            return open_plain(self.path, flags)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
            return open_plain(self.path, flags)

    def _read(self, offset: int, size: int) -> bytes:
        try:
            fd = open_plain(self.path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            return b""
        try:
            return os.pread(fd, size, offset)
        finally:
            os.close(fd)


def _merged(one: Point, two: Point) -> Point:
    """Both as one: averages by the time they cover, peaks, and the newer counts."""
    whole = one.seconds + two.seconds
    first, second = one.seconds / whole, two.seconds / whole
    return Point(
        two.time,
        min(_LARGEST, whole),
        two.processes,
        one.cpu * first + two.cpu * second,
        max(one.cpu_max, two.cpu_max),
        int(one.memory * first + two.memory * second),
        max(one.memory_max, two.memory_max),
        two.handles,
        two.threads,
        one.read_rate * first + two.read_rate * second,
        one.write_rate * first + two.write_rate * second,
    )


def _packed(point: Point) -> bytes:
    return _RECORD.pack(
        point.time,
        min(point.seconds, _LARGEST),
        min(point.processes, _LARGEST),
        point.cpu,
        point.cpu_max,
        point.memory,
        point.memory_max,
        min(point.handles, 2**32 - 1),
        min(point.threads, _LARGEST),
        0,
        point.read_rate,
        point.write_rate,
    )


def _point(record: tuple[int | float, ...]) -> Point:
    fields = (*record[:9], *record[10:])
    return Point(*fields)  # type: ignore[arg-type]


def _totals(numbers: list[float]) -> Totals:
    user, system, *counts = numbers
    return Totals(user, system, *map(int, counts))
