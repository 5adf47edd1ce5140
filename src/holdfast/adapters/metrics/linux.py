"""Looks at runs through procfs and cgroups, cheaply enough for hundreds every few seconds.

The first look at a tree is one read of an open file: the cgroup's `cpu.stat`, or `stat` of
each process where there is no cgroup. What has not run since needs no second one. Not psutil:
it costs ten times as much a process.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from holdfast.adapters.metrics.usage import Process, Totals, Tree, Usage, Watched
from holdfast.system import processes
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
    stat_fields,
)

REFRESH_SECONDS = 300.0
"""What never runs is looked at in full this often all the same: it may have been swapped out."""
IDLE_PACES = ((8, 8), (3, 4))
"""Without cgroups, what has not run for some looks is looked at every few times only."""
CALM_PERCENT = 0.1
"""What ran for less is looked at every other time."""
FORGET_SECONDS = 300.0
"""How long a number of a process that is not ours is trusted not to be another one by now."""
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_NOTHING = (0, 0, 0, 0)


class LinuxSampler:
    """All trees, and which processes belong to which where no cgroup tells."""

    def __init__(self, cgroup_root: str | None) -> None:
        self._root = cgroup_root
        self._trees: dict[str, Tree] = {}
        self._scan = _Scan(self._trees)
        self._root_fd, self._root_raw = -1, b""
        self._looks = 0
        if cgroup_root is not None:
            try:
                self._root_fd = os.open(f"{cgroup_root}/cpu.stat", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                self._root = None

    def watch(self, run: Watched) -> None:
        self.unwatch(run.run_id)
        self._trees[run.run_id] = Tree(run, time.monotonic())

    def unwatch(self, run_id: str) -> Usage | None:
        tree = self._trees.pop(run_id, None)
        if tree is None:
            return None
        _close(tree.fd)
        self._scan.forget(run_id)
        return tree.usage

    def look(self, now: float, *, is_full: bool = False) -> dict[str, Usage]:
        changed: dict[str, Usage] = {}
        without = [it for it in self._trees.values() if it.fd < 0 and not self._has_cgroup(it)]
        if without and (is_full or any(tree.patience == 0 for tree in without)):
            self._scan.run(now)
        elif not without and self._all_rest(now):
            return self._rested(now)
        self._looks += 1
        for run_id, tree in self._trees.items():
            usage = self._look_at(tree, now, is_full)
            if usage is not None:
                changed[run_id] = usage
        return changed

    def members(self, run_id: str) -> list[int]:
        tree = self._trees.get(run_id)
        if tree is None:
            return []
        if tree.cgroup is not None:
            return cgroup_pids(tree.cgroup)
        return self._scan.pids_of(run_id)

    def carried(self, run_id: str) -> Totals:
        tree = self._trees.get(run_id)
        return tree.carried if tree is not None else Totals()

    def close(self) -> None:
        for run_id in list(self._trees):
            self.unwatch(run_id)
        _close(self._root_fd)
        self._root_fd = -1

    def _all_rest(self, now: float) -> bool:
        """Whether nothing of any run has run since the last look: one read for all of them."""
        if self._root_fd < 0:
            return False
        raw, before = _at_start(self._root_fd), self._root_raw
        self._root_raw = raw
        return (
            bool(raw)
            and raw == before
            and all(
                tree.usage is not None
                and not tree.is_partial
                and now - tree.refreshed < REFRESH_SECONDS
                for tree in self._trees.values()
            )
        )

    def _rested(self, now: float) -> dict[str, Usage]:
        return {id_: it for id_, tree in self._trees.items() if (it := tree.rest(now)) is not None}

    def _look_at(self, tree: Tree, now: float, is_asked: bool) -> Usage | None:
        if tree.fd < 0:
            return self._look_at_processes(tree, now, is_asked)
        raw = _at_start(tree.fd)
        if not raw:
            return None  # its cgroup is being removed: it has ended
        is_resting = raw == tree.raw
        if is_resting and not tree.is_partial and now - tree.refreshed < REFRESH_SECONDS:
            return tree.rest(now)
        tree.raw, cpu = raw, _cpu_of(raw)
        if not is_resting and not tree.is_worth(cpu, is_asked=is_asked):
            return tree.note(now, cpu)
        assert tree.cgroup is not None
        is_full = is_resting or tree.wants_full(is_asked=is_asked)
        if is_full:
            tree.nested = _has_nested(tree.cgroup)
        pids = cgroup_pids(tree.cgroup) if tree.nested else _pids_in(tree.cgroup)
        processes = [found for pid in pids if (found := process(pid, is_full=is_full))]
        return tree.take(now, processes, cpu, is_full=is_full) if processes else None

    def _look_at_processes(self, tree: Tree, now: float, is_asked: bool) -> Usage | None:
        if tree.patience and not is_asked:
            return None  # its cgroup is about to be there, and costs less
        if not is_asked and not tree.is_limited:
            is_calm = tree.usage is not None and tree.usage.cpu_percent < CALM_PERCENT
            pace = next((it for looks, it in IDLE_PACES if tree.rested >= looks), 1 + is_calm)
            if (self._looks + tree.pid) % pace:
                return None
        is_moved, stats = self._scan.look_at(tree)
        is_young = tree.usage is not None and now - tree.refreshed < REFRESH_SECONDS
        if not is_moved and is_young and not tree.is_partial:
            return tree.rest(now)
        is_full = not is_moved or tree.wants_full(is_asked=is_asked)
        processes = [_process_of(pid, stat, is_full) for pid, stat in stats]
        return tree.take(now, processes, None, is_full=is_full) if processes else None

    def _has_cgroup(self, tree: Tree) -> bool:
        """Find the tree's cgroup: it is moved there a moment after its start."""
        if self._root is None:
            tree.patience = 0
        if tree.patience == 0:
            return False
        path = f"{self._root}/{tree.run_id}"
        try:
            fd = os.open(f"{path}/cpu.stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            tree.patience -= 1
            return False
        if tree.pid not in cgroup_pids(path):
            os.close(fd)
            tree.patience -= 1
            return False
        tree.cgroup, tree.fd = path, fd
        tree.is_first = tree.usage is None or not tree.carried.user
        self._scan.forget(tree.run_id)
        return True


class _Newborn(NamedTuple):
    """A process that was not there before, with its open `stat`."""

    fd: int
    ppid: int
    start_time: str

    @classmethod
    def of(cls, pid: int) -> _Newborn | None:
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
    """One pass over /proc: who is new, and to whom it belongs."""

    def __init__(self, trees: dict[str, Tree]) -> None:
        self._trees = trees
        self._adopters = {1, os.getppid(), os.getpid()}
        """Who takes orphans in: init, the keeper, and whoever was seen to."""
        self._seen: set[int] = set()
        self._seen_since = 0.0
        self._newest: list[bytes] = []
        self._owner: dict[int, str] = {}
        self._open: dict[str, dict[int, tuple[int, bytes]]] = {}

    def run(self, now: float) -> None:
        if now - self._seen_since > FORGET_SECONDS:
            self._seen, self._seen_since = set(self._owner), now
        for run_id, tree in self._trees.items():
            if tree.fd < 0 and run_id not in self._open:
                self._open[run_id] = {}
                self._own(tree.pid, run_id, tree.start_time)
                self._seen = set(self._owner)
        is_thorough = not self._seen - self._owner.keys()
        newest = (read_short("/proc/loadavg") or b"").split()[-1:]
        if newest and newest == self._newest and not is_thorough:
            return  # no process was made since, on the whole machine
        self._newest = newest
        listed = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        fresh = listed - self._seen - self._owner.keys()
        self._seen = listed
        born = {pid: found for pid in fresh if (found := _Newborn.of(pid)) is not None}
        while born:
            self._place(next(iter(born)), born, is_thorough)

    def look_at(self, tree: Tree) -> tuple[bool, list[tuple[int, bytes]]]:
        """Whether anything of it ran since the last look, and its processes' `stat`."""
        files = self._open.get(tree.run_id)
        if files is None:
            return False, []
        is_moved = False
        for pid, (fd, raw) in list(files.items()):
            data = _at_start(fd)
            if not data:
                self._disown(pid, tree.run_id)
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

    def _place(self, pid: int, born: dict[int, _Newborn], is_thorough: bool) -> None:
        """Find out whose it is, after its new ancestors: its parent's, or by its environment."""
        line = [pid]
        while (parent := born[line[-1]].ppid) in born and parent not in line:
            line.append(parent)
        for one in reversed(line):
            found = born.pop(one)
            owner = self._owner.get(found.ppid)
            if owner is None and (is_thorough or found.ppid in self._adopters):
                owner = processes.run_id_of(one, 0.0)
                if owner in self._open:
                    self._adopters.add(found.ppid)
            if owner in self._open:
                self._keep(one, owner, found)
            else:
                os.close(found.fd)

    def _own(self, pid: int, run_id: str, start_time: str) -> None:
        found = _Newborn.of(pid)
        if found is None:
            return
        # Verified after opening: from here on the descriptor names that very process.
        if found.start_time == start_time:
            self._keep(pid, run_id, found)
        else:
            os.close(found.fd)

    def _keep(self, pid: int, run_id: str, found: _Newborn) -> None:
        self._owner[pid] = run_id
        self._open[run_id][pid] = (found.fd, b"")

    def _disown(self, pid: int, run_id: str) -> None:
        fd, _ = self._open[run_id].pop(pid)
        _close(fd)
        self._owner.pop(pid, None)
        self._seen.discard(pid)


def process(pid: int, *, is_full: bool = True) -> Process | None:
    """One process as it is now, None when it is gone; what waits to be reaped has no thread."""
    data = read_short(f"/proc/{pid}/stat")
    return _process_of(pid, data, is_full) if data else None


def _process_of(pid: int, stat: bytes, is_full: bool) -> Process:
    fields = stat_fields(stat, RESIDENT_PAGES + 1)
    return Process(
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
    """How many descriptors it has open; None where we may not know."""
    try:
        # Since Linux 6.2 the size of the folder is their number.
        count = os.stat(f"/proc/{pid}/fd").st_size
        return count or len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None


def cgroup_pids(path: str) -> list[int]:
    """The processes of a cgroup and of those nested in it."""
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
    """The newest content of an open kernel file; nothing if its process is gone."""
    try:
        return os.pread(fd, 512, 0)
    except OSError:
        return b""


def _close(fd: int) -> None:
    if fd >= 0:
        os.close(fd)
