"""Names of services: what is valid, and which name a user probably meant.

Standard library only: the CLI's fast path imports this.
"""

from __future__ import annotations

SERVICE_NAME = r"[a-z0-9][a-z0-9._-]{0,62}(@[1-9][0-9]{0,3})?"
SERVICE_NAME_RULE = (
    "lower-case letters, digits, '.', '_' and '-', starting with a letter or digit, at most 63 "
    "long; those that start with holdfast. are Holdfast's own"
)
OWN_NAMES = "holdfast."
"""How the names of what Holdfast runs for itself begin."""

IDENTITY_HEADER = "X-Holdfast-Instance"
"""Says in every answer of a gate whose it is."""
GATE_SERVICE = "holdfast.gate"
"""By what the gate's runs are called; it is in no list of services."""
HAND_OVER_PATH = "/handover"
BROWSER_HOST = "holdfast.localhost"
"""This machine, by a name whose cookies no other program of it is shown."""

TOOLSETS = ("process", "files", "search", "git", "servers")
"""Kinds of tools that assistants are offered."""


def is_service_name(text: str) -> bool:
    import re  # a third of the time that the CLI takes to start

    return re.fullmatch(SERVICE_NAME, text) is not None and not text.startswith(OWN_NAMES)


def closest(word: str, known: list[str]) -> str | None:
    """The known word that the user probably meant, if one is near."""
    import difflib

    begun = [name for name in known if name.startswith(word)]
    if word and len(begun) == 1:
        return begun[0]
    found = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return found[0] if found else None
