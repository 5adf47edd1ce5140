"""What one run uses over its whole tree, and how looks at it become numbers that only grow.

A process that ended was counted by whoever waited for it; one that nobody of its tree waited
for is remembered here, so that no time and no byte is lost from the totals.
"""

from __future__ import annotations

import operator
from typing import NamedTuple, Protocol

import msgspec

FULL_EVERY = 6
"""So many looks at what is busy read handles and bytes once; who asks gets them anew."""


LITTLE_SECONDS, MOST_NOTES = 0.003, 2
"""What ran for less than this since the last look is not looked at closely more than so often."""


class Totals(NamedTuple):
    """What only grows: seconds and bytes since the start of a run."""

    user: float = 0.0
    system: float = 0.0
    read_bytes: int = 0
    """From storage."""
    written_bytes: int = 0
    """To storage."""
    read_chars: int = 0
    """By any read: files in the cache, pipes and sockets, too."""
    written_chars: int = 0

    def plus(self, other: Totals) -> Totals:
        return Totals(*map(operator.add, self, other))

    def above(self, other: Totals) -> Totals:
        """What this has more, field by field; never negative."""
        return Totals(*(max(it, 0) for it in map(operator.sub, self, other)))

    def at_least(self, other: Totals) -> Totals:
        return self.plus(other.above(self))


class Usage(NamedTuple):
    """One look at a run: totals since its start, and what it holds now."""

    totals: Totals
    cpu_percent: float
    """Of one core, since the look before; at the first look, since the start."""
    memory: int
    """Resident bytes of all its processes; what they share counts in each."""
    handles: int | None
    threads: int
    processes: int


class Watched(msgspec.Struct, frozen=True):
    """A run to look at."""

    run_id: str
    pid: int
    start_time: str
    began: float
    """When it started, on the monotonic clock: a look may begin long after it was asked for."""
    carried: Totals = Totals()
    """What an earlier supervisor knew beyond what can be read now."""
    is_limited: bool = False
    """Whether something depends on its numbers: it is looked at every time."""


class Process(msgspec.Struct, frozen=True):
    """One look at one process; what it used includes the children it waited for."""

    pid: int
    start_time: str
    ppid: int
    user: float
    system: float
    memory: int
    threads: int
    """0: it has ended, and its parent has not waited for it yet."""
    handles: int | None = None
    bytes: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Read and written, to storage and at all. With the handles, only in a full look."""


class Sampler(Protocol):
    """Looks at runs. Belongs to one thread; nothing here may be called on the loop."""

    def watch(self, run: Watched) -> None: ...

    def unwatch(self, run_id: str) -> Usage | None:
        """Forget a run; answers the last look at it."""

    def look(self, now: float, *, is_full: bool = False) -> dict[str, Usage]:
        """Look at every run; answers those whose numbers are others than at the last look.
        In full, what is dear is read for every run that has run since."""

    def members(self, run_id: str) -> list[int]:
        """The processes of a run, as far as the last look knows."""

    def carried(self, run_id: str) -> Totals:
        """What a successor must add to what can be read of the run."""

    def close(self) -> None: ...


class Tree:
    """What is remembered of a run between two looks."""

    __slots__ = (
        "began", "carried", "cgroup", "fd", "is_first", "is_limited", "is_partial", "looked",
        "looks", "nested", "notes", "orphans", "patience", "pid", "raw", "refreshed", "rested",
        "run_id", "start_time", "usage",
    )  # fmt: skip

    def __init__(self, run: Watched, now: float) -> None:
        self.run_id = run.run_id
        self.pid = run.pid
        self.start_time = run.start_time
        self.began = run.began
        self.carried = run.carried
        self.is_limited = run.is_limited
        self.rested = 0
        """Looks in a row at which nothing had run."""
        self.cgroup: str | None = None
        self.fd = -1
        self.raw = b""
        self.patience = 3
        """Looks for which its cgroup may still be missing."""
        self.is_first = True
        self.is_partial = False
        """Whether the last look left out what only a full one reads."""
        self.looks = 0
        self.notes = 0
        """Looks in a row at its time alone."""
        self.nested = False
        """Whether its cgroup has others in it."""
        self.looked = self.began
        self.refreshed = now
        self.orphans: dict[tuple[int, str], Totals] = {}
        self.usage: Usage | None = None

    def take(
        self,
        now: float,
        processes: list[Process],
        cpu: tuple[float, float] | None,
        *,
        is_full: bool = True,
    ) -> Usage:
        """Put a look together; `cpu` is the kernel's own count for the tree, if there is one.
        What only a full look reads stays as it was in others."""
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
        self.looked, self.refreshed, self.rested, self.usage = now, now, 0, usage
        self.looks, self.notes = self.looks + 1, 0
        return usage

    def wants_full(self, *, is_asked: bool) -> bool:
        """Whether the next look reads everything: now and then, or because of orphans."""
        is_turn = not (self.looks + self.pid) % FULL_EVERY  # not all at once
        return is_asked or is_turn or self.usage is None or bool(self.orphans)

    def note(self, now: float, cpu: tuple[float, float]) -> Usage:
        """It ran for next to nothing since: only its time is counted, by the kernel."""
        assert self.usage is not None
        last, carried = self.usage.totals, self.carried
        user, system = (
            max(last.user, cpu[0] + carried.user),
            max(last.system, cpu[1] + carried.system),
        )
        totals = Totals(user, system, *last[2:])
        self.usage = self.usage._replace(totals=totals, cpu_percent=self._percent(totals, now))
        self.looked, self.rested, self.is_partial = now, 0, True
        self.notes += 1
        return self.usage

    def is_worth(self, cpu: tuple[float, float], *, is_asked: bool) -> bool:
        """Whether it is looked at process by process, or ran too little since for that."""
        if self.usage is None or self.is_limited or is_asked or self.notes >= MOST_NOTES:
            return True
        last, carried = self.usage.totals, self.carried
        used = cpu[0] + cpu[1] + carried.user + carried.system - last.user - last.system
        return used >= LITTLE_SECONDS

    def rest(self, now: float) -> Usage | None:
        """Nothing ran since the last look; answers the numbers if that changes them."""
        self.looked = now
        self.rested += 1
        if self.usage is None or not self.usage.cpu_percent:
            return None
        self.usage = self.usage._replace(cpu_percent=0.0)
        return self.usage

    def _note_orphans(self, processes: list[Process], *, has_cpu: bool) -> None:
        """Remember what nobody of the tree will wait for, and count what of that is gone."""
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
        """What it used before it was in its cgroup is in the processes' own count only."""
        if self.carried.user or self.carried.system:
            return
        user, system = max(0.0, user - cpu[0]), max(0.0, system - cpu[1])
        self.carried = self.carried._replace(user=user, system=system)

    def _percent(self, totals: Totals, now: float) -> float:
        before = self.usage.totals if self.usage is not None else Totals()
        used = totals.user + totals.system - before.user - before.system
        seconds = now - (self.looked if self.usage is not None else self.began)
        return round(100 * max(0.0, used) / max(seconds, 0.01), 2)


def _sum_of(user: float, system: float, processes: list[Process], carried: Totals) -> Totals:
    sums = [sum(counts) for counts in zip(*(process.bytes for process in processes), strict=True)]
    return Totals(user, system, *(one + two for one, two in zip(sums, carried[2:], strict=True)))


def _handles_of(processes: list[Process]) -> int | None:
    """None where those of a live process are hidden from us."""
    handles = [process.handles for process in processes if process.threads]
    return None if None in handles else sum(filter(None, handles))
