"""All services of this Holdfast, by name.

Passes the keeper's notices on to the runners, keeps declarations in the keeper's memory, and
rebuilds the runners after the supervisor's own death. Changes no state: each runner changes its
own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import structs

from holdfast.adapters import keeper_memory
from holdfast.adapters.own_log import logger
from holdfast.adapters.store.state_tables import OpenRun, ServiceRecord, StoredState
from holdfast.engine.runner import exits
from holdfast.engine.runner.declaration import Declaration, StoredDeclaration, undeclared
from holdfast.engine.runner.environment import RunnerEnvironment
from holdfast.engine.runner.remains import Remains, collect
from holdfast.engine.runner.runner import Runner
from holdfast.engine.runner.waiters import NewFuture
from holdfast.engine.selectors import Selectors
from holdfast.rules.admission import ordering
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.names import GATE_SERVICE
from holdfast.vocabulary.services import START_SECONDS, Outcome
from holdfast.vocabulary.states import State

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import ExitFacts, Notice

_log = logger("roster")
_UNSEEN = "it ended while its keeper died"
_encode = msgspec.json.Encoder(order="deterministic").encode


class Roster:
    """Every runner by its service's name, in the order of declaration."""

    def __init__(
        self,
        environment: RunnerEnvironment,
        *,
        new_future: NewFuture,
        on_failed: Callable[[Runner], None],
        on_changed: Callable[[], None],
        groups: Callable[[], Mapping[str, Iterable[str]]] = dict,
    ) -> None:
        self.runners: dict[str, Runner] = {}
        self.records: dict[str, ServiceRecord] = {}
        """Records from the database of services that are not declared yet."""
        self.open_runs: dict[str, list[OpenRun]] = {}
        """By service: runs without a recorded end that this keeper does not have."""
        self._unseen_numbers: dict[str, int] = {}
        """By service: the highest number of a run that ended while its keeper died."""
        self._environment = environment
        self._new_future = new_future
        self._on_failed = on_failed
        self._on_changed = on_changed
        self._groups = groups
        self._labels: tuple[object, list[str]] | None = None
        self._is_retiring = False
        self._environs: set[str] = set()
        """Digests of the environments in the keeper's memory."""
        self._remembered: dict[str, StoredDeclaration] = {}

    # Looking up

    def get(self, name: str) -> Runner:
        """The service of this name, or the only one that the name stands for."""
        runner = self.runners.get(name)
        return runner if runner is not None else self.runners[self.selectors.one(name)]

    @property
    def selectors(self) -> Selectors:
        """The present meaning of names in commands."""
        specs = {name: runner.declaration.spec for name, runner in self.runners.items()}
        return Selectors(specs, self._groups(), is_loaded=True)

    def labels(self) -> list[str]:
        """The names that stand for several services. Cached: every status asks for them."""
        groups = self._groups()
        if self._labels is None or self._labels[0] is not groups:
            self._labels = (groups, self.selectors.labels())
        return self._labels[1]

    def names(self, wanted: Iterable[str]) -> list[str]:
        """The services that these names stand for, or all; raises for the first unknown name."""
        wanted = list(wanted)
        if not wanted:
            return list(self.runners)
        if all(name in self.runners for name in wanted):
            return list(dict.fromkeys(wanted))
        return self.selectors.names(wanted)

    def needs(self) -> dict[str, list[str]]:
        """The dependencies among the known services, for each instance."""
        instances: dict[str, list[str]] = {}
        for name, runner in self.runners.items():
            if (template := runner.declaration.spec.template) is not None:
                instances.setdefault(template, []).append(name)
        return {
            name: [
                provider
                for needed in runner.declaration.spec.depends_on
                for provider in (
                    (needed.service,)
                    if needed.service in self.runners
                    else instances.get(needed.service, ())
                )
            ]
            for name, runner in self.runners.items()
        }

    @property
    def live_runs(self) -> int:
        return sum(runner.run is not None for runner in self.runners.values())

    # Declaring

    def declare(self, declaration: Declaration) -> tuple[Runner, bool, bool]:
        """Make a service known. Returns its runner, whether it is new, and whether its live run
        differs from the declaration."""
        name = declaration.spec.name
        runner, self._labels = self.runners.get(name), None
        if runner is not None:
            is_same = declaration.spec == runner.declaration.spec
            is_changed = runner.declare(declaration)
            if not is_same:
                self._environment.recorder.event(EventKind.SERVICE_CHANGED, name)
            self.remember(runner)
            self._environment.observers.declared(runner)
            return runner, False, is_changed
        runner = self._add(declaration)
        record = self.records.pop(name, None)
        if record is not None:
            runner.recollect(record)
        self.remember(runner)
        runner.save()
        self._environment.recorder.event(
            EventKind.SERVICE_ADDED, name, origin=declaration.spec.origin
        )
        self._environment.observers.declared(runner)
        self._on_changed()
        return runner, True, False

    def remember(self, runner: Runner) -> None:
        """Keep a service's declaration in the keeper's memory, for the next supervisor."""
        declaration, keep = runner.declaration, self._environment.keeper.keep
        is_outdated = runner.is_outdated
        stored = StoredDeclaration(
            spec=declaration.spec,
            environ=declaration.environ_key,
            overrides=runner.overrides,
            launched=runner.launched if is_outdated else None,
            launched_run=runner.last_run_id if is_outdated else None,
            trace=runner.trace if runner.launched is None else None,
        )
        if self._remembered.get(runner.name) == stored:
            return
        self._remembered[runner.name] = stored
        if declaration.environ_key not in self._environs:
            self._environs.add(declaration.environ_key)
            keep(
                keeper_memory.environ(declaration.environ_key),
                _encode(declaration.environ).decode(),
            )
        keep(keeper_memory.spec(runner.name), _encode(stored).decode())

    def forget_environments(self) -> None:
        """Drop environments from the keeper's memory that no service starts from."""
        used = {runner.declaration.environ_key for runner in self.runners.values()}
        for stale in self._environs - used:
            self._environment.keeper.keep(keeper_memory.environ(stale), None)
        self._environs &= used

    def remove(self, name: str) -> None:
        """Forget a service that has no process left."""
        assert not self.runners[name].has_processes, "what has a process is not forgotten"
        runner, self._labels = self.runners.pop(name), None
        runner.close()
        self._remembered.pop(name, None)
        self._environment.keeper.keep(keeper_memory.spec(name), None)
        self._environment.keeper.keep(keeper_memory.desired(name), None)
        self._environment.keeper.keep(keeper_memory.restarts(name), None)
        self._environment.recorder.remove_service(name)
        self._environment.recorder.event(EventKind.SERVICE_REMOVED, name)
        self._on_changed()

    # Restoring

    def restore(self, facts: dict[str, Any], kept: dict[str, str], loaded: StoredState) -> None:
        """Rebuild every runner from the keeper's memory, its runs and exits, and the database."""
        self.records = dict(loaded.services)
        self._account_for_unseen(facts.get("ended_unseen") or [], loaded)
        runs = [run for run in facts.get("runs") or () if run.get("kind") != "task"]
        unseen = []
        for ended in facts.get("exits") or ():
            if ended["run_id"] in loaded.ended or ended.get("kind") == "task":
                self._environment.recorder.forget(ended["run_id"])
            else:
                unseen.append(ended)
        for name, remains in collect(runs, unseen, kept, self.records).items():
            self._restore_one(name, remains)
        known = {run["run_id"] for run in facts.get("runs") or ()}
        known.update(ended["run_id"] for ended in facts.get("exits") or ())
        for open_run in loaded.open_runs:
            if open_run.run_id not in known:
                self.open_runs.setdefault(open_run.service, []).append(open_run)
        for runner in self.runners.values():
            self._environment.observers.declared(runner)

    def _restore_one(self, name: str, remains: Remains) -> None:
        declaration = remains.declaration
        if declaration is None and remains.run is None:
            self.account_for_unknown(remains.exits)
            return
        if declaration is None:
            _log.warning("the keeper has a run of %s, of which nothing else is known", name)
            declaration = Declaration(undeclared(name))
        else:
            self._environs.add(declaration.environ_key)
        runner = self._add(declaration)
        self.records.pop(name, None)
        try:
            runner.restore(remains)
        except Exception:  # noqa: BLE001 - one service must not keep the others from us
            _log.exception("%s could not be restored as it was", name)
            if remains.run is not None and runner.run is None:
                # Its past is lost; its process is not, or a start would make a second one.
                runner.restore(Remains(run=remains.run))

    def save_all(self) -> None:
        """Write everything again, because the database was replaced."""
        for runner in self.runners.values():
            runner.save()
            if runner.run is not None:
                open_run = runner.run.as_open(runner.name, self._environment.keeper.boot_id)
                self._environment.recorder.run_started(open_run)

    # Notices of the keeper

    def on_notice(self, notice: Notice) -> None:
        """Pass an exit, the end of a tree, or a stop by a person on to its runner."""
        if notice["notice"] not in ("exit", "ended", "end_asked"):
            return
        runner = self.runners.get(notice.get("service") or "")
        match notice["notice"]:
            case "exit" if notice.get("kind") == "task":
                self._environment.recorder.forget(notice["run_id"])
            case "exit" if runner is None:
                self.account_for_unknown([notice])
            case "exit" if runner is not None:
                runner.on_exit(notice)
            case "ended" if runner is not None:
                runner.on_ended(notice)
            case "end_asked" if runner is not None:
                # The keeper is already ending it. Asking again with the same grace changes nothing.
                runner.stop(grace=notice["grace"], by_hand=True)
            case _:
                pass

    # Several services

    async def start(
        self, names: list[str], *, wait: bool, seconds: float = START_SECONDS
    ) -> dict[str, Outcome]:
        """Start services and those that they need. A service that has to wait for another starts
        by itself later; if that may take long, its outcome says so."""
        futures: dict[str, asyncio.Future[Outcome]] = {}
        for name in self.start_order(names):
            runner = self.runners[name]
            futures[name] = runner.start(wait=wait)
            self.remember(runner)
        return await self.outcomes(futures, seconds)

    async def outcomes(
        self, futures: dict[str, asyncio.Future[Outcome]], seconds: float
    ) -> dict[str, Outcome]:
        """The outcomes of starts. For those that take longer, the conditions that they wait for."""
        if any(not future.done() for future in futures.values()):
            await asyncio.wait(futures.values(), timeout=max(0.0, seconds))
        outcomes: dict[str, Outcome] = {}
        for name, future in futures.items():
            if future.done():
                outcomes[name] = future.result()
            elif (late := self.runners.get(name)) is not None:
                future.cancel()
                outcomes[name] = late.unfinished()
        return outcomes

    def start_order(self, names: list[str]) -> Iterable[str]:
        """These services and those that they need, providers first. A provider that has completed
        is not run again, and one that is about to be removed is not started."""
        if not any(self.runners[name].declaration.spec.depends_on for name in names):
            return names
        asked = set(names)
        edges: dict[str, set[str]] = {}
        for runner in self.runners.values():
            for needed in runner.declaration.spec.depends_on:
                edges.setdefault(needed.service, set()).add(needed.condition)

        def is_over(name: str) -> bool:
            runner = self.runners[name]
            if runner.is_leaving:
                return True
            conditions = edges.get(runner.declaration.spec.template or name, set())
            return runner.state is State.EXITED and conditions == {"completed"}

        order = ordering.with_dependencies(names, self.needs())
        return [name for name in order if name in asked or not is_over(name)]

    def start_one(self, runner: Runner) -> None:
        """Start only this service; it waits for those that it needs."""
        runner.start(wait=False)
        self.remember(runner)

    async def stop(
        self, names: list[str], *, grace: float | None, by_hand: bool = False
    ) -> dict[str, Outcome]:
        """Stop services in layers: dependents first, the services of a layer together."""
        outcomes: dict[str, Outcome] = {}
        wanted = set(names)
        for layer in ordering.stop_layers(self.needs()):
            chosen = [name for name in layer if name in wanted and name in self.runners]
            futures = [self.runners[name].stop(grace=grace, by_hand=by_hand) for name in chosen]
            for name, future in zip(chosen, futures, strict=True):
                outcomes[name] = await future
        return outcomes

    def retire(self) -> None:
        """Start nothing any more, because Holdfast shuts down."""
        self._is_retiring = True
        for runner in self.runners.values():
            runner.retire()

    def _add(self, declaration: Declaration) -> Runner:
        runner = Runner(
            declaration, self._environment, new_future=self._new_future, on_failed=self._on_failed
        )
        if self._is_retiring:
            runner.retire()
        runner.reserve_numbers(self._unseen_numbers.get(runner.name, 0))
        self.runners[runner.name] = runner
        return runner

    def _account_for_unseen(self, begun: list[dict[str, Any]], loaded: StoredState) -> None:
        """Put runs into the history that began and ended while their keeper died, before it could
        tell of them. For those that the database knows as open, survivors are looked for."""
        is_open = {run.run_id for run in loaded.open_runs}
        for facts in begun:
            if facts["run_id"] in loaded.ended or facts["service"] == GATE_SERVICE:
                self._environment.recorder.forget(facts["run_id"])
            elif facts["run_id"] not in is_open:
                name, number = facts["service"], facts.get("number") or 0
                self._unseen_numbers[name] = max(self._unseen_numbers.get(name, 0), number)
                record = self.records.get(name)
                if record is not None and record.number < number:
                    self.records[name] = structs.replace(record, number=number)
                unseen = {"ended_at": time.time(), "unknown": True, "empty": True}
                self.account_for_unknown([cast("ExitFacts", {**facts, **unseen})], _UNSEEN)

    def account_for_unknown(self, ended: Iterable[ExitFacts], why: str | None = None) -> None:
        """Record exits of services that are not declared, or not yet: nothing is restarted."""
        for facts in ended:
            exit_ = exits.understand(undeclared(facts["service"]), facts, why)
            exits.record(self._environment.recorder, facts, exit_, None)
