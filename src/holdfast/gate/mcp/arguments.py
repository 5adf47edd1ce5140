"""The arguments of tools: strict structs, with short schemas and errors that suggest a fix.

An argument that is left out is None. The schema says so only by not requiring it, because every
word of a schema costs tokens in each conversation.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.names import closest


class ToolArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of one tool."""


T = TypeVar("T", bound=ToolArguments)


def schema_of(kind: type[ToolArguments]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments, without references and titles."""
    _, parts = msgspec.json.schema_components([kind], ref_template="{name}")
    schema: dict[str, Any] = _plain(parts[kind.__name__], parts)
    return {
        "type": "object",
        "properties": schema.get("properties", {}),
        **({"required": schema["required"]} if schema.get("required") else {}),
        "additionalProperties": False,
    }


def _plain(value: Any, parts: dict[str, Any]) -> Any:
    """Remove titles, references and empty defaults from a schema."""
    if isinstance(value, list):
        return [_plain(one, parts) for one in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return _plain(parts[value["$ref"]], parts)
    plain: dict[str, Any] = {
        key: _properties(part, parts) if key == "properties" else _plain(part, parts)
        for key, part in value.items()
        if key != "title" and (key != "required" or part)
    }
    if "properties" in value:
        plain.pop("description", None)
    if plain.get("default", ...) in (None, []):
        del plain["default"]
    if "enum" in plain:
        plain = {"type": "string", **plain}
    choices = [one for one in plain.pop("anyOf", []) if one != {"type": "null"}]
    if len(choices) == 1:
        plain = {**choices[0], **plain}
    elif choices:
        plain["anyOf"] = choices
    return plain


def _properties(value: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain(schema, parts) for name, schema in value.items()}


def parse(kind: type[T], tool: str, arguments: dict[str, Any]) -> tuple[T, list[str]]:
    """Return the arguments as the tool takes them, and notes about what was changed in them; raises
    UsageError that a model can act on.

    What can only mean one thing is taken: one value where a list is wanted, a number beyond its
    bounds, a number as text.
    """
    known = kind.__struct_fields__
    for name in arguments:
        if name not in known:
            guess = closest(name, list(known))
            meant = f'; did you mean "{guess}"?' if guess else ";"
            listed = ", ".join(known) or "none"
            raise UsageError(f'{tool} has no argument "{name}"{meant} known: {listed}')
    notes: list[str] = []
    properties = _schema_of(kind)["properties"]
    fitted = {
        name: _fitted(name, value, properties[name], notes) for name, value in arguments.items()
    }
    try:
        return msgspec.convert(fitted, kind, strict=False), notes
    except msgspec.ValidationError as error:
        raise UsageError(f"{tool}: {error}".replace("`$.", "`"), _choices(kind, error)) from None


@lru_cache(maxsize=64)
def _schema_of(kind: type[ToolArguments]) -> dict[str, Any]:
    return schema_of(kind)


def _fitted(name: str, value: Any, schema: dict[str, Any], notes: list[str]) -> Any:
    if schema.get("type") == "array" and not isinstance(value, list):
        return _as_list(value)
    if schema.get("type") not in ("integer", "number"):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    low, high = schema.get("minimum"), schema.get("maximum")
    if high is not None and value > high:
        notes.append(f"{name} is at most {high:g}, which was used")
        return type(value)(high)
    if low is not None and value < low:
        notes.append(f"{name} is at least {low:g}, which was used")
        return type(value)(low)
    return value


def _as_list(value: Any) -> Any:
    """Return one value as a list of it, and a list that was written as text as a list."""
    if value is None:
        return []
    if isinstance(value, str) and value.startswith("["):
        try:
            found = msgspec.json.decode(value)
        except msgspec.DecodeError:
            found = None
        if isinstance(found, list):
            return found
    return [value]


def _choices(kind: type[ToolArguments], error: Exception) -> str:
    """Return the allowed words as a hint, where there is a list of them."""
    name = str(error).rpartition("`$.")[2].rstrip("`")
    words = _schema_of(kind)["properties"].get(name, {}).get("enum", ())
    return f"one of: {', '.join(map(str, words))}" if words else ""
