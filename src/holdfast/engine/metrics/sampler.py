"""The sampler's thread: reads what runs use and writes their history. Never on the loop.

Owns the sampler of the system and the rings; both belong to its one thread. The loop gets plain
values.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.adapters.metrics import SampledRun, Sampler, Totals, Usage
from holdfast.adapters.metrics.extras import Extras, extras_of
from holdfast.adapters.metrics.host import HostUsage, host_usage
from holdfast.adapters.metrics.rings import Point, Ring, RunTotals
from holdfast.adapters.own_log import logger

ALL = "_all"
"""The ring of all services together; no service can have this name."""
FLUSH_SECONDS = 10.0
"""The most history that a killed supervisor loses."""
REST_SECONDS = 300.0
"""An unchanged run is written only this often: its record covers the time since the last one."""
Errand = tuple[Callable[..., None], tuple[object, ...]]
_log = logger("sampler")
T = TypeVar("T")


class Sample(msgspec.Struct, frozen=True):
    """One sample of everything."""

    at: float
    """Monotonic time."""
    usages: dict[str, Usage]
    """By run id: the runs whose numbers changed."""
    finished: dict[str, Totals]
    """By service: the use of its ended runs, where it changed."""
    host: HostUsage | None


class _Track:
    """A live run, on its way into its ring."""

    __slots__ = (
        "finished", "flushed_at", "last", "ring", "run_id", "seen_at", "service", "written_at",
    )  # fmt: skip

    def __init__(self, service: str, run_id: str, ring: Ring, finished: Totals, at: float) -> None:
        self.service = service
        self.run_id = run_id
        self.ring = ring
        self.finished = finished
        self.last: Usage | None = None
        self.seen_at = at
        self.written_at = at
        self.flushed_at = 0.0


class MetricsSampler:
    """Everything that happens in the sampler's thread."""

    def __init__(self, new_sampler: Callable[[], Sampler], folder: str) -> None:
        self._new_sampler = new_sampler
        self._folder = folder
        self._sampler: Sampler | None = None
        self._tracks: dict[str, _Track] = {}
        self._finished: dict[str, Totals] = {}
        self._news: dict[str, Totals] = {}
        self._rings: dict[str, Ring] = {}
        self._all = _Track(ALL, "", Ring(self._path(ALL)), Totals(), time.time())
        self._threads = ThreadPoolExecutor(1, "sampler")
        self._is_failing = False

    def submit(self, call: Callable[..., T], *arguments: object) -> Future[T]:
        """Call a function in the thread."""
        return self._threads.submit(call, *arguments)

    def close(self) -> None:
        self._threads.submit(self._close)
        self._threads.shutdown(wait=True, cancel_futures=False)

    # In the thread

    def run(self, errands: list[Errand]) -> None:
        """Call these in order. An exception of one is logged and stops no other."""
        for call, arguments in errands:
            try:
                call(*arguments)
            except Exception:  # noqa: BLE001 - the border between services
                _log.exception("the sampler failed at %s%r", call.__name__, arguments)

    def begin(self, service: str, run: SampledRun) -> None:
        ring = self._ring(service)
        kept = ring.read_totals() if service not in self._finished else None
        if kept is not None:
            self._finished[service] = self._news[service] = kept.finished
            if kept.run_id == run.run_id:
                run = replace(run, carried=kept.carried)
        finished = self._finished.setdefault(service, Totals())
        self._tracks[run.run_id] = _Track(service, run.run_id, ring, finished, time.time())
        self._looker().watch(run)

    def end(self, service: str, run_id: str, cpu: tuple[float, float] | None) -> None:
        """Add the totals of an ended run to those of its service."""
        usage = self._looker().unwatch(run_id)
        track = self._tracks.pop(run_id, None)
        used = usage.totals if usage is not None else Totals()
        if cpu is not None:
            used = used.at_least(Totals(*cpu))
        finished = self._finished.get(service, Totals()).plus(used)
        self._finished[service] = self._news[service] = finished
        if track is not None:
            self._write(track.ring, RunTotals("", finished, Totals()))

    def end_unseen(self, service: str, run_id: str, cpu: tuple[float, float]) -> None:
        """Account for a run that ended while there was no supervisor, by what the kernel says."""
        ring = self._ring(service)
        kept = ring.read_totals()
        if kept is not None and kept.run_id == run_id:
            finished = kept.finished.plus(kept.carried.at_least(Totals(*cpu)))
            self._finished[service] = self._news[service] = finished
            self._write(ring, RunTotals("", finished, Totals()))

    def remove(self, service: str) -> None:
        self._finished.pop(service, None)
        self._rings.pop(service, None)
        Ring(self._path(service)).remove()

    def look(self, *, is_full: bool = False) -> Sample:
        now, wall = time.monotonic(), time.time()
        usages = self._looker().sample(now, is_full=is_full)
        for run_id, track in self._tracks.items():
            self._record(track, usages.get(run_id), wall)
        if self._tracks:
            self._record(self._all, self._sum(bool(usages)), wall)
        news, self._news = self._news, {}
        try:
            host = host_usage()
        except (OSError, ValueError):
            host = None
        return Sample(now, usages, news, host)

    def extras(self, run_id: str) -> Extras:
        return extras_of(self._looker().members(run_id))

    def points(self, service: str, resolution: int, since: float) -> list[Point]:
        wall = time.time()
        for track in self._tracks.values():
            if track.service == service:
                self._record_rest(track)
                self._flush(track, wall)
        return self._ring(service).points(resolution, since, wall)

    def _looker(self) -> Sampler:
        if self._sampler is None:
            self._sampler = self._new_sampler()
        return self._sampler

    def _record(self, track: _Track, usage: Usage | None, wall: float) -> None:
        """Write what changed, and now and then what did not."""
        if usage is not None:
            self._record_rest(track)
            track.ring.add(_point(usage, track.last, track.written_at, wall))
            track.last, track.written_at = usage, wall
        track.seen_at = wall
        if usage is None:
            if wall - track.written_at < REST_SECONDS:
                return
            self._record_rest(track)
        if wall - track.flushed_at >= FLUSH_SECONDS:
            self._flush(track, wall)

    def _record_rest(self, track: _Track) -> None:
        """Write the time until the last sample in which nothing changed."""
        if track.last is not None and track.seen_at - track.written_at >= 1:
            point = _point(track.last, track.last, track.written_at, track.seen_at)
            track.ring.add(point)
            track.written_at = track.seen_at

    def _flush(self, track: _Track, wall: float) -> None:
        track.flushed_at = wall
        carried = self._looker().carried_totals(track.run_id)
        self._write(track.ring, RunTotals(track.run_id, track.finished, carried))

    def _sum(self, is_changed: bool) -> Usage | None:
        if not is_changed:
            return None
        usages = [track.last for track in self._tracks.values() if track.last is not None]
        totals = Totals()
        for usage in usages:
            totals = totals.plus(usage.totals)
        return Usage(
            totals,
            round(sum(usage.cpu_percent for usage in usages), 2),
            sum(usage.memory for usage in usages),
            sum(usage.handles or 0 for usage in usages),
            sum(usage.threads for usage in usages),
            sum(usage.processes for usage in usages),
        )

    def _write(self, ring: Ring, kept: RunTotals) -> None:
        try:
            ring.flush(kept)
        except OSError as error:
            if not self._is_failing:
                _log.warning("history of metrics is not written: %s", error)
            self._is_failing = True
        else:
            self._is_failing = False

    def _ring(self, service: str) -> Ring:
        if service not in self._rings:
            self._rings[service] = Ring(self._path(service))
        return self._rings[service]

    def _path(self, service: str) -> str:
        return os.path.join(self._folder, f"{service}.ring")

    def _close(self) -> None:
        wall = time.time()
        for track in (*self._tracks.values(), self._all):
            self._record_rest(track)
            self._flush(track, wall)
        if self._sampler is not None:
            self._sampler.close()


def _point(usage: Usage, before: Usage | None, since: float, until: float) -> Point:
    seconds = max(1, round(until - since))
    now, then = usage.totals, before.totals if before is not None else usage.totals
    return Point(
        int(until),
        seconds,
        usage.processes,
        usage.cpu_percent if usage is not before else 0.0,
        usage.cpu_percent if usage is not before else 0.0,
        usage.memory,
        usage.memory,
        usage.handles or 0,
        usage.threads,
        max(0, now.read_bytes - then.read_bytes) / seconds,
        max(0, now.written_bytes - then.written_bytes) / seconds,
    )
