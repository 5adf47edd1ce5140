"""Policies and lockdowns only ever restrict; the first policy that is about a request decides."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.rules.authority.path_scopes import PathTarget
from holdfast.rules.authority.permissions import Circumstances, permit
from holdfast.rules.authority.policies import (
    PolicyRequest,
    can_wait,
    could_begin,
    decide,
    is_greeting,
    is_within,
    why_not_approve,
)
from holdfast.vocabulary.actors import Actor, Role, Scopes, Target
from holdfast.vocabulary.command import Door, Effect
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.specs.policies import ALL_DAY, PolicySpec, Window

MONDAY = datetime(2024, 1, 1, 12, 0, tzinfo=timezone.utc)


def policy(effect: str = "deny", name: str = "one", **fields: object) -> PolicySpec:
    return PolicySpec(name=name, effect=effect, **fields)  # type: ignore[arg-type]


some = st.sampled_from
commands = some(sorted(COMMANDS.values(), key=lambda command: command.name))
targets = st.lists(
    st.builds(Target, some(["web", "db", "api@1"]), some([(), ("dev",), ("prod",)])), max_size=3
)
scopes = some([Scopes(), Scopes(commands=("st*",)), Scopes(services=("web",)), Scopes(commands=())])
people = st.builds(
    Actor,
    role=some(list(Role)),
    name=some(["token ci", "token deploy", "uid 1 pid 2"]),
    door=some(list(Door)),
    scopes=scopes,
)
sessions = st.builds(
    Actor,
    role=st.just(Role.AGENT),
    name=some(["claude (token ci)", "deploy (owner)"]),
    door=some([Door.MCP, Door.REST]),
    scopes=scopes,
    session=st.just("session-1"),
    behind=people,
)
actors = people | sessions
patterns = st.none() | st.lists(some(["*", "w*", "db", "ci", "stop", "st*"]), max_size=3).map(tuple)
policies = st.builds(
    PolicySpec,
    name=st.just("some"),
    effect=some(["confirm", "deny", "allow"]),
    actors=patterns,
    roles=st.none() | st.lists(some([role.value for role in Role]), max_size=2).map(tuple),
    doors=st.none() | st.lists(some([door.value for door in Door]), max_size=2).map(tuple),
    commands=patterns,
    services=patterns,
    tags=st.none() | st.just(("dev",)),
    times=st.none() | st.just((Window(days=(0,), begin=600, end=900),)),
)


@given(actors, commands, targets, st.lists(policies, max_size=4), st.booleans())
def test_nothing_is_granted(
    actor: Actor, command: type, touched: list[Target], found: list[PolicySpec], locked: bool
) -> None:
    """What is refused without policies and lockdown is refused with them, whatever they say."""
    calm = permit(actor, command, touched)
    now = Circumstances("leak" if locked else None, found, lambda _: MONDAY, touched)
    verdict = permit(actor, command, touched, None, now)
    assert calm.is_allowed or not verdict.is_allowed
    assert verdict.reason
    approved = permit(actor, command, touched, None, replace(now, is_approved=True))
    assert approved.confirm is None
    assert approved.is_allowed is verdict.is_allowed


@given(people, commands, st.lists(policies, min_size=1, max_size=5), targets)
def test_the_first_that_is_about_it_decides(
    actor: Actor, command: type, found: list[PolicySpec], touched: list[Target]
) -> None:
    """Whatever comes after it changes nothing, and what is not about it neither."""
    request = PolicyRequest(actor, command, touched)
    first = decide(found, request, lambda _: MONDAY)
    alone = [decide([one], request, lambda _: MONDAY) for one in found]
    assert first == next((one for one in alone if one is not None), None)


@given(actors, commands, targets)
def test_a_lockdown_stops_every_change(actor: Actor, command: type, touched: list[Target]) -> None:
    """But what only stops something, of an admin; agents are not even shown anything."""
    verdict = permit(actor, command, touched, None, Circumstances("leak"))
    if is_greeting(command) or not permit(actor, command, touched).is_allowed:
        return
    if actor.role is Role.AGENT:
        is_read = command.effect is Effect.READS and not command.reaches_out  # type: ignore[attr-defined]
        assert verdict.is_allowed is (actor.door is Door.GATE and is_read)
    elif command.effect is not Effect.READS or command.reaches_out:  # type: ignore[attr-defined]
        is_admin = actor.role in (Role.OWNER, Role.ADMIN)
        may = is_admin or command.greets  # type: ignore[attr-defined]
        assert verdict.is_allowed is (may and command.in_lockdown)  # type: ignore[attr-defined]
        assert verdict.is_allowed or "leak" in verdict.reason
    else:
        assert verdict.is_allowed


def test_what_a_lockdown_lets_through() -> None:
    """These and no more; who adds one thinks about it here."""
    found = {name for name, command in COMMANDS.items() if command.in_lockdown}
    assert found == {
        *("stop", "shutdown", "cancel_workflow", "revoke_token", "close_session"),
        *("lockdown", "unlock", "reject", "cancel_job", "pause_jobs", "interrupt", "stop_agent"),
        *("create_login", "log_in", "log_out", "hand_over"),
    }
    assert {name for name, command in COMMANDS.items() if is_greeting(command)} == {"hello"}


OWNER = Actor(Role.OWNER, "uid 1 pid 2")
CI = Actor(Role.OPERATOR, "token ci", door=Door.REST, token="11")


@pytest.mark.parametrize(
    ("spec", "touched", "effect"),
    [
        (policy(services=("db",)), ("web", "db"), "deny"),
        (policy(services=("db",)), ("web",), None),
        (policy(services=("db",)), (), None),
        (policy("allow", services=("web",)), ("web", "db"), None),
        (policy("allow", services=("web",)), ("web",), "allow"),
        (policy("allow", services=("*",)), (), None),
    ],
)
def test_services(spec: PolicySpec, touched: tuple[str, ...], effect: str | None) -> None:
    """To restrict, one of them is enough; to allow, no other may be touched."""
    request = PolicyRequest(CI, COMMANDS["stop"], [Target(name) for name in touched])
    found = decide([spec], request, lambda _: MONDAY)
    assert (None if found is None else found.effect) == effect


@pytest.mark.parametrize(
    ("services", "effect"), [(("api",), "deny"), (("api@2",), None), (("a*",), "deny")]
)
def test_an_instance_is_its_service(services: tuple[str, ...], effect: str | None) -> None:
    """What is said about a service holds for each instance of it, by whatever name it is asked."""
    targets = [Target("api@1", template="api")]
    request = PolicyRequest(CI, COMMANDS["stop"], targets)
    found = decide([policy(services=services)], request, lambda _: MONDAY)
    assert (None if found is None else found.effect) == effect
    limited = replace(CI, scopes=Scopes(services=services))
    assert permit(limited, COMMANDS["stop"], targets).is_allowed == (effect is not None)


@pytest.mark.parametrize(
    ("effect", "tools", "found"),
    [
        ("deny", ("db__drop_all",), True),
        ("deny", ("db__drop.all",), True),
        ("deny", ("db__read",), False),
        ("allow", ("db__drop_*",), False),
        ("allow", ("db__drop*",), True),
    ],
)
def test_tools(effect: str, tools: tuple[str, ...], found: bool) -> None:
    """To restrict, one of its names is enough; to allow, each has to be meant."""
    names = ("db__drop.all", "db__drop_all")
    request = PolicyRequest(CI, COMMANDS["call_mcp_tool"], (), (), names)
    assert (decide([policy(effect, tools=tools)], request, lambda _: MONDAY) is not None) == found
    other = PolicyRequest(CI, COMMANDS["stop"])
    assert decide([policy(effect, tools=tools)], other, lambda _: MONDAY) is None


def target(path: str) -> PathTarget:
    """A path below the project, or an absolute one elsewhere."""
    return PathTarget(path, None) if path.startswith("/") else PathTarget(f"/project/{path}", path)


@pytest.mark.parametrize(
    ("pattern", "paths", "denied", "allowed"),
    [
        ("secret/*", ["secret/key"], True, True),
        ("secret/*", ["a/../secret/key"], True, True),
        ("secret/*", ["src/a.py", "secret/key"], True, False),
        ("secret/*", ["secret"], True, False),
        ("secret/*", [""], True, False),
        ("secret/*", ["src/a.py"], False, False),
        ("secret/*", [], False, False),
        ("/etc/*", ["/etc/hosts"], True, True),
        ("/project/secret/*", ["secret/key"], True, True),
        ("*/secrets/*", ["app"], True, False),
        ("*/secrets/*", ["app/secrets"], True, False),
        ("*/secrets/*", ["secrets/key"], True, False),
        ("*/secrets/*", ["App/SECRETS/key"], True, False),
        ("app/s*/[kx]ey", ["app"], True, False),
        ("app/s*/[kx]ey", ["app/sun"], True, False),
        ("app/s*/[kx]ey", ["app/moon"], False, False),
        ("secret", ["secret/key"], True, False),
    ],
)
def test_paths(pattern: str, paths: list[str], denied: bool, allowed: bool) -> None:
    """A folder that may hold some counts as them where it restricts, never where it allows."""
    for effect, is_about in (("deny", denied), ("allow", allowed)):
        targets = [target(path) for path in paths]
        request = PolicyRequest(CI, COMMANDS["undo_files"], (), targets)
        found = decide([policy(effect, paths=(pattern,))], request, lambda _: MONDAY)
        assert (found is not None) is is_about


@pytest.mark.parametrize(
    ("command", "path", "is_denied"),
    [
        ("read_file", "app", False),
        ("read_file", "app/secrets/key", True),
        ("write_file", "app/main.py", False),
        ("list_files", "app", False),  # what is below is left out of the answer
        ("list_files", "app/secrets", True),
        ("search", "app/secrets/deep", True),
        ("git_status", "app", False),
        ("git_status", "app/secrets", True),
        ("restore_checkpoint", "app", True),
    ],
)
def test_what_a_folder_stands_for(command: str, path: str, is_denied: bool) -> None:
    """What it holds, for commands that reach below it and do not leave out what is denied."""
    request = PolicyRequest(CI, COMMANDS[command], (), [target(path)])
    found = decide([policy(paths=("*/secrets/*",))], request, lambda _: MONDAY)
    assert (found is not None) is is_denied


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*/cle\u0301s/*", "cl\u00e9s/key"),
        ("*/cl\u00e9s/*", "cle\u0301s/key"),
        ("*/\ufb01nance/*", "app/finance/key"),
    ],
)
def test_a_name_has_several_spellings(pattern: str, path: str) -> None:
    """Composed letters or not, in the pattern as in the path."""
    request = PolicyRequest(CI, COMMANDS["read_file"], (), [target(path)])
    assert decide([policy(paths=(pattern,))], request, lambda _: MONDAY) is not None


@given(
    st.text("ab/*?[]!", max_size=8),
    st.text("ab/", min_size=1, max_size=6),
    st.text("ab/", max_size=6),
)
def test_a_folder_that_holds_a_match_is_recognised(pattern: str, folder: str, rest: str) -> None:
    """Whatever matches below a folder, the folder could begin."""
    if fnmatchcase(f"{folder.rstrip('/')}/{rest}", pattern):
        assert could_begin(folder, pattern)


def test_a_session_is_bound_like_who_opened_it() -> None:
    """And the name that its client gives itself allows nothing."""
    session = Actor(Role.AGENT, "deploy (token ci)", door=Door.MCP, session="session-1", behind=CI)
    request = PolicyRequest(session, COMMANDS["stop"])
    denied = decide([policy(actors=("ci",))], request, lambda _: MONDAY)
    assert denied is not None
    found = [policy("allow", actors=("deploy*",)), policy("deny", roles=("agent",))]
    decided = decide(found, request, lambda _: MONDAY)
    assert decided is not None
    assert decided.effect == "deny"


def test_the_owner_is_not_locked_out() -> None:
    """He could edit the file: stopping, unlocking and deciding stay his."""
    for name in ("stop", "shutdown", "unlock", "approve", "reject"):
        assert decide([policy()], PolicyRequest(OWNER, COMMANDS[name]), lambda _: MONDAY) is None
    assert (
        decide([policy()], PolicyRequest(OWNER, COMMANDS["restart"]), lambda _: MONDAY) is not None
    )


def test_the_gate_asks_for_itself() -> None:
    """A policy about agents does not cut the gate off from the work that it does for others."""
    gate = Actor(Role.AGENT, "the gate", door=Door.GATE)
    denied = Circumstances(policies=[policy(roles=[Role.AGENT])])
    own = [each for each in COMMANDS.values() if each.doors == {Door.GATE}]
    assert own
    assert all(permit(gate, each, (), None, denied).is_allowed for each in own)
    caller = Actor(Role.AGENT, "an assistant", door=Door.MCP)
    assert not permit(caller, COMMANDS["status"], (), None, denied).is_allowed


@given(commands)
def test_only_changes_wait_for_approval(command: type) -> None:
    """And no decision waits for another one."""
    waits = can_wait(command)
    assert waits is (
        command.effect is not Effect.READS  # type: ignore[attr-defined]
        and command.name not in ("approve", "reject", "lockdown", "unlock")  # type: ignore[attr-defined]
    )
    found = decide([policy("confirm")], PolicyRequest(CI, command), lambda _: MONDAY)
    assert (found is not None) is waits


@given(actors, actors, some(["operator", "admin"]))
def test_who_approves(approver: Actor, asker: Actor, least: str) -> None:
    """Never an agent, never the token that asked or opened the session that did."""
    why = why_not_approve(approver, asker, least)
    if approver.role is Role.AGENT:
        assert why == "an agent never approves"
    if approver.role is not Role.OWNER and approver.identity == asker.identity:
        assert why is not None
    if why is None:
        assert approver.role in (Role.OPERATOR, Role.ADMIN, Role.OWNER)
        assert approver.role is not Role.OPERATOR or least == "operator"


def test_the_asking_token_never_approves() -> None:
    """Not through another door, and not what its own session asks; somebody else's does."""
    same = Actor(Role.ADMIN, "token ci", door=Door.TCP, token="11")
    other = Actor(Role.ADMIN, "token boss", door=Door.TCP, token="12")
    session = Actor(Role.AGENT, "claude", door=Door.MCP, session="session-1", behind=CI)
    for asker in (CI, session):
        assert why_not_approve(same, asker, "admin") is not None
        assert why_not_approve(other, asker, "admin") is None
        assert why_not_approve(OWNER, asker, "admin") is None
    assert why_not_approve(OWNER, OWNER, "admin") is None


