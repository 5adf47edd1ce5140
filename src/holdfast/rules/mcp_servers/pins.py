"""What a server says about its tools is pinned: taken as it was seen first, or approved. Pure.

A definition steers a model, so a changed or a new one is held back until somebody approves it. The
digest covers everything of a definition that a client may show or use.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal

import msgspec

Change = Literal["first", "new", "changed"]
_PINNED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta")
MOST_TOOLS = 2000
LONGEST_DEFINITION = 256 * 1024


class Pinned(msgspec.Struct, frozen=True):
    """An approved definition and its digest."""

    pin: str
    definition: dict[str, Any]


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A definition that waits for approval."""

    pin: str
    definition: dict[str, Any]
    change: Change
    warnings: tuple[str, ...] = ()
    is_rejected: bool = False
    """Whether somebody has looked at it and said no."""


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of the definitions that a server has just told."""

    pinned: dict[str, Pinned]
    """By name: those that are offered."""
    held: dict[str, Held]
    gone: tuple[str, ...] = ()
    """Approved tools that the server does not have any more."""


def pin_of(definition: Mapping[str, Any]) -> str:
    """Return the digest of a definition: of canonical JSON of what a client may use of it."""
    known = {name: definition[name] for name in _PINNED if definition.get(name) is not None}
    text = json.dumps(known, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(text.encode()).hexdigest()


def sight(
    definitions: Iterable[Mapping[str, Any]],
    known: Mapping[str, Pinned],
    *,
    is_first: bool,
    takes_first: bool,
    is_same_version: bool,
    others: Sequence[str] = (),
) -> Sighting:
    """Return what is offered and what is held of a server's definitions.

    `is_first`: nothing is known of this server yet; `takes_first`: then its definitions are taken
    as they are. `is_same_version`: it still calls itself the version of the known ones, so a
    changed definition is suspicious. `others` are the names of other servers.
    """
    pinned: dict[str, Pinned] = {}
    held: dict[str, Held] = {}
    for definition in definitions:
        name = str(definition["name"])
        pin, before = pin_of(definition), known.get(name)
        if before is not None and before.pin == pin:
            pinned[name] = before
        elif is_first and takes_first:
            pinned[name] = Pinned(pin, dict(definition))
        else:
            change: Change = "first" if is_first else "new" if before is None else "changed"
            warnings = warnings_of(definition, others)
            if change == "changed" and is_same_version:
                warnings.insert(0, "its server says that it is the same version")
            held[name] = Held(
                pin=pin, definition=dict(definition), change=change, warnings=tuple(warnings)
            )
    gone = tuple(name for name in known if name not in pinned and name not in held)
    return Sighting(pinned=pinned, held=held, gone=gone)


def warnings_of(definition: Mapping[str, Any], others: Sequence[str] = ()) -> list[str]:
    """Return what is suspicious about a definition."""
    text = json.dumps(definition, ensure_ascii=False)
    found = []
    if hidden := sorted({f"U+{ord(c):04X}" for c in text if is_invisible(c)}):
        found.append(f"invisible characters: {', '.join(hidden[:5])}")
    description = str(definition.get("description") or "")
    found += [f"it names another server: {name}" for name in others if f"{name}__" in description]
    return found


def is_invisible(letter: str) -> bool:
    """Return whether a reader does not see this letter, although a model does."""
    return unicodedata.category(letter) in ("Cf", "Co", "Cn") or letter in "\u115f\u3164\uffa0"


def difference(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[str]:
    """Return the lines of a unified diff; invisible letters are spelt out."""
    import difflib  # takes a while to load, and is seldom needed

    old = _lines(before) if before is not None else []
    lines = difflib.unified_diff(old, _lines(after), "approved", "held", lineterm="", n=2)
    return [_shown(line) for line in lines]


def _lines(definition: Mapping[str, Any]) -> list[str]:
    known = {name: definition[name] for name in _PINNED if definition.get(name) is not None}
    return json.dumps(known, indent=1, sort_keys=True, ensure_ascii=False).split("\n")


def _shown(line: str) -> str:
    return "".join(f"<U+{ord(c):04X}>" if is_invisible(c) else c for c in line)


def why_unusable(definition: object) -> str | None:
    """Return why this cannot be the definition of a tool; None: it can."""
    if not isinstance(definition, dict):
        return "it is not an object"
    name = definition.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= 200:
        return "it has no name"
    if not isinstance(definition.get("inputSchema"), dict):
        return f"{name[:60]} has no inputSchema"
    if len(json.dumps(definition)) > LONGEST_DEFINITION:
        return f"{name[:60]} has more than {LONGEST_DEFINITION} characters"
    return None
