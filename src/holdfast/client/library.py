"""What programs import as `from holdfast import Client, AsyncClient`.

Both ask the commands of the vocabulary over the line door, and answer with its types; the methods
beside `ask` and `stream` only spare some writing. They find the project's Holdfast as the command
line does, and start nothing. When the supervisor is replaced, a command that may be repeated is
asked again, and what is followed goes on where it was.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Mapping, Sequence
from contextlib import aclosing, closing
from json import loads
from typing import Any, Literal, cast

from holdfast import __version__
from holdfast.client.channel import Channel
from holdfast.client.connection import Connection, ConnectionLost, Unreachable
from holdfast.client.discovery import (
    CONNECT_SECONDS,
    HUNG_SECONDS,
    POLL_SECONDS,
    OrphanedServices,
    SupervisorAway,
    check_versions,
    connect,
    connect_unless_down,
    service_environment,
)
from holdfast.system.places import find_places, named_config
from holdfast.vocabulary.codec import Answered, AnswerT, answer_to, event_from, fields_of
from holdfast.vocabulary.command import Command, Effect
from holdfast.vocabulary.errors import NoDaemon, UsageError
from holdfast.vocabulary.events import Event
from holdfast.vocabulary.history import Events
from holdfast.vocabulary.holdfast import Run, RunResult
from holdfast.vocabulary.output import LogLine, Logs, LogsResult, Watch
from holdfast.vocabulary.services import (
    START_SECONDS,
    Outcomes,
    Restart,
    ServiceStatus,
    Start,
    Status,
    StatusResult,
    Stop,
    Wait,
    WaitResult,
)

TRIES = 3
_Item = tuple[bool, dict[str, Any]]
Folder = str | os.PathLike[str]
RestartPolicy = Literal["always", "on_failure", "never"]


class Client:
    """A running Holdfast, for programs that wait for each answer.

    `project` is a folder of the project, the current one by default; `socket` is the path of a line
    door instead, such as one that ssh forwards. Connects when first asked. Several threads may use
    one client.
    """

    def __init__(self, *, project: Folder | None = None, socket: Folder | None = None) -> None:
        self._address = _Address(project, socket)
        self._idle: list[Connection] = []

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. What is being iterated has its own, until its iterator is closed
        or ends."""
        while (connection := self._take()) is not None:
            connection.close()

    def ask(self, command: Answered[AnswerT]) -> AnswerT:
        """Ask one command; returns its typed answer, or raises the error that came instead."""
        fields, may_repeat = _request(cast("Command", command))
        for tries_left in reversed(range(TRIES)):
            connection = self._take() or self._address.connect()
            is_sent = False
            try:
                request = connection.send(command.name, **fields)
                is_sent = True
                result = self._result(connection, request)
            except ConnectionLost:
                connection.close()
                self.close()  # the others led to the same supervisor
                if not tries_left or (is_sent and not may_repeat):
                    raise
            except BaseException:
                connection.close()
                raise
            else:
                self._idle.append(connection)
                return answer_to(command, result)
        raise AssertionError

    def _take(self) -> Connection | None:
        """An idle connection, for the calling thread alone."""
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _result(self, connection: Connection, request: int) -> dict[str, Any]:
        while True:
            try:
                return connection.answer(request, HUNG_SECONDS)
            except TimeoutError:
                self._address.check()

    def stream(self, command: Command) -> Generator[dict[str, Any], None, None]:
        """Ask a command that answers with items; yields them until it ends."""
        with closing(self._address.connect()) as connection:
            yield from connection.stream(command.name, **fields_of(command))

    def services(self, *names: str) -> dict[str, ServiceStatus]:
        """How services are, all of them without names."""
        return self.ask(Status(services=list(names))).services

    def status(self, name: str) -> ServiceStatus:
        """How one service is."""
        return _only(name, self.ask(Status(services=[name])))

    def start(self, *names: str, wait: bool = True, timeout: float = START_SECONDS) -> Outcomes:
        """Start services, all of them without names."""
        return self.ask(Start(services=list(names), wait=wait, timeout=timeout))

    def stop(self, *names: str, grace: float | None = None) -> Outcomes:
        """Stop services, all of them without names."""
        return self.ask(Stop(services=list(names), grace=grace))

    def restart(self, *names: str, wait: bool = True, timeout: float = START_SECONDS) -> Outcomes:
        """Restart services, the only one without names."""
        return self.ask(Restart(services=list(names), wait=wait, timeout=timeout))

    def run(
        self,
        argv: Sequence[str],
        *,
        name: str | None = None,
        working_dir: Folder | None = None,
        environment: Mapping[str, str] | None = None,
        restart_policy: RestartPolicy = "on_failure",
        wait: bool = True,
    ) -> RunResult:
        """Supervise a command, in this program's folder and environment unless they are given."""
        return self.ask(_run(argv, name, working_dir, environment, restart_policy, wait))

    def wait(self, name: str, condition: str = "running", *, timeout: float = 30.0) -> WaitResult:
        """Wait for a condition of the command `wait`; the answer's `met` says if it came."""
        return self.ask(Wait(service=name, condition=condition, timeout=timeout))

    def logs(
        self,
        name: str,
        *,
        follow: bool = False,
        tail: int | None = None,
        since: float | None = None,
        run: int | None = None,
        grep: str | None = None,
        stream: Literal["out", "err"] | None = None,
    ) -> Generator[LogLine, None, None]:
        """Yield lines of a service's output, the last 100 unless something else is chosen.

        With `follow`, go on with what it prints, over restarts and the death of the supervisor,
        until Holdfast is down; of one `run` (-1 is the newest), until that has ended.
        """
        part = {"tail": tail, "since": since, "grep": grep, "stream": stream}
        reading = _LogReading(name, _run_number(run, self.status(name)), part)
        if not follow:
            yield from self._log_lines(reading, ())
            return
        with closing(self._following(lambda: Watch(services=[name]))) as items:
            for is_first, item in items:
                try:
                    if is_first or item.get("exited"):
                        live = _live_runs(self.status(name))
                        yield from self._log_lines(reading, live)
                        if reading.is_over(live):
                            return
                    else:
                        yield from self._log_lines(reading, None)
                except NoDaemon:
                    if not self._is_back():
                        return

    def _log_lines(
        self, reading: _LogReading, live: Collection[int] | None
    ) -> Generator[LogLine, None, None]:
        is_more = True
        while is_more:
            answer = self.ask(reading.command())
            is_more = answer.more
            yield from reading.take(answer, live)

    def events(
        self, *services: str, since: int | None = None, limit: int = 100, follow: bool = False
    ) -> Generator[Event, None, None]:
        """Yield what happened, of all services without names: the newest, or what came after the
        number `since`. With `follow`, go on until Holdfast is down."""
        page = self.ask(Events(services=list(services), since=since, limit=limit))
        yield from map(event_from, page.events)
        place = page.last
        if not follow:
            return
        with closing(
            self._following(lambda: Events(services=list(services), since=place, follow=True))
        ) as items:
            for _, item in items:
                place = item["seq"]
                yield event_from(item)

    def _following(self, command: Callable[[], Command]) -> Generator[_Item, None, None]:
        """Yield items of one supervisor after another, and whether each is the first of its
        supervisor. Ends when Holdfast is down."""
        while True:
            is_first = True
            try:
                with closing(self.stream(command())) as items:
                    for item in items:
                        yield is_first, item
                        is_first = False
            except (SupervisorAway, OrphanedServices):
                raise
            except NoDaemon:
                pass
            if not self._is_back():
                return

    def _is_back(self) -> bool:
        """Wait for the next supervisor; return False if Holdfast is down."""
        return self._address.is_back()


