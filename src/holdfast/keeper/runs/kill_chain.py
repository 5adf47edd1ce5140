"""The kill chain: ends all processes of a run's tree, and reports how each of them ended.

Owns the order: signal to the group, grace, `cgroup.kill`, SIGKILL to each process. Uses the loop
and monotonic time only. Its owner calls `check` after each reap; it polls only where no event
would come. Never blocks. Done only when the tree is empty, or cannot be killed.

Every process gets the signal once. The group of the main process is signalled as a whole; when the
main process is gone, each process that is left gets the signal by itself, unless it was in the
group when that was signalled. Start times tell: a process born before the signal had it, and one
that left the group just before had not (`_got_signal`, `_mark_in_group`).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable

from holdfast.keeper.loop import Loop, Timer
from holdfast.keeper.processes.tree import Tree
from holdfast.system import processes as host
from holdfast.system.processes import Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import EndedProcess, EndState

    OnDone = Callable[[list[EndedProcess], float, bool], None]

_KILL_SECONDS = 10.0
_POLL_SECONDS = 0.02
_SLOWEST_POLL_SECONDS = 0.2

EXITED = "exited"
CGROUP_KILL = "cgroup.kill"
KILL = "SIGKILL"
UNKILLABLE = "unkillable"


class KillChain:
    """One attempt to end a tree. Reports once, from the loop or from `check`."""

    __slots__ = (
        "_deadline",
        "_hows",
        "_is_begun",
        "_kill_again_at",
        "_killing_since",
        "_loop",
        "_names",
        "_numbers",
        "_on_done",
        "_poll_seconds",
        "_rest_signalled_at_tick",
        "_signalled",
        "_signalled_at_tick",
        "_started",
        "_timer",
        "_tree",
        "is_done",
        "number",
    )

    def __init__(
        self,
        tree: Tree,
        number: int,
        grace: float,
        loop: Loop,
        on_done: OnDone,
        earlier: EndState | None = None,
        *,
        hangup: bool = False,
    ) -> None:
        """With `hangup`, SIGHUP is sent right after the signal. `earlier` is the `state` of a kill
        chain that another keeper began."""
        self.number = number
        self.is_done = False
        self._numbers = (number, signal.SIGHUP) if hangup else (number,)
        self._tree = tree
        self._loop = loop
        self._on_done = on_done
        self._started = loop.now()
        self._deadline = self._started + max(0.0, grace)
        self._rest_signalled_at_tick: int | None = None
        self._killing_since: float | None = None
        self._kill_again_at = 0.0
        self._signalled_at_tick: int | None = None
        self._poll_seconds = _POLL_SECONDS
        self._timer: Timer | None = None
        self._names: dict[tuple[int, str], str] = {}
        self._hows: dict[tuple[int, str], str] = {}
        self._signalled: set[tuple[int, str]] = set()
        """Processes that got the signal for sure."""
        self._is_begun = False
        if earlier is not None and earlier.get("signalled"):
            self._go_on(earlier)
        else:
            self._begin()
        self._is_begun = True

    @property
    def remaining_seconds(self) -> float:
        """The time until SIGKILL."""
        return max(0.0, self._deadline - self._loop.now())

    def state(self, *, is_whole: bool = False) -> EndState:
        """For a successor: the signal, how long ago it was sent, and what is left of the grace."""
        facts: EndState = {
            "signal": self.number,
            "grace": self.remaining_seconds if self._killing_since is None else 0.0,
            "signalled": True,
            "ago": self._loop.now() - self._started,
        }
        if is_whole:
            facts["seen"] = [
                [*identity, name, self._hows.get(identity)]
                for identity, name in self._names.items()
            ]
            facts["reached"] = [list(identity) for identity in self._signalled]
        return facts

    def check(self) -> None:
        """Look again. To be called after each reap that may concern this tree."""
        if self.is_done:
            return
        if self._killing_since is not None:
            self._kill()
        elif not self._tree.is_main_alive():
            self._end_leftovers()

    def shorten(self, grace: float) -> None:
        """Kill earlier than planned, with 0 at once; never later."""
        deadline = self._loop.now() + max(0.0, grace)
        if self.is_done or self._killing_since is not None or deadline >= self._deadline:
            return
        self._deadline = deadline
        if grace <= 0:
            self._kill()
        else:
            self._arm()

    def _begin(self) -> None:
        processes = self._look(is_rough=True) or self._look()
        if not processes:
            self._finish(is_empty=True)
            return
        if self.number == signal.SIGKILL or self._deadline <= self._started:
            self._kill()
            return
        # Before a thaw: a process that leaves the group when it wakes has the signal already.
        if self._tree.signal_group(*self._numbers, signal.SIGCONT):
            self._signalled_at_tick = host.ticks_now()
            for process in processes:
                self._mark_in_group(process)
            if self._tree.is_paused:
                self._tree.resume()
        else:
            self._signal_once(processes)
            self._tree.thaw()
        self._arm()

    def _go_on(self, earlier: EndState) -> None:
        """An earlier keeper sent the signal: wait for the rest of the grace."""
        self._started -= float(earlier.get("ago") or 0.0)
        self._signalled_at_tick = _tick(earlier.get("ago") or 0.0)
        if (ago := earlier.get("rest_ago")) is not None:
            self._rest_signalled_at_tick = _tick(ago)
        reached = earlier.get("reached")
        for pid, start_time, name, how in earlier.get("seen") or ():
            self._names[(pid, start_time)] = name
            if how is not None:
                self._hows[(pid, start_time)] = how
                # An earlier version does not say which processes may have left the group.
                if reached is None or [pid, start_time] in reached:
                    self._signalled.add((pid, start_time))
        processes = self._look()
        if not processes:
            self._finish(is_empty=True)
        elif self.number == signal.SIGKILL or self._deadline <= self._loop.now():
            self._kill()
        else:
            for process in processes:
                if self._signalled_at_tick is None:
                    self._mark_in_group(process)
                self._got_signal(process)
            self._arm()
            self.check()

    def _mark_in_group(self, process: Process) -> None:
        """Note that its group was signalled. It may have left the group just before; only a process
        that is still in it got the signal for sure. The main process cannot leave."""
        group = self._tree.pid
        if process.pgid != group:
            return
        self._hows.setdefault(process.identity, _name(self.number))
        # Without ticks, this is the only note that it was signalled.
        is_sure = process.pid == group or self._signalled_at_tick is None
        if is_sure or ((now := host.process(process.pid)) is not None and now.pgid == group):
            self._signalled.add(process.identity)

    def _end_leftovers(self) -> None:
        """The main process is gone: send the others the same signal, to each of them once."""
        if self._tree.is_empty():
            self._finish(is_empty=True)
            return
        leftovers = self._look()
        if not leftovers:
            self._finish(is_empty=True)
            return
        self._signal_once(one for one in leftovers if not self._got_signal(one))

    def _got_signal(self, process: Process) -> bool:
        """Whether it was there when its group, or the leftovers, got the signal."""
        tick = self._rest_signalled_at_tick
        if process.pgid == self._tree.pid and self._signalled_at_tick is not None:
            tick = max(tick or 0, self._signalled_at_tick)
        if tick is None or int(process.start_time) > tick:
            return False
        self._hows.setdefault(process.identity, _name(self.number))
        return True

    def _signal_once(self, processes: Iterable[Process]) -> None:
        """Signal each process that did not get the signal for sure."""
        for process in processes:
            if process.identity in self._signalled:
                continue
            if host.send_signal(process.pid, process.start_time, self.number):
                self._signalled.add(process.identity)
                self._hows[process.identity] = _name(self.number)
                for number in (*self._numbers[1:], signal.SIGCONT):
                    host.send_signal(process.pid, process.start_time, number)

    def _kill(self) -> None:
        now = self._loop.now()
        if self._killing_since is None:
            self._killing_since = now
            self._arm()
        remaining = self._look()
        if not remaining:
            self._finish(is_empty=True)
        elif now - self._killing_since >= _KILL_SECONDS:
            for process in remaining:
                self._hows[process.identity] = UNKILLABLE
            self._finish(is_empty=False)
        elif now >= self._kill_again_at or any(not self._is_killed(p) for p in remaining):
            self._kill_again_at = now + _POLL_SECONDS
            self._kill_all(remaining)

    def _kill_all(self, remaining: list[Process]) -> None:
        survivors = [process for process in remaining if self._is_killed(process)]
        inside = self._tree.kill_cgroup()
        for process in remaining:
            if process.pid in inside:
                self._mark_killed(process, CGROUP_KILL)
        # A process that was inside and survived to a second round is killed by identity, too.
        if survivors or any(process.pid not in inside for process in remaining):
            for process in self._tree.kill_each(() if survivors else inside):
                self._mark_killed(process, KILL)

    def _mark_killed(self, process: Process, how: str) -> None:
        self._names.setdefault(process.identity, process.name)
        if not self._is_killed(process):
            self._hows[process.identity] = how

    def _is_killed(self, process: Process) -> bool:
        return self._hows.get(process.identity) in (KILL, CGROUP_KILL)

    def _look(self, is_rough: bool = False) -> list[Process]:
        processes = self._tree.processes(is_rough)
        for process in processes:
            self._names.setdefault(process.identity, process.name)
        return processes

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        seconds = self.remaining_seconds
        if self._killing_since is not None:
            seconds = _POLL_SECONDS
        elif not self._tree.is_walkable:
            seconds = min(seconds, self._poll_seconds)
            self._poll_seconds = min(self._poll_seconds * 1.5, _SLOWEST_POLL_SECONDS)
        self._timer = self._loop.call_later(seconds, self._on_timer)

    def _on_timer(self) -> None:
        if self._killing_since is None and self._loop.now() >= self._deadline:
            self._kill()
            return
        self.check()
        if not self.is_done:
            self._arm()

    def _finish(self, is_empty: bool) -> None:
        self.is_done = True
        if self._timer is not None:
            self._timer.cancel()
        if self._is_begun:
            self._announce(is_empty)
        else:
            # The constructor has not returned: its owner does not have this object yet.
            self._loop.at_turn_end(lambda: self._announce(is_empty))

    def _announce(self, is_empty: bool) -> None:
        report: list[EndedProcess] = [
            {"pid": identity[0], "name": name, "how": self._hows.get(identity, EXITED)}
            for identity, name in self._names.items()
        ]
        self._on_done(report, self._loop.now() - self._started, is_empty)


def _tick(ago: float) -> int | None:
    """The time that many seconds ago, in units of start times."""
    now = host.ticks_now()
    return None if now is None else now - int(ago * os.sysconf("SC_CLK_TCK"))


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
