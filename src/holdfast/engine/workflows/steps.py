"""The steps of workflows: a command to run, or a command of Holdfast itself.

A step returns how it went and never raises for what it does. The first kind runs as a task of the
keeper; the second is what any door could ask for.
"""

from __future__ import annotations

import asyncio
import base64
import os
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.run_ids import new_run_id
from holdfast.engine.runner.runner import Runner
from holdfast.engine.tasks import Task, TaskResult, Tasks
from holdfast.secrets.redaction import redact, shorten_masks
from holdfast.vocabulary.command import Command, Result
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.instances import RollingResult
from holdfast.vocabulary.quantities import format_duration
from holdfast.vocabulary.services import Outcome, WaitResult
from holdfast.vocabulary.workflows import StepResult

if TYPE_CHECKING:
    from holdfast.logbook.entries import Stream
    from holdfast.rules.workflows import Prepared
    from holdfast.secrets.log_redaction import StreamMask, StreamPart

OnOutput = Callable[[str, bytes], None]
Perform = Callable[[Command], Awaitable[Result]]
StepOutcome = Literal["done", "failed", "timeout", "cancelled", "skipped"]
TAIL_CHARACTERS = 8 * 1024
_PATIENCE_SECONDS = 0.1


class CommandContext(msgspec.Struct, frozen=True):
    """Where and with what a command is run."""

    working_dir: str
    env: dict[str, str] = {}
    environ: str | None = None
    user: str | None = None

    @classmethod
    def of(cls, runner: Runner) -> CommandContext:
        """Return that of a service."""
        spec = runner.declaration.spec
        environ = keeper_memory.environ(runner.declaration.environ_key)
        return cls(
            spec.working_dir,
            spec.env,
            environ if spec.environment == "inherit" else None,
            spec.user,
        )


class WorkflowStep:
    """One step."""

    def __init__(self, what: str, part: str = "") -> None:
        self.what = what
        """A text that may be shown."""
        self.part = part
        self.run_id: str | None = None
        """The run id of its task."""

    @abstractmethod
    async def do(self, seconds: float | None, on_output: OnOutput) -> StepResult:
        """Do it in at most so many seconds."""

    def result(self, outcome: StepOutcome, **facts: Any) -> StepResult:
        return StepResult(what=self.what, part=self.part, outcome=outcome, **facts)


class CommandStep(WorkflowStep):
    """Runs a command to its end."""

    def __init__(
        self,
        tasks: Tasks,
        prepared: Prepared,
        around: CommandContext,
        *,
        part: str = "",
        env: dict[str, str] | None = None,
        beneath: str | None = None,
    ) -> None:
        super().__init__(prepared.what, part)
        self._beneath = beneath
        self._tasks = tasks
        self.run_id = new_run_id()
        self._prepared = prepared
        self._around = around
        self._env = env or {}

    async def do(self, seconds: float | None, on_output: OnOutput) -> StepResult:
        prepared, around = self._prepared, self._around
        timeout = prepared.timeout if seconds is None else min(prepared.timeout, seconds)
        task = Task(
            name="command",
            argv=prepared.argv,
            working_dir=os.path.join(around.working_dir, prepared.working_dir or ""),
            timeout=timeout,
            env={**around.env, **prepared.env, **self._env},
            environ=around.environ,
            user=around.user,
            beneath=self._beneath,
            on_output=(told := MaskedOutput(on_output)).add,
            run_id=self.run_id,
        )
        try:
            ended = await self._tasks.run(task)
        finally:
            told.finish()
        return self.result(
            _outcome_of(ended),
            exit_code=None if ended.is_timeout else ended.code,
            signal=None if ended.is_timeout else ended.signal,
            seconds=ended.seconds,
            out=_tail(ended.out),
            err=_tail(ended.err),
            reason=_reason_of(ended, timeout),
        )


class MaskedOutput:
    """Passes the output of a command to those who follow it, without secrets."""

    def __init__(self, on_output: OnOutput) -> None:
        from holdfast.logbook.entries import STREAMS
        from holdfast.secrets.log_redaction import StreamMask

        self._on_output = on_output
        self._masks: dict[Stream, StreamMask] = {name: StreamMask() for name in STREAMS}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, stream: str, data: bytes) -> None:
        from holdfast.logbook.entries import Chunk

        name: Stream = "out" if stream == "out" else "err"
        self._pass_on(name, self._masks[name].feed(Chunk(None, name, data, 0, 0)))
        if self._timer is None and self._masks[name].held is not None:
            # The rest of the line may complete a secret, but a line may never end.
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_PATIENCE_SECONDS, self.finish)

    def finish(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for name, mask in self._masks.items():
            self._pass_on(name, mask.flush())

    def _pass_on(self, stream: Stream, parts: list[StreamPart]) -> None:
        if parts:
            data = b"".join([part.data for part in parts])
            self._on_output(stream, shorten_masks(data))


class OwnStep(WorkflowStep):
    """Does what a command of the vocabulary does."""

    def __init__(self, perform: Perform, command: Command, what: str, part: str = "") -> None:
        super().__init__(what, part)
        self._perform = perform
        self._command = command

    async def do(self, seconds: float | None, on_output: OnOutput) -> StepResult:
        loop = asyncio.get_running_loop()
        began = loop.time()
        doing = asyncio.ensure_future(self._perform(self._command))
        # What has begun with services is finished, even if nobody waits for it.
        try:
            done, _ = await asyncio.wait([doing], timeout=seconds)
        finally:
            doing.add_done_callback(_retrieve_exception)
        took = round(loop.time() - began, 3)
        if not done:
            reason = f"not within {format_duration(seconds or 0)}; it goes on"
            return self.result("timeout", seconds=took, reason=reason)
        try:
            failure = _failure_in(doing.result())
        except HoldfastError as error:
            failure = error.message
        return self.result("failed" if failure else "done", seconds=took, reason=failure)


def output_item(stream: str, data: bytes) -> dict[str, Any]:
    """Return a piece of output for a follower."""
    try:
        return {"kind": "output", "stream": stream, "text": data.decode()}
    except UnicodeDecodeError:
        return {"kind": "output", "stream": stream, "data": base64.b64encode(data).decode()}


def _retrieve_exception(doing: asyncio.Future[Result]) -> None:
    if not doing.cancelled():
        doing.exception()


def _outcome_of(ended: TaskResult) -> StepOutcome:
    if ended.is_timeout:
        return "timeout"
    return "done" if ended.is_success else "failed"


def _reason_of(ended: TaskResult, timeout: float) -> str | None:
    if ended.is_success:
        return None
    if ended.is_timeout:
        return f"took longer than {format_duration(timeout)}; all its processes were killed"
    return ended.reason


def _tail(data: bytes) -> str:
    return redact(data.decode(errors="replace"))[-TAIL_CHARACTERS:]


def _failure_in(result: Result) -> str | None:
    """Return why a result means failure; None if it does not."""
    if isinstance(result, WaitResult):
        return None if result.met else f"{result.service} is {result.status}"
    if isinstance(result, RollingResult) and result.reason is not None:
        return result.reason
    services = getattr(result, "services", None)
    reasons = [
        f"{name}: {outcome.reason or outcome.status}"
        for name, outcome in (services.items() if isinstance(services, dict) else ())
        if isinstance(outcome, Outcome) and outcome.outcome == "failed"
    ]
    return "; ".join(reasons) or None
