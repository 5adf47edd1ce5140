"""The Unix socket of the relays: one connection each, lines of JSON in both directions.

The first line of a connection holds its token and the tools that it wants; everything after it
belongs to the protocol. A relay without a valid token gets an error and is disconnected.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import anyio
import msgspec
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_dual_era_loop, serve_loop
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import CONNECTION_CLOSED, JSONRPCError, jsonrpc_message_adapter

import holdfast
from holdfast.client.channel import Caller, Channel
from holdfast.client.connection import Unreachable
from holdfast.gate.mcp.call import McpClient
from holdfast.system import deadlines
from holdfast.vocabulary.errors import HoldfastError, UsageError
from holdfast.vocabulary.specs.mcp import McpSpec

GREETING_SECONDS = 10.0
HOLD_AGAIN_SECONDS = 0.2
_NO_MESSAGE = -32700
_NO_REQUEST = -32600
_log = logging.getLogger(__name__)


class Greeting(msgspec.Struct, frozen=True):
    """The first line of a relay."""

    token: str
    read_only: bool = False
    toolsets: tuple[str, ...] | None = None
    server: str | None = None


class Relays:
    """All connections of relays."""

    def __init__(
        self, server: Server[Any], channel: Channel, line_socket: str, offer: McpSpec
    ) -> None:
        self._server = server
        self._channel = channel
        self._line_socket = line_socket
        self._offer = offer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            greeted = await self._greet(reader, writer)
            if greeted is not None:
                await self._stay(*greeted, reader, writer)
        except (OSError, ValueError, asyncio.IncompleteReadError) as error:
            _log.info("a relay was lost: %s", error)
        finally:
            writer.close()

    async def _greet(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> tuple[McpClient, SessionHold] | None:
        """Welcome a relay once its session is held: another connection of the same relay that ends
        only now would close it."""
        hold: SessionHold | None = None
        try:
            line = await deadlines.wait_for(reader.readline(), GREETING_SECONDS)
            if not line:
                return None
            client = self._client(line)
            if client.server is not None:
                await client.ask("mcp_servers", services=[client.server])
            hold = SessionHold(self._line_socket, client.caller)
            await deadlines.wait_for(hold.is_taken(), GREETING_SECONDS)
        except (HoldfastError, TimeoutError) as error:
            known = error if isinstance(error, HoldfastError) else UsageError("no greeting came")
            writer.write(json.dumps({"error": known.as_fields()}).encode() + b"\n")
            await writer.drain()
            if hold is not None:
                await hold.end()
            return None
        # The relay lists the tools itself, if it is of the same version.
        welcome = {"ok": True, "version": holdfast.__version__, "offer": client.offer.offer()}
        writer.write(json.dumps(welcome).encode() + b"\n")
        return client, hold

    def _client(self, line: bytes) -> McpClient:
        try:
            greeting = msgspec.json.decode(line, type=Greeting)
        except msgspec.MsgspecError as error:
            raise UsageError(f"not a greeting: {error}") from None
        caller, offer = Caller(greeting.token, "mcp"), narrow(self._offer, greeting)
        return McpClient(self._channel, caller, offer, is_relayed=True, server=greeting.server)

    async def _stay(
        self,
        client: McpClient,
        hold: SessionHold,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Hold the session for as long as the relay is connected."""
        speaking = asyncio.get_running_loop().create_task(self._speak(client, reader, writer))
        try:
            both: list[asyncio.Future[None]] = [hold.task, speaking]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if speaking.done():
                speaking.result()
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)
            await self._leave(client, hold)

    async def _leave(self, client: McpClient, hold: SessionHold) -> None:
        """Close the session if nothing runs for it and nobody else holds it, such as the relay that
        connected again meanwhile; otherwise it ends after its grace."""
        try:
            if hold.name is not None and not hold.task.done():
                await client.ask("close_session", hold=hold.name)
        except HoldfastError as error:
            _log.info("a session was not closed: %s", error.message)
        finally:
            await hold.end()

    async def _speak(
        self, client: McpClient, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Speak the protocol until either side leaves."""
        incoming, outgoing = Incoming(reader, writer, client), Outgoing(writer)
        if await incoming.begins_with("initialize"):
            # The same as below for a client that shakes hands, without parsing messages twice.
            await serve_loop(self._server, incoming, outgoing, lifespan_state={})
        else:
            await serve_dual_era_loop(self._server, incoming, outgoing, lifespan_state={})


class SessionHold:
    """Holds the session of a relay open, also at the next supervisor."""

    def __init__(self, line_socket: str, caller: Caller) -> None:
        loop = asyncio.get_running_loop()
        self.name: str | None = None
        """The supervisor's name for it; None while no supervisor has it."""
        self._line_socket = line_socket
        self._caller = caller
        self._taken: asyncio.Future[None] = loop.create_future()
        self.task = loop.create_task(self._hold())
        """Done when the session is over."""

    async def is_taken(self) -> None:
        """Wait for the supervisor; raises what it refuses the hold with."""
        await asyncio.shield(self._taken)

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self._taken.cancel()

    async def _hold(self) -> None:
        while True:
            channel = Channel(self._line_socket)
            try:
                async for item in channel.stream("hold_session", {}, self._caller):
                    self.name = item["hold"]
                    if not self._taken.done():
                        self._taken.set_result(None)
                return
            except Unreachable:
                self.name = None
                await asyncio.sleep(HOLD_AGAIN_SECONDS)
            except HoldfastError as error:
                if not self._taken.done():
                    self._taken.set_exception(error)
                return
            finally:
                await channel.close()


class Incoming:
    """The messages of a client; each carries the client."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client: McpClient
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._metadata = ServerMessageMetadata(request_context=client)
        self._first: SessionMessage | None = None

    async def begins_with(self, method: str) -> bool:
        """Return whether the first request has this method; it is received again afterwards."""
        try:
            self._first = await self.receive()
        except anyio.EndOfStream:
            return False
        return getattr(self._first.message, "method", None) == method

    async def receive(self) -> SessionMessage:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        while line := await self._reader.readline():
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                self._writer.write(parse_failure(line))
                continue
            return SessionMessage(message, self._metadata)
        raise anyio.EndOfStream

    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """`serve` closes the connection."""

    async def __aenter__(self) -> Incoming:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


class Outgoing:
    """The messages to a client."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def send(self, item: SessionMessage, /) -> None:
        if isinstance(item.message, JSONRPCError) and item.message.error.code == CONNECTION_CLOSED:
            return  # the relay gets no answer, so it connects and asks again
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        self._writer.write(text.encode() + b"\n")
        try:
            await self._writer.drain()
        except OSError:
            raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        """`serve` closes the connection."""

    async def __aenter__(self) -> Outgoing:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


def parse_failure(line: bytes) -> bytes:
    """Return the answer to a malformed message. It has the message's id, if there is one, because
    the client waits for that."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    number = message.get("id") if isinstance(message, dict) else None
    is_known = isinstance(number, (str, int)) and not isinstance(number, bool)
    code, text = _NO_MESSAGE, "this is no JSON-RPC"
    if is_known:
        code, text = _NO_REQUEST, "this is no request of JSON-RPC, or its text is no Unicode"
    number = number if is_known else None
    failure = {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": text}}
    return msgspec.json.encode(failure) + b"\n"


def narrow(offer: McpSpec, greeting: Greeting) -> McpSpec:
    """Return the configured offer, reduced to what the client wants."""
    wanted = offer.toolsets if greeting.toolsets is None else greeting.toolsets
    return msgspec.structs.replace(
        offer,
        read_only=offer.read_only or greeting.read_only,
        toolsets=tuple(name for name in offer.toolsets if name in wanted),
    )
