"""What the limits of a token leave of it: which tokens it may make, what it is told. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.security import CreateToken


def why_wider(actor: Actor, asked: CreateToken) -> str | None:
    """What of it goes beyond the limits of who asks; None: nothing.

    Who is limited to some services makes no token at all: that is about all of them.
    """
    limits = (
        ("commands", actor.scopes.commands, asked.commands),
        ("paths", actor.scopes.paths, asked.paths),
    )
    for what, own, wanted in limits:
        if own is not None and not _is_within(wanted, own):
            listed = ", ".join(own) or "nothing"
            return f"its own token is limited to the {what} {listed}, the new one would not be"
    return None


def is_given(actor: Actor, command: str, allowed: Sequence[str] | None) -> bool:
    """Whether neither the limits of a token nor `allowed_commands` leave this command out."""
    if allowed is not None and actor.token is not None and command not in allowed:
        return False
    if actor.behind is not None and not is_given(actor.behind, command, allowed):
        return False
    patterns = actor.scopes.commands
    return patterns is None or any(fnmatchcase(command, pattern) for pattern in patterns)


def _is_within(wanted: Sequence[str] | None, own: Sequence[str]) -> bool:
    """Patterns are compared as they are written: what one covers of another is not guessed."""
    return wanted is not None and set(wanted) <= set(own)
