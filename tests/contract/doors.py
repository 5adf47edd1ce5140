"""Every door of a real Holdfast, as a client that asks one command and tells how it ended."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from websockets.exceptions import ConnectionClosed

from holdfast.client.connection import Connection
from holdfast.gate.rest import routes
from holdfast.vocabulary.command import Door
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.errors import HoldfastError
from tests.gate.ws.client import Place, Ws
from tests.harness import Hold
from tests.scenarios.test_tcp import Wire, free_port

Fields = dict[str, Any]
_CLOSED = {4401: "unauthorized"}


class End(NamedTuple):
    """What a door answered: a result, or the code of a refusal."""

    result: Any
    error: str | None = None


class World(Hold):
    """A Holdfast with its network doors open."""

    def __init__(self) -> None:
        super().__init__(HOLDFAST_TCP="on", HOLDFAST_HTTP="on")
        self.tcp_port, self.http_port = free_port(), free_port()
        self.auditor = ""
        """The token of who reads the records."""

    @property
    def token(self) -> str:
        return (self.state / "admin.token").read_text().strip()


Asks = Callable[[World, str, str, Fields], End]


def by_line(world: World, token: str, command: str, fields: Fields) -> End:
    """As the command line: the Unix socket of the owner, who needs no token."""
    connection = Connection(str(world.runtime / "line.sock"))
    try:
        if token:
            fields = {**fields, "caller": {"token": token, "door": "rest"}}
        return End(connection.ask(command, **fields))
    except HoldfastError as error:
        return End(None, error.code)
    finally:
        connection.close()


def by_mcp(world: World, token: str, command: str, fields: Fields) -> End:
    """As the gate asks for an assistant."""
    connection = Connection(str(world.runtime / "line.sock"))
    try:
        return End(connection.ask(command, **fields, caller={"token": token, "door": "mcp"}))
    except HoldfastError as error:
        return End(None, error.code)
    finally:
        connection.close()


def _by_wire(world: World, token: str, request: Any) -> End:
    with Wire(world.tcp_port) as wire:
        wire.send(f"token {token}", json.dumps(request))
        wire.line()  # whether it was taken; who is not known is refused again
        answer = wire.json()
    return End(answer.get("result"), (answer.get("error") or {}).get("code"))


def by_flat_json(world: World, token: str, command: str, fields: Fields) -> End:
    return _by_wire(world, token, {"command": command, **fields})


def by_tagged_json(world: World, token: str, command: str, fields: Fields) -> End:
    tag = "".join(word.capitalize() for word in command.split("_"))
    return _by_wire(world, token, {tag: fields} if fields else tag)


def by_rest(world: World, token: str, command: str, fields: Fields) -> End:
    route = next(one for one in routes.command_routes() if one.operation == command)
    rest = dict(fields)
    path = route.path
    for name in route.parameters:
        path = path.replace("{" + name + "}", quote(str(rest.pop(name)), safe=""))
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = None
    if route.method == "GET":
        path += "?" + urlencode(rest, doseq=True) if rest else ""
    else:
        body = json.dumps(rest)
    connection = http.client.HTTPConnection("127.0.0.1", world.http_port, timeout=30)
    try:
        connection.request(route.method, path, body, headers)
        answer = connection.getresponse()
        data = json.loads(answer.read())
    finally:
        connection.close()
    return End(data) if answer.status == 200 else End(None, data["code"])


def by_websocket(world: World, token: str, command: str, fields: Fields) -> End:
    async def ask() -> End:
        async with await Ws.open(Place(world.http_port, token)) as ws:
            answer = await ws.ask("command:execute", {"command": command, **fields})
            data = answer["data"]
            if answer["event"] == "error":
                return End(None, data["data"]["code"])
            return End(data["result"])

    try:
        return asyncio.run(ask())
    except ConnectionClosed as closed:
        return End(None, _CLOSED[closed.rcvd.code if closed.rcvd else 0])


DOORS: dict[str, tuple[Door, Asks]] = {
    "line": (Door.CLI, by_line),
    "tagged": (Door.TCP, by_tagged_json),
    "flat": (Door.TCP, by_flat_json),
    "rest": (Door.REST, by_rest),
    "websocket": (Door.WEBSOCKET, by_websocket),
    "mcp": (Door.MCP, by_mcp),
}


def offered(command: str) -> list[str]:
    """The ways in which this command can be given."""
    kind = COMMANDS[command]
    return [
        name
        for name, (door, _) in DOORS.items()
        if door in kind.doors and not (name == "rest" and kind.route is None)
    ]
