"""How probes ask: over HTTP, TCP, with a command, or for a line of the log.

Each question is one task of the loop. Owns what the questions share: the threads that read logs,
and the limits on connections and commands at once. Decides nothing about the answers.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from msgspec.structs import replace

from holdfast.adapters import keeper_memory
from holdfast.adapters.own_log import logger
from holdfast.adapters.probes import Finding
from holdfast.adapters.search.matcher import SharedMatcher
from holdfast.engine.output.subscriptions import OutputSubscriptions
from holdfast.engine.runner.observers import MonitoredRun
from holdfast.engine.tasks import Task, Tasks
from holdfast.system import processes
from holdfast.vocabulary.errors import HoldfastError, UsageError
from holdfast.vocabulary.specs.probes import (
    ExecTarget,
    HttpTarget,
    LogTarget,
    McpTarget,
    NotifyTarget,
    ProbeSpec,
    ProcessTarget,
    TcpTarget,
)

MOST_COMMANDS = 32
MOST_CONNECTIONS = 128
LINE_FOUND = "a line matches"
"""The line itself is left out: events hold nothing that a service prints."""
Then = Callable[[Finding], None]
_log = logger("probes")


class ProbeCheck(Protocol):
    """How one probe asks about one run; at most one question at a time."""

    def begin(self) -> None:
        """Prepare: the probe is asked from now on."""

    def ask(self, then: Then) -> None:
        """Ask, and call `then` with the answer, now or later."""

    def drop(self) -> None:
        """Cancel the question under way; `then` is not called."""

    def close(self) -> None:
        """Release everything: the run is over."""


class Prober(Protocol):
    """Opens checks. Tests answer with their own."""

    def open(
        self, runner: MonitoredRun, probe: ProbeSpec, on_answer: Callable[[], None]
    ) -> ProbeCheck:
        """Return how to ask; it calls `on_answer` when there is an answer before the time."""


class ProbeChecks:
    """The real prober: opens the check that fits the target of a probe."""

    def __init__(
        self,
        tasks: Tasks,
        subscriptions: OutputSubscriptions,
        matcher: SharedMatcher,
        loop: asyncio.AbstractEventLoop,
        logs: str,
    ) -> None:
        self.tasks = tasks
        self.subscriptions = subscriptions
        self.loop = loop
        self.logs = logs
        self.matcher = matcher
        self.open_mcp: Callable[[MonitoredRun, ProbeSpec, Callable[[], None]], ProbeCheck]
        """Opens the check of an MCP server; set when those are built."""
        self.commands = asyncio.Semaphore(MOST_COMMANDS)
        self.connections = asyncio.Semaphore(MOST_CONNECTIONS)
        self._threads = ThreadPoolExecutor(2, "probe")

    def open(
        self, runner: MonitoredRun, probe: ProbeSpec, on_answer: Callable[[], None]
    ) -> ProbeCheck:
        match probe.target:
            case HttpTarget() as target:
                return _HttpCheck(self, probe, target)
            case TcpTarget() as target:
                return _TcpCheck(self, probe, target)
            case ExecTarget() as target:
                return _ExecCheck(self, probe, target, runner)
            case LogTarget() as target if "liveness" in probe.roles:
                return _RecentLineCheck(self, probe, target, runner)
            case LogTarget() as target:
                return _LineCheck(self, target, runner, on_answer)
            case ProcessTarget():
                return _ProcessCheck(runner)
            case McpTarget():
                return self.open_mcp(runner, probe, on_answer)
            case NotifyTarget():
                raise AssertionError("notify is answered by the monitor")

    async def in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return await self.loop.run_in_executor(self._threads, call, *arguments)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class _ProcessCheck:
    """Looks whether the main process lives. Its end is noticed at once; this shows that it is
    there, and would find what was missed."""

    def __init__(self, runner: MonitoredRun) -> None:
        self._runner = runner

    def begin(self) -> None:
        """Nothing is to be prepared."""

    def ask(self, then: Then) -> None:
        run = self._runner.run
        found = None if run is None or run.pid is None else processes.live_process(run.pid)
        is_same = (
            found is not None and run is not None and run.start_time in (None, found.start_time)
        )
        if is_same:
            then(Finding(True, "it is running"))
        else:
            then(Finding(False, "its process is gone"))

    def drop(self) -> None:
        """Every question is answered at once."""

    def close(self) -> None:
        """Nothing is open."""


class _TaskCheck:
    """A check that runs as a task, with a deadline for the whole of it."""

    def __init__(self, checks: ProbeChecks, probe: ProbeSpec) -> None:
        self.checks = checks
        self.probe = probe
        self.began = 0.0
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Do nothing: the first question needs no preparation."""

    def ask(self, then: Then) -> None:
        self.began = time.monotonic()
        self._task = self.checks.loop.create_task(self._ask(then))

    def drop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def close(self) -> None:
        self.drop()

    @abstractmethod
    async def answer(self) -> Finding:
        """Return the finding; may be cancelled at any time."""

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
        """Return the finding, or that it took too long.

        It cancels its own task at the deadline: a second task would double the cost.
        """
        task, is_late = self._task, False

        def end() -> None:
            nonlocal is_late
            is_late = True
            if task is not None:
                task.cancel()

        timer = self.checks.loop.call_later(self.probe.timeout, end)
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