class AsyncClient:
    """A running Holdfast, for asyncio: as `Client`, and a cancelled request is cancelled there.

    Close an iterator that you leave early, with `contextlib.aclosing`, as of every asynchronous
    generator.
    """

    def __init__(self, *, project: Folder | None = None, socket: Folder | None = None) -> None:
        self._address = _Address(project, socket)
        self._channel = Channel(self._address.path)
        self._is_reached = False

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. What is being iterated has its own, until its iterator is closed
        or ends."""
        await self._channel.close()

    async def ask(self, command: Answered[AnswerT]) -> AnswerT:
        """Ask one command; returns its typed answer, or raises the error that came instead."""
        fields, may_repeat = _request(cast("Command", command))
        for tries_left in reversed(range(TRIES)):
            await self._reach()
            try:
                return answer_to(command, loads(await self._text(command.name, fields)))
            except Unreachable as error:
                self._is_reached = False
                is_sent = isinstance(error, ConnectionLost)
                if not tries_left or (is_sent and not may_repeat):
                    raise
        raise AssertionError

    async def _text(self, name: str, fields: dict[str, Any]) -> bytes:
        asking = asyncio.ensure_future(
            self._channel.ask_text(name, fields, None, is_repeatable=False)
        )
        try:
            while not (await asyncio.wait({asking}, timeout=HUNG_SECONDS))[0]:
                await asyncio.to_thread(self._address.check)
            return asking.result()
        finally:
            asking.cancel()

    async def _reach(self) -> None:
        """Find the supervisor, and wait for one that is being relaunched."""
        if not self._is_reached:
            (await asyncio.to_thread(self._address.connect)).close()
            self._is_reached = True

    async def stream(self, command: Command) -> AsyncGenerator[dict[str, Any], None]:
        """Ask a command that answers with items; yields them until it ends."""
        await self._reach()
        channel = Channel(self._address.path)
        try:
            async with aclosing(channel.stream(command.name, fields_of(command), None)) as items:
                async for item in items:
                    yield item
        finally:
            await channel.close()

    async def services(self, *names: str) -> dict[str, ServiceStatus]:
        """How services are, all of them without names."""
        return (await self.ask(Status(services=list(names)))).services

    async def status(self, name: str) -> ServiceStatus:
        """How one service is."""
        return _only(name, await self.ask(Status(services=[name])))

    async def start(
        self, *names: str, wait: bool = True, timeout: float = START_SECONDS
    ) -> Outcomes:
        """Start services, all of them without names."""
        return await self.ask(Start(services=list(names), wait=wait, timeout=timeout))

    async def stop(self, *names: str, grace: float | None = None) -> Outcomes:
        """Stop services, all of them without names."""
        return await self.ask(Stop(services=list(names), grace=grace))

    async def restart(
        self, *names: str, wait: bool = True, timeout: float = START_SECONDS
    ) -> Outcomes:
        """Restart services, the only one without names."""
        return await self.ask(Restart(services=list(names), wait=wait, timeout=timeout))

    async def run(
        self,
        argv: Sequence[str],
        *,
        name: str | None = None,
        working_dir: Folder | None = None,
        environment: Mapping[str, str] | None = None,
        restart_policy: RestartPolicy = "on_failure",
        wait: bool = True,
    ) -> RunResult:
        """Supervise a command, in this program's folder and environment unless they are given."""
        return await self.ask(_run(argv, name, working_dir, environment, restart_policy, wait))

    async def wait(
        self, name: str, condition: str = "running", *, timeout: float = 30.0
    ) -> WaitResult:
        """Wait for a condition of the command `wait`; the answer's `met` says if it came."""
        return await self.ask(Wait(service=name, condition=condition, timeout=timeout))

    async def logs(
        self,
        name: str,
        *,
        follow: bool = False,
        tail: int | None = None,
        since: float | None = None,
        run: int | None = None,
        grep: str | None = None,
        stream: Literal["out", "err"] | None = None,
    ) -> AsyncGenerator[LogLine, None]:
        """Yield lines of a service's output, as `Client.logs` does."""
        part = {"tail": tail, "since": since, "grep": grep, "stream": stream}
        reading = _LogReading(name, _run_number(run, await self.status(name)), part)
        if not follow:
            async for line in self._log_lines(reading, ()):
                yield line
            return
        async with aclosing(self._following(lambda: Watch(services=[name]))) as items:
            async for is_first, item in items:
                try:
                    is_checked = is_first or bool(item.get("exited"))
                    live = _live_runs(await self.status(name)) if is_checked else None
                    async for line in self._log_lines(reading, live):
                        yield line
                    if live is not None and reading.is_over(live):
                        return
                except NoDaemon:
                    if not await self._is_back():
                        return

    async def _log_lines(
        self, reading: _LogReading, live: Collection[int] | None
    ) -> AsyncGenerator[LogLine, None]:
        is_more = True
        while is_more:
            answer = await self.ask(reading.command())
            is_more = answer.more
            for line in reading.take(answer, live):
                yield line

    async def events(
        self, *services: str, since: int | None = None, limit: int = 100, follow: bool = False
    ) -> AsyncGenerator[Event, None]:
        """Yield what happened, as `Client.events` does."""
        page = await self.ask(Events(services=list(services), since=since, limit=limit))
        for fields in page.events:
            yield event_from(fields)
        place = page.last
        if not follow:
            return
        async with aclosing(
            self._following(lambda: Events(services=list(services), since=place, follow=True))
        ) as items:
            async for _, item in items:
                place = item["seq"]
                yield event_from(item)

    async def _following(self, command: Callable[[], Command]) -> AsyncGenerator[_Item, None]:
        """Yield items of one supervisor after another, and whether each is the first of its
        supervisor. Ends when Holdfast is down."""
        while True:
            is_first = True
            try:
                async with aclosing(self.stream(command())) as items:
                    async for item in items:
                        yield is_first, item
                        is_first = False
            except (SupervisorAway, OrphanedServices):
                raise
            except NoDaemon:
                pass
            if not await self._is_back():
                return

    async def _is_back(self) -> bool:
        """Wait for the next supervisor; return False if Holdfast is down."""
        return await asyncio.to_thread(self._address.is_back)


