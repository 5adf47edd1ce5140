"""How many bytes of request bodies the gate holds: of strangers, of one token, and in all.

A body of more than `STRANGER_BODY` bytes is read only after the supervisor has accepted the token
of the request. The bytes of a request count until it is answered.
"""

from __future__ import annotations

from collections import Counter

from starlette.requests import HTTPConnection
from starlette.types import Message, Receive, Scope

from holdfast.gate.callers import ValidTokens, caller_of
from holdfast.gate.http_limits import prove
from holdfast.vocabulary.errors import HoldfastError, TooManyRequests

LARGEST_BODY = 8 * 1024 * 1024
STRANGER_BODY = 4 * 1024
"""A login needs less."""
TOKEN_BYTES = 32 * 1024 * 1024
ALL_BYTES = 128 * 1024 * 1024
_AGAIN = "send less at once, or try again in a moment"


class TooLarge(Exception):
    """The body has more bytes than this request may have."""

    def __init__(self, most: int) -> None:
        text = f"{most >> 20} MiB" if most >= 1 << 20 else f"{most >> 10} KiB without a valid token"
        super().__init__(f"a body has at most {text}")


class BodyLimits:
    """The bodies of all requests that are not answered yet."""

    def __init__(self, tokens: ValidTokens) -> None:
        self._tokens = tokens
        self._by_token: Counter[str] = Counter()
        self._total = 0

    async def admit(self, scope: Scope) -> str:
        """Return the token that a large body counts for; raises if there is no valid one."""
        caller = caller_of(HTTPConnection(scope))
        if not caller.token:
            raise TooLarge(STRANGER_BODY)
        await self._tokens.check(caller)
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


class LimitedBody:
    """The body of one request."""

    __slots__ = ("_limits", "_receive", "_scope", "_size", "_taken", "_token", "refusal")

    def __init__(self, limits: BodyLimits, scope: Scope, receive: Receive) -> None:
        self._limits = limits
        self._scope = scope
        self._receive = receive
        self._size = self._taken = 0
        self._token: str | None = None
        self.refusal: Exception | None = None
        """Why the rest of it is not read: TooLarge, or a HoldfastError."""

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request" and (size := len(message.get("body", b""))):
            self._size += size
            if self._size > STRANGER_BODY:
                await self.check(self._size)
                assert self._token is not None
                more, self._taken = self._size - self._taken, self._size
                try:
                    self._limits.take(self._token, more)
                except HoldfastError as error:
                    self.refusal = error
                    raise
        return message

    async def check(self, size: int) -> None:
        """Raises if this request may not have a body of so many bytes."""
        try:
            if size > LARGEST_BODY:
                raise TooLarge(LARGEST_BODY)
            if size > STRANGER_BODY and self._token is None:
                self._token = await self._limits.admit(self._scope)
        except (TooLarge, HoldfastError) as error:
            self.refusal = error
            raise

    def release(self) -> None:
        """The request is answered."""
        if self._token is not None and self._taken:
            self._limits.give_back(self._token, self._taken)
