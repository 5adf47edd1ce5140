"""What a run uses over all its processes, and how samples become totals that only grow.

The parent that waits for a process takes over its counts. A process whose parent is not in the run
is remembered here, so that no time and no byte is lost from the totals when it ends.
"""

from __future__ import annotations

import operator
from typing import NamedTuple, Protocol

import msgspec

FULL_EVERY = 6
"""Of so many samples of a busy run, one reads handles and bytes; one on demand always does."""
LITTLE_SECONDS, MOST_CPU_SAMPLES = 0.003, 2
"""A run that used less time since the last sample is not read process by process; so many times in
a row."""


class Totals(NamedTuple):
    """Counts that only grow: seconds and bytes since the start of a run."""

    user: float = 0.0
    system: float = 0.0
    read_bytes: int = 0
    """From storage."""
    written_bytes: int = 0
    """To storage."""
    read_chars: int = 0
    """By any read, also of cached files, pipes and sockets."""
    written_chars: int = 0

    def plus(self, other: Totals) -> Totals:
        return Totals(*map(operator.add, self, other))

    def above(self, other: Totals) -> Totals:
        """Return how much more this has, field by field; never negative."""
        return Totals(*(max(more, 0) for more in map(operator.sub, self, other)))

    def at_least(self, other: Totals) -> Totals:
        return self.plus(other.above(self))


class Usage(NamedTuple):
    """One sample of a run: totals since its start, and what it holds now."""

    totals: Totals
    cpu_percent: float
    """Of one core, since the last sample; in the first sample, since the start."""
    memory: int
    """Resident bytes of all its processes; shared pages count in each."""
    handles: int | None
    threads: int
    processes: int


class SampledRun(msgspec.Struct, frozen=True):
    """A run to sample."""

    run_id: str
    pid: int
    start_time: str
    began: float
    """When it started, on the monotonic clock. The first sample may come much later."""
    carried: Totals = Totals()
    """What an earlier supervisor counted and the system no longer tells."""
    is_limited: bool = False
    """Whether a limit depends on its numbers, so that it is sampled every time."""


