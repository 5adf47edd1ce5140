"""Processes that descend from the keeper although no run owns them.

A run owns its orphans by their mark (`run_marks`), session, environment, output or cgroup. A
process that removed all of these on purpose is listed here, and ended when the keeper ends. Never
includes a process of a run, the supervisor, or a process above the keeper's ceiling.
"""

from __future__ import annotations

import os
import signal
import time

from holdfast.keeper import stderr
from holdfast.keeper.processes.tree import Tree, is_owned, shows_run
from holdfast.keeper.runs.kill_chain import KillChain
from holdfast.system import own_process, run_marks
from holdfast.system import processes as host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.keeper.loop import Loop
    from holdfast.keeper.processes.cgroups import Cgroups
    from holdfast.keeper.processes.tree import Members
    from holdfast.keeper.protocol.messages import EndedProcess, ProcessName
    from holdfast.keeper.runs.children import Children
    from holdfast.system.processes import Process

_FRESH_SECONDS = 2.0
_LARGEST_SHARE = 0.02
"""The share of the keeper's time that scans of the whole machine may take."""
_MOST_LOOKED_AT = 500


class UnclaimedProcesses:
    """Finds them, and ends them."""

    def __init__(
        self, children: Children, cgroups: Cgroups, ceilings: list[int], *, is_successor: bool
    ) -> None:
        self._children = children
        self._cgroups = cgroups
        self._ceilings = ceilings
        # Orphans of a dead keeper are not our children: they went to init.
        self._scans = bool(ceilings) if is_successor else len(ceilings) > 1
        self._scanned: list[Process] = []
        self._scan_due = 0.0

    def facts(self) -> list[ProcessName]:
        """As the protocol lists them. Asked for often, so only some orphans are looked at."""
        return [{"pid": one.pid, "name": one.name} for one in self.processes(is_rough=True)]

    def processes(self, *, is_rough: bool = False) -> list[Process]:
        """All of them, without their descendants. Rough: only the first of very many orphans; and a
        scan of the whole machine may be two seconds old, or older if scans cost much time."""
        if not own_process.is_subreaper():
            return []  # orphans do not become our children
        known = self._children.known_children()
        pids = [pid for pid in host.own_children() if pid not in known]
        orphans = map(host.process, pids[:_MOST_LOOKED_AT] if is_rough else pids)
        found = [orphan for orphan in orphans if orphan is not None and orphan.is_alive]
        if self._scans:
            beneath = self._beneath_ceiling(is_rough)
            found += [process for process in beneath if process.pid not in pids]
        trees = [run.tree for run in self._children.runs.values()]
        return [
            process
            for process in found
            if not is_owned(process, trees) and not self._is_above(process)
        ]

    def end(self, grace: float, loop: Loop, then: Callable[[], None]) -> None:
        """End them and everything that they started. `then` is called when that is done."""
        if not self.processes():
            then()
            return

        def on_done(report: list[EndedProcess], seconds: float, is_empty: bool) -> None:
            told = ", ".join(f"{one['name']} ({one['pid']}): {one['how']}" for one in report)
            stderr.say(f"ended what belonged to no run: {told}")
            then()

        KillChain(
            _UnclaimedTree(self, self._children, self._cgroups),
            signal.SIGTERM,
            grace,
            loop,
            on_done,
        )

    def _is_above(self, process: Process) -> bool:
        """Whether it is not ours: orphans of others come to the first process of a container."""
        if not self._ceilings:
            return False
        limits = run_marks.read(process.pid)
        return limits is not None and limits[1] > max(self._ceilings)

    def _beneath_ceiling(self, is_rough: bool) -> list[Process]:
        began = time.monotonic()
        if not is_rough or began >= self._scan_due:
            self._scanned, ended = self._scan(), time.monotonic()
            self._scan_due = ended + max(_FRESH_SECONDS, (ended - began) / _LARGEST_SHARE)
        return [process for process in self._scanned if host.is_alive(process)]

    def _scan(self) -> list[Process]:
        """Processes with a ceiling of ours, which no other Holdfast has, that descend neither from
        us nor from another such process."""
        everybody = {
            process.pid: process
            for process in host.all_processes()
            if process.session and process.is_alive
        }
        ours = {os.getpid(), *self._children.known_children()}
        found = {
            pid: process
            for pid, process in everybody.items()
            if not _is_below(process, ours, everybody) and self._is_ours(process)
        }
        return [process for process in found.values() if process.ppid not in found]

    def _is_ours(self, process: Process) -> bool:
        limits = run_marks.read(process.pid)
        if limits is None or limits[1] not in self._ceilings:
            return False
        # An earlier keeper started it. If it shows its run, `unlisted_runs` finds it.
        return limits[1] == self._ceilings[0] or not shows_run(process)


def _is_below(process: Process, ours: set[int], everybody: dict[int, Process]) -> bool:
    """Whether it is one of ours or descends from one."""
    passed: set[int] = set()
    pid = process.pid
    while pid in everybody and pid not in passed:
        if pid in ours:
            return True
        passed.add(pid)
        pid = everybody[pid].ppid
    return False


class _UnclaimedTree(Tree):
    """All unclaimed processes with their descendants, as a tree that can be ended."""

    __slots__ = ("_unclaimed",)

    def __init__(self, unclaimed: UnclaimedProcesses, children: Children, cgroups: Cgroups) -> None:
        super().__init__("", 0, "", None, False, cgroups, children.known_children)
        self._unclaimed = unclaimed
        self._is_main_gone = True

    def _scan(self, found: Members, inside: frozenset[int], is_rough: bool) -> None:
        for process in self._unclaimed.processes():
            if process.pid not in found:
                found.add(process)
                self._descend(found, process.pid)
