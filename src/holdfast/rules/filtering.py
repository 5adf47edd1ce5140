"""Whether the arguments of a request may pass, as the configuration's filters say. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from holdfast.vocabulary.policies import FilterSpec

_HARMLESS = frozenset("\n\r\t")
_DEEPEST = 32


def objection(
    spec: FilterSpec, arguments: dict[str, Any], masked: frozenset[str] = frozenset()
) -> str | None:
    """What is wrong with them, without repeating it; None: nothing. Fields that may hold
    anything (`masked`) are only looked at for what is forbidden."""
    for name, value in arguments.items():
        for text in _texts(value, 0):
            why = _wrong(spec, text, may_hold_anything=name in masked)
            if why is not None:
                return f"the argument {name} {why}"
    return None


def _wrong(spec: FilterSpec, text: str, *, may_hold_anything: bool) -> str | None:
    if not may_hold_anything:
        if spec.max_length is not None and len(text) > spec.max_length:
            return f"is longer than {spec.max_length} characters"
        if not spec.control_characters and any(map(_is_control, text)):
            return "has control characters"
    folded = text.casefold()
    for pattern in spec.forbid:
        if fnmatchcase(folded, pattern.casefold()):
            return f"matches the forbidden {pattern}"
    return None


def _is_control(letter: str) -> bool:
    return (letter < " " and letter not in _HARMLESS) or "\x7f" <= letter <= "\x9f"


def _texts(value: Any, depth: int) -> Iterator[str]:
    """Every text in it, names of variables too; what is nested too deep is looked at as one."""
    if isinstance(value, str):
        yield value
    elif depth > _DEEPEST:
        yield str(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, depth + 1)
