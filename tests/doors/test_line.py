"""The line door on a real Unix socket: pipelining, streams, cancelling, limits."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine
from pathlib import Path
from typing import Any

from holdfast.doors import line
from holdfast.system.peers import Peer
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.command import Command, Done, Result
from holdfast.vocabulary.errors import Refused


class FakeApplication:
    """Answers some commands in every way that an application can."""

    def __init__(self, role: Role = Role.OWNER) -> None:
        self.role = role
        self.identities = self
        self.release = asyncio.Event()
        self.streaming = 0
        self.answered = 0
        self.is_revoked = False
        self.identified = 0

    def identify(self, peer: Peer) -> Actor:
        self.identified += 1
        assert peer.uid == os.geteuid()
        if self.role is Role.STRANGER:
            raise Refused("another user", "no")
        return Actor(self.role, "test")

    def identify_caller(self, caller: Any, asker: Actor) -> Actor:
        if self.is_revoked:
            raise Refused("revoked", "make another")
        return Actor(Role.VIEWER, "caller")

    def dispatch(self, actor: Actor, command: Command, key: object = None) -> Any:
        match command.name:
            case "status":
                self.answered += 1
                return Done(message="at once")
            case "wait":
                return self._later()
            case "events":
                return self._stream()
            case "ps":
                raise Refused("not now", "later")
            case _:
                raise RuntimeError("a bug of ours")

    async def _later(self) -> Result:
        await self.release.wait()
        return Done(message="later")

    async def _stream(self) -> AsyncGenerator[dict[str, int], None]:
        self.streaming += 1
        try:
            number = 0
            while True:
                yield {"n": number}
                number += 1
                await asyncio.sleep(0)
        finally:
            self.streaming -= 1


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, **frame: Any) -> None:
        self.writer.write(json.dumps(frame).encode() + b"\n")

    async def receive(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await asyncio.wait_for(self.reader.readline(), 30))
        return found


Story = Callable[[Client, FakeApplication], Coroutine[Any, Any, None]]


def with_door(tmp_path: Path, story: Story, role: Role = Role.OWNER) -> None:
    async def run() -> None:
        application = FakeApplication(role)
        door = line.LineDoor(application)  # type: ignore[arg-type]
        path = str(tmp_path / "line.sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        await door.open(listener)
        reader, writer = await asyncio.open_unix_connection(path, limit=32 << 20)
        try:
            await story(Client(reader, writer), application)
        finally:
            writer.close()
            await door.close()

    asyncio.run(run())


def test_who_comes_while_the_door_closes_is_hung_up_on(tmp_path: Path) -> None:
    """It gets no answer, least of all an error of ours: the next supervisor is there for it."""

    async def run() -> None:
        application = FakeApplication()
        door = line.LineDoor(application)  # type: ignore[arg-type]
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / "line.sock"))
        await door.open(listener)
        await door.close()
        # As asyncio does it for a connection that was accepted just before.
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(door._connection, ours)
        reader, writer = await asyncio.open_unix_connection(sock=theirs)
        writer.write(b'{"id":1,"command":"status"}\n{"id":2,"command":"watch"}\n')
        try:
            assert await asyncio.wait_for(reader.read(), 30) == b""
        except ConnectionError:
            pass  # hung up on before it was read
        assert application.answered == 0
        writer.close()
        listener.close()

    asyncio.run(run())


def test_a_slow_command_holds_up_nobody(tmp_path: Path) -> None:
    """Answers come by id, in the order in which they are ready."""

    async def story(client: Client, application: FakeApplication) -> None:
        client.send(id=1, command="wait", service="x")
        client.send(id="two", command="status")
        assert (await client.receive())["id"] == "two"
        application.release.set()
        answer = await client.receive()
        assert answer == {"id": 1, "ok": True, "result": {"message": "later"}}

    with_door(tmp_path, story)


def test_errors_have_code_message_and_hint(tmp_path: Path) -> None:
    """Refusals, unknown commands, bad fields, broken JSON and our own bugs are all answers."""

    async def story(client: Client, application: FakeApplication) -> None:
        client.send(id=1, command="ps")
        client.send(id=2, command="statsu")
        client.send(id=3, command="wait")
        client.writer.write(b"{nonsense\n")
        client.send(id=5, command="hello")
        client.send(id=6)
        answers = [await client.receive() for _ in range(6)]
        codes = [(answer["id"], answer["error"]["code"]) for answer in answers]
        malformed = [(2, "usage"), (3, "usage"), (None, "usage")]
        assert codes == [(1, "refused"), *malformed, (5, "internal"), (6, "usage")]
        assert answers[5]["error"]["message"] == "which command?"
        assert 'did you mean "status"' in answers[1]["error"]["message"]
        assert all("hint" in answer["error"] for answer in answers)

    with_door(tmp_path, story)


def test_a_stream_can_be_cancelled(tmp_path: Path) -> None:
    """Items, then the final answer when its reader cancels; the stream's end is clean."""

    async def story(client: Client, application: FakeApplication) -> None:
        client.send(id=1, command="events", follow=True)
        assert (await client.receive())["item"] == {"n": 0}
        client.send(id=2, command="cancel", target=1)
        while "item" in (answer := await client.receive()):
            pass
        assert answer["id"] == 1
        assert answer["ok"]
        assert (await client.receive())["id"] == 2
        await _until(lambda: not application.streaming)
        client.send(id=3, command="status")
        assert (await client.receive())["id"] == 3

    with_door(tmp_path, story)


