"""The decision about one request, with everything that it depends on: the one way of asking
`rules.authority.permissions`.

Gathers the services and files that a command is about and what holds now. `application` acts on
the verdict; `check_access` only tells it. Changes nothing and counts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.app.authority import path_scopes, service_scopes
from holdfast.rules.authority.permissions import PermissionVerdict, permit
from holdfast.vocabulary.actors import UNLIMITED, Actor, Target
from holdfast.vocabulary.command import Command

if TYPE_CHECKING:
    from holdfast.app.authority.request_checks import RequestChecks
    from holdfast.app.context import Context


def decide(
    context: Context,
    checks: RequestChecks,
    actor: Actor,
    command: Command,
    *,
    is_approved: bool = False,
) -> tuple[Command, PermissionVerdict]:
    """Return the command narrowed to what its actor may see, and the verdict about it."""
    targets: tuple[Target, ...] = ()
    if actor.scopes is not UNLIMITED:
        command = service_scopes.narrow(
            context,
            actor,
            command,
            lambda target: permit(actor, command, (target,)).is_allowed,
        )
        targets = service_scopes.limiting_targets(context, actor, command)
    files = path_scopes.limiting_targets(context, actor, command)
    settings = context.settings.now
    allowed = settings.door.allowed_commands if settings.door else None
    circumstances = checks.circumstances(command, is_approved=is_approved)
    verdict = permit(actor, command, targets, allowed, circumstances, files)
    if verdict.is_allowed and command.carries_commands:
        from holdfast.rules.authority.commands import permit_commands

        carried = permit_commands(actor, command, settings)
        if not carried.is_allowed:
            hint = "then `holdfast reload` applies the setting" if "`" in carried.reason else ""
            return command, replace(carried, cause="command", hint=hint)
    return command, checks.object_to(actor, command, verdict)
