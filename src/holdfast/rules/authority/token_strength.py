"""Whether a token that a person wrote is too easy to guess. Pure.

Tokens that Holdfast makes have 256 random bits. The one of the configuration opens every network
door as an admin, and nothing slows down somebody who tries many at once from many places. So it
must look random: long enough, of enough different characters, and neither a repetition nor a row.
"""

from __future__ import annotations

from itertools import pairwise

SHORTEST = 20
_LEAST_CHARACTERS = 8
_LEAST_TRIPLES = 15
_LEAST_STEPS = 6
HINT = (
    "make one with `openssl rand -hex 32`; or leave it out: `holdfast token create NAME --role "
    "admin` makes one that is stored as a hash"
)


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
