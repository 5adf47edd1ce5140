"""The arguments of a request, from its path, query and body, as fields of a command."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request

from holdfast.vocabulary.command import Command
from holdfast.vocabulary.errors import UsageError

JSON = "application/json"


async def fields_of(
    request: Request, command: type[Command], takes: frozenset[str] | None = None
) -> dict[str, Any]:
    """Return the fields from path, query and body; raises UsageError if they are malformed."""
    if request.method == "POST":
        fields = await _from_body(request)
        check_names(fields, command, takes)
        if request.scope["query_string"]:
            raise UsageError("arguments go into the body, not into the query")
    elif request.scope["query_string"]:
        check_names(request.query_params, command, takes)
        fields = _from_query(request, command)
    else:
        fields = {}
    twice = fields.keys() & request.path_params.keys()
    if twice:
        raise UsageError(f'"{twice.pop()}" stands in the path already')
    return {**fields, **request.path_params}


def _from_query(request: Request, command: type[Command]) -> dict[str, Any]:
    kinds = field_types(command)
    given: dict[str, Any] = {}
    for name in request.query_params:
        values = request.query_params.getlist(name)
        if is_list(kinds[name]):
            given[name] = [word for value in values for word in value.split(",") if word]
        elif len(values) > 1:
            raise UsageError(f'"{name}" is given {len(values)} times')
        else:
            given[name] = convert_text(values[0], kinds[name], name)
    return given


def check_names(names: Iterable[str], command: type[Command], takes: frozenset[str] | None) -> None:
    known = [name for name in field_types(command) if takes is None or name in takes]
    for name in names:
        if name not in known:
            raise UsageError.no_field(command.name, name, known)


def is_well_typed(fields: dict[str, Any], command: type[Command]) -> bool:
    """Return whether the fields have the published types. Values that only the command itself
    refuses count as well-typed."""
    try:
        msgspec.convert(fields, command)
    except msgspec.ValidationError as error:
        return error.__cause__ is not None
    return True


def convert_text(text: str, kind: Any, name: str) -> Any:
    """Convert an argument that came as text."""
    try:
        value = msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f'"{name}": {error}') from None
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f'"{name}": {text} is no number')
    return value


@cache
def field_types(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the type of each field, by the name that callers use."""
    hints = typing.get_type_hints(struct)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(struct)}


def is_list(kind: Any) -> bool:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return any(is_list(one) for one in typing.get_args(kind))
    return typing.get_origin(kind) is list or kind is list


async def _from_body(request: Request) -> dict[str, Any]:
    try:
        data = await request.body()
    except ClientDisconnect:
        raise UsageError("the client left in the middle of the body") from None
    if not data.strip():
        return {}
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind != JSON:
        # A form of another site can send any type but this one.
        raise UsageError(f'a body is {JSON}, not "{kind}"', f"send `Content-Type: {JSON}`")
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"the body is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError("the body is a JSON object", '{"services": ["web"]}')
    return value
