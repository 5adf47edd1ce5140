"""How many bytes of request bodies the gate holds: of strangers, of one token, and in all.

A body of more than `STRANGER_BODY` bytes is read only after the supervisor has accepted the token
of the request. The gate itself knows no token, so it asks, and remembers a good answer for a
moment. What a request has sent counts until it is answered.
"""

from __future__ import annotations

import time
from collections import Counter

from starlette.requests import HTTPConnection
from starlette.types import Message, Receive, Scope

from holdfast.client.channel import Caller, Channel
from holdfast.gate.callers import caller_of
from holdfast.gate.http_limits import prove
from holdfast.vocabulary.errors import HoldfastError, TooManyRequests

LARGEST_BODY = 8 * 1024 * 1024
STRANGER_BODY = 4 * 1024
"""A login needs less."""
TOKEN_BYTES = 32 * 1024 * 1024
ALL_BYTES = 128 * 1024 * 1024
KNOWN_SECONDS = 5.0
"""For how long a token that was good is not asked about again; every command asks anyway."""
_MOST_KNOWN = 1000
_AGAIN = "send less at once, or try again in a moment"


class TooLarge(Exception):
    """The body has more bytes than this request may have."""

    def __init__(self, most: int) -> None:
        text = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most >> 10} KiB without a valid token"
        super().__init__(f"a body has at most {text}")


class KnownTokens:
    """Asks the supervisor whether a token is valid, at most once in a while."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._known: dict[Caller, float] = {}

    async def check(self, caller: Caller) -> None:
        """Raises the supervisor's refusal."""
        now = time.monotonic()
        if self._known.get(caller, 0.0) > now:
            return
        await self._channel.ask("hello", {}, caller, is_repeatable=True)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[caller] = now + KNOWN_SECONDS


class Bodies:
    """The bodies of all requests that are not answered yet."""

    def __init__(self, known: KnownTokens) -> None:
        self._known = known
        self._by_token: Counter[str] = Counter()
        self._total = 0

    def of(self, scope: Scope, receive: Receive) -> Body:
        return Body(self, scope, receive)

    async def admit(self, scope: Scope) -> str:
        """The token whose share a large body counts to; raises where there is no valid one."""
        caller = caller_of(HTTPConnection(scope))
        if not caller.token:
            raise TooLarge(STRANGER_BODY)
        await self._known.check(caller)
        prove(scope, caller.token)
        return caller.token

    def take(self, token: str, size: int) -> None:
        self._by_token[token] += size
        self._total += size
        if self._by_token[token] > TOKEN_BYTES:
            raise TooManyRequests("this token sends too much at once", _AGAIN)
        if self._total > ALL_BYTES:
            raise TooManyRequests("too much is sent at once", _AGAIN)

    def give_back(self, token: str, size: int) -> None:
        self._total -= size
        self._by_token[token] -= size
        if self._by_token[token] <= 0:
            del self._by_token[token]


class Body:
    """One of them."""

    __slots__ = ("_bodies", "_receive", "_scope", "_size", "_taken", "_token", "refused")

    def __init__(self, bodies: Bodies, scope: Scope, receive: Receive) -> None:
        self._bodies = bodies
        self._scope = scope
        self._receive = receive
        self._size = self._taken = 0
        self._token: str | None = None
        self.refused: Exception | None = None
        """Why it is not read on: TooLarge, or a HoldfastError."""

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request" and (size := len(message.get("body", b""))):
            self._size += size
            if self._size > STRANGER_BODY:
                await self.check(self._size)
                assert self._token is not None
                more, self._taken = self._size - self._taken, self._size
                try:
                    self._bodies.take(self._token, more)
                except HoldfastError as error:
                    self.refused = error
                    raise
        return message

    async def check(self, size: int) -> None:
        """Raises if a body of so many bytes may not come with this request."""
        try:
            if size > LARGEST_BODY:
                raise TooLarge(LARGEST_BODY)
            if size > STRANGER_BODY and self._token is None:
                self._token = await self._bodies.admit(self._scope)
        except (TooLarge, HoldfastError) as error:
            self.refused = error
            raise

    def release(self) -> None:
        """The request is answered."""
        if self._token is not None and self._taken:
            self._bodies.give_back(self._token, self._taken)