def test_a_stream_ends_when_its_caller_is_nobody_any_more(tmp_path: Path) -> None:
    """A token that was revoked meanwhile gets no further item."""

    async def story(client: Client, application: FakeApplication) -> None:
        client.send(id=1, command="events", follow=True, caller={"token": "t"})
        assert "item" in await client.receive()
        application.is_revoked = True

        async def last() -> dict[str, Any]:
            while "item" in (found := await client.receive()):
                pass
            return found

        answer = await asyncio.wait_for(last(), 30)
        assert (answer["ok"], answer["error"]["message"]) == (False, "revoked")
        await _until(lambda: not application.streaming)

    with_door(tmp_path, story)


def test_a_reader_that_does_not_read_holds_a_bounded_amount(tmp_path: Path) -> None:
    """The stream waits for its reader; others are served meanwhile."""

    async def story(client: Client, application: FakeApplication) -> None:
        client.send(id=1, command="events", follow=True)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(0.2)
        transport = next(iter(_connections(application)))._transport
        assert transport.get_write_buffer_size() < 1 << 20
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "line.sock"))
        other = Client(reader, writer)
        other.send(id=1, command="status")
        assert (await other.receive())["ok"]
        writer.close()

    seen: list[set[line.UnixConnection]] = []

    def _connections(application: FakeApplication) -> set[line.UnixConnection]:
        return seen[0]

    original = line.LineDoor.__init__

    def remember(self: line.LineDoor, application: Any) -> None:
        original(self, application)
        seen.append(self._connections)

    line.LineDoor.__init__ = remember  # type: ignore[method-assign]
    try:
        with_door(tmp_path, story)
    finally:
        line.LineDoor.__init__ = original  # type: ignore[method-assign]


def test_hanging_up_ends_the_stream(tmp_path: Path) -> None:
    """A client that goes away leaves nothing running."""

    async def story(client: Client, application: FakeApplication) -> None:
        client.send(id=1, command="events", follow=True)
        await client.receive()
        client.writer.close()
        await _until(lambda: not application.streaming)

    with_door(tmp_path, story)


def test_who_asks_no_more_is_still_answered(tmp_path: Path) -> None:
    """`printf … | nc -U`: also a last line without its end; then the connection is closed."""

    async def story(client: Client, application: FakeApplication) -> None:
        client.send(id=1, command="wait", service="x")
        client.writer.write(b'{"id": 2, "command": "status"}')
        client.writer.write_eof()
        assert (await client.receive())["id"] == 2
        application.release.set()
        assert (await client.receive())["id"] == 1
        assert await asyncio.wait_for(client.reader.read(), 30) == b""

    with_door(tmp_path, story)


def test_nobody_is_turned_away_while_nobody_accepts(tmp_path: Path) -> None:
    """As many may wait at the door as while no supervisor is there."""

    async def story(client: Client, application: FakeApplication) -> None:
        # In one turn of the loop, which accepts none of them meanwhile.
        path = client.writer.get_extra_info("peername")
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(300)]
        try:
            for one in waiting:
                one.setblocking(False)
                one.connect(path)
            await _until(lambda: application.identified == 301)
        finally:
            for one in waiting:
                one.close()

    with_door(tmp_path, story)


def test_a_line_may_be_long_but_not_endless(tmp_path: Path) -> None:
    """Eight mebibytes are the limit; then the door hangs up with a reason."""

    async def story(client: Client, application: FakeApplication) -> None:
        client.send(id=1, command="status", services=["x" * (4 << 20)])
        assert (await client.receive())["ok"]
        client.writer.write(b"y" * (9 << 20))
        assert (await client.receive())["error"]["message"] == "the line is too long"

    with_door(tmp_path, story)


def test_a_stranger_is_refused_at_once(tmp_path: Path) -> None:
    """Another user hears why, and nothing else."""

    async def story(client: Client, application: FakeApplication) -> None:
        assert (await client.receive())["error"]["code"] == "refused"
        assert await client.reader.read() == b""

    with_door(tmp_path, story, Role.STRANGER)


def test_an_id_is_used_once_at_a_time(tmp_path: Path) -> None:
    """A second request with the id of an open one is refused, and so is an id like a list."""

    async def story(client: Client, application: FakeApplication) -> None:
        client.send(id=1, command="wait", service="x")
        client.send(id=1, command="wait", service="x")
        assert "still open" in (await client.receive())["error"]["message"]
        client.send(id=[1], command="status")
        client.send(command="cancel", target={})
        for _ in range(2):
            assert (await client.receive())["error"]["code"] == "usage"
        application.release.set()
        assert (await client.receive())["result"] == {"message": "later"}

    with_door(tmp_path, story)


def test_who_does_not_read_is_not_listened_to(tmp_path: Path) -> None:
    """Requests that nobody reads the answers of do not pile up in our memory."""

    async def story(client: Client, application: FakeApplication) -> None:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        request = b'{"id": 1, "command": "status"}\n' * 1000

        async def flood() -> None:
            while True:
                client.writer.write(request)
                await client.writer.drain()

        flooding = asyncio.ensure_future(flood())
        before = -1
        while application.answered != before:
            before = application.answered
            await asyncio.wait([flooding], timeout=0.2)
            assert not flooding.done()
            assert before < 1_000_000
        flooding.cancel()

    with_door(tmp_path, story)


async def _until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it did not happen")
