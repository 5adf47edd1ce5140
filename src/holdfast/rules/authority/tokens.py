"""Decisions about tokens: which a caller may make, and which are too easy to guess. Pure.

A token that Holdfast makes has 256 random bits. The token of the configuration opens every
network door as an admin, and nothing slows down an attacker who tries many at once from many
places. So that one must look random: long enough, with enough different characters, and neither a
repetition nor a sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import pairwise

from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.security import CreateToken

SHORTEST = 20
_LEAST_CHARACTERS = 8
_LEAST_TRIPLES = 15
_LEAST_STEPS = 6
HINT = (
    "make one with `openssl rand -hex 32`; or leave it out: `holdfast token create NAME --role "
    "admin` makes one that is stored as a hash"
)


def why_wider(actor: Actor, asked: CreateToken) -> str | None:
    """Return which part of a new token goes beyond the limits of its maker; None: no part.

    An actor limited to some services makes no token at all: tokens are about all of them.
    """
    limits = (
        ("commands", actor.scopes.commands, asked.commands),
        ("paths", actor.scopes.paths, asked.paths),
        ("tools", actor.scopes.tools, asked.tools),
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


def why_weak(token: str) -> str | None:
    """What is wrong with it, without repeating it; None if nothing is."""
    if len(token) < SHORTEST:
        return (
            f"this token has {len(token)} characters and is easy to guess; use at least {SHORTEST}"
        )
    triples = {token[at : at + 3] for at in range(len(token) - 2)}
    codes = [ord(character) for character in token]
    steps = {after - before for before, after in pairwise(codes)}
    if len(set(token)) < _LEAST_CHARACTERS:
        return "this token has too few different characters and is easy to guess"
    if len(triples) < _LEAST_TRIPLES or len(steps) < _LEAST_STEPS:
        return "this token repeats itself or counts up and is easy to guess"
    return None
