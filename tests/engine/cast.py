"""Several services on one stage: a roster with dependencies, a fake keeper, a fake clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.adapters.store.state_tables import StoredState
from holdfast.engine.admission.admission import DependencyAdmission
from holdfast.engine.roster import Roster
from holdfast.engine.runner.declaration import Declaration
from holdfast.engine.runner.observers import RunObservers
from holdfast.rules.health import Condition
from holdfast.vocabulary.services import Outcome
from holdfast.vocabulary.specs.services import Dependency, ServiceSpec
from holdfast.vocabulary.states import State
from tests.engine.stage import FakeClock, FakeKeeper, FakeRecorder, Stage

Needs = Mapping[str, Any]


def need(service: str, condition: Any = "started", **fields: Any) -> Dependency:
    return Dependency(service=service, condition=condition, **fields)


class Cast(Stage):
    """A roster instead of one runner."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.keeper = FakeKeeper(self.clock)
        self.recorder = FakeRecorder()
        self.failed = []
        self.random = 0.5
        self.printed: set[tuple[str, str]] = set()
        self.build()

    def build(self) -> None:
        """Everything that dies with a supervisor."""
        self.observers = RunObservers()
        self.admission = DependencyAdmission(self.clock.call_later)
        self.admission.lines = self
        self.observers.add(self.admission)
        self.roster = Roster(
            self.environment(),
            new_future=self.loop.create_future,
            on_failed=lambda runner: self.failed.append(runner.name),
            on_changed=lambda: None,
        )
        self.keeper.on_notice = self.roster.on_notice

    def has(self, runner: Any, pattern: str, *, is_raw: bool = False) -> bool:
        """Whether the newest run printed it, as tests say."""
        return (runner.last_run_id, pattern) in self.printed

    def prints(self, name: str, text: str) -> None:
        self.printed.add((self[name].last_run_id or "", text))
        self.admission.mark(name)  # type: ignore[attr-defined]
        self.advance(0)

    def declare(self, name: str, *needs: Dependency, **fields: Any) -> None:
        spec = ServiceSpec(name=name, argv=(name,), working_dir="/", depends_on=needs, **fields)
        self.roster.declare(Declaration(spec))

    def declare_all(self, needs: Mapping[str, Iterable[str]]) -> None:
        for name, needed in needs.items():
            self.declare(name, *(need(other) for other in needed))

    def start(self, *names: str, wait: bool = True) -> asyncio.Task[dict[str, Outcome]]:
        task = self.loop.create_task(self.roster.start(list(names), wait=wait))
        self.turn()
        self.advance(0)
        return task

    def turn(self) -> None:
        """Let what waits on the loop go on."""
        for _ in range(3):
            self.loop.run_until_complete(asyncio.sleep(0))

    def advance(self, seconds: float) -> None:
        self.keeper.settle()
        self.clock.advance(seconds)
        before = -1
        while before != len(self.recorder.events):
            before = len(self.recorder.events)
            self.keeper.settle()
            self.clock.advance(0)
        self.turn()

    def judge(self, name: str, **condition: Any) -> None:
        self[name].judge(Condition(**condition))
        self.advance(0)

    def lose_supervisor(self) -> None:
        """Another supervisor takes over from the keeper's memory and the database."""
        self.keeper.lose_supervisor()
        for run in [it for it in self.keeper.runs.values() if it.is_ending and self.keeper.obeys]:
            self.keeper._obey(run)
        self.keeper.lose_supervisor()
        records = {name: record() for name, record in self.recorder.records.items()}
        self.clock._timers.clear()
        self.build()
        facts = self.keeper.hello()
        ended = frozenset(run_id for run_id, _ in self.recorder.ended)
        loaded = StoredState(services=records, open_runs=[], last_seq=0, ended=ended)
        self.roster.restore(facts, facts["kept"], loaded)
        self.advance(0)

    def __getitem__(self, name: str) -> Any:
        return self.roster.runners[name]

    def state(self, name: str) -> State:
        found: State = self[name].state
        return found

    def spawned(self) -> list[str]:
        return [message["service"] for message in self.keeper.spawned]

    def close(self) -> None:
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.turn()
        self.loop.close()
