"""Permission: a table of roles, each answer with its reason."""

from __future__ import annotations

import pytest

from holdfast.rules.authority.permissions import GRANTED, permit, role_of
from holdfast.vocabulary.actors import Actor, Role, Scopes, Target
from holdfast.vocabulary.authority import Withdraw
from holdfast.vocabulary.command import Command, Door, Effect, Permission
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.jobs import ReportJob
from holdfast.vocabulary.preferences import SetPreferences
from holdfast.vocabulary.services import Restart
from holdfast.vocabulary.workflows import CustomRestart


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        (Role.OWNER, {Permission.VIEW, Permission.OPERATE, Permission.ADMINISTER}),
        (Role.ADMIN, {Permission.VIEW, Permission.OPERATE, Permission.ADMINISTER}),
        (Role.OPERATOR, {Permission.VIEW, Permission.OPERATE}),
        (Role.VIEWER, {Permission.VIEW}),
        (Role.AGENT, {Permission.VIEW}),
        (Role.STRANGER, set()),
    ],
)
def test_what_each_role_may_do(role: Role, allowed: set[Permission]) -> None:
    """Every command of the registry, and a reason either way."""
    for command in COMMANDS.values():
        door = Door.CLI if Door.CLI in command.doors else min(command.doors)
        verdict = permit(Actor(role, "somebody", door=door), command)
        assert verdict.is_allowed is (command.permission in allowed), command.name
        assert verdict.reason


LIMITED = Scopes(services=("web*",), tags=("dev",))


@pytest.mark.parametrize(
    ("scopes", "targets", "is_allowed"),
    [
        (Scopes(), (Target("db"),), True),
        (Scopes(commands=("stop", "st?rt")), (), True),
        (Scopes(commands=("status",)), (), False),
        (Scopes(commands=()), (), False),
        (LIMITED, (Target("web@1"),), True),
        (LIMITED, (Target("db", ("dev",)),), True),
        (LIMITED, (Target("web"), Target("db")), False),
        (LIMITED, (), False),
    ],
)
def test_a_token_is_limited_to_its_scopes(
    scopes: Scopes, targets: tuple[Target, ...], is_allowed: bool
) -> None:
    """A command that changes something is allowed only if all it is about is in scope."""
    actor = Actor(Role.OPERATOR, "deploy", scopes=scopes)
    assert permit(actor, COMMANDS["stop"], targets).is_allowed is is_allowed


def test_everybody_known_may_greet() -> None:
    """However little a token is good for, its owner is told whose it is."""
    actor = Actor(Role.VIEWER, "eyes", door=Door.WEBSOCKET, scopes=Scopes(commands=("status",)))
    assert permit(actor, COMMANDS["hello"], allowed=("status",)).is_allowed
    assert not permit(actor, COMMANDS["ps"], allowed=("status",)).is_allowed
    assert not permit(Actor(Role.STRANGER, "nobody"), COMMANDS["hello"]).is_allowed


def test_a_scope_never_widens_a_role() -> None:
    """A viewer with every scope is still a viewer."""
    actor = Actor(Role.VIEWER, "eyes", scopes=Scopes(commands=("*",), services=("*",)))
    assert not permit(actor, COMMANDS["stop"], (Target("web"),)).is_allowed


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
    """Whatever needs only `view` reads only, but for one's own coming and going, one's own requests
    and preferences."""
    own = {command for command in COMMANDS.values() if command.greets}
    own |= {ReportJob, SetPreferences, Withdraw}
    for command in COMMANDS.values():
        if command.permission is Permission.VIEW and command not in own:
            assert command.effect is Effect.READS, command.name


@pytest.mark.parametrize(
    "command",
    [
        Restart(service="web", args=["-c", "import os"]),
        Restart(service="web", env_vars={"LD_PRELOAD": "/tmp/x.so"}),
        CustomRestart(service="web", start_args=["-c", "import os"]),
        CustomRestart(service="web", args=["-c", "import os"]),
        CustomRestart(service="web", env_vars={"LD_PRELOAD": "/tmp/x.so"}),
    ],
)
def test_what_is_executed_is_not_an_operators_to_choose(command: Command) -> None:
    """Other words or variables make any program of a service: as `run`, that takes an admin."""
    assert not permit(Actor(Role.OPERATOR, "ci", None, Door.TCP), command).is_allowed
    assert permit(Actor(Role.ADMIN, "boss", None, Door.TCP), command).is_allowed
    assert permit(Actor(Role.OPERATOR, "ci", None, Door.TCP), Restart(service="web")).is_allowed


def test_who_was_given_services_was_not_given_files() -> None:
    """Files belong to no service; `paths`, or the command itself, must have been named."""
    read = COMMANDS["read_file"](path="app.py")
    limited = Scopes(services=("web",))
    assert not permit(Actor(Role.VIEWER, "eyes", scopes=limited), read).is_allowed
    named = Scopes(services=("web",), commands=("read_file",))
    assert permit(Actor(Role.VIEWER, "eyes", scopes=named), read).is_allowed
