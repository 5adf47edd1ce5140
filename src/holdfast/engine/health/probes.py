"""How probes ask: HTTP, TCP, a command, a line of the log. One question, one task of the loop.

Owns what they share: threads that read logs, and how many connections and commands there
may be at once. Decides nothing about the answers.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec.structs import replace

from holdfast.adapters import keeper_memory
from holdfast.adapters.own_log import logger
from holdfast.adapters.probes import Finding
from holdfast.adapters.search.matcher import SharedMatcher
from holdfast.engine.health.probe_watch import Check, Then
from holdfast.engine.output.subscriptions import OutputSubscriptions
from holdfast.engine.runner.runner import Runner
from holdfast.engine.tasks import Task, Tasks
from holdfast.vocabulary.errors import HoldfastError, UsageError
from holdfast.vocabulary.specs.probes import (
    ExecTarget,
    HttpTarget,
    LogTarget,
    NotifyTarget,
    ProbeSpec,
    TcpTarget,
)

MOST_COMMANDS = 32
MOST_CONNECTIONS = 128
LINE_FOUND = "a line matches"
"""And not which: what a service prints is no part of events."""
_log = logger("probes")


class ProbeChecks:
    """Opens inquiries."""

    def __init__(
        self,
        tasks: Tasks,
        watches: OutputSubscriptions,
        matcher: SharedMatcher,
        loop: asyncio.AbstractEventLoop,
        logs: str,
    ) -> None:
        self.tasks = tasks
        self.watches = watches
        self.loop = loop
        self.logs = logs
        self.matcher = matcher
        self.commands = asyncio.Semaphore(MOST_COMMANDS)
        self.connections = asyncio.Semaphore(MOST_CONNECTIONS)
        self._threads = ThreadPoolExecutor(2, "probe")

    def open(self, runner: Runner, probe: ProbeSpec, on_told: Callable[[], None]) -> Check:
        match probe.target:
            case HttpTarget() as target:
                return _Http(self, probe, target)
            case TcpTarget() as target:
                return _Tcp(self, probe, target)
            case ExecTarget() as target:
                return _Exec(self, probe, target, runner)
            case LogTarget() as target if "liveness" in probe.roles:
                return _RecentLine(self, probe, target, runner)
            case LogTarget() as target:
                return _LineOfRun(self, target, runner, on_told)
            case NotifyTarget():
                raise AssertionError("what a service says is not asked for")

    async def in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return await self.loop.run_in_executor(self._threads, call, *arguments)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Question:
    """A check that takes its time, with a deadline for the whole of it."""

    def __init__(self, probing: ProbeChecks, probe: ProbeSpec) -> None:
        self.probing = probing
        self.probe = probe
        self.began = 0.0
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Nothing is needed before the first question."""

    def ask(self, then: Then) -> None:
        self.began = time.monotonic()
        self._task = self.probing.loop.create_task(self._ask(then))

    def drop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def close(self) -> None:
        self.drop()

    @abstractmethod
    async def answer(self) -> Finding:
        """What is found; may be cancelled at any time."""

    async def _ask(self, then: Then) -> None:
        try:
            finding = await self.answer()
        except HoldfastError as error:
            finding = Finding(False, error.message)
        except Exception as error:  # noqa: BLE001 - the border to whatever is asked
            _log.exception("a check could not be done")
            finding = Finding(False, f"the check itself failed: {type(error).__name__}")
        self._task = None
        then(replace(finding, seconds=time.monotonic() - self.began))

    async def within(self, work: Awaitable[Finding]) -> Finding:
        """The finding, or that it took too long. A task of its own would double the costs."""
        task, is_late = self._task, False

        def end() -> None:
            nonlocal is_late
            is_late = True
            if task is not None:
                task.cancel()

        timer = self.probing.loop.call_later(self.probe.timeout, end)
        try:
            return await work
        except asyncio.CancelledError:
            if not is_late:
                raise
            return Finding(False, f"no answer within {self.probe.timeout:g} s")
        except OSError as error:
            return Finding(False, error.strerror or str(error))
        finally:
            timer.cancel()


class _Http(_Question):
    def __init__(self, probing: ProbeChecks, probe: ProbeSpec, target: HttpTarget) -> None:
        super().__init__(probing, probe)
        self._target = target

    async def answer(self) -> Finding:
        from holdfast.adapters.probes import http

        async with self.probing.connections:
            self.began = time.monotonic()
            search = self.probing.matcher.is_in
            return await self.within(http.check(self._target, self.probe.timeout, search))


