"""Whether the arguments of a request pass the configured filters. Pure.

A forbidden text is looked for in each word, in words that belong together (a command with its
arguments, a list, a variable with its value), and in what a shell would make of them. This catches
accidents and known bad lines; it is no wall, because a program can be called in many ways.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from holdfast.vocabulary.specs.policies import FilterSpec

_HARMLESS = frozenset("\n\r\t")
_DEEPEST = 32
_SPACE = re.compile(r"(?:\s|\$IFS\b|\$\{IFS\})+")
_QUOTES = re.compile(r"[\"'\\]")


def objection(
    spec: FilterSpec, arguments: dict[str, Any], masked: frozenset[str] = frozenset()
) -> str | None:
    """Return what is wrong with them, without repeating it; None: nothing.

    Fields that may hold anything (`masked`) are only searched for forbidden texts.
    """
    for name, value in arguments.items():
        for text in _texts(value, 0):
            why = None if name in masked else _malformed(spec, text)
            if why is None:
                why = _forbidden(spec, text)
            if why is None and name in masked:
                why = _forbidden(spec, _decoded(text))
            if why is not None:
                return f"the argument {name} {why}"
        for line in _lines(value, 0) if spec.forbid else ():
            if (why := _forbidden(spec, line)) is not None:
                return f"the argument {name} {why}"
    return None


def _malformed(spec: FilterSpec, text: str) -> str | None:
    if spec.max_length is not None and len(text) > spec.max_length:
        return f"is longer than {spec.max_length} characters"
    if not spec.control_characters and any(map(_is_control, text)):
        return "has control characters"
    return None


def _forbidden(spec: FilterSpec, text: str) -> str | None:
    if not spec.forbid:
        return None
    # A shell reads `r"m"  -rf` as `rm -rf`.
    plain = _SPACE.sub(" ", text)
    forms = {form.casefold() for form in (text, plain, _QUOTES.sub("", plain))}
    for pattern in spec.forbid:
        folded = pattern.casefold()
        if any(fnmatchcase(form, folded) for form in forms):
            return f"matches the forbidden {pattern}"
    return None


def _is_control(letter: str) -> bool:
    return (letter < " " and letter not in _HARMLESS) or "\x7f" <= letter <= "\x9f"


def _texts(value: Any, depth: int) -> Iterator[str]:
    """Yield every text in it, also names of variables; what is nested too deep counts as one."""
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


def _lines(value: Any, depth: int) -> Iterator[str]:
    """Yield words that belong together as one line: a line may say what no word says alone."""
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        if isinstance(value.get("command"), str) and isinstance(value.get("args"), list | tuple):
            yield " ".join([value["command"], *map(str, value["args"])])
        for key, item in value.items():
            if isinstance(item, str):
                yield f"{key}={item}"
            yield from _lines(item, depth + 1)
    elif isinstance(value, list | tuple):
        words = [item for item in value if isinstance(item, str)]
        if len(words) > 1:
            yield " ".join(words)
        for item in value:
            yield from _lines(item, depth + 1)


def _decoded(text: str) -> str:
    """Decode a text that may be base64: keystrokes, and files that are no text."""
    try:
        return base64.b64decode(text, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""
