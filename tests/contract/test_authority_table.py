"""Every command, role, door and limit against the one table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import msgspec
import pytest

from holdfast.rules.authority.path_scopes import PathTarget
from holdfast.rules.authority.permissions import Circumstances, permit
from holdfast.vocabulary.actors import Actor, Role, Target
from holdfast.vocabulary.command import Door, Effect, Permission
from holdfast.vocabulary.commands import COMMANDS
from tests.contract import authority_table as table
from tests.contract.authority_table import LIMITS, expected
from tests.contract.doors import DOORS, World, offered
from tests.contract.samples import names_services, sample
from tests.harness import quick, wait_for


def test_every_command_has_a_decision() -> None:
    """One level each, and what the vocabulary says of it is what was decided."""
    levels = {
        Permission.VIEW: table.VIEW,
        Permission.OPERATE: table.OPERATE,
        Permission.ADMINISTER: table.ADMINISTER,
    }
    assert sorted(COMMANDS) == sorted(name for names in levels.values() for name in names)
    for name, command in COMMANDS.items():
        assert name in levels[command.permission], name
        assert command.doors == table.DOORS.get(name, table.EVERYWHERE), name
        decided = {
            "effect": table.reads(name),
            "always_answered": name in table.OWN_STAY,
            "greets": name in table.LETS_IN,
            "in_lockdown": name in table.IN_LOCKDOWN,
            "reaches_out": name in table.REACHES_OUT,
            "about_files": name in table.ABOUT_FILES,
            "is_recursive": name in table.BELOW_FOLDERS,
            "leaves_out": name in table.LEAVES_OUT,
            "granted_by_name": name in table.BY_NAME,
        }
        said = {key: getattr(command, key) for key in decided if key != "effect"}
        assert {**said, "effect": command.effect is Effect.READS} == decided, name


@pytest.mark.parametrize("limit", LIMITS)
def test_the_decision_is_the_tables(limit: str) -> None:
    """For every command, role and door under this limit."""
    found = LIMITS[limit]
    wrong = []
    circumstances = Circumstances("a drill" if found.lockdown else None)
    for (name, kind), role, door in product(COMMANDS.items(), Role, Door):
        actor = Actor(role, "somebody", door=door, scopes=found.scopes)
        has_services = names_services(name)
        targets = [Target("web", ("dev",))] if has_services else []
        files = [PathTarget("/project/docs/a.md", "docs/a.md")] if kind.about_files else []
        command = msgspec.convert(sample(name), kind)
        verdict = permit(actor, command, targets, found.allowed, circumstances, files)
        wanted = expected(name, role, door, found, has_services=has_services)
        if verdict.is_allowed is not wanted or not verdict.reason:
            wrong.append((name, role.value, door.value, wanted, verdict.reason))
    assert wrong == []


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.ADMIN])
def test_to_name_another_takes_an_admin_within_limits(role: Role) -> None:
    """What is answered about one's own stay is not answered about somebody else's."""
    for name in ("renew_session", "hold_session", "close_session"):
        command = COMMANDS[name](session="session-of-another")
        for limit in LIMITS.values():
            actor = Actor(role, "somebody", door=Door.REST, scopes=limit.scopes)
            verdict = permit(actor, command, (), limit.allowed)
            is_named = limit.scopes.commands is None or name.startswith("close_")
            is_named = is_named and limit.scopes.commands != ()
            is_free = limit.scopes.services is None and limit.scopes.tags is None
            is_listed = limit.allowed is None
            if limit.scopes.commands == ("stop", "status"):
                is_named = False
            may = role is Role.ADMIN and is_named and is_free and is_listed
            assert verdict.is_allowed is may, (name, limit)


# Through real doors


def config(world: World, allowed: list[str] | None = None) -> dict[str, Any]:
    return {
        "runtime_mode": "advanced",
        "port": world.tcp_port,
        "http_port": world.http_port,
        "services": {"web": quick(start_seconds=0), "db": quick(start_seconds=0)},
        "files": {"roots": {"project": {"path": ".", "write": True}}},
        "security": {} if allowed is None else {"allowed_commands": allowed},
    }


def allow(world: World, commands: list[str] | None) -> None:
    world.write(config(world, commands))
    world.ask("reload")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as made:
        made.write(config(made))
        made.up()
        wait_for(lambda: {"tcp", "http"} <= made.status()["supervisor"]["doors"].keys())
        yield made


REAL: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("viewer", {}),
    "commands": ("admin", {"commands": ["status", "restart", "run", "close_*"]}),
    "no command": ("admin", {"commands": []}),
    "other services": ("admin", {"services": ["db"]}),
    "other paths": ("admin", {"paths": ["src/**"]}),
    "lockdown": ("agent", {}),
    "allowed commands": ("admin", {}),
}


@pytest.mark.parametrize("limit", REAL)
def test_what_the_table_refuses_every_door_refuses(world: World, limit: str) -> None:
    """Whatever a real door is asked beyond a token's rights is refused, and nothing is changed."""
    role, fields = REAL[limit]
    name = f"token {limit}"
    token = world.ask("create_token", token_name=name, role=role, **fields)["text"]
    before = {it: one["pid"] for it, one in world.status()["services"].items()}
    if limit == "lockdown":
        world.ask("lockdown", reason="a drill")
    if limit == "allowed commands":
        allow(world, list(LIMITS[limit].allowed or ()))
    asked = []
    try:
        for command in COMMANDS:
            has_services = names_services(command)
            for way in offered(command):
                door, asks = DOORS[way]
                if way in ("line", "tagged"):
                    continue  # the owner's, and the same door as `flat`
                if command == "watch" and way == "websocket":
                    continue  # that door has sessions instead
                if expected(command, Role(role), door, LIMITS[limit], has_services=has_services):
                    continue
                asked.append((command, way))
                end = asks(world, token, command, sample(command))
                assert end.error == "refused", (command, way, end)
    finally:
        world.ask("unlock")
        allow(world, None)
    assert len(asked) > 50
    assert {it: one["pid"] for it, one in world.status()["services"].items()} == before


def test_answers_tell_only_what_a_limited_token_may_see(world: World) -> None:
    """What is not refused to a token of one service never names another."""
    token = world.ask("create_token", token_name="of web", role="viewer", services=["web"])["text"]
    told: dict[str, Any] = {}
    for command, kind in COMMANDS.items():
        if kind.effect is not Effect.READS or (kind.streams and command != "events"):
            continue
        for way in offered(command):
            if way in ("rest", "mcp"):
                fields = {**sample(command), **({"timeout": 0.1} if command == "wait" else {})}
                end = DOORS[way][1](world, token, command, fields)
                told[f"{command} {way}"] = end.result
    assert [key for key, answer in told.items() if '"db"' in json.dumps(answer)] == []
