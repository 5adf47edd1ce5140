"""Permission: a table of roles, each answer with its reason."""

from __future__ import annotations

import pytest

from holdfast.rules.permissions import GRANTED, permit, role_of
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.commands.command import Effect, Permission


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        (Role.OWNER, {Permission.VIEW, Permission.OPERATE, Permission.ADMINISTER}),
        (Role.AGENT, {Permission.VIEW}),
        (Role.STRANGER, set()),
    ],
)
def test_what_each_role_may_do(role: Role, allowed: set[Permission]) -> None:
    """The whole table, and a reason either way."""
    for permission in Permission:
        verdict = permit(Actor(role, "somebody"), permission)
        assert verdict.is_allowed is (permission in allowed)
        assert verdict.reason


@pytest.mark.parametrize(
    ("peer", "own", "supervised", "role"),
    [
        (1000, 1000, False, Role.OWNER),
        (0, 1000, False, Role.OWNER),
        (1001, 1000, False, Role.STRANGER),
        (1000, 1000, True, Role.AGENT),
        (0, 0, True, Role.AGENT),
    ],
)
def test_who_is_who(peer: int, own: int, supervised: bool, role: Role) -> None:
    """The owner and root own it; a supervised process is an agent, whoever it runs as."""
    assert role_of(peer_uid=peer, own_uid=own, is_supervised=supervised) is role


def test_every_role_is_decided() -> None:
    """No role without a row in the table."""
    assert set(GRANTED) == set(Role)


def test_a_viewer_changes_nothing() -> None:
    """Whatever needs only `view` reads only."""
    for command in COMMANDS.values():
        if command.permission is Permission.VIEW:
            assert command.effect is Effect.READS, command.name
