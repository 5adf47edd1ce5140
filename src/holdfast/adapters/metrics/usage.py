"""What one run uses over its whole tree, and how looks at it become numbers that only grow.

A process that ended was counted by whoever waited for it; one that nobody of its tree waited
for is remembered here, so that no time and no byte is lost from the totals.
"""

from __future__ import annotations

import operator
from typing import NamedTuple, Protocol


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


class Watched(NamedTuple):
    """A run to look at."""

    run_id: str
    pid: int
    start_time: str
    age: float
    """Seconds since its start."""
    carried: Totals = Totals()
    """What an earlier supervisor knew beyond what can be read now."""
    is_limited: bool = False
    """Whether something depends on its numbers: it is looked at every time."""


class Process(NamedTuple):
    """One look at one process; its totals include the children it waited for."""

    pid: int
    start_time: str
    ppid: int
    totals: Totals
    memory: int
    threads: int
    """0: it has ended, and its parent has not waited for it yet."""
    handles: int | None


class Sampler(Protocol):
    """Looks at runs. Belongs to one thread; nothing here may be called on the loop."""

    def watch(self, run: Watched) -> None: ...

    def unwatch(self, run_id: str) -> Usage | None:
        """Forget a run; answers the last look at it."""

    def look(self, now: float) -> dict[str, Usage]:
        """Look at every run; answers those whose numbers are others than at the last look."""

    def members(self, run_id: str) -> list[int]:
        """The processes of a run, as far as the last look knows."""

    def carried(self, run_id: str) -> Totals:
        """What a successor must add to what can be read of the run."""

    def close(self) -> None: ...


class Tree:
    """What is remembered of a run between two looks."""

    __slots__ = (
        "began", "carried", "cgroup", "fd", "is_first", "is_limited", "looked", "orphans",
        "patience", "pid", "raw", "refreshed", "rested", "run_id", "start_time", "usage",
    )  # fmt: skip

    def __init__(self, run: Watched, now: float) -> None:
        self.run_id = run.run_id
        self.pid = run.pid
        self.start_time = run.start_time
        self.began = now - run.age
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
        self.looked = self.began
        self.refreshed = now
        self.orphans: dict[tuple[int, str], Totals] = {}
        self.usage: Usage | None = None

    def take(self, now: float, processes: list[Process], cpu: tuple[float, float] | None) -> Usage:
        """Put a look together; `cpu` is the kernel's own count for the tree, if there is one."""
        pids = {process.pid for process in processes}
        orphans = {
            (process.pid, process.start_time): process.totals
            for process in processes
            if process.ppid not in pids and process.pid != self.pid
        }
        for identity, totals in self.orphans.items():
            if identity not in orphans:
                # Nobody of the tree has waited for it: nobody else remembers what it used.
                lost = totals if cpu is None else totals._replace(user=0.0, system=0.0)
                self.carried = self.carried.plus(lost)
        self.orphans = orphans
        totals = Totals(*map(sum, zip(*(p.totals for p in processes), strict=True)))
        if cpu is not None:
            if self.is_first:
                self._count_before_cgroup(totals, cpu)
            totals = totals._replace(user=cpu[0], system=cpu[1])
        totals = totals.plus(self.carried)
        last = self.usage
        if last is not None:
            totals = totals.at_least(last.totals)
        self.is_first = False
        handles = [process.handles for process in processes]
        usage = Usage(
            totals,
            self._percent(totals, now),
            sum(process.memory for process in processes),
            None if None in handles else sum(filter(None, handles)),
            sum(process.threads for process in processes),
            sum(process.threads > 0 for process in processes),
        )
        self.looked, self.refreshed, self.rested, self.usage = now, now, 0, usage
        return usage

    def rest(self, now: float) -> Usage | None:
        """Nothing ran since the last look; answers the numbers if that changes them."""
        self.looked = now
        self.rested += 1
        if self.usage is None or not self.usage.cpu_percent:
            return None
        self.usage = self.usage._replace(cpu_percent=0.0)
        return self.usage

    def _count_before_cgroup(self, totals: Totals, cpu: tuple[float, float]) -> None:
        """What it used before it was in its cgroup is in the processes' own count only."""
        if self.carried.user or self.carried.system:
            return
        user, system = max(0.0, totals.user - cpu[0]), max(0.0, totals.system - cpu[1])
        self.carried = self.carried._replace(user=user, system=system)

    def _percent(self, totals: Totals, now: float) -> float:
        before = self.usage.totals if self.usage is not None else Totals()
        used = totals.user + totals.system - before.user - before.system
        seconds = now - (self.looked if self.usage is not None else self.began)
        return round(100 * max(0.0, used) / max(seconds, 0.01), 2)
