"""What a command is about, for an actor whose token is limited to some services."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.engine.roster import Roster
from holdfast.vocabulary.actors import Actor, Target
from holdfast.vocabulary.command import Command, Permission
from holdfast.vocabulary.errors import Refused, UnknownService


def targets(roster: Roster, actor: Actor, command: Command) -> tuple[Target, ...]:
    """The services that a command names; nothing for who is not limited."""
    if not is_limited(actor):
        return ()
    return _meant(roster, _named(command))


def narrowed(
    roster: Roster, actor: Actor, command: Command, may_see: Callable[[Target], bool]
) -> Command:
    """Who may look at some services and asks for all gets those."""
    is_about_all = getattr(command, "services", None) == [] and not _named(command)
    if not is_limited(actor) or not is_about_all or command.permission is not Permission.VIEW:
        return command
    visible = [name for name in roster.runners if may_see(target_of(roster, name))]
    if not visible:
        raise Refused("there is no service that this token may see", "ask the owner")
    return msgspec.structs.replace(command, services=visible)


def is_limited(actor: Actor) -> bool:
    """To some services, by its own scopes or by those of who opened its session."""
    is_some = actor.scopes.services is not None or actor.scopes.tags is not None
    return is_some or (actor.behind is not None and is_limited(actor.behind))


def _named(command: Command) -> list[str]:
    if command.name == "create_token":
        return []  # what another token is limited to
    one: Any = getattr(command, "service", None)
    several: Any = getattr(command, "services", None)
    counts: Any = getattr(command, "instances", None)
    return [*([one] if isinstance(one, str) else ()), *(several or ()), *(counts or ())]


def target_of(roster: Roster, name: str) -> Target:
    runner = roster.runners.get(name)
    tags = getattr(runner.declaration.spec, "tags", ()) if runner is not None else ()
    return Target(name, tuple(tags))


def touched(roster: Roster, command: Command) -> tuple[Target, ...]:
    """Every service that a command is about, whoever asks: all, if it names none of several."""
    named = _named(command)
    if not named:
        every = roster.runners if _has_any(command) else ()
        return tuple(target_of(roster, name) for name in every)
    return _meant(roster, named)


def _meant(roster: Roster, named: list[str]) -> tuple[Target, ...]:
    found: dict[str, Target] = {}
    for wanted in named:
        try:
            names = roster.names([wanted])
        except UnknownService:
            # The names that there are, are not told to who may not see them.
            names = [wanted]
        found.update({name: replace(target_of(roster, name), asked=wanted) for name in names})
    return tuple(found.values())


def _has_any(command: Command) -> bool:
    if command.name in ("shutdown", "create_token"):
        return command.name == "shutdown"
    return bool({"service", "services"} & set(command.__struct_fields__))
