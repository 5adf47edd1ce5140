"""The history of a run's numbers: one file a service, of a fixed size, three resolutions.

The place of a record follows from its time. So nothing has to be remembered between two writes, and
nothing is lost when the supervisor is killed. Files are written with `pwrite` and never mapped, so
that history costs no memory. A record tells how many seconds it covers; the rest is unknown.
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


class RunTotals(msgspec.Struct, frozen=True):
    """The totals beside the points: of the runs that ended, and of the live run those counts that
    the system no longer tells."""

    run_id: str
    finished: Totals
    carried: Totals


class Ring:
    """The history of one service. Used by any thread, one at a time."""

    __slots__ = ("_latest", "_totals", "_unwritten", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._latest: dict[int, Point] = {}
        self._unwritten: dict[int, Point] = {}
        self._totals: RunTotals | None = None

    def read_totals(self) -> RunTotals | None:
        """Read the totals that were written last; None if there are none, or in another format."""
        data = self._read(0, _HEAD.size)
        if len(data) < _HEAD.size:
            return None
        magic, run_id, *numbers = _HEAD.unpack(data)
        if magic != _MAGIC:
            return None
        name = run_id.rstrip(b"\0").decode(errors="replace")
        return RunTotals(name, _totals(numbers[:6]), _totals(numbers[6:]))

    def add(self, point: Point) -> None:
        """Add a point that is newer than all before, to every resolution; `flush` writes it."""
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

    def flush(self, totals: RunTotals) -> None:
        """Write the points that were added since, and the totals."""
        if not self._unwritten and totals == self._totals:
            return
        fd = self._open()
        try:
            if totals != self._totals:
                name = totals.run_id.encode()[:64]
                os.pwrite(fd, _HEAD.pack(_MAGIC, name, *totals.finished, *totals.carried), 0)
            for offset, point in self._unwritten.items():
                os.pwrite(fd, _packed(point), offset)
        finally:
            os.close(fd)
        self._totals = totals
        self._unwritten.clear()

    def points(self, resolution: int, since: float, until: float) -> list[Point]:
        """Return the points of a time, oldest first."""
        count = RESOLUTIONS[resolution]
        data = self._read(_OFFSETS[resolution], count * _RECORD.size)
        whole = len(data) // _RECORD.size * _RECORD.size
        found = [_point(record) for record in _RECORD.iter_unpack(data[:whole])]
        # Older records than the ring holds remain if nothing was written over them.
        first = max(since, until - resolution * count)
        return sorted(point for point in found if point.seconds and first < point.time <= until + 1)

    def remove(self) -> None:
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass

    def _begun(self, offset: int) -> Point | None:
        """Return the record that an earlier supervisor may have begun there."""
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
    """Merge two points: averages weighted by their time, peaks, and the newer counts."""
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
