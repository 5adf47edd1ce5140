"""THE decision whether an actor may do something, always with its reason. Pure.

Asked by `app.application` only; no handler and no door decides about permission.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.commands.command import Permission


class Verdict(NamedTuple):
    """Yes or no, and why."""

    is_allowed: bool
    reason: str


GRANTED: dict[Role, frozenset[Permission]] = {
    Role.OWNER: frozenset(Permission),
    Role.AGENT: frozenset({Permission.VIEW}),
    Role.STRANGER: frozenset(),
}

_REASONS: dict[Role, str] = {
    Role.OWNER: "the owner of this Holdfast may do everything",
    Role.AGENT: "a process that Holdfast itself supervises, or that is gone, may look, not change",
    Role.STRANGER: "only the user who started this Holdfast, and root, may use it",
}


def role_of(*, peer_uid: int, own_uid: int, is_supervised: bool | None) -> Role:
    """A supervised process is never the owner, whoever it runs as; nor is one of which nobody
    can tell (None) whether it is supervised."""
    if is_supervised:
        return Role.AGENT
    if peer_uid not in (own_uid, 0):
        return Role.STRANGER
    return Role.AGENT if is_supervised is None else Role.OWNER


def permit(actor: Actor, needed: Permission) -> Verdict:
    return Verdict(needed in GRANTED[actor.role], _REASONS[actor.role])