class _Tcp(_Question):
    def __init__(self, probing: ProbeChecks, probe: ProbeSpec, target: TcpTarget) -> None:
        super().__init__(probing, probe)
        self._target = target

    async def answer(self) -> Finding:
        from holdfast.adapters.probes import tcp

        async with self.probing.connections:
            self.began = time.monotonic()
            return await self.within(tcp.check(self._target))


class _Exec(_Question):
    def __init__(
        self, probing: ProbeChecks, probe: ProbeSpec, target: ExecTarget, runner: Runner
    ) -> None:
        super().__init__(probing, probe)
        self._target = target
        self._runner = runner

    async def answer(self) -> Finding:
        """Its own deadline: a command over it is killed with all that it started."""
        declaration, overrides = self._runner.declaration, self._runner.overrides
        spec = declaration.spec
        inherits = spec.environment == "inherit"
        task = Task(
            name=f"probe.{spec.name}",
            argv=self._target.argv,
            working_dir=spec.working_dir,
            timeout=self.probe.timeout,
            env={**spec.env, **(overrides.env_vars if overrides is not None else {})},
            environ=keeper_memory.environ(declaration.environ_key) if inherits else None,
            user=spec.user,
        )
        async with self.probing.commands:
            self.began = time.monotonic()
            result = await self.probing.tasks.run(task)
        if result.is_success:
            return Finding(True, "exit code 0")
        return Finding(False, result.reason)


class _RecentLine(_Question):
    """At least one line in each interval."""

    def __init__(
        self, probing: ProbeChecks, probe: ProbeSpec, target: LogTarget, runner: Runner
    ) -> None:
        from holdfast.adapters.probes.log import RecentSearch

        super().__init__(probing, probe)
        self._target = target
        name = runner.declaration.spec.name
        self._search = RecentSearch(probing.logs, name, probing.matcher, probing.in_thread)

    def begin(self) -> None:
        self._task = self.probing.loop.create_task(self._search.begin())

    def close(self) -> None:
        super().close()
        self._search.close()

    async def answer(self) -> Finding:
        line = await self._search.look(self._target.pattern)
        if line is not None:
            return Finding(True, LINE_FOUND)
        interval = self.probe.interval
        return Finding(False, f'no line matches "{self._target.pattern}" for {interval:g} s')


class _LineOfRun:
    """One line anywhere in the run: looked for whenever the log grew."""

    def __init__(
        self,
        probing: ProbeChecks,
        target: LogTarget,
        runner: Runner,
        on_told: Callable[[], None],
    ) -> None:
        from holdfast.adapters.probes.log import RunSearch

        self._probing = probing
        self._target = target
        self._on_told = on_told
        self._service = runner.name
        self._search = RunSearch(
            probing.logs, runner.name, runner.number, probing.matcher, probing.in_thread
        )
        self._stop: Callable[[], None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._has_grown = self._is_closed = False
        self._line: str | None = None
        self._trouble = self._slow = ""

    def begin(self) -> None:
        self._stop = self._probing.watches.ring(self._service, self._on_growth)

    def ask(self, then: Then) -> None:
        if self._line is not None:
            then(Finding(True, LINE_FOUND))
        else:
            missing = f'no line matches "{self._target.pattern}" yet'
            then(Finding(False, self._trouble or missing))
            if self._trouble != self._slow:
                self._on_growth()

    def drop(self) -> None:
        """The question is answered at once, so nothing is under way."""

    def close(self) -> None:
        self._is_closed = True
        if self._stop is not None:
            self._stop()
            self._stop = None
        if self._task is None:
            self._search.close()

    def _on_growth(self) -> None:
        self._has_grown = True
        if self._task is None and not self._is_closed:
            self._task = self._probing.loop.create_task(self._look())

    async def _look(self) -> None:
        try:
            while self._has_grown and not self._is_closed and self._line is None:
                self._has_grown, self._trouble = False, self._slow
                try:
                    self._line = await self._search.look(self._target.pattern)
                except UsageError as error:
                    self._trouble = self._slow = error.message
                    self._has_grown = True
                except HoldfastError as error:
                    self._trouble = error.message
        except Exception:  # noqa: BLE001 - one log must not stop the others
            _log.exception("%s: its log could not be searched", self._service)
        finally:
            self._task = None
        if self._line is not None and not self._is_closed:
            self.close()
            self._on_told()
        elif self._is_closed:
            self._search.close()
