"""`/ws`: the commands and events of Holdfast over one connection, both ways.

The first frame is `auth`, or a token came with the request. Decides nothing: every request
becomes a command with the caller's token. Every task has its connection as owner, and ends
with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from starlette.requests import HTTPConnection
from starlette.types import Receive, Scope, Send

from holdfast.client.channel import Caller, Channel
from holdfast.gate.callers import caller_of
from holdfast.gate.http_limits import prove
from holdfast.gate.ws.accounts import Rooms
from holdfast.gate.ws.connection import Connection, Hall
from holdfast.gate.ws.keyboards import Keyboards
from holdfast.gate.ws.output_feeds import Feeds
from holdfast.gate.ws.status_feed import Conditions
from holdfast.gate.ws.viewer import House

DOOR = "websocket"
PROTOCOL = "holdfast"
TOKEN_PROTOCOL = "holdfast.token."  # noqa: S105 - the name of it
PAGE_PROTOCOL = "holdfast.page."
"""What a page of ours adds to its cookie: a browser sends no header of ours here."""


class WebSocketDoor:
    """All connections of the gate."""

    def __init__(self, channel: Channel, new_channel: Callable[[], Channel]) -> None:
        self._hall = Hall(
            channel=channel,
            new_channel=new_channel,
            feeds=Feeds(new_channel),
            rooms=Rooms(channel, new_channel),
            house=House(Conditions(new_channel), Keyboards()),
            connections=set(),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        offered: list[str] = scope.get("subprotocols") or []
        connection = Connection(self._hall, receive, send, partial(prove, scope))
        await connection.run(_caller(scope, offered), _chosen(offered))


def _caller(scope: Scope, offered: list[str]) -> Caller | None:
    """Who came with a token: in a header, in a cookie, or as a subprotocol."""
    for name in offered:
        if name.startswith(TOKEN_PROTOCOL):
            return Caller(name[len(TOKEN_PROTOCOL) :], DOOR)
    pages = [name for name in offered if name.startswith(PAGE_PROTOCOL)]
    page = pages[0][len(PAGE_PROTOCOL) :] if pages else ""
    caller = caller_of(HTTPConnection(scope), DOOR, page)
    return caller if caller.token else None


def _chosen(offered: list[str]) -> str | None:
    """A browser wants one of those that it offered; better one without a secret."""
    if PROTOCOL in offered:
        return PROTOCOL
    secret = (TOKEN_PROTOCOL, PAGE_PROTOCOL)
    return next((name for name in offered if name.startswith(secret)), None)
