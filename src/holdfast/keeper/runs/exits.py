"""The ends of runs: reaps every child that died, and ends the tree of every run.

Always in this order: reap, drain the pipes, journal, announce; and once no process of the tree is
left, forget the run. Works the same while no supervisor is there.
"""

from __future__ import annotations

import os
import time

from holdfast.keeper.loop import guarded
from holdfast.keeper.processes.cgroups import oom_kills
from holdfast.keeper.runs.kill_chain import KillChain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from holdfast.keeper.loop import Loop
    from holdfast.keeper.protocol.messages import EndState, Notice, TreeReport
    from holdfast.keeper.recording.logs import ServiceLogs
    from holdfast.keeper.runs.children import Children
    from holdfast.keeper.runs.journal import Journal
    from holdfast.keeper.runs.run import HeldRun

_DRAIN_BYTES = 2 << 20
_LONGEST_DELAY_SECONDS = 0.03
_NEXT_SECONDS = 0.005
_LOT = 16


class Exits:
    """Reaps children, and brings runs to their end."""

    def __init__(
        self,
        children: Children,
        loop: Loop,
        logs: ServiceLogs,
        journal: Journal,
        announce: Callable[[Notice], None],
    ) -> None:
        self.on_empty: Callable[[], None] | None = None
        self.has_requests: Callable[[], bool] = lambda: False
        self._put_off_until: float | None = None
        self._asked_at = self._more_until = -_NEXT_SECONDS
        self._over: dict[str, Callable[[], None]] = {}
        self._children = children
        self._loop = loop
        self._logs = logs
        self._journal = journal
        self._announce = announce

    def end(self, run: HeldRun, number: int, grace: float) -> None:
        """End the whole tree, because somebody asked for it. `ended` is announced when no process
        is left."""
        run.is_end_asked = True
        self.begin(run, number, grace)
        now = self._loop.now()
        if now - self._asked_at < _NEXT_SECONDS:
            self._more_until = now + _NEXT_SECONDS
        self._asked_at = now

    def begin(
        self, run: HeldRun, number: int, grace: float, earlier: EndState | None = None
    ) -> None:
        """Begin the kill chain of a run, also for leftovers that nobody asked to end. A chain that
        an `earlier` keeper began goes on where it was."""
        if run.kill_chain is not None and not run.kill_chain.is_done:
            run.kill_chain.shorten(grace)
            return
        ending = KillChain(
            run.tree,
            number,
            grace,
            self._loop,
            lambda report, seconds, is_empty: self._on_ended(run, report, seconds, is_empty),
            earlier,
            hangup=bool(run.stop.get("hangup")) and number == run.stop["signal"],
        )
        run.kill_chain = ending
        run.is_paused = False

    def when_over(self, run: HeldRun, then: Callable[[], None]) -> None:
        """Call back once no process of this run is left."""
        self._over[run.run_id] = then

    def _on_ended(self, run: HeldRun, report: Any, seconds: float, is_empty: bool) -> None:
        run.report = {"report": report, "seconds": seconds, "empty": is_empty}
        if run.exit is None:
            # The tree may be empty before SIGCHLD is handled. The exit must come first.
            self.reap()
        if run.exit is not None:
            self._conclude(run)
        elif not is_empty:
            self._say_ended(run)

    def _say_ended(self, run: HeldRun) -> None:
        facts: TreeReport = run.report or {"report": [], "seconds": 0.0, "empty": True}
        self._announce({"notice": "ended", "run_id": run.run_id, "service": run.service, **facts})

    def on_child_signal(self) -> None:
        """Reap soon. Requests that wait are served first. If several runs are being ended, so are
        the requests that will follow: the last of a hundred services should not get its signal
        only after the others are reaped and journalled."""
        if self._put_off_until is None:
            self._put_off_until = self._loop.now() + _LONGEST_DELAY_SECONDS
            self._reap_in_time()

    def _reap_in_time(self) -> None:
        assert self._put_off_until is not None
        now = self._loop.now()
        awaited = 0.0 if self.has_requests() else self._more_until - now
        if awaited >= 0 and now < self._put_off_until:
            self._loop.call_later(awaited, self._reap_in_time)
            return
        self._put_off_until = None
        self.reap()

    def reap(self) -> None:
        """Reap every child that has ended, in lots. The exits of a lot are written at once, and the
        supervisor has them while we go on with the next lot."""
        ended: list[tuple[HeldRun, int | None, Any]] = []
        others: list[tuple[Callable[[int], None], int]] = []
        has_orphans = False
        self._children.identify()
        for pid, status, usage in _collected():
            if (run := self._children.by_pid.get(pid)) is not None:
                run.tree.collect()
                ended.append((run, status, usage))
                if len(ended) >= _LOT:
                    lot, ended = ended, []
                    self._on_exits(lot)
            elif (on_exit := self._children.others.pop(pid, None)) is not None:
                others.append((on_exit, status))
            else:
                has_orphans = True
        self._on_exits(ended)
        if has_orphans:
            for run in list(self._children.runs.values()):
                if run.kill_chain is not None:
                    guarded(run.kill_chain.check)
        for on_exit, status in others:
            guarded(on_exit, status)

    def on_zombie(self, run: HeldRun) -> None:
        """An adopted process is dead, and its own parent has not reaped it yet."""
        if run.died is None:
            run.died = self._loop.now(), time.time()
        if run.kill_chain is not None:
            run.kill_chain.check()

    def foreign_exit(self, run: HeldRun, status: int | None) -> None:
        if run.exit is None:
            self._on_exits([(run, status, None)])

    def _on_exits(self, ended: list[tuple[HeldRun, int | None, Any]]) -> None:
        if ended:
            guarded(self._take_exits, ended)

    def _take_exits(self, ended: list[tuple[HeldRun, int | None, Any]]) -> None:
        for run, status, usage in ended:
            del self._children.by_pid[run.pid]
            if not guarded(self._examine, run, status, usage) and run.exit is None:
                # Which processes it left is unknown, so they will be looked for.
                run.exit = {**run.describe_exit(status, usage, ()), "empty": False}
        self._journal.add([run.exit for run, _, _ in ended if run.exit is not None])
        for run, _, _ in ended:
            assert run.exit is not None
            self._announce({"notice": "exit", **run.exit})
        for run, _, _ in ended:
            guarded(self._after_exit, run)

    def _examine(self, run: HeldRun, status: int | None, usage: Any) -> None:
        """Record what it printed last, and find the processes that it leaves."""
        self._children.unwatch(run)
        for source in list(run.sources):
            guarded(source.drain, _DRAIN_BYTES)
        if run.recorder is not None:
            guarded(run.recorder.flush)
        left = [] if run.tree.is_empty() else [process.pid for process in run.tree.processes()]
        run.exit = run.describe_exit(status, usage, left)
        if run.tree.cgroup is not None and "memory" in run.enforced:
            run.exit["oom_kills"] = oom_kills(run.tree.cgroup)

    def _after_exit(self, run: HeldRun) -> None:
        if run.report is not None:
            self._conclude(run)
        elif run.kill_chain is not None:
            run.kill_chain.check()
        elif run.exit is not None and run.exit["empty"]:
            self._conclude(run)
        else:
            self.begin(run, run.stop["signal"], run.stop["grace"])

    def _conclude(self, run: HeldRun) -> None:
        """Main process and tree are gone: announce that if somebody waits for it, and forget the
        run."""
        if self._children.runs.get(run.run_id) is not run:
            return
        del self._children.runs[run.run_id]
        if run.kind != "task":
            self._children.records.over(run.run_id)
        # An error of the log must not keep the run from ending.
        for source in list(run.sources):
            guarded(source.drain, _DRAIN_BYTES)
        run.close()
        if run.recorder is not None:
            guarded(run.recorder.flush)
            self._logs.leave(run.service)
        if run.tree.cgroup is not None:
            self._children.placement.remove(run.tree.cgroup)
        if run.is_end_asked or (run.exit is not None and not run.exit["empty"]):
            self._say_ended(run)
        if (then := self._over.pop(run.run_id, None)) is not None:
            then()
        if not self._children.runs and self.on_empty is not None:
            self.on_empty()


def _collected() -> Iterator[tuple[int, int, Any]]:
    """Reap every child that has ended, one by one."""
    while True:
        try:
            found = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if found[0] == 0:
            return
        yield found
