"""Commands that are expected to end: probes, hooks, workflow steps. One call, one result.

The keeper creates the process and hands over its pipes; nothing is recorded. A task over its time
is ended with its whole tree, and the result comes when no process is left. Its lease ends it if
this supervisor dies. Only the tail of its output is kept.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.adapters.keeper_link import KeeperLink
from holdfast.adapters.run_ids import new_run_id
from holdfast.adapters.succession import close_all
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.quantities import signal_name

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import ExitNotice, Notice, Reply, SpawnRequest

TAIL_BYTES = 64 * 1024
_LEASE_MARGIN_SECONDS = 10.0
_END_SECONDS = 10.0
_PIPE_SECONDS = 0.5


class Confinement(msgspec.Struct, frozen=True):
    """The only files and folders that a task may reach, enforced by the kernel (Landlock)."""

    read: tuple[str, ...]
    """May be read and executed."""
    write: tuple[str, ...]
    """May be read and written, not executed."""
    open: dict[str, str] = {}
    """Folders that it gets as open descriptors, by the environment variable with their path."""


class Task(msgspec.Struct, frozen=True):
    """A command to run to its end."""

    name: str
    """The name in `ps` and in Holdfast's own log."""
    argv: tuple[str, ...]
    working_dir: str
    timeout: float
    env: dict[str, str] = {}
    environ: str | None = None
    """Key of the environment in the keeper's memory that it starts with."""
    user: str | None = None
    beneath: str | None = None
    """The folder that it must run below, wherever links lead."""
    on_output: Callable[[str, bytes], bool | None] | None = None
    """Called with stream (out, err) and bytes.

    If it returns True, the task is ended and its result says killed.
    """
    run_id: str | None = None
    """Set by a caller that wants to find it again after a supervisor's death."""
    confinement: Confinement | None = None
    """None: it may reach whatever the user may."""


class TaskResult(msgspec.Struct, frozen=True):
    """How a task ended. Without code and signal it could not be started, or is unknown."""

    code: int | None
    signal: str | None
    is_timeout: bool
    seconds: float
    out: bytes
    """The tail of its output."""
    err: bytes
    error: str | None = None
    """Why it could not be started."""

    @property
    def is_success(self) -> bool:
        return self.code == 0 and not self.is_timeout and self.error is None

    @property
    def reason(self) -> str:
        """The ending in words."""
        if self.error is not None:
            return self.error
        if self.is_timeout:
            return f"took longer than its timeout and was killed after {self.seconds:.1f} s"
        if self.signal is not None:
            return f"killed by {self.signal}"
        return "exit code unknown" if self.code is None else f"exit code {self.code}"


class _Tail(asyncio.Protocol):
    """The last bytes of one stream."""

    def __init__(
        self,
        stream: str,
        on_output: Callable[[str, bytes], bool | None] | None,
        on_enough: Callable[[], None],
    ) -> None:
        self.data = bytearray()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stream = stream
        self._on_output = on_output
        self._on_enough = on_enough

    def data_received(self, data: bytes) -> None:
        self.data += data
        if len(self.data) > 2 * TAIL_BYTES:
            del self.data[:-TAIL_BYTES]
        if self._on_output is not None and self._on_output(self._stream, data):
            self._on_output = None
            self._on_enough()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


