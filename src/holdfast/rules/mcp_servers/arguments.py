"""Arguments of a tool as a model wrote them: put right where the meaning is clear, else refused.

Models write arguments as JSON text, wrap them once too often, or put the name of the tool among
them. What does not fit the schema after that is refused before anything is sent, with the
signature in the answer. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.names import closest

_WRAPPERS = ("arguments", "args", "input", "params", "parameters")
_NAMES = ("tool", "name", "tool_name")
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def fitted(
    tool: str, schema: Mapping[str, Any], arguments: Mapping[str, Any], signature: str
) -> dict[str, Any]:
    """Return the arguments as the schema takes them; raises UsageError with the signature."""
    given = dict(arguments)
    if problem_of(schema, given) is None and not _is_wrapped(schema, given):
        return given
    for candidate in _candidates(tool, given):
        if problem_of(schema, candidate) is None:
            return candidate
    problem = problem_of(schema, given)
    if problem is None:
        return given
    raise UsageError(f"{tool}: {problem}", f"nothing was sent; it is {signature}")


def _is_wrapped(schema: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Return whether none of the names is the schema's, and one is a usual wrapper."""
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    return bool(known) and not known.keys() & given.keys() and any(w in given for w in _WRAPPERS)


def _candidates(tool: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what may have been meant, the nearest first."""
    found: list[dict[str, Any]] = []
    short = tool.partition("__")[2] or tool
    named = {key for key in _NAMES if given.get(key) in (tool, short)}
    plain = {key: value for key, value in given.items() if key not in named}
    if named:
        found.append(plain)
    for wrapper in _WRAPPERS:
        inner = plain.get(wrapper)
        if isinstance(inner, str):
            try:
                inner = json.loads(inner)
            except ValueError:
                continue
        if isinstance(inner, dict):
            rest = {key: value for key, value in plain.items() if key != wrapper}
            found += [inner, {**rest, **inner}]
    return found


def problem_of(schema: Mapping[str, Any], given: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the arguments; None: nothing that is sure.

    Only what is plain is checked: required and unknown names, types and lists of values.
    """
    known = schema.get("properties")
    known = known if isinstance(known, dict) else {}
    for name in schema.get("required") or ():
        if isinstance(name, str) and name not in given:
            return f'the argument "{name}" is missing'
    if schema.get("additionalProperties") is False and not schema.get("patternProperties"):
        for name in given:
            if name not in known:
                guess = closest(name, list(known))
                meant = f'; did you mean "{guess}"?' if guess else ""
                return f'it has no argument "{name[:100]}"{meant}'
    for name, value in given.items():
        part = known.get(name)
        if isinstance(part, dict) and (wrong := _wrong_value(part, value)) is not None:
            return f'the argument "{name}" {wrong}'
    return None


def _wrong_value(part: Mapping[str, Any], value: Any) -> str | None:
    kinds = part.get("type")
    wanted = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    if wanted and all(kind in _TYPES for kind in wanted) and not _is_any(value, wanted):
        return f"is no {' or '.join(wanted)}"
    choices = part.get("enum")
    if isinstance(choices, list) and value not in choices:
        listed = ", ".join(json.dumps(choice) for choice in choices[:10])
        return f"is none of {listed}"
    return None


def _is_any(value: Any, kinds: list[str]) -> bool:
    for kind in kinds:
        if isinstance(value, bool):
            if kind == "boolean":
                return True
        elif kind == "integer" and isinstance(value, float):
            if value.is_integer():
                return True
        elif isinstance(value, _TYPES[kind]):
            return True
    return False
