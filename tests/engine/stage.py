"""A stage for runners: a clock that tests move, a keeper that holds pretended processes.

The fake keeper obeys the protocol as the real one does (order of replies and notices, the
journal of exits, memory) and counts live instances, so that «exactly one, ever» is checked
at every spawn.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from holdfast.adapters.store.state_tables import OpenRun, ServiceRecord
from holdfast.engine.runner.declaration import Declaration
from holdfast.engine.runner.environment import Admission, AdmitAll, Clock, RunnerEnvironment
from holdfast.engine.runner.observers import RunObservers
from holdfast.engine.runner.runner import Runner
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.specs.services import ServiceSpec

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import EndedNotice, ExitFacts

Message = dict[str, Any]


class FakeTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class FakeClock(Clock):
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1_700_000_000.0 + self.now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(callback)
        heapq.heappush(self._timers, (self.now + seconds, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Let time pass, firing timers in order."""
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end + 1e-9:
            self.now, _, timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                callback, timer.callback = timer.callback, None
                callback()
        self.now = end


class FakeRun:
    def __init__(self, message: Message, pid: int, started: float) -> None:
        self.facts = message
        self.run_id: str = message["run_id"]
        self.service: str = message["service"]
        self.pid = pid
        self.started = started
        self.main_gone = False
        self.is_ending = False
        self.is_end_asked = False
        self.is_paused = False
        self.leftovers = 0


class FakeKeeper:
    """Pretends to be a keeper on the other side of a link. Replies wait for `deliver`."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.boot_id = "boot"
        self.kept: dict[str, str] = {}
        self.runs: dict[str, FakeRun] = {}
        self.exits: dict[str, Message] = {}
        self.spawned: list[Message] = []
        self.refuse_spawn: Message | None = None
        self.obeys = True
        self.gives_up = False
        self.most_at_once = 0
        self.most_beside = 0
        self._inbox: list[tuple[Message, Callable[[Message], None]]] = []
        self._outbox: list[Callable[[], None]] = []
        self._pids = itertools.count(100)
        self.on_notice: Callable[[Any], None] = lambda _: None

    # The supervisor's side

    def request(self, message: Any, then: Callable[[Any], None]) -> None:
        self._inbox.append((message, then))

    def keep(self, key: str, value: str | None) -> None:
        def apply(_: Message) -> None:
            if value is None:
                self.kept.pop(key, None)
            else:
                self.kept[key] = value

        self._inbox.append(({"do": "keep"}, apply))

    # The keeper's side

    def take_one(self) -> bool:
        """Do the oldest request."""
        if not self._inbox:
            return False
        message, then = self._inbox.pop(0)
        if message["do"] == "keep":
            then({})
            return True
        reply = self._do(message)
        self._outbox.insert(self._reply_place, lambda: then(reply))
        return True

    def deliver_one(self) -> bool:
        """Hand the oldest reply or notice to the supervisor."""
        if not self._outbox:
            return False
        self._outbox.pop(0)()
        return True

    def settle(self) -> None:
        """Pass messages to and fro until there are none."""
        while self.take_one() or self.deliver_one():
            pass

    def lose_supervisor(self, *, reads_rest: bool = True) -> None:
        """It died: what it sent is still read, what we send is lost."""
        while reads_rest and self.take_one():
            pass
        self._inbox.clear()
        self._outbox.clear()
        self.on_notice = lambda _: None

    def hello(self) -> Message:
        runs = [
            {
                "run_id": run.run_id,
                "service": run.service,
                "number": run.facts["number"],
                "kind": run.facts["kind"],
                "pid": run.pid,
                "start_time": str(run.pid),
                "started_at": 1_700_000_000.0 + run.started,
                "age": self.clock.now - run.started,
                "paused": run.is_paused,
                "ending": run.is_ending,
                "end": {"grace": 5.0} if run.is_ending else None,
                "exited": run.main_gone,
                "adopted": False,
                "log_bytes": 0,
            }
            for run in self.runs.values()
        ]
        return {"runs": runs, "exits": list(self.exits.values()), "kept": dict(self.kept)}

    def forget(self, run_ids: list[str]) -> None:
        for run_id in run_ids:
            self.exits.pop(run_id, None)

    def live(self, service: str = "web") -> FakeRun:
        return next(run for run in self.runs.values() if run.service == service)

    def exit(
        self,
        service: str = "web",
        code: int | None = 1,
        signal: int | None = None,
        leftovers: int = 0,
    ) -> None:
        """The main process of the service's run ends."""
        self.end_main(self.live(service), code, signal, leftovers)

    def end_main(
        self, run: FakeRun, code: int | None, signal: int | None, leftovers: int = 0
    ) -> None:
        run.main_gone, run.leftovers = True, leftovers
        facts = {
            "run_id": run.run_id,
            "service": run.service,
            "number": run.facts["number"],
            "pid": run.pid,
            "code": code,
            "signal": signal,
            "unknown": False,
            "is_end_asked": run.is_end_asked,
            "started_at": 1_700_000_000.0 + run.started,
            "ended_at": self.clock.time(),
            "seconds": self.clock.now - run.started,
            "log_bytes": 7,
            "rusage": None,
            "empty": not leftovers,
        }
        self.exits[run.run_id] = facts
        self._notice({"notice": "exit", **facts})
        if leftovers:
            run.is_ending = True
        else:
            self._gone(run)

    def end_leftovers(self, service: str = "web") -> None:
        """The last process of a run whose main process is gone ends."""
        run = self.live(service)
        run.leftovers = 0
        run.is_end_asked = True
        self._gone(run)

    @property
    def _reply_place(self) -> int:
        return len(self._outbox)

    def _notice(self, message: Message) -> None:
        self._outbox.append(lambda: self.on_notice(message))

    def _gone(self, run: FakeRun) -> None:
        del self.runs[run.run_id]
        if run.is_end_asked:
            report = [{"pid": run.pid, "name": run.service, "how": "SIGTERM"}]
            self._notice({**_ended(run), "report": report, "seconds": 0.1, "empty": True})

    def _do(self, message: Message) -> Message:
        match message["do"]:
            case "spawn":
                return self._spawn(message)
            case "end":
                run = self.runs.get(message["run_id"])
                if run is None:
                    return _refused("not_found")
                run.is_ending = run.is_end_asked = True
                if self.gives_up:
                    self._notice({**_ended(run), "report": [], "seconds": 10.0, "empty": False})
                elif self.obeys or message.get("grace") == 0:
                    ending = run
                    self._outbox.append(lambda: self._obey(ending))
                return {"ok": True}
            case "pause" | "resume":
                run = self.runs.get(message["run_id"])
                if run is None:
                    return _refused("not_found")
                run.is_paused = message["do"] == "pause"
                return {"ok": True}
            case _:
                return {"ok": True}

    def _obey(self, run: FakeRun) -> None:
        if run.run_id not in self.runs:
            return
        if run.main_gone:
            self._gone(run)
        else:
            self.end_main(run, None, 15)

    def _spawn(self, message: Message) -> Message:
        if self.refuse_spawn is not None:
            return {"ok": False, "error": self.refuse_spawn}
        same = [run for run in self.runs.values() if run.service == message["service"]]
        assert len(same) <= self.most_beside, f"a second instance of {message['service']}"
        run = FakeRun(message, next(self._pids), self.clock.now)
        self.runs[run.run_id] = run
        self.spawned.append(message)
        self.most_at_once = max(self.most_at_once, len(same) + 1)
        started_at = 1_700_000_000.0 + self.clock.now
        return {"ok": True, "pid": run.pid, "start_time": str(run.pid), "started_at": started_at}


