"""The history of a run's numbers: one file a service, of a fixed size, three resolutions.

A record's place follows from its time, so nothing has to be remembered between two writes and
nothing is lost when the supervisor is killed. Written with `pwrite`, never mapped: history
costs no memory. A record says how many seconds it covers; what none covers is unknown.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

from holdfast.adapters.metrics.usage import Totals

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


class Kept(NamedTuple):
    """What is remembered beside the points: the totals of ended runs, and of the live one
    what can no longer be read from the system."""

    run_id: str
    finished: Totals
    carried: Totals


class Ring:
    """The history of one service. Any thread, one at a time."""

    __slots__ = ("_latest", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._latest: dict[int, Point] = {}

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

    def write(self, kept: Kept, points: list[Point]) -> None:
        """Add points, oldest first, to every resolution, and keep the totals."""
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            name = kept.run_id.encode()[:64]
            os.pwrite(fd, _HEAD.pack(_MAGIC, name, *kept.finished, *kept.carried), 0)
            for point in points:
                for resolution, count in RESOLUTIONS.items():
                    self._put(fd, resolution, count, point)
        finally:
            os.close(fd)

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

    def _put(self, fd: int, resolution: int, count: int, point: Point) -> None:
        slot = point.time // resolution % count
        offset = _OFFSETS[resolution] + slot * _RECORD.size
        latest = self._latest.get(resolution)
        if latest is None:
            # A supervisor before us may have begun this very record.
            data = os.pread(fd, _RECORD.size, offset)
            latest = _point(_RECORD.unpack(data)) if len(data) == _RECORD.size else None
        if latest is not None and latest.seconds and _is_same(latest, point, resolution):
            point = _merged(latest, point)
        self._latest[resolution] = point
        os.pwrite(fd, _packed(point), offset)

    def _read(self, offset: int, size: int) -> bytes:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return b""
        try:
            return os.pread(fd, size, offset)
        finally:
            os.close(fd)


def _is_same(one: Point, two: Point, resolution: int) -> bool:
    return one.time // resolution == two.time // resolution


def _merged(one: Point, two: Point) -> Point:
    """Both as one: averages by the time they cover, peaks, and the newer counts."""
    whole = max(1, one.seconds + two.seconds)

    def mean(first: float, second: float) -> float:
        return (first * one.seconds + second * two.seconds) / whole

    return Point(
        max(one.time, two.time),
        min(_LARGEST, whole),
        two.processes,
        mean(one.cpu, two.cpu),
        max(one.cpu_max, two.cpu_max),
        int(mean(one.memory, two.memory)),
        max(one.memory_max, two.memory_max),
        two.handles,
        two.threads,
        mean(one.read_rate, two.read_rate),
        mean(one.write_rate, two.write_rate),
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
