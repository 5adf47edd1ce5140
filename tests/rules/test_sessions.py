"""What a session may do, whose a service is, and what follows when a session ends."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules import sessions as rules
from holdfast.rules.authority.permissions import permit
from holdfast.vocabulary.actors import Actor, Role, Scopes, Target
from holdfast.vocabulary.command import Door, Permission
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.names import TOOLSETS
from holdfast.vocabulary.services import Restart
from holdfast.vocabulary.sessions import Owner
from holdfast.vocabulary.specs.mcp import McpSpec
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.states import Desired

OWNER = Actor(Role.OWNER, "uid 0 pid 1", door=Door.MCP)
NAMES = st.sampled_from(["a", "b", "c", "d"])


def assistant(mcp: McpSpec = McpSpec(), behind: Actor | None = OWNER) -> Actor:  # noqa: B008
    scopes = rules.granted(mcp, is_supervised=behind is None)
    return Actor(Role.AGENT, "claude", None, Door.MCP, scopes, "session-1", behind)


def allowed(actor: Actor) -> set[str]:
    return {name for name, kind in COMMANDS.items() if permit(actor, kind).is_allowed}


def test_by_default_an_assistant_operates_and_runs_nothing() -> None:
    """Services, files and git; not programs, input, or anything that administers."""
    may = allowed(assistant())
    assert {"status", "logs", "start", "stop", "restart", "wait"} <= may
    assert not {"run", "execute_command", "send_input", "up", "create_token", "remove"} & may
    administered = {n for n, kind in COMMANDS.items() if kind.permission is Permission.ADMINISTER}
    assert not administered & may
    assert not permit(assistant(), Restart(service="web", args=["x"])).is_allowed


def test_read_only_and_supervised_only_look() -> None:
    """Unless the configuration gives agents that Holdfast runs the same."""
    views = {n for n, kind in COMMANDS.items() if kind.permission is Permission.VIEW}
    assert allowed(assistant(McpSpec(read_only=True))) <= views
    assert allowed(assistant(behind=None)) <= views
    assert "start" in allowed(assistant(McpSpec(supervised=True), behind=None))


def test_what_is_switched_on_is_given_by_name() -> None:
    """`run` takes an admin, but for who is given it by its very name."""
    may = allowed(assistant(McpSpec(run=True, send=True)))
    assert {"run", "send_input"} <= may
    wild = Actor(Role.AGENT, "x", None, Door.MCP, Scopes(commands=("*",)))
    assert not permit(wild, COMMANDS["run"]).is_allowed
    assert permit(wild, COMMANDS["start"]).is_allowed


@pytest.mark.parametrize(
    ("toolset", "command"),
    [("files", "read_file"), ("git", "git_status"), ("git", "checkpoints")],
)
def test_what_is_not_offered_is_not_allowed(toolset: str, command: str) -> None:
    """A toolset that is left out is no way round."""
    rest = tuple(one for one in TOOLSETS if one != toolset)
    assert command not in allowed(assistant(McpSpec(toolsets=rest)))


ROLES = st.sampled_from([Role.OWNER, Role.ADMIN, Role.OPERATOR, Role.VIEWER, Role.AGENT])
SCOPES = st.builds(
    Scopes,
    commands=st.none() | st.lists(st.sampled_from(sorted(COMMANDS)), max_size=8).map(tuple),
    services=st.none() | st.lists(NAMES, max_size=2).map(tuple),
)
SPECS = st.builds(
    McpSpec,
    read_only=st.booleans(),
    run=st.booleans(),
    send=st.booleans(),
    toolsets=st.lists(st.sampled_from(TOOLSETS), unique=True).map(tuple),
)


@given(ROLES, SCOPES, SPECS, st.sampled_from(sorted(COMMANDS)), st.lists(NAMES, max_size=2))
def test_a_session_is_never_wider_than_who_opened_it(
    role: Role, scopes: Scopes, mcp: McpSpec, name: str, services: list[str]
) -> None:
    """Whatever the configuration gives: both must be allowed."""
    opener = Actor(role, "opener", None, Door.MCP, scopes)
    targets = tuple(Target(service) for service in services)
    if permit(assistant(mcp, opener), COMMANDS[name], targets).is_allowed:
        assert permit(opener, COMMANDS[name], targets).is_allowed


@given(st.lists(st.tuples(st.booleans(), NAMES), max_size=12))
def test_it_stays_until_the_last_has_left(history: list[tuple[bool, str]]) -> None:
    """Sessions join and leave in any order: its fate follows when the last of them goes."""
    owner: Owner | None = None
    inside: list[str] = []
    for joins, name in history:
        if joins:
            new = Owner(session=name, client=name)
            owner = rules.claimed(owner, name, new, is_running=owner is not None)
            if name not in inside:
                inside.append(name)
        elif owner is not None and name in inside:
            clients = {one: one for one in inside if one != name}
            owner, is_over = rules.left(owner, name, clients)
            inside.remove(name)
            assert is_over is (not inside)
            if is_over:
                owner = None
        if owner is not None:
            assert [owner.session, *owner.with_others] == inside


def test_what_ran_before_is_joined_not_owned() -> None:
    """And what a person starts is the person's."""
    new = Owner(session="s", client="c")
    assert rules.claimed(None, "s", new, is_running=True) is None
    assert rules.claimed(None, "s", new, is_running=False) == new
    assert rules.claimed(new, None, None, is_running=True) is None


@given(st.floats(allow_nan=True), st.floats(min_value=0, max_value=1e9))
def test_a_grace_is_bounded(asked: float, idle: float) -> None:
    """Whatever a client says, a session ends some day, and not at once."""
    grace = rules.grace_of(asked)
    assert rules.SHORTEST_GRACE <= grace <= rules.LONGEST_GRACE
    assert not rules.is_due(grace, idle, is_held=True)
    assert rules.is_due(grace, idle, is_held=False) is (
        rules.expires_in(grace, idle, is_held=False) == 0.0
    )


def test_what_the_configuration_wants_running_is_the_users() -> None:
    """Whoever starts it; so is what a person started before, but nothing that a session started."""
    spec = ServiceSpec(name="web", argv=("x",), working_dir="/")
    idle = msgspec.structs.replace(spec, autostart=False)
    own = Owner(session="s", client="c")
    assert rules.is_users(spec, Desired.STOPPED, None)
    assert rules.is_users(idle, Desired.RUNNING, None)
    assert not rules.is_users(idle, Desired.STOPPED, None)
    assert not rules.is_users(idle, Desired.RUNNING, own)
    task = msgspec.structs.replace(spec, origin="run")
    assert not rules.is_users(task, Desired.RUNNING, None)
