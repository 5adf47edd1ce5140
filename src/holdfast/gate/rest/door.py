"""REST: every command that has a route. Decides nothing.

Path, query and body become the fields of one command. The command goes to the line door with the
caller's token, and the answer comes back byte for byte. Streams become server-sent events. When
a client leaves, its request is cancelled at the supervisor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.client.channel import Caller, Channel
from holdfast.gate.callers import ValidTokens, caller_of, with_process
from holdfast.gate.errors import UNPROCESSABLE, problem, refusal
from holdfast.gate.http_limits import is_stranger, prove
from holdfast.gate.rest.arguments import JSON, fields_of, is_well_typed
from holdfast.gate.rest.coalescing import SingleFlight
from holdfast.gate.rest.event_streams import EVENT_STREAM, EventStreams, response
from holdfast.gate.rest.routes import Route, RouteTable, command_routes
from holdfast.vocabulary.command import Effect
from holdfast.vocabulary.errors import HoldfastError, UsageError

WATCH_AFTER_SECONDS = 0.1
"""Requests that take longer are watched, because their clients may leave."""
MOST_AT_ONCE = 4
"""Quick requests that are with the supervisor. A flood of them waits here, out of its way."""
_HEADERS = ((b"content-type", JSON.encode()), (b"cache-control", b"no-store"))


class RestDoor:
    """Middleware that serves the paths of commands and passes everything else on."""

    def __init__(
        self,
        app: ASGIApp,
        channel: Channel,
        new_channel: Callable[[], Channel],
        tokens: ValidTokens,
    ) -> None:
        self._app = app
        self._channel = channel
        self._tokens = tokens
        self._streams = EventStreams(channel, new_channel)
        self._shared = SingleFlight()
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._table = RouteTable(command_routes())

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

    async def _serve(self, route: Route, request: Request, send: Send) -> None:
        disconnect, fields = DisconnectWatch(request.receive), None
        try:
            caller = await with_process(caller_of(request), request)
            await self._check_token(request, caller)
            fields = await fields_of(request, route.command, route.takes)
            if route.fields_from is not None:
                fields = route.fields_from(fields)
            if wants_stream(request, route, fields):
                if "idempotency-key" in request.headers and route.method == "POST":
                    raise UsageError("a key is not for a stream", "ask without `follow`")
                last_id = request.headers.get("last-event-id", "")
                async with self._streams.open(route.command, fields, caller, last_id) as stream:
                    await response(stream)(request.scope, request.receive, send)
                return
            disconnect.watch()
            key = request.headers.get("idempotency-key")
            answer = await self._ask(route, fields, caller, key)
            if route.convert_answer is not None:
                answer = route.convert_answer(answer, fields)
        except HoldfastError as error:
            disconnect.stop()
            is_usage = error.code == UsageError.code and fields is not None
            if is_usage and is_well_typed(fields or {}, route.command):
                failure = problem(error, UNPROCESSABLE)
            else:
                failure = problem(error)
            await failure(request.scope, request.receive, send)
            return
        except asyncio.CancelledError:
            if disconnect.has_left:
                return
            raise
        finally:
            disconnect.stop()
        length = (b"content-length", str(len(answer)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, length]})
        await send({"type": "http.response.body", "body": answer})

    async def _check_token(self, request: Request, caller: Caller) -> None:
        """Raise the supervisor's refusal before the body is read. A visitor without a token may
        be allowed to look."""
        if not caller.token:
            await self._channel.ask("hello", {}, caller, is_repeatable=True)
        elif is_stranger(request.scope):
            # Now, and not with the answer, which may take long.
            await self._tokens.check(caller)
            prove(request.scope, caller.token)

    async def _ask(
        self, route: Route, fields: dict[str, Any], caller: Caller, key: str | None
    ) -> bytes:
        command = route.command
        is_repeatable = command.effect is Effect.READS
        if key is not None and not is_repeatable:
            # The supervisor does it once, however often it is asked with this key.
            fields, is_repeatable = {**fields, "key": key}, True

        async def ask() -> bytes:
            return await self._channel.ask_text(
                command.name, fields, caller, is_repeatable=is_repeatable
            )

        async def ask_in_turn() -> bytes:
            async with self._slots:
                return await ask()

        if not command.is_shared:
            return await ask()
        return await self._shared.ask((caller, command.name, repr(fields)), ask_in_turn)


def wants_stream(request: Request, route: Route, fields: dict[str, Any]) -> bool:
    """Return whether the client wants the answer as a stream."""
    if not route.can_stream:
        return False
    return fields.get("follow") is True or EVENT_STREAM in request.headers.get("accept", "")


class DisconnectWatch:
    """Cancels the task that serves a request when its client has left."""

    __slots__ = ("_receive", "_task", "_timer", "_watching", "has_left")

    def __init__(self, receive: Receive) -> None:
        self.has_left = False
        self._receive = receive
        self._task = asyncio.current_task()
        self._timer: asyncio.TimerHandle | None = None
        self._watching: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Begin. Not before the body is read, because each of two readers would get a part."""
        self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER_SECONDS, self._begin)

    def stop(self) -> None:
        """The request is answered."""
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