@given(
    st.builds(
        Window,
        days=st.sets(st.integers(0, 6), min_size=1).map(lambda days: tuple(sorted(days))),
        begin=st.integers(0, ALL_DAY - 1),
        end=st.integers(0, ALL_DAY),
    ),
    st.integers(0, 7 * ALL_DAY - 1),
)
def test_windows_of_a_week(window: Window, minute: int) -> None:
    """As if every minute of it were written down, also over midnight and over Sunday."""
    length = window.end - window.begin if window.end > window.begin else None
    if length is None:
        length = ALL_DAY - window.begin + window.end
    begins = [day * ALL_DAY + window.begin for day in window.days]
    open_minutes = {(begin + more) % (7 * ALL_DAY) for begin in begins for more in range(length)}
    moment = MONDAY.replace(hour=0) + timedelta(minutes=minute)
    assert is_within(window, moment) is (minute in open_minutes)


def test_every_refusal_says_what_to_do() -> None:
    """Whatever refuses."""
    viewer = Actor(Role.VIEWER, "eyes")
    for verdict in (
        permit(viewer, COMMANDS["stop"]),
        permit(OWNER, COMMANDS["start"], (), None, Circumstances("leak")),
        permit(OWNER, COMMANDS["start"], (), None, Circumstances(policies=[policy()])),
    ):
        assert not verdict.is_allowed
        assert verdict.hint
        assert verdict.cause in ("role", "lockdown", "policy")