class _HttpCheck(_TaskCheck):
    def __init__(self, checks: ProbeChecks, probe: ProbeSpec, target: HttpTarget) -> None:
        super().__init__(checks, probe)
        self._target = target

    async def answer(self) -> Finding:
        from holdfast.adapters.probes import http

        async with self.checks.connections:
            self.began = time.monotonic()
            search = self.checks.matcher.is_in
            return await self.within(http.check(self._target, self.probe.timeout, search))


class _TcpCheck(_TaskCheck):
    def __init__(self, checks: ProbeChecks, probe: ProbeSpec, target: TcpTarget) -> None:
        super().__init__(checks, probe)
        self._target = target

    async def answer(self) -> Finding:
        from holdfast.adapters.probes import tcp

        async with self.checks.connections:
            self.began = time.monotonic()
            return await self.within(tcp.check(self._target))


class _ExecCheck(_TaskCheck):
    def __init__(
        self, checks: ProbeChecks, probe: ProbeSpec, target: ExecTarget, runner: MonitoredRun
    ) -> None:
        super().__init__(checks, probe)
        self._target = target
        self._runner = runner

    async def answer(self) -> Finding:
        """Run the command; it is killed with all its processes at its deadline."""
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
        async with self.checks.commands:
            self.began = time.monotonic()
            result = await self.checks.tasks.run(task)
        if result.is_success:
            return Finding(True, "exit code 0")
        return Finding(False, result.reason)


class _RecentLineCheck(_TaskCheck):
    """Passes while each interval has at least one matching line."""

    def __init__(
        self, checks: ProbeChecks, probe: ProbeSpec, target: LogTarget, runner: MonitoredRun
    ) -> None:
        from holdfast.adapters.probes.log import RecentSearch

        super().__init__(checks, probe)
        self._target = target
        name = runner.declaration.spec.name
        self._search = RecentSearch(
            checks.logs, name, checks.matcher, checks.in_thread, is_raw=target.raw
        )

    def begin(self) -> None:
        self._task = self.checks.loop.create_task(self._search.begin())

    def close(self) -> None:
        super().close()
        self._search.close()

    async def answer(self) -> Finding:
        line = await self._search.look(self._target.pattern)
        if line is not None:
            return Finding(True, LINE_FOUND)
        interval = self.probe.interval
        return Finding(False, f'no line matches "{self._target.pattern}" for {interval:g} s')


class _LineCheck:
    """Passes once a line of the run matches; it searches whenever the log grew."""

    def __init__(
        self,
        checks: ProbeChecks,
        target: LogTarget,
        runner: MonitoredRun,
        on_answer: Callable[[], None],
    ) -> None:
        from holdfast.adapters.probes.log import RunSearch

        self._checks = checks
        self._target = target
        self._on_answer = on_answer
        assert runner.run is not None, "a run is probed only while it lives"
        self._service = runner.name
        self._search = RunSearch(
            checks.logs,
            runner.name,
            runner.run.number,
            checks.matcher,
            checks.in_thread,
            is_raw=target.raw,
        )
        self._stop: Callable[[], None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._has_grown = self._is_closed = False
        self._line: str | None = None
        self._trouble = self._slow = ""

    def begin(self) -> None:
        self._stop = self._checks.subscriptions.call_on_growth(self._service, self._on_growth)

    def ask(self, then: Then) -> None:
        if self._line is not None:
            then(Finding(True, LINE_FOUND))
        else:
            missing = f'no line matches "{self._target.pattern}" yet'
            then(Finding(False, self._trouble or missing))
            if self._trouble != self._slow:
                self._on_growth()

    def drop(self) -> None:
        """Do nothing: every question is answered at once."""

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
            self._task = self._checks.loop.create_task(self._look())

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
            self._on_answer()
        elif self._is_closed:
            self._search.close()