class ProcessSample(msgspec.Struct, frozen=True):
    """One sample of one process. Its counts include the children that it waited for."""

    pid: int
    start_time: str
    ppid: int
    user: float
    system: float
    memory: int
    threads: int
    """0 if it has ended and its parent has not waited for it yet."""
    handles: int | None = None
    bytes: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Read and written, with storage and in all. Like the handles, only in a full sample."""


class Sampler(Protocol):
    """Samples runs. Belongs to one thread; must not be called on the loop."""

    def watch(self, run: SampledRun) -> None: ...

    def unwatch(self, run_id: str) -> Usage | None:
        """Forget a run, and return its last sample."""

    def sample(self, now: float, *, is_full: bool = False) -> dict[str, Usage]:
        """Sample every run, and return those whose numbers have changed. If `is_full`, costly
        numbers are read of every run that used time since the last sample."""

    def members(self, run_id: str) -> list[int]:
        """Return the processes of a run as of the last sample."""

    def carried_totals(self, run_id: str) -> Totals:
        """Return what a successor must add to the counts that can be read of the run."""

    def close(self) -> None: ...


class UsageTracker:
    """What is remembered of a run from one sample to the next."""

    __slots__ = (
        "began",
        "carried",
        "cgroup",
        "cgroup_tries",
        "cpu_samples",
        "fd",
        "has_nested",
        "idle_samples",
        "is_first",
        "is_limited",
        "is_partial",
        "orphans",
        "pid",
        "raw",
        "refreshed_at",
        "run_id",
        "sampled_at",
        "samples",
        "start_time",
        "usage",
    )  # fmt: skip

    def __init__(self, run: SampledRun, now: float) -> None:
        self.run_id = run.run_id
        self.pid = run.pid
        self.start_time = run.start_time
        self.began = run.began
        self.carried = run.carried
        self.is_limited = run.is_limited
        self.idle_samples = 0
        """Samples in a row in which no process used time."""
        self.cgroup: str | None = None
        self.fd = -1
        self.raw = b""
        self.cgroup_tries = 3
        """How many more samples its cgroup may be missing."""
        self.is_first = True
        self.is_partial = False
        """Whether the last sample was not a full one."""
        self.samples = 0
        self.cpu_samples = 0
        """Samples in a row of its time alone."""
        self.has_nested = False
        """Whether there are other cgroups in its cgroup."""
        self.sampled_at = self.began
        self.refreshed_at = now
        self.orphans: dict[tuple[int, str], Totals] = {}
        self.usage: Usage | None = None

    def add(
        self,
        now: float,
        processes: list[ProcessSample],
        cpu: tuple[float, float] | None,
        *,
        is_full: bool = True,
    ) -> Usage:
        """Add a sample of all processes. `cpu` is the kernel's own count for the run, if there is
        one. Numbers that only a full sample reads stay as they were in others."""
        user = system = 0.0
        memory = threads = count = 0
        for process in processes:
            user += process.user
            system += process.system
            memory += process.memory
            threads += process.threads
            count += process.threads > 0
        if self.orphans or len(processes) > 1:
            self._note_orphans(processes, has_cpu=cpu is not None)
        if cpu is not None:
            if self.is_first:
                self._count_before_cgroup(user, system, cpu)
            user, system = cpu
        last, carried = self.usage, self.carried
        user += carried.user
        system += carried.system
        if last is None or is_full:
            totals = _sum_of(user, system, processes, carried)
            handles = _handles_of(processes)
            if last is not None:
                totals = totals.at_least(last.totals)
        else:
            before = last.totals
            totals = Totals(max(user, before.user), max(system, before.system), *before[2:])
            handles = last.handles
        usage = Usage(totals, self._percent(totals, now), memory, handles, threads, count)
        self.is_first, self.is_partial = False, not is_full
        self.sampled_at, self.refreshed_at, self.idle_samples, self.usage = now, now, 0, usage
        self.samples, self.cpu_samples = self.samples + 1, 0
        return usage

    def wants_full(self, *, is_asked: bool) -> bool:
        """Return whether the next sample reads everything: now and then, or because of orphans."""
        is_turn = not (self.samples + self.pid) % FULL_EVERY  # not all at once
        return is_asked or is_turn or self.usage is None or bool(self.orphans)

    def add_cpu(self, now: float, cpu: tuple[float, float]) -> Usage:
        """Add a sample of the time alone, as the kernel counts it, of a run that used hardly
        any."""
        assert self.usage is not None
        last, carried = self.usage.totals, self.carried
        user, system = (
            max(last.user, cpu[0] + carried.user),
            max(last.system, cpu[1] + carried.system),
        )
        totals = Totals(user, system, *last[2:])
        self.usage = self.usage._replace(totals=totals, cpu_percent=self._percent(totals, now))
        self.sampled_at, self.idle_samples, self.is_partial = now, 0, True
        self.cpu_samples += 1
        return self.usage

    def needs_processes(self, cpu: tuple[float, float], *, is_asked: bool) -> bool:
        """Return whether the next sample reads each process, or the run used too little time for
        it."""
        if (
            self.usage is None
            or self.is_limited
            or is_asked
            or self.cpu_samples >= MOST_CPU_SAMPLES
        ):
            return True
        last, carried = self.usage.totals, self.carried
        used = cpu[0] + cpu[1] + carried.user + carried.system - last.user - last.system
        return used >= LITTLE_SECONDS

    def add_idle(self, now: float) -> Usage | None:
        """Add a sample in which no process used time, and return the usage if that changes it."""
        self.sampled_at = now
        self.idle_samples += 1
        if self.usage is None or not self.usage.cpu_percent:
            return None
        self.usage = self.usage._replace(cpu_percent=0.0)
        return self.usage

    def _note_orphans(self, processes: list[ProcessSample], *, has_cpu: bool) -> None:
        """Remember processes that nobody in the run will wait for, and count those that are
        gone."""
        pids = {process.pid for process in processes}
        orphans = {
            (process.pid, process.start_time): Totals(process.user, process.system, *process.bytes)
            for process in processes
            if process.ppid not in pids and process.pid != self.pid
        }
        for identity, totals in self.orphans.items():
            if identity not in orphans:
                lost = totals._replace(user=0.0, system=0.0) if has_cpu else totals
                self.carried = self.carried.plus(lost)
        self.orphans = orphans

    def _count_before_cgroup(self, user: float, system: float, cpu: tuple[float, float]) -> None:
        """Count what the run used before it was in its cgroup, which only its processes know."""
        if self.carried.user or self.carried.system:
            return
        user, system = max(0.0, user - cpu[0]), max(0.0, system - cpu[1])
        self.carried = self.carried._replace(user=user, system=system)

    def _percent(self, totals: Totals, now: float) -> float:
        before = self.usage.totals if self.usage is not None else Totals()
        used = totals.user + totals.system - before.user - before.system
        seconds = now - (self.sampled_at if self.usage is not None else self.began)
        return round(100 * max(0.0, used) / max(seconds, 0.01), 2)


def _sum_of(user: float, system: float, processes: list[ProcessSample], carried: Totals) -> Totals:
    sums = [sum(counts) for counts in zip(*(process.bytes for process in processes), strict=True)]
    return Totals(user, system, *(one + two for one, two in zip(sums, carried[2:], strict=True)))


def _handles_of(processes: list[ProcessSample]) -> int | None:
    """Return the sum of handles; None if those of a live process are hidden from us."""
    handles = [process.handles for process in processes if process.threads]
    return None if None in handles else sum(filter(None, handles))
