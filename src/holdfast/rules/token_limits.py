"""Whether a token may make another one: never one that may do more than itself. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.commands.security import CreateToken


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


def _is_within(wanted: Sequence[str] | None, own: Sequence[str]) -> bool:
    """Patterns are compared as they are written: what one covers of another is not guessed."""
    return wanted is not None and set(wanted) <= set(own)