def _ended(run: FakeRun) -> Message:
    return {"notice": "ended", "run_id": run.run_id, "service": run.service}


def _refused(code: str) -> Message:
    return {"ok": False, "error": {"code": code, "message": code}}


class FakeRecorder:
    """Remembers what was recorded."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.ended: list[tuple[str, str]] = []
        self.records: dict[str, Callable[[], ServiceRecord]] = {}
        self.forgotten: list[str] = []
        self.compared: dict[str, list[str]] = {}

    def event(
        self, kind: EventKind, service: str | None = None, run_id: str | None = None, **data: Any
    ) -> None:
        self.events.append((kind.value, data))

    def save_service(self, name: str, record: Callable[[], ServiceRecord]) -> None:
        self.records[name] = record

    def remove_service(self, name: str) -> None:
        self.records.pop(name, None)

    def run_started(self, run: OpenRun) -> None:
        pass

    def run_compared(self, run_id: str, changes: Iterable[str]) -> None:
        self.compared[run_id] = list(changes)

    def run_ended(self, facts: Mapping[str, Any], signal: str | None, reason: str) -> None:
        self.ended.append((facts["run_id"], reason))

    def forget(self, run_id: str) -> None:
        self.forgotten.append(run_id)

    def states(self) -> list[str]:
        return [data["to"] for kind, data in self.events if kind == "transition"]

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.events]


class Stage:
    """One service on a fake keeper, with a fake clock."""

    def __init__(self, random: float = 0.5, **fields: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.keeper = FakeKeeper(self.clock)
        self.recorder = FakeRecorder()
        self.admission: Admission = AdmitAll()
        self.observers = RunObservers()
        self.failed: list[str] = []
        self.spec = ServiceSpec(name="web", argv=("web", "--x"), working_dir="/", **fields)
        self.random = random
        self.runner = self.new_runner()

    def environment(self) -> RunnerEnvironment:
        return RunnerEnvironment(
            self.keeper,
            self.recorder,
            self.clock,
            lambda: self.random,
            self.clock.call_later,
            self.admission,
            self.observers,
        )

    def new_runner(self) -> Runner:
        runner = Runner(
            Declaration(self.spec),
            self.environment(),
            new_future=self.loop.create_future,
            on_failed=lambda runner: self.failed.append(runner.name),
        )

        def notice(message: Message) -> None:
            if message["notice"] == "exit":
                runner.on_exit(cast("ExitFacts", message))
            elif message["notice"] == "ended":
                runner.on_ended(cast("EndedNotice", message))

        self.keeper.on_notice = notice
        return runner

    def settle(self) -> None:
        self.keeper.settle()

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.keeper.settle()

    def close(self) -> None:
        self.loop.close()