class _Address:
    """Where a Holdfast is: a project, or the socket of a line door."""

    def __init__(self, project: Folder | None, socket: Folder | None) -> None:
        self._places = None
        self._was_reached = False
        if socket is None:
            folder = os.path.abspath(project or ".")
            config = named_config(os.environ) if project is None else None
            self._places = find_places(folder, os.environ, config=config)
            self.path = self._places.line_socket
        elif project is None:
            self.path = os.fspath(socket)
        else:
            raise UsageError("a project and a socket are given", "one of them is enough")

    def connect(self) -> Connection:
        if self._places is not None:
            return connect(self._places)
        deadline = time.monotonic() + (CONNECT_SECONDS if self._was_reached else 0.0)
        while True:
            try:
                return self._connect_socket()
            except Unreachable:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(POLL_SECONDS)

    def _connect_socket(self) -> Connection:
        connection = Connection(self.path)
        try:
            greeting = connection.ask("hello", version=__version__)
            check_versions(__version__, str(greeting.get("version", "")))
        except BaseException:
            connection.close()
            raise
        self._was_reached = True
        return connection

    def check(self) -> None:
        """Raise SupervisorHung if the supervisor answers nobody; return if it is only busy."""
        if self._places is not None:
            connect(self._places).close()

    def is_back(self) -> bool:
        """Wait for the next supervisor; return False if Holdfast is down."""
        if self._places is not None:
            connection = connect_unless_down(self._places)
            if connection is None:
                return False
        else:
            try:
                connection = self.connect()
            except Unreachable:
                return False
        connection.close()
        return True


