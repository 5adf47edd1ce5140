"""What a session may ask for, how long it lives, and what becomes of its services. Pure."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from holdfast.rules.plan import starts_with_up
from holdfast.vocabulary.actors import Scopes
from holdfast.vocabulary.command import Permission
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.sessions import Fate, Owner
from holdfast.vocabulary.specs.mcp import McpSpec
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.states import Desired

SHORTEST_GRACE, LONGEST_GRACE = 1.0, 7 * 86400.0
DEFAULT_GRACE = 120.0
DEFAULT_FATE: Fate = "stop"


@lru_cache(maxsize=16)
def granted(mcp: McpSpec, *, is_supervised: bool) -> Scopes:
    """Return what the configuration gives to assistants; to a supervised run only if it says so."""
    readable = (None, "process", *mcp.toolsets)
    commands = [
        name
        for name, command in COMMANDS.items()
        if command.permission is Permission.VIEW and command.toolset in readable
    ]
    if not mcp.read_only and (mcp.supervised or not is_supervised):
        commands += [
            name
            for name, command in COMMANDS.items()
            if command.permission is not Permission.VIEW
            and command.toolset in mcp.toolsets
            and (command.mcp_setting is None or getattr(mcp, command.mcp_setting))
        ]
    return Scopes(commands=tuple(commands))


def grace_of(asked: float | None) -> float:
    """Return the grace that a session gets; senseless values are bounded."""
    if asked is None or asked != asked:
        return DEFAULT_GRACE
    return min(max(asked, SHORTEST_GRACE), LONGEST_GRACE)


def is_users(spec: ServiceSpec, desired: Desired, owner: Owner | None) -> bool:
    """Return whether a service belongs to the user, whoever starts it: the configuration wants it
    to run, or a person did before any session."""
    if spec.origin != "config":
        return False
    return starts_with_up(spec) or (owner is None and desired is Desired.RUNNING)


def claimed(
    owner: Owner | None, session: str | None, new: Owner | None, *, is_running: bool
) -> Owner | None:
    """Return the owner of a service after a start by this session, or by a person (None).

    A running service is joined, never taken over; what a person starts is the person's.
    """
    if session is None or new is None:
        return None
    if not is_running:
        return new
    if owner is None or owner.ended or owner.session == session or session in owner.with_others:
        return owner
    return _with(owner, (*owner.with_others, session))


def left(owner: Owner, session: str, clients: dict[str, str]) -> tuple[Owner | None, bool]:
    """Return the owner of a service when this session is over, and whether its fate follows now.

    `clients` are the sessions that go on. The next session that joined becomes the owner, so the
    service stays until both have left.
    """
    others = tuple(one for one in owner.with_others if one != session and one in clients)
    if owner.session != session:
        return _with(owner, others), False
    if not others:
        return owner, True
    first, *rest = others
    heir = Owner(session=first, client=clients[first], since=owner.since, with_others=tuple(rest))
    return heir, False


def started_by(owner: Owner) -> str:
    """Return in words whose a service is."""
    through = f" through {owner.call}" if owner.call else ""
    gone = ", which is over" if owner.ended else ""
    others = len(owner.with_others)
    joined = f"; {others} more session{'s' if others > 1 else ''} joined" if others else ""
    return f"started by {owner.client}{through} ({owner.session}{gone}){joined}"


def fate_of(configured: Fate | None, asked: Fate) -> Fate:
    """Return the fate: the service's own setting wins over the session's."""
    return configured or asked


def expires_in(grace: float, idle: float, *, is_held: bool) -> float | None:
    """Return the seconds until a session ends by itself; None: not while a connection holds it."""
    return None if is_held else max(0.0, grace - idle)


def is_due(grace: float, idle: float, *, is_held: bool) -> bool:
    return not is_held and idle >= grace


def unknown_owners(owners: Collection[Owner], sessions: Collection[str]) -> list[Owner]:
    """Return the owners whose session does not exist any more."""
    return [owner for owner in owners if owner.session not in sessions and not owner.ended]


def _with(owner: Owner, others: tuple[str, ...]) -> Owner:
    return Owner(
        session=owner.session,
        client=owner.client,
        call=owner.call,
        since=owner.since,
        with_others=others,
        ended=owner.ended,
    )
