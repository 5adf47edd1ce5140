"""Samples runs through procfs and cgroups, cheaply enough for hundreds every few seconds.

The first look at a run is one read of an open file: the `cpu.stat` of its cgroup, or the `stat` of
each process where there is no cgroup. A run that used no processor time since the last sample needs
no second read. psutil would cost ten times as much for each process.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from holdfast.adapters.metrics.usage import ProcessSample, SampledRun, Totals, Usage, UsageTracker
from holdfast.system.kernel_files import read_short
from holdfast.system.processes import (
    CHILDREN_SYSTEM_TICKS,
    CHILDREN_USER_TICKS,
    PPID,
    RESIDENT_PAGES,
    START_TIME,
    SYSTEM_TICKS,
    USER_TICKS,
    live_threads,
    run_id_of,
    stat_fields,
)

REFRESH_SECONDS = 300.0
"""An idle run is read in full this often all the same, because it may have been swapped out."""
IDLE_PACES = ((8, 8), (3, 4))
"""Without cgroups: after so many idle samples, a run is sampled every so many times only."""
CALM_PERCENT = 0.1
"""A run that used less is sampled every other time."""
FORGET_SECONDS = 300.0
"""How long the pid of a process that is not ours is assumed not to be used again."""
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_NOTHING = (0, 0, 0, 0)


class LinuxSampler:
    """Samples all runs, and knows which processes belong to which run where there is no cgroup."""

    def __init__(self, cgroup_root: str | None) -> None:
        self._root = cgroup_root
        self._trackers: dict[str, UsageTracker] = {}
        self._scan = _Scan(self._trackers)
        self._root_fd, self._root_raw = -1, b""
        self._samples = 0
        if cgroup_root is not None:
            try:
                self._root_fd = os.open(f"{cgroup_root}/cpu.stat", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                self._root = None

    def watch(self, run: SampledRun) -> None:
        self.unwatch(run.run_id)
        self._trackers[run.run_id] = UsageTracker(run, time.monotonic())

    def unwatch(self, run_id: str) -> Usage | None:
        tracker = self._trackers.pop(run_id, None)
        if tracker is None:
            return None
        _close(tracker.fd)
        self._scan.forget(run_id)
        return tracker.usage

    def sample(self, now: float, *, is_full: bool = False) -> dict[str, Usage]:
        changed: dict[str, Usage] = {}
        trackers = self._trackers.values()
        without = [one for one in trackers if one.fd < 0 and not self._has_cgroup(one)]
        if without and (is_full or any(tracker.cgroup_tries == 0 for tracker in without)):
            self._scan.scan(now)
        elif not without and self._are_all_idle(now):
            return self._idle_usages(now)
        self._samples += 1
        for run_id, tracker in self._trackers.items():
            usage = self._sample_run(tracker, now, is_full)
            if usage is not None:
                changed[run_id] = usage
        return changed

    def members(self, run_id: str) -> list[int]:
        tracker = self._trackers.get(run_id)
        if tracker is None:
            return []
        if tracker.cgroup is not None:
            return cgroup_pids(tracker.cgroup)
        return self._scan.pids_of(run_id)

    def carried_totals(self, run_id: str) -> Totals:
        tracker = self._trackers.get(run_id)
        return tracker.carried if tracker is not None else Totals()

    def close(self) -> None:
        for run_id in list(self._trackers):
            self.unwatch(run_id)
        _close(self._root_fd)
        self._root_fd = -1

    def _are_all_idle(self, now: float) -> bool:
        """Return whether no run used processor time since the last sample, with one read for
        all."""
        if self._root_fd < 0:
            return False
        raw, before = _at_start(self._root_fd), self._root_raw
        self._root_raw = raw
        return (
            bool(raw)
            and raw == before
            and all(
                tracker.usage is not None
                and not tracker.is_partial
                and now - tracker.refreshed_at < REFRESH_SECONDS
                for tracker in self._trackers.values()
            )
        )

    def _idle_usages(self, now: float) -> dict[str, Usage]:
        return {
            run_id: usage
            for run_id, tracker in self._trackers.items()
            if (usage := tracker.add_idle(now)) is not None
        }

    def _sample_run(self, tracker: UsageTracker, now: float, is_asked: bool) -> Usage | None:
        if tracker.fd < 0:
            return self._sample_processes(tracker, now, is_asked)
        raw = _at_start(tracker.fd)
        if not raw:
            return None  # the run has ended, and its cgroup is being removed
        is_resting = raw == tracker.raw
        if is_resting and not tracker.is_partial and now - tracker.refreshed_at < REFRESH_SECONDS:
            return tracker.add_idle(now)
        tracker.raw, cpu = raw, _cpu_of(raw)
        if not is_resting and not tracker.needs_processes(cpu, is_asked=is_asked):
            return tracker.add_cpu(now, cpu)
        assert tracker.cgroup is not None
        is_full = is_resting or tracker.wants_full(is_asked=is_asked)
        if is_full:
            tracker.has_nested = _has_nested(tracker.cgroup)
        pids = cgroup_pids(tracker.cgroup) if tracker.has_nested else _pids_in(tracker.cgroup)
        processes = [found for pid in pids if (found := sample_process(pid, is_full=is_full))]
        return tracker.add(now, processes, cpu, is_full=is_full) if processes else None

    def _sample_processes(self, tracker: UsageTracker, now: float, is_asked: bool) -> Usage | None:
        if tracker.cgroup_tries and not is_asked:
            return None  # its cgroup will be there soon, and costs less
        if not is_asked and not tracker.is_limited:
            is_calm = tracker.usage is not None and tracker.usage.cpu_percent < CALM_PERCENT
            pace = next(
                (every for idle, every in IDLE_PACES if tracker.idle_samples >= idle), 1 + is_calm
            )
            if (self._samples + tracker.pid) % pace:
                return None
        is_moved, stats = self._scan.read(tracker)
        is_young = tracker.usage is not None and now - tracker.refreshed_at < REFRESH_SECONDS
        if not is_moved and is_young and not tracker.is_partial:
            return tracker.add_idle(now)
        is_full = not is_moved or tracker.wants_full(is_asked=is_asked)
        processes = [_parse(pid, stat, is_full) for pid, stat in stats]
        return tracker.add(now, processes, None, is_full=is_full) if processes else None

    def _has_cgroup(self, tracker: UsageTracker) -> bool:
        """Find the cgroup of a run, into which it is moved a moment after its start."""
        if self._root is None:
            tracker.cgroup_tries = 0
        if tracker.cgroup_tries == 0:
            return False
        path = f"{self._root}/{tracker.run_id}"
        try:
            fd = os.open(f"{path}/cpu.stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            tracker.cgroup_tries -= 1
            return False
        if tracker.pid not in cgroup_pids(path):
            os.close(fd)
            tracker.cgroup_tries -= 1
            return False
        tracker.cgroup, tracker.fd = path, fd
        tracker.is_first = tracker.usage is None or not tracker.carried.user
        self._scan.forget(tracker.run_id)
        return True


class _NewProcess(NamedTuple):
    """A process that was not there at the last scan, with its open `stat`."""

    fd: int
    ppid: int
    start_time: str

    @classmethod
    def of(cls, pid: int) -> _NewProcess | None:
        try:
            fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        data = _at_start(fd)
        if not data:
            os.close(fd)
            return None
        fields = stat_fields(data, START_TIME + 1)
        return cls(fd, int(fields[PPID]), fields[START_TIME].decode())


class _Scan:
    """Scans /proc for new processes, and finds the run that each belongs to."""

    def __init__(self, trees: dict[str, UsageTracker]) -> None:
        self._trackers = trees
        self._adopters = {1, os.getppid(), os.getpid()}
        """Processes that become parents of orphans: init, the keeper, and others that were seen
        to."""
        self._seen: set[int] = set()
        self._seen_since = 0.0
        self._newest: list[bytes] = []
        self._owner: dict[int, str] = {}
        self._open: dict[str, dict[int, tuple[int, bytes]]] = {}

    def scan(self, now: float) -> None:
        if now - self._seen_since > FORGET_SECONDS:
            self._seen, self._seen_since = set(self._owner), now
        for run_id, tracker in self._trackers.items():
            if tracker.fd < 0 and run_id not in self._open:
                self._open[run_id] = {}
                self._own(tracker.pid, run_id, tracker.start_time)
                self._seen = set(self._owner)
        is_thorough = not self._seen - self._owner.keys()
        newest = (read_short("/proc/loadavg") or b"").split()[-1:]
        if newest and newest == self._newest and not is_thorough:
            return  # no process was created since, on the whole machine
        self._newest = newest
        listed = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        fresh = listed - self._seen - self._owner.keys()
        self._seen = listed
        born = {pid: found for pid in fresh if (found := _NewProcess.of(pid)) is not None}
        while born:
            self._assign(next(iter(born)), born, is_thorough)

    def read(self, tracker: UsageTracker) -> tuple[bool, list[tuple[int, bytes]]]:
        """Return whether any process of a run used time since the last sample, and the `stat` of
        each."""
        files = self._open.get(tracker.run_id)
        if files is None:
            return False, []
        is_moved = False
        for pid, (fd, raw) in list(files.items()):
            data = _at_start(fd)
            if not data:
                self._disown(pid, tracker.run_id)
                is_moved = True
            elif data != raw:
                files[pid] = (fd, data)
                is_moved = True
        return is_moved, [(pid, data) for pid, (_, data) in files.items()]

    def pids_of(self, run_id: str) -> list[int]:
        return list(self._open.get(run_id, ()))

    def forget(self, run_id: str) -> None:
        for pid in list(self._open.get(run_id, ())):
            self._disown(pid, run_id)
        self._open.pop(run_id, None)

    def _assign(self, pid: int, born: dict[int, _NewProcess], is_thorough: bool) -> None:
        """Find the run of a new process, after those of its new ancestors: the run of its parent,
        or the one in its environment."""
        line = [pid]
        while (parent := born[line[-1]].ppid) in born and parent not in line:
            line.append(parent)
        for one in reversed(line):
            found = born.pop(one)
            owner = self._owner.get(found.ppid)
            if owner is None and (is_thorough or found.ppid in self._adopters):
                owner = run_id_of(one, 0.0)
                if owner in self._open:
                    self._adopters.add(found.ppid)
            if owner in self._open:
                self._keep(one, owner, found)
            else:
                os.close(found.fd)

    def _own(self, pid: int, run_id: str, start_time: str) -> None:
        found = _NewProcess.of(pid)
        if found is None:
            return
        # Verified after opening: from here on the descriptor names that very process.
        if found.start_time == start_time:
            self._keep(pid, run_id, found)
        else:
            os.close(found.fd)

    def _keep(self, pid: int, run_id: str, found: _NewProcess) -> None:
        self._owner[pid] = run_id
        self._open[run_id][pid] = (found.fd, b"")

    def _disown(self, pid: int, run_id: str) -> None:
        fd, _ = self._open[run_id].pop(pid)
        _close(fd)
        self._owner.pop(pid, None)
        self._seen.discard(pid)


def sample_process(pid: int, *, is_full: bool = True) -> ProcessSample | None:
    """Sample one process; None if it is gone. A process that waits to be reaped has no thread."""
    data = read_short(f"/proc/{pid}/stat")
    return _parse(pid, data, is_full) if data else None


def _parse(pid: int, stat: bytes, is_full: bool) -> ProcessSample:
    fields = stat_fields(stat, RESIDENT_PAGES + 1)
    return ProcessSample(
        pid,
        fields[START_TIME].decode(),
        int(fields[PPID]),
        (int(fields[USER_TICKS]) + int(fields[CHILDREN_USER_TICKS])) / _TICKS,
        (int(fields[SYSTEM_TICKS]) + int(fields[CHILDREN_SYSTEM_TICKS])) / _TICKS,
        int(fields[RESIDENT_PAGES]) * _PAGE,
        live_threads(fields),
        handles(pid) if is_full else None,
        _io(pid) if is_full else _NOTHING,
    )


def handles(pid: int) -> int | None:
    """Return how many descriptors a process has open; None if we may not know."""
    try:
        # Since Linux 6.2 the size of the folder is their number.
        count = os.stat(f"/proc/{pid}/fd").st_size
        return count or len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None


def cgroup_pids(path: str) -> list[int]:
    """Return the processes of a cgroup and of those nested in it."""
    found = _pids_in(path)
    if _has_nested(path):
        try:
            with os.scandir(path) as entries:
                folders = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return found
        for folder in folders:
            found += cgroup_pids(folder)
    return found


def _pids_in(path: str) -> list[int]:
    return [int(pid) for pid in (read_short(f"{path}/cgroup.procs") or b"").split()]


def _has_nested(path: str) -> bool:
    try:
        return os.stat(path).st_nlink > 2
    except OSError:
        return False


def _io(pid: int) -> tuple[int, int, int, int]:
    data = read_short(f"/proc/{pid}/io")
    if not data:
        return _NOTHING
    words = data.split()
    return int(words[9]), int(words[11]), int(words[1]), int(words[3])


def _cpu_of(raw: bytes) -> tuple[float, float]:
    words = raw.split()
    return int(words[3]) / 1e6, int(words[5]) / 1e6


def _at_start(fd: int) -> bytes:
    """Return the newest content of an open kernel file; nothing if its process is gone."""
    try:
        return os.pread(fd, 512, 0)
    except OSError:
        return b""


def _close(fd: int) -> None:
    if fd >= 0:
        os.close(fd)
