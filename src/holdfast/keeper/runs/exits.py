"""How runs end: every child that died is reaped here, and every tree brought to its end.

In this order: reap, drain, journal, announce; then, once no process is left, forget the run.
Works the same with no supervisor there.
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
    from holdfast.keeper.recording.logs import Logs
    from holdfast.keeper.runs.children import Children
    from holdfast.keeper.runs.journal import Journal
    from holdfast.keeper.runs.run import Run

_DRAIN_BYTES = 2 << 20
_PUT_OFF_SECONDS = 0.03
_NEXT_SECONDS = 0.005
_LOT = 16


class Exits:
    """What happens to runs when they end."""

    def __init__(
        self,
        children: Children,
        loop: Loop,
        logs: Logs,
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

    def end(self, run: Run, number: int, grace: float) -> None:
        """Bring its whole tree to an end; `ended` is announced when nothing is left."""
        run.is_end_asked = True
        self.begin(run, number, grace)
        now = self._loop.now()
        if now - self._asked_at < _NEXT_SECONDS:
            self._more_until = now + _NEXT_SECONDS
        self._asked_at = now

    def begin(self, run: Run, number: int, grace: float, earlier: EndState | None = None) -> None:
        """The same without a word to anybody: leftovers are ended so. What an `earlier`
        keeper began goes on where it was."""
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
        )
        run.kill_chain = ending
        run.is_paused = False

    def when_over(self, run: Run, then: Callable[[], None]) -> None:
        """Call back once nothing is left of it."""
        self._over[run.run_id] = then

    def _on_ended(self, run: Run, report: Any, seconds: float, is_empty: bool) -> None:
        run.report = {"report": report, "seconds": seconds, "empty": is_empty}
        if run.exit is None:
            # The tree may be seen empty before SIGCHLD is: its exit comes first.
            self.reap()
        if run.exit is not None:
            self._conclude(run)
        elif not is_empty:
            self._say_ended(run)

    def _say_ended(self, run: Run) -> None:
        facts: TreeReport = run.report or {"report": [], "seconds": 0.0, "empty": True}
        self._announce({"notice": "ended", "run_id": run.run_id, "service": run.service, **facts})

    def on_child_signal(self) -> None:
        """Requests that wait come first, for a moment, and so do those that will follow where
        several runs are to end: of a hundred, the last shall not get its signal only when the
        others are buried."""
        if self._put_off_until is None:
            self._put_off_until = self._loop.now() + _PUT_OFF_SECONDS
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
        """Collect every child that has ended, in lots: the exits of one are written at once, and
        the supervisor has them in hand while we go on with the next."""
        ended: list[tuple[Run, int | None, Any]] = []
        others: list[tuple[Callable[[int], None], int]] = []
        strangers = False
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
                strangers = True
        self._on_exits(ended)
        if strangers:
            for run in list(self._children.runs.values()):
                if run.kill_chain is not None:
                    guarded(run.kill_chain.check)
        for on_exit, status in others:
            guarded(on_exit, status)

    def on_zombie(self, run: Run) -> None:
        """It is dead, but its parent, which is not the keeper, has not taken its status yet."""
        if run.died is None:
            run.died = self._loop.now(), time.time()
        if run.kill_chain is not None:
            run.kill_chain.check()

    def foreign_exit(self, run: Run, status: int | None) -> None:
        if run.exit is None:
            self._on_exits([(run, status, None)])

    def _on_exits(self, ended: list[tuple[Run, int | None, Any]]) -> None:
        if ended:
            guarded(self._bury, ended)

    def _bury(self, ended: list[tuple[Run, int | None, Any]]) -> None:
        for run, status, usage in ended:
            del self._children.by_pid[run.pid]
            if not guarded(self._examine, run, status, usage) and run.exit is None:
                # What it left is not known, and will be looked for.
                run.exit = {**run.describe_exit(status, usage, ()), "empty": False}
        self._journal.add([run.exit for run, _, _ in ended if run.exit is not None])
        for run, _, _ in ended:
            assert run.exit is not None
            self._announce({"notice": "exit", **run.exit})
        for run, _, _ in ended:
            guarded(self._after_exit, run)

    def _examine(self, run: Run, status: int | None, usage: Any) -> None:
        """What it printed last, and what it leaves."""
        self._children.unwatch(run)
        for source in list(run.sources):
            guarded(source.drain, _DRAIN_BYTES)
        if run.recorder is not None:
            guarded(run.recorder.flush)
        left = [] if run.tree.is_empty() else [it.pid for it in run.tree.processes()]
        run.exit = run.describe_exit(status, usage, left)
        if run.tree.cgroup is not None and "memory" in run.enforced:
            run.exit["oom_kills"] = oom_kills(run.tree.cgroup)

    def _after_exit(self, run: Run) -> None:
        if run.report is not None:
            self._conclude(run)
        elif run.kill_chain is not None:
            run.kill_chain.check()
        elif run.exit is not None and run.exit["empty"]:
            self._conclude(run)
        else:
            self.begin(run, run.stop["signal"], run.stop["grace"])

    def _conclude(self, run: Run) -> None:
        """Main process and tree are gone: say so where it was awaited, and forget the run."""
        if self._children.runs.get(run.run_id) is not run:
            return
        del self._children.runs[run.run_id]
        if run.kind != "task":
            self._children.records.over(run.run_id)
        # A fault of its log must not cost a run its end.
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
    """Every child that has ended, as it is reaped."""
    while True:
        try:
            found = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if found[0] == 0:
            return
        yield found
