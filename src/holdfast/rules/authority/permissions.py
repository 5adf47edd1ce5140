"""THE decision whether an actor may do something, always with its reason. Pure.

Only `app.application` asks; no handler and no door decides about permission. A role says what kind
of thing an actor may do, the scopes of its token to what; both must agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from fnmatch import fnmatchcase

import msgspec
from msgspec.structs import replace

from holdfast.rules.authority import policies
from holdfast.rules.authority.path_scopes import PathTarget, is_covered, shown
from holdfast.rules.authority.policies import Local, PolicyRequest
from holdfast.vocabulary.actors import Actor, Role, Target
from holdfast.vocabulary.command import Command, Door, Effect, Permission
from holdfast.vocabulary.specs.policies import PolicySpec


class PermissionVerdict(msgspec.Struct, frozen=True):
    """Yes or no, and why."""

    is_allowed: bool
    reason: str
    cause: str = "role"
    """The cause of a refusal in a word, for counting."""
    hint: str = "ask the owner of this Holdfast"
    confirm: PolicySpec | None = None
    """Allowed, but only after an approval, as this policy says."""


ALLOWED_BY_SETTINGS = PermissionVerdict(True, "the settings allow it")


def _no_clock(zone: str | None) -> datetime:
    raise AssertionError("a policy with times needs the caller's clock")


class Circumstances(msgspec.Struct, frozen=True):
    """What holds for every request, whoever makes it."""

    lockdown: str | None = None
    """The reason of the lockdown in force."""
    policies: Sequence[PolicySpec] = ()
    local: Local = _no_clock
    """Returns the present moment in a time zone."""
    touched: Sequence[Target] = ()
    """Every service that the request is about, for the policies."""
    paths: Sequence[PathTarget] = ()
    """Every file that it is about, for the policies."""
    tools: Sequence[str] = ()
    """Every name of the tool of an MCP server that it is about, for the policies."""
    is_approved: bool = False
    """Whether it has been approved already."""


CALM = Circumstances()


GRANTED: dict[Role, frozenset[Permission]] = {
    Role.OWNER: frozenset(Permission),
    Role.ADMIN: frozenset(Permission),
    Role.OPERATOR: frozenset({Permission.VIEW, Permission.OPERATE}),
    Role.VIEWER: frozenset({Permission.VIEW}),
    Role.AGENT: frozenset({Permission.VIEW}),
    Role.STRANGER: frozenset(),
}

_OURS = (Door.CLI, Door.GATE)
"""Doors that `allowed_commands` does not bind, because they are not on the network."""
_REASONS: dict[Role, str] = {
    Role.OWNER: "the owner of this Holdfast may do everything",
    Role.ADMIN: "an admin may do everything",
    Role.OPERATOR: "an operator may look, start and stop, not administer",
    Role.VIEWER: "a viewer may look, not change",
    Role.AGENT: "a process that Holdfast itself supervises, or that is gone, may look, not change",
    Role.STRANGER: "only the user who started this Holdfast, and root, may use it",
}


def role_of(*, peer_uid: int, own_uid: int, is_supervised: bool | None) -> Role:
    """Return the role of a local peer.

    A supervised process is never the owner, whatever its user; nor is a process of which it is
    unknown (None) whether it is supervised.
    """
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
    circumstances: Circumstances = CALM,
    files: Sequence[PathTarget] = (),
) -> PermissionVerdict:
    """Return whether this actor may give this command now: by its rights, in a lockdown, and by the
    policies, in this order. Each can only refuse what the one before allows. Policies are about
    callers: what the gate asks for itself they do not bind.
    """
    verdict = _by_rights(actor, command, targets, allowed, files)
    if not verdict.is_allowed or policies.is_greeting(command):
        return verdict
    if circumstances.lockdown is not None:
        verdict = _in_lockdown(actor, command, verdict, circumstances.lockdown)
    if not verdict.is_allowed or not circumstances.policies or actor.door is Door.GATE:
        return verdict
    request = PolicyRequest(
        actor, command, circumstances.touched, circumstances.paths, circumstances.tools
    )
    policy = policies.decide(circumstances.policies, request, circumstances.local)
    if policy is None or policy.effect == "allow":
        return verdict
    if policy.effect == "deny":
        return PermissionVerdict(False, policies.says(policy), "policy", "ask an admin")
    if circumstances.is_approved:
        return replace(verdict, reason=policies.says(policy))
    return replace(verdict, reason=policies.says(policy), confirm=policy)


def _in_lockdown(
    actor: Actor, command: Command | type[Command], verdict: PermissionVerdict, reason: str
) -> PermissionVerdict:
    """In a lockdown people may read; changes need an admin, and only those that stop something.

    Logging in and out stays possible, to see what is going on.
    """
    hint = "`holdfast unlock` ends it; it takes an admin"
    if actor.role is Role.AGENT and actor.door is not Door.GATE:
        return PermissionVerdict(False, f"a lockdown is in force: {reason}", "lockdown", hint)
    is_admin = Permission.ADMINISTER in GRANTED[actor.role]
    if command.effect is Effect.READS and not command.reaches_out:
        return verdict
    if command.in_lockdown and (is_admin or command.greets):
        return verdict
    return PermissionVerdict(False, f"a lockdown is in force: {reason}", "lockdown", hint)


def _by_rights(
    actor: Actor,
    command: Command | type[Command],
    targets: Sequence[Target],
    allowed: Sequence[str] | None,
    files: Sequence[PathTarget] = (),
) -> PermissionVerdict:
    """Return whether this actor may give this command, which is about these services and files.

    `allowed` are the only commands that network doors accept, if the configuration says so.
    """
    if actor.door not in command.doors:
        why = f"it is not offered at the {actor.door.value} door"
        return PermissionVerdict(False, why, "door", "ask through another")
    if actor.behind is not None:
        opener = _by_rights(actor.behind, command, targets, allowed, files)
        if not opener.is_allowed:
            return PermissionVerdict(False, f"who opened its session may not: {opener.reason}")
    if command.always_answered and _is_own(command) and _needed(command) in GRANTED[actor.role]:
        return PermissionVerdict(True, "everybody who is known may ask this about their own stay")
    if allowed is not None and actor.door not in _OURS and command.name not in allowed:
        why = f"allowed_commands are {_listed(allowed)}"
        return PermissionVerdict(
            False, why, "allowlist", "the configuration says so, under security"
        )
    if _needed(command) not in GRANTED[actor.role] and not _is_given(actor, command):
        return PermissionVerdict(False, _reason(actor))
    scopes = actor.scopes
    if scopes.commands is not None and not _is_among(command.name, scopes.commands):
        return PermissionVerdict(
            False, f"its token is limited to {_listed(scopes.commands)}", "scope"
        )
    if scopes.tools is not None and not _is_of_tools(command, scopes.tools):
        return PermissionVerdict(False, f"its token is limited to {_listed(scopes.tools)}", "scope")
    if scopes.paths is not None and (command.about_files or files):
        return _by_paths(actor, scopes.paths, files)
    if scopes.services is None and scopes.tags is None:
        return PermissionVerdict(True, _reason(actor))
    return _by_services(actor, command, targets)


def _by_services(
    actor: Actor, command: Command | type[Command], targets: Sequence[Target]
) -> PermissionVerdict:
    scopes = actor.scopes
    if (command.about_files and scopes.commands is None) or _names_outside(command):
        # Files belong to no service: an actor that was given some services was not given files.
        return PermissionVerdict(
            False, "its token is limited to some services; `paths` gives files", "scope"
        )
    for target in targets:
        by_name = scopes.services is not None and any(
            _is_among(name, scopes.services) for name in target.names
        )
        by_tag = scopes.tags is not None and any(tag in scopes.tags for tag in target.tags)
        if not by_name and not by_tag:
            allowed = _listed((*(scopes.services or ()), *(f"tag:{t}" for t in scopes.tags or ())))
            # Not the name itself: an actor must not learn which services a group has if it may not
            # see them.
            asked = target.asked or target.name
            return PermissionVerdict(
                False, f"its token is limited to {allowed}, not {asked}", "scope"
            )
    if not targets and _needed(command) is not Permission.VIEW:
        why = "its token is limited to some services, and this is about all"
        return PermissionVerdict(False, why, "scope")
    return PermissionVerdict(True, _reason(actor))


def _is_of_tools(command: Command | type[Command], patterns: Sequence[str]) -> bool:
    """Return whether it calls one of these tools of MCP servers, or none at all."""
    tool = getattr(command, "tool", None) if isinstance(command, Command) else None
    return not isinstance(tool, str) or _is_among(tool, patterns)


def _by_paths(
    actor: Actor, patterns: Sequence[str], files: Sequence[PathTarget]
) -> PermissionVerdict:
    for file in files:
        if not is_covered(file, patterns):
            what = shown(file.absolute if file.relative is None else file.relative or "all files")
            why = f"its token is limited to {_listed(patterns)}, not {what}"
            return PermissionVerdict(False, why, "scope")
    if not files:
        return PermissionVerdict(
            False, "its token is limited to some paths, and this names none", "scope"
        )
    return PermissionVerdict(True, _reason(actor))


def _reason(actor: Actor) -> str:
    if actor.role is Role.AGENT and actor.scopes.commands is not None:
        return "an agent may look, and change only what it was given"
    return _REASONS[actor.role]


def _is_given(actor: Actor, command: Command | type[Command]) -> bool:
    """An agent may do what its scopes name; what needs an admin only by its exact name."""
    commands = actor.scopes.commands
    if actor.role is not Role.AGENT or commands is None:
        return False
    if _needed(command) is Permission.OPERATE:
        return _is_among(command.name, commands)
    is_whole = command.permission is Permission.ADMINISTER
    return is_whole and command.granted_by_name and command.name in commands


def _needed(command: Command | type[Command]) -> Permission:
    """Return the permission that it needs; some fields make a command one for admins."""
    given = command.admin_fields if isinstance(command, Command) else ()
    is_special = any(getattr(command, name) is not None for name in given)
    return Permission.ADMINISTER if is_special else command.permission


def _is_own(command: Command | type[Command]) -> bool:
    """Return whether it names no other service."""
    return _needed(command) is command.permission


def _names_outside(command: Command | type[Command]) -> bool:
    """Return whether it names a path that needs an admin: files belong to no service."""
    given = command.admin_fields & command.path_fields if isinstance(command, Command) else ()
    return any(getattr(command, name) is not None for name in given)


def _is_among(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