class _Live:
    """A task whose processes may exist."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.exit: asyncio.Future[ExitNotice] = loop.create_future()
        self.gone: asyncio.Future[None] = loop.create_future()


class Tasks:
    """Runs tasks, any number at once."""

    def __init__(self, link: KeeperLink, loop: asyncio.AbstractEventLoop) -> None:
        self._link = link
        self._loop = loop
        self._live: dict[str, _Live] = {}
        self._left: set[str] = set()
        """Tasks of an earlier supervisor that are being ended."""

    def end_leftovers(self, runs: list[dict[str, Any]]) -> None:
        """End the tasks of an earlier supervisor: nobody waits for them any more."""
        for run in runs:
            if run.get("kind") == "task":
                self._left.add(run["run_id"])
                self._end(run["run_id"])

    def on_notice(self, notice: Notice) -> bool:
        """Take an exit or an end of a task; return whether it was one of ours."""
        if notice["notice"] not in ("exit", "ended"):
            return False
        run_id = notice["run_id"]
        if run_id in self._left:
            if notice["notice"] == "exit":
                self._link.forget([run_id])
            if notice["notice"] == "ended" or notice.get("empty", True):
                self._left.discard(run_id)
            return True
        live = self._live.get(run_id)
        if live is None:
            return False
        if notice["notice"] == "exit":
            self._link.forget([notice["run_id"]])
            if not live.exit.done():
                live.exit.set_result(notice)
        if (notice["notice"] == "ended" or notice.get("empty", True)) and not live.gone.done():
            live.gone.set_result(None)
        return True

    async def run(self, task: Task) -> TaskResult:
        """Run it to its end; returns when no process of it is left. Cancelling ends it."""
        run_id, live = task.run_id or new_run_id(), _Live(self._loop)
        self._live[run_id] = live
        work = self._loop.create_task(self._run(task, run_id, live))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self._end(run_id)
            raise

    async def _run(self, task: Task, run_id: str, live: _Live) -> TaskResult:
        began = monotonic()
        try:
            reply = await self._link.ask(_spawn_message(task, run_id))
        except HoldfastError as error:
            del self._live[run_id]
            return TaskResult(None, None, False, 0.0, b"", b"", error.message)
        tails: list[_Tail] = []
        transports: list[asyncio.ReadTransport] = []
        is_timeout = False
        try:
            await self._open(reply["spares"], task, run_id, tails, transports)
            done, _ = await asyncio.wait(
                [live.exit], timeout=max(0.0, began + task.timeout - monotonic())
            )
            is_timeout = not done
            if is_timeout:
                self._end(run_id)
                await asyncio.wait([live.exit], timeout=_END_SECONDS)
            await asyncio.wait([live.gone], timeout=_END_SECONDS)
            # The rest of the pipe; another process that inherited it may hold it open for ever.
            await asyncio.wait([tail.done for tail in tails], timeout=_PIPE_SECONDS)
        finally:
            self._live.pop(run_id, None)
            for transport in transports:
                transport.close()
        facts = live.exit.result() if live.exit.done() else None
        number = facts.get("signal") if facts is not None else None
        out, err = (bytes(tail.data[-TAIL_BYTES:]) for tail in tails)
        seconds = round(monotonic() - began, 3)
        signal = signal_name(number) if number else None
        code = facts.get("code") if facts is not None else None
        return TaskResult(code, signal, is_timeout, seconds, out, err)

    async def _open(
        self,
        fds: dict[str, int],
        task: Task,
        run_id: str,
        tails: list[_Tail],
        transports: list[asyncio.ReadTransport],
    ) -> None:
        for stream in ("out", "err"):
            tail = _Tail(stream, task.on_output, lambda: self._end(run_id))
            tails.append(tail)
            file = os.fdopen(fds.pop(stream), "rb", 0)
            transport, _ = await self._loop.connect_read_pipe(lambda tail=tail: tail, file)  # type: ignore[misc]
            transports.append(transport)
        close_all(list(fds.values()))

    def _end(self, run_id: str) -> None:
        self._link.request({"do": "end", "run_id": run_id, "grace": 0.0}, _ignore)


def _spawn_message(task: Task, run_id: str) -> SpawnRequest:
    message: SpawnRequest = {
        "do": "spawn",
        "run_id": run_id,
        "service": f"holdfast.{task.name}",
        "number": 0,
        "kind": "task",
        "hidden": True,
        "argv": list(task.argv),
        "env": dict(task.env),
        "cwd": task.working_dir,
        "stdin": "null",
        "stop": {"signal": 15, "grace": 0.0},
        "lease": {"seconds": task.timeout + _LEASE_MARGIN_SECONDS, "kind": "job"},
    }
    if task.environ is not None:
        message["environ"] = task.environ
    if task.user is not None:
        message["user"] = task.user
    if task.beneath is not None:
        message["beneath"] = task.beneath
    if task.confinement is not None:
        message["confine"] = msgspec.to_builtins(task.confinement)
    return message


def _ignore(_: Reply) -> None:
    """Do nothing: it does not matter whether it had ended by itself."""