class _LogReading:
    """How far the log of a service was read."""

    def __init__(self, service: str, run: int | None, part: dict[str, Any]) -> None:
        self._service = service
        self._run = run
        self._part = part
        self._ended: set[tuple[int, str, str]] = set()
        """Lines without an end that were yielded because their run was over. The log tells them
        again until another run begins."""

    def command(self) -> Logs:
        return Logs(service=self._service, run=self._run, **self._part)

    def take(self, answer: LogsResult, live: Collection[int] | None) -> list[LogLine]:
        """Return the lines that are complete, those of runs that are not `live` without their end,
        too; read on behind them. `live` is None: nobody knows."""
        self._part = {**self._part, "cursor": answer.cursor, "tail": None, "since": None}
        complete = len(answer.lines) - (answer.unfinished or 0)
        found = []
        for place, line in enumerate(answer.lines):
            key = (line.run, line.stream, line.text)
            if place < complete:
                if key not in self._ended:
                    found.append(line)
                self._ended.discard(key)
            elif live is not None and line.run not in live and key not in self._ended:
                found.append(line)
                self._ended.add(key)
        return found

    def is_over(self, live: Collection[int]) -> bool:
        """Return whether one run was asked for and prints nothing more."""
        return self._run is not None and self._run not in live


def _request(command: Command) -> tuple[dict[str, Any], bool]:
    """The fields of a command, and whether it may be asked again when a supervisor died over it: a
    reading one as it is, another under the same key, by which it is recognised."""
    fields = fields_of(command)
    if command.effect is Effect.READS:
        return fields, True
    if not command.may_be_done_again():
        return fields, False
    return {**fields, "key": os.urandom(12).hex()}, True


def _run(
    argv: Sequence[str],
    name: str | None,
    working_dir: Folder | None,
    environment: Mapping[str, str] | None,
    restart_policy: RestartPolicy,
    wait: bool,
) -> Run:
    return Run(
        argv=list(argv),
        service=name,
        working_dir=os.path.abspath(working_dir or "."),
        environment=service_environment(os.environ if environment is None else environment)[0],
        restart_policy=restart_policy,
        wait=wait,
    )


def _only(name: str, found: StatusResult) -> ServiceStatus:
    if name not in found.services:
        raise UsageError(f"{name} stands for {', '.join(found.services)}", "ask `services` of it")
    return found.services[name]


def _run_number(run: int | None, status: ServiceStatus) -> int | None:
    """The number of a run that is counted from the end: -1 is the newest."""
    return run if run is None or run > 0 else (status.run or 0) + 1 + run


def _live_runs(status: ServiceStatus) -> list[int]:
    """The numbers of the current run of a service and of the run that replaces it."""
    runs = [status.run] if status.pid is not None and status.run is not None else []
    if status.beside:
        runs.append(status.beside["run"])
    return runs
