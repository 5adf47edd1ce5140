"""REST: every command that has a route, made from the registry. Decides nothing.

Path, query and body become the fields of one command, which goes to the line door with the
caller's token; the answer comes back as it is written. Streams are told as server-sent events.
A request whose client leaves is cancelled at the supervisor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.client.channel import Caller, Channel
from holdfast.gate.body_limits import KnownTokens
from holdfast.gate.callers import caller_of
from holdfast.gate.errors import UNFIT, problem, refusal
from holdfast.gate.http_limits import is_stranger, prove
from holdfast.gate.rest.arguments import JSON, fields_of, is_whole
from holdfast.gate.rest.coalescing import Sharing
from holdfast.gate.rest.event_streams import EVENT_STREAM, Stories, response
from holdfast.gate.rest.routes import Table, Way, ways
from holdfast.vocabulary.command import Effect
from holdfast.vocabulary.errors import HoldfastError, UsageError

PATIENCE_SECONDS = 0.1
"""Requests that take longer are watched: their clients may leave."""
MOST_AT_ONCE = 4
"""Quick questions that are with the supervisor: a flood of them waits here, and not in its way."""
_HEADERS = ((b"content-type", JSON.encode()), (b"cache-control", b"no-store"))


class RestDoor:
    """Serves the paths of commands; everything else is for who comes after it."""

    def __init__(
        self,
        app: ASGIApp,
        channel: Channel,
        new_channel: Callable[[], Channel],
        known: KnownTokens,
    ) -> None:
        self._app = app
        self._channel = channel
        self._known = known
        self._stories = Stories(channel, new_channel)
        self._sharing = Sharing()
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._table = Table(ways())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self._table.find(scope["path"]) if scope["type"] == "http" else None
        if found is None:
            await self._app(scope, receive, send)
            return
        methods, scope["path_params"] = found
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        if method in methods:
            await self._serve(methods[method], Request(scope, receive), send)
            return
        allowed = ", ".join(sorted(methods))
        answer = refusal(405, f"{method[:20]} is not for this path", "usage", f"use {allowed}")
        answer.headers["Allow"] = allowed
        await answer(scope, receive, send)

    async def _serve(self, way: Way, request: Request, send: Send) -> None:
        leaving, fields = Leaving(request.receive), None
        try:
            caller = caller_of(request)
            if not caller.token:
                # Refused, and on record, before anything is read; or a visitor who may look.
                await self._channel.ask("hello", {}, caller, is_repeatable=True)
            elif is_stranger(request.scope):
                # At once, not with the answer: that may take long.
                await self._known.check(caller)
                prove(request.scope, caller.token)
            fields = await fields_of(request, way.command, way.takes)
            if way.given is not None:
                fields = way.given(fields)
            if wants_stream(request, way, fields):
                if "idempotency-key" in request.headers and way.method == "POST":
                    raise UsageError("a key is not for a stream", "ask without `follow`")
                about = (way.command, fields, caller, request.headers)
                async with self._stories.told(*about) as story:
                    await response(story)(request.scope, request.receive, send)
                return
            leaving.watch()
            key = request.headers.get("idempotency-key")
            answer = await self._answer(way, fields, caller, key)
            if way.shape is not None:
                answer = way.shape(answer, fields)
        except HoldfastError as error:
            leaving.forget()
            is_unfit = error.code == UsageError.code and fields is not None
            if is_unfit and is_whole(fields or {}, way.command):
                answered = problem(error, UNFIT)
            else:
                answered = problem(error)
            await answered(request.scope, request.receive, send)
            return
        except asyncio.CancelledError:
            if leaving.has_left:
                return
            raise
        finally:
            leaving.forget()
        length = (b"content-length", str(len(answer)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, length]})
        await send({"type": "http.response.body", "body": answer})

    async def _answer(
        self, way: Way, fields: dict[str, Any], caller: Caller, key: str | None
    ) -> bytes:
        command = way.command
        is_repeatable = command.effect is Effect.READS
        if key is not None and not is_repeatable:
            # The supervisor does it once, however often it is asked under this key.
            fields, is_repeatable = {**fields, "key": key}, True

        async def ask() -> bytes:
            return await self._channel.ask_text(
                command.name, fields, caller, is_repeatable=is_repeatable
            )

        async def ask_in_turn() -> bytes:
            async with self._room:
                return await ask()

        if not command.is_shared:
            return await ask()
        return await self._sharing.answer((caller, command.name, repr(fields)), ask_in_turn)


def wants_stream(request: Request, way: Way, fields: dict[str, Any]) -> bool:
    """Whether it is to be told as it happens."""
    if "follow" not in way.command.__struct_fields__ and way.command.name != "logs":
        return False
    return fields.get("follow") is True or EVENT_STREAM in request.headers.get("accept", "")


class Leaving:
    """Cancels the task that serves a request when its client has left."""

    __slots__ = ("_receive", "_task", "_timer", "_watching", "has_left")

    def __init__(self, receive: Receive) -> None:
        self.has_left = False
        self._receive = receive
        self._task = asyncio.current_task()
        self._timer: asyncio.TimerHandle | None = None
        self._watching: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Begin. Not before the body is read: of two readers each would get a part of it."""
        self._timer = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._begin)

    def forget(self) -> None:
        """It is answered."""
        if self._timer is not None:
            self._timer.cancel()
        if self._watching is not None:
            self._watching.cancel()

    def _begin(self) -> None:
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.has_left = True
        if self._task is not None:
            self._task.cancel()
