"""REST: every command that has a route, made from the registry. Decides nothing.

Path, query and body become the fields of one command, which goes to the line door with the
caller's token; the answer comes back as it is. Streams are told as server-sent events.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from holdfast.client.channel import Channel
from holdfast.gate.callers import caller_of
from holdfast.gate.failures import problem
from holdfast.gate.guard import TooLarge
from holdfast.vocabulary.commands import COMMANDS, Command
from holdfast.vocabulary.commands.command import Door, Effect
from holdfast.vocabulary.errors import HoldfastError, UsageError

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
_encode = msgspec.json.Encoder().encode


class Rest:
    """Routes of all commands, over one channel."""

    def __init__(self, channel: Channel, new_channel: Callable[[], Channel]) -> None:
        self._channel = channel
        self._new_channel = new_channel

    def routes(self) -> list[Route]:
        return [
            Route(command.route[1], self._endpoint(command), methods=[command.route[0]])
            for command in COMMANDS.values()
            if command.route is not None and Door.REST in command.doors
        ]

    def _endpoint(self, command: type[Command]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            try:
                caller = caller_of(request)
                fields = await fields_of(request, command)
                if command.streams and wants_stream(request):
                    return self._stream(command, fields, request)
                result = await self._channel.ask(
                    command.name, fields, caller, is_repeatable=command.effect is Effect.READS
                )
            except HoldfastError as error:
                return problem(error)
            return Response(_encode(result), media_type=JSON)

        endpoint.__doc__ = command.__doc__
        return endpoint

    def _stream(
        self, command: type[Command], fields: dict[str, Any], request: Request
    ) -> StreamingResponse:
        if "follow" in command.__struct_fields__:
            fields["follow"] = True
        last = request.headers.get("last-event-id", "")
        if last.isdigit() and "since" in command.__struct_fields__:
            fields["since"] = int(last)

        async def told() -> AsyncIterator[bytes]:
            channel = self._new_channel()
            try:
                async for item in channel.stream(command.name, fields, caller_of(request)):
                    yield server_sent(item)
            except HoldfastError as error:
                yield b"event: error\ndata: " + _encode(error.as_fields()) + b"\n\n"
            finally:
                await channel.close()

        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(told(), headers=headers, media_type=EVENT_STREAM)


def wants_stream(request: Request) -> bool:
    return EVENT_STREAM in request.headers.get("accept", "")


def server_sent(item: dict[str, Any]) -> bytes:
    number = f"id: {item['seq']}\n".encode() if "seq" in item else b""
    return number + b"data: " + _encode(item) + b"\n\n"


async def fields_of(request: Request, command: type[Command]) -> dict[str, Any]:
    """What path, query and body say; raises UsageError for what cannot be understood."""
    fields: dict[str, Any] = {}
    if request.method in ("GET", "DELETE"):
        fields.update(_from_query(request, command))
    else:
        fields.update(await _from_body(request))
        if request.url.query:
            raise UsageError("arguments go into the body, not into the query")
    return {**fields, **request.path_params}


def _from_query(request: Request, command: type[Command]) -> dict[str, Any]:
    hints = kinds_of(command)
    given: dict[str, Any] = {}
    for name in request.query_params:
        if name not in hints:
            known = ", ".join(hints) or "none"
            raise UsageError(f'{command.name} has no argument "{name}"', f"known: {known}")
        values = request.query_params.getlist(name)
        if is_list(hints[name]):
            given[name] = [word for value in values for word in value.split(",") if word]
        elif len(values) > 1:
            raise UsageError(f'"{name}" is given {len(values)} times')
        else:
            given[name] = _converted(values[0], hints[name], name)
    return given


def _converted(text: str, kind: Any, name: str) -> Any:
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f'"{name}": {error}') from None


@cache
def kinds_of(command: type[Command]) -> dict[str, Any]:
    """The type of each field, by the name that callers use."""
    hints = typing.get_type_hints(command)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(command)}


def is_list(kind: Any) -> bool:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return any(is_list(one) for one in typing.get_args(kind))
    return typing.get_origin(kind) is list or kind is list


async def _from_body(request: Request) -> dict[str, Any]:
    try:
        data = await request.body()
    except TooLarge:
        raise UsageError("the body is too large") from None
    if not data.strip():
        return {}
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind != JSON:
        # A form of another site can send anything but this.
        raise UsageError(f'a body is {JSON}, not "{kind}"')
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError("the body is a JSON object", '{"services": ["web"]}')
    return value
