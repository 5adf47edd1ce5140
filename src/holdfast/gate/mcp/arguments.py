"""The arguments of tools: strict structs, with short schemas and errors that suggest a fix.

An argument that is left out is None. The schema says so only by not requiring it, because every
word of a schema costs tokens in each conversation.
"""

from __future__ import annotations

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


def parse(kind: type[T], tool: str, arguments: dict[str, Any]) -> T:
    """Return the arguments as the tool takes them; raises UsageError that a model can act on."""
    known = kind.__struct_fields__
    for name in arguments:
        if name not in known:
            guess = closest(name, list(known))
            meant = f'; did you mean "{guess}"?' if guess else ";"
            listed = ", ".join(known) or "none"
            raise UsageError(f'{tool} has no argument "{name}"{meant} known: {listed}')
    try:
        return msgspec.convert(arguments, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{tool}: {error}".replace("`$.", "`"), _choices(kind, error)) from None


def _choices(kind: type[ToolArguments], error: Exception) -> str:
    """Return the allowed words as a hint, where there is a list of them."""
    name = str(error).rpartition("`$.")[2].rstrip("`")
    words = schema_of(kind)["properties"].get(name, {}).get("enum", ())
    return f"one of: {', '.join(map(str, words))}" if words else ""
