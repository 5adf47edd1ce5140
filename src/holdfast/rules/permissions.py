"""THE decision whether an actor may do something, always with its reason. Pure.

Asked by `app.application` only; no handler and no door decides about permission. A role says
what kind of thing an actor may do, the scopes of its token to what; both must agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from holdfast.vocabulary.actors import Actor, Role, Target
from holdfast.vocabulary.commands.command import Command, Door, Permission


class Verdict(NamedTuple):
    """Yes or no, and why."""

    is_allowed: bool
    reason: str


GRANTED: dict[Role, frozenset[Permission]] = {
    Role.OWNER: frozenset(Permission),
    Role.ADMIN: frozenset(Permission),
    Role.OPERATOR: frozenset({Permission.VIEW, Permission.OPERATE}),
    Role.VIEWER: frozenset({Permission.VIEW}),
    Role.AGENT: frozenset({Permission.VIEW}),
    Role.STRANGER: frozenset(),
}

_REASONS: dict[Role, str] = {
    Role.OWNER: "the owner of this Holdfast may do everything",
    Role.ADMIN: "an admin may do everything",
    Role.OPERATOR: "an operator may look, start and stop, not administer",
    Role.VIEWER: "a viewer may look, not change",
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


def permit(
    actor: Actor,
    command: Command | type[Command],
    targets: Sequence[Target] = (),
    allowed: Sequence[str] | None = None,
) -> Verdict:
    """Whether this actor may give this command, which is about these services.

    `allowed` are the only commands that network doors take, if the configuration says so.
    """
    if actor.door not in command.doors:
        return Verdict(False, f"it is not offered at the {actor.door.value} door")
    if command.greets and command.permission in GRANTED[actor.role]:
        return Verdict(True, "everybody who is known may greet")
    if allowed is not None and actor.door is not Door.CLI and command.name not in allowed:
        return Verdict(False, f"allowed_commands are {_listed(allowed)}")
    if _needed(command) not in GRANTED[actor.role]:
        return Verdict(False, _REASONS[actor.role])
    scopes = actor.scopes
    if scopes.commands is not None and not _is_among(command.name, scopes.commands):
        return Verdict(False, f"its token is limited to {_listed(scopes.commands)}")
    if scopes.services is None and scopes.tags is None:
        return Verdict(True, _REASONS[actor.role])
    for target in targets:
        by_name = scopes.services is not None and _is_among(target.name, scopes.services)
        by_tag = scopes.tags is not None and any(tag in scopes.tags for tag in target.tags)
        if not by_name and not by_tag:
            allowed = _listed((*(scopes.services or ()), *(f"tag:{t}" for t in scopes.tags or ())))
            return Verdict(False, f"its token is limited to {allowed}, not {target.name}")
    if not targets and command.permission is not Permission.VIEW:
        return Verdict(False, "its token is limited to some services, and this is about all")
    return Verdict(True, _REASONS[actor.role])


def _needed(command: Command | type[Command]) -> Permission:
    """What it takes; some fields make a command one for those who administer."""
    given = command.admin_fields if isinstance(command, Command) else ()
    is_special = any(getattr(command, name) is not None for name in given)
    return Permission.ADMINISTER if is_special else command.permission


def _is_among(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
