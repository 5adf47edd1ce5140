"""Ports of services: leased before a start, passed to the process, kept for the next start.

It asks the inner admission first. A service without ports passes at once. A running service keeps
its ports when a supervisor dies; the keeper remembers them.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.adapters.own_log import logger
from holdfast.adapters.ports.registry import PortRegistry
from holdfast.engine.runner.environment import Admission, KeeperApi
from holdfast.engine.runner.observers import RunObserver
from holdfast.engine.runner.run_slot import RunSlot
from holdfast.engine.runner.runner import Runner
from holdfast.rules import ports as rules
from holdfast.rules.ports import NoPortFree, PortUnavailable
from holdfast.vocabulary.specs.settings import Settings

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import SpawnRequest

STAGE = "port"
_log = logger("ports")

InThread = Callable[[Callable[[], Any], Callable[[Any], None]], None]
"""Calls a function that blocks; the second function gets its result, or the exception."""


def in_thread_of(loop: asyncio.AbstractEventLoop) -> InThread:
    """Return a function that runs blocking calls in one thread, in order: a port that is given up
    and leased again is leased in the end.
    """
    thread = ThreadPoolExecutor(1, "ports")

    def in_thread(work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        def unless_over() -> Any:
            return None if loop.is_closed() else work()

        def ended(future: asyncio.Future[Any]) -> None:
            if not future.cancelled() and not loop.is_closed():
                then(future.exception() or future.result())

        loop.run_in_executor(thread, unless_over).add_done_callback(ended)

    return in_thread


class PortLeases(RunObserver):
    """Admits a start if the inner admission does and its ports are leased."""

    def __init__(
        self,
        inner: Admission,
        registry: PortRegistry,
        keeper: KeeperApi,
        in_thread: InThread,
        describe: Callable[[int], str] | None = None,
    ) -> None:
        self.registry = registry
        self._inner = inner
        self._keeper = keeper
        self._in_thread = in_thread
        self._describe = describe or _described
        self._span = Settings().port_range
        self._asked: dict[str, int] = {}
        self._numbers = itertools.count()
        self._active: set[str] = set()
        self._others: dict[str, rules.Others] = {}
        """The ports of other services that a service asks for, since its last start."""
        self._find: Callable[[str], Runner | None] = lambda name: None

    def find_by(self, find: Callable[[str], Runner | None]) -> None:
        """Look other services up with this function."""
        self._find = find

    def use(self, settings: Settings) -> None:
        self._span = settings.port_range

    def admit(self, runner: Runner, begin: Callable[[], None]) -> None:
        self._asked.pop(runner.name, None)
        if runner.declaration.spec.ports or _references(runner):
            self._inner.admit(runner, lambda: self._lease(runner, begin))
        else:
            self._give_up(runner)
            self._inner.admit(runner, begin)

    def withdraw(self, runner: Runner) -> None:
        self._asked.pop(runner.name, None)
        self._inner.withdraw(runner)

    def spawning(self, runner: Runner, message: SpawnRequest) -> None:
        pass_ports(message, runner.ports or {}, self._others.get(runner.name) or {})

    def candidate_spawning(self, candidate: RunSlot, message: SpawnRequest) -> None:
        pass_ports(message, candidate.ports or {}, self._others.get(candidate.name) or {})

    def changed(self, runner: Runner) -> None:
        if runner.run is None and runner.name in self._active and runner.name not in self._asked:
            self._active.discard(runner.name)
            self._later(partial(self.registry.rest, runner.name))

    def removed(self, runner: Runner) -> None:
        self._others.pop(runner.name, None)
        self._give_up(runner)

    def run_began(self, runner: Runner) -> None:
        if runner.ports:
            self._active.add(runner.name)

    def _lease(self, runner: Runner, begin: Callable[[], None]) -> None:
        number = self._asked[runner.name] = next(self._numbers)
        wanted = dict(runner.declaration.spec.ports)
        others, unknown = self._ports_of_others(runner)

        def lease() -> dict[str, int] | str:
            try:
                # What another service has not leased yet is leased for it, and it gets the same.
                for name, ports in unknown.items():
                    others[name] = self.registry.lease(name, ports, self._span)
                return self.registry.lease(runner.name, wanted, self._span) if wanted else {}
            except PortUnavailable as taken:
                return self._why(taken)
            except NoPortFree:
                return f"no port from {self._span[0]} to {self._span[1]} is free"

        def then(found: Any) -> None:
            if self._asked.get(runner.name) != number:
                return  # it was withdrawn, or asked for again
            del self._asked[runner.name]
            if isinstance(found, dict):
                self._others[runner.name] = others
                if found:
                    self._active.add(runner.name)
                    self._give(runner, found)
                else:
                    self._give_up(runner)
                begin()
            else:
                reason = found if isinstance(found, str) else f"no port was leased: {found}"
                runner.cannot_start(reason, STAGE)

        self._in_thread(lease, then)

    def _ports_of_others(
        self, runner: Runner
    ) -> tuple[dict[str, Mapping[str, int]], dict[str, dict[str, int]]]:
        """Return the known ports of the services that it refers to, and those to be leased."""
        known: dict[str, Mapping[str, int]] = {}
        unknown: dict[str, dict[str, int]] = {}
        for name, _ in _references(runner):
            if (other := self._find(name)) is None:
                continue
            declared = other.declaration.spec.ports
            if other.ports or rules.AUTO not in declared.values():
                known[name] = other.ports or declared
            else:
                unknown[name] = dict(declared)
        return known, unknown

    def _why(self, taken: PortUnavailable) -> str:
        if taken.lease is not None:
            whose = f"{taken.lease.service} of {taken.lease.project}"
            return f"port {taken.port} is leased to {whose}"
        # It is read later, when the holder may be gone: `holdfast ports` tells the present one.
        return f"port {taken.port} was used by {self._describe(taken.port)}"

    def _give_up(self, runner: Runner) -> None:
        if runner.ports:
            self._active.discard(runner.name)
            self._give(runner, None)
            self._later(partial(self.registry.forget, runner.name))

    def _give(self, runner: Runner, ports: dict[str, int] | None) -> None:
        runner.set_ports(ports)

    def _later(self, work: Callable[[], None]) -> None:
        def then(found: Any) -> None:
            if isinstance(found, Exception):
                _log.warning("the registry of ports cannot be written: %s", found)

        self._in_thread(work, then)


def _described(port: int) -> str:
    from holdfast.adapters.ports import holders

    return holders.described(port)


def _references(runner: Runner) -> list[tuple[str, str]]:
    spec = runner.declaration.spec
    return rules.references_in((*spec.argv, *spec.env.values()))


def pass_ports(
    message: SpawnRequest,
    ports: Mapping[str, int],
    others: rules.Others = {},  # noqa: B006
) -> None:
    """Pass its ports to a process: by variables, and where the command asks for them, or for those
    of other services."""
    if not ports and not others:
        return
    message["argv"] = [rules.fill(word, ports, others) for word in message["argv"]]
    filled = {name: rules.fill(value, ports, others) for name, value in message["env"].items()}
    told = {rules.variable(name): str(port) for name, port in ports.items()}
    message["env"] = {**told, **filled}
