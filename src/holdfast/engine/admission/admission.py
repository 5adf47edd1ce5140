"""Decides when a service may start: a start waits until its dependencies are there.

Woken by changes of services, never by a clock. A waiting start is not given up: it begins by itself
when it can. The caller that asked for it is answered as soon as waiting may take long.
`host_capacity` asks afterwards whether the host has room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Protocol

import msgspec
from msgspec.structs import replace

from holdfast.engine.runner.environment import PendingCall
from holdfast.engine.runner.observers import RunObserver
from holdfast.engine.runner.runner import Runner
from holdfast.rules.admission import conditions
from holdfast.rules.admission.conditions import Obstacle, Prospect, Provider
from holdfast.vocabulary.specs.services import Dependency
from holdfast.vocabulary.states import ALIVE, Desired

MOST_TOLD = 3
"""So many obstacles are named; the rest is counted."""


class Lines(Protocol):
    """Knows the lines that services printed."""

    def has(self, runner: Runner, pattern: str, *, is_raw: bool) -> bool:
        """Return whether the newest run printed a matching line.

        If not, it calls `Admission.mark` when the line comes.
        """


class NoLines:
    """Knows no line; used until `AwaitedLines` is built."""

    def has(self, runner: Runner, pattern: str, *, is_raw: bool) -> bool:
        return False


class _Edge(msgspec.Struct, frozen=True):
    """A dependency on one service. A dependency on a service with instances is one on each."""

    needed: Dependency
    provider: str


class _Waiting:
    """A start that has not begun."""

    __slots__ = ("_counts", "begin", "runner", "unmet")

    def __init__(self, runner: Runner, begin: Callable[[], None]) -> None:
        self.runner = runner
        self.begin = begin
        self.unmet: dict[_Edge, Obstacle] = {}
        self._counts = [0] * len(Prospect)

    def note(self, edge: _Edge, found: Obstacle | None) -> bool:
        """Note what one dependency lacks now; return whether that changed."""
        before = self.unmet.get(edge)
        if before == found:
            return False
        if before is not None:
            self._counts[before.prospect] -= 1
        if found is not None:
            self.unmet[edge] = found
            self._counts[found.prospect] += 1
        else:
            del self.unmet[edge]
        return True

    def clear(self) -> None:
        self.unmet.clear()
        self._counts = [0] * len(Prospect)

    def prospect(self) -> Prospect:
        return max(prospect for prospect in Prospect if self._counts[prospect])

    def words(self) -> tuple[str, ...]:
        told = tuple(found.words for found in islice(self.unmet.values(), MOST_TOLD))
        more = len(self.unmet) - len(told)
        return (*told, f"{more} more") if more else told


class DependencyAdmission(RunObserver):
    """All starts that wait, and all declared dependencies."""

    def __init__(
        self,
        call_later: Callable[[float, Callable[[], None]], PendingCall],
        is_template: Callable[[str], bool] = lambda name: False,
    ) -> None:
        self.lines: Lines = NoLines()
        self._call_later = call_later
        self._is_template = is_template
        self._runners: dict[str, Runner] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._declared: dict[str, tuple[Dependency, ...]] = {}
        self._dependents: dict[str, dict[str, list[Dependency]]] = {}
        self._instances: dict[str, dict[str, None]] = {}
        self._seen: dict[str, dict[str, str | None]] = {}
        self._calm: set[str] = set()
        self._marked: dict[str, None] = {}
        self._due: dict[str, None] = {}
        self._is_called = False

    # Requests of runners

    def admit(self, runner: Runner, begin: Callable[[], None]) -> None:
        """Begin now, or as soon as nothing is in the way.

        When asked again, only the newest request counts.
        """
        if not runner.declaration.spec.depends_on:
            begin()
            return
        self._waiting[runner.name] = waiting = _Waiting(runner, begin)
        # While services are restored, the services that this one needs may not be known yet.
        if runner.name in self._runners:
            self._examine(waiting)

    def withdraw(self, runner: Runner) -> None:
        """Forget a start that is not wanted any more."""
        self._waiting.pop(runner.name, None)

    # Notes of others

    def mark(self, name: str) -> None:
        """Look again at the services that need this one: something about it changed."""
        self._marked[name] = None
        self._call()

    def calm(self, names: Iterable[str]) -> None:
        """Until `settle`, new runs of these restart no dependent: more of them are coming."""
        self._calm.update(names)

    def settle(self, names: Iterable[str]) -> None:
        for name in names:
            self._calm.discard(name)
            self.mark(name)

    def reason_to_follow(self, runner: Runner) -> str | None:
        """Return why the service should restart: a service that it needs has a new run.

        `calm` is ignored here.
        """
        for needed in runner.declaration.spec.depends_on:
            for name in (self._providers(needed.service) or ()) if needed.restart else ():
                if self._is_new_to(runner.name, needed, self._runners[name]):
                    return _new_run(name)
        return None

    # Changes of services

    def declared(self, runner: Runner) -> None:
        name, spec = runner.name, runner.declaration.spec
        self._runners[name] = runner
        if spec.template is not None:
            self._instances.setdefault(spec.template, {})[name] = None
        if self._declared.get(name) != spec.depends_on:
            is_new = name not in self._declared
            self._forget_edges(name)
            self._declare_edges(runner)
            if not is_new:
                # A new dependency is no reason to restart for an old run.
                self._remember_seen(runner)
        if name in self._waiting:
            self._due[name] = None
            self._call()
        self._look_again(name, spec.template)

    def removed(self, runner: Runner) -> None:
        name, template = runner.name, runner.declaration.spec.template
        self._runners.pop(name, None)
        self._waiting.pop(name, None)
        self._seen.pop(name, None)
        self._forget_edges(name)
        if template is not None and name in self._instances.get(template, ()):
            del self._instances[template][name]
            if not self._instances[template]:
                del self._instances[template]
        self._look_again(name, template)

    def run_began(self, runner: Runner) -> None:
        self.changed(runner)

    def changed(self, runner: Runner) -> None:
        template = runner.declaration.spec.template
        if runner.name in self._dependents or (template and template in self._dependents):
            self.mark(runner.name)

    # Decisions

    def _call(self) -> None:
        # At the end of the turn, when no state changes any more.
        if not self._is_called:
            self._is_called = True
            self._call_later(0, self._work)

    def _work(self) -> None:
        self._is_called = False
        restarts: dict[str, str] = {}
        touched: dict[str, _Waiting] = {}
        while self._due or self._marked or touched:
            while self._due:
                name = next(iter(self._due))
                del self._due[name]
                if (waiting := self._waiting.get(name)) is not None and name in self._runners:
                    self._examine(waiting)
            while self._marked:
                name = next(iter(self._marked))
                del self._marked[name]
                if (provider := self._runners.get(name)) is not None:
                    self._pass_on(provider, touched, restarts)
            # A service that needs many is decided once, after all of them were looked at.
            now, touched = touched, {}
            for name, waiting in now.items():
                if self._waiting.get(name) is waiting:
                    self._decide(waiting)
        for name, reason in restarts.items():
            if (runner := self._runners.get(name)) is not None:
                runner.restart_after(reason)

    def _pass_on(
        self, provider: Runner, touched: dict[str, _Waiting], restarts: dict[str, str]
    ) -> None:
        """Pass the present facts of a service to those that need it."""
        name, facts = provider.name, facts_of(provider)
        template = None if provider.is_leaving else provider.declaration.spec.template
        for needed_name in (name, template):
            for dependent, edges in self._dependents.get(needed_name or "", {}).items():
                waiting = self._waiting.get(dependent)
                for needed in edges:
                    if waiting is not None:
                        found = self._obstacle(needed, provider, facts)
                        if waiting.note(_Edge(needed, name), found):
                            touched[dependent] = waiting
                    elif not needed.restart or name in self._calm:
                        continue
                    elif self._is_new_to(dependent, needed, provider):
                        restarts[dependent] = _new_run(name)

    def _examine(self, waiting: _Waiting) -> None:
        waiting.clear()
        for needed in waiting.runner.declaration.spec.depends_on:
            providers = self._providers(needed.service)
            if providers is None:
                waiting.note(_Edge(needed, needed.service), conditions.missing(needed))
                continue
            for name in providers:
                provider = self._runners[name]
                found = self._obstacle(needed, provider, facts_of(provider))
                waiting.note(_Edge(needed, name), found)
        self._decide(waiting)

    def _decide(self, waiting: _Waiting) -> None:
        runner = waiting.runner
        if waiting.unmet:
            runner.hold_back(waiting.words(), waiting.prospect())
            return
        self._waiting.pop(runner.name, None)
        self._remember_seen(runner)
        waiting.begin()

    def _obstacle(self, needed: Dependency, provider: Runner, facts: Provider) -> Obstacle | None:
        if needed.pattern is not None:
            has_line = self.lines.has(provider, needed.pattern, is_raw=needed.raw)
            facts = replace(facts, has_line=has_line)
        return conditions.obstacle(needed, facts)

    def _providers(self, name: str) -> list[str] | None:
        if name in self._runners:
            return [name]
        if name in self._instances:
            return [
                instance
                for instance in self._instances[name]
                if not self._runners[instance].is_leaving
            ]
        return [] if self._is_template(name) else None

    # New runs of needed services

    def _is_new_to(self, dependent: str, needed: Dependency, provider: Runner) -> bool:
        """Return whether the provider meets the condition with a run that the dependent does not
        know.
        """
        runner = self._runners[dependent]
        if runner.desired is not Desired.RUNNING or runner.state not in ALIVE:
            return False
        seen = self._seen.get(dependent)
        if seen is None:
            seen = self._seen[dependent] = self._restored_seen(runner)
        if seen.get(provider.name) == provider.last_run_id:
            return False
        if self._obstacle(needed, provider, facts_of(provider)) is not None:
            return False
        seen[provider.name] = provider.last_run_id
        return True

    def _remember_seen(self, runner: Runner) -> None:
        self._seen.pop(runner.name, None)
        names = self._restart_providers(runner)
        if names:
            self._seen[runner.name] = {name: self._runners[name].last_run_id for name in names}

    def _restored_seen(self, runner: Runner) -> dict[str, str | None]:
        """Return the runs that a run of an earlier supervisor has seen: all that are older."""
        seen: dict[str, str | None] = {}
        for name in self._restart_providers(runner):
            other = self._runners[name]
            is_younger = (
                other.run is not None
                and runner.run is not None
                and other.run.started_mono > runner.run.started_mono
            )
            seen[name] = None if is_younger else other.last_run_id
        return seen

    def _restart_providers(self, runner: Runner) -> list[str]:
        edges = runner.declaration.spec.depends_on
        return [
            name
            for needed in edges
            if needed.restart
            for name in self._providers(needed.service) or ()
        ]

    # Declared dependencies

    def _declare_edges(self, runner: Runner) -> None:
        edges = self._declared[runner.name] = runner.declaration.spec.depends_on
        for needed in edges:
            dependents = self._dependents.setdefault(needed.service, {})
            dependents.setdefault(runner.name, []).append(needed)
            if needed.restart:
                for provider in self._providers(needed.service) or ():
                    self.mark(provider)

    def _forget_edges(self, name: str) -> None:
        for needed in self._declared.pop(name, ()):
            dependents = self._dependents.get(needed.service)
            if dependents is not None:
                dependents.pop(name, None)
                if not dependents:
                    del self._dependents[needed.service]

    def _look_again(self, name: str, template: str | None) -> None:
        """Look again at starts that wait for a service that was added or removed."""
        for needed in (name, template):
            for dependent in self._dependents.get(needed or "", ()):
                if dependent in self._waiting:
                    self._due[dependent] = None
                    self._call()


def _new_run(name: str) -> str:
    return f"{name} has a new run"


def facts_of(runner: Runner) -> Provider:
    """Return the facts of a runner that conditions ask for."""
    return Provider(
        name=runner.name,
        state=runner.state,
        is_up=runner.run is not None and runner.run.is_up,
        is_wanted=runner.desired is Desired.RUNNING,
        condition=runner.condition,
        waits=runner.prospect if runner.waiting_for else None,
        reason=runner.reason,
    )
