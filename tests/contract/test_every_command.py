"""Every command through every door: the same result, the same refusal, one audit record."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.vocabulary.command import Effect, Permission
from holdfast.vocabulary.commands import COMMANDS
from tests.contract.cases import CASES, CONFIG, ELSEWHERE, Case
from tests.contract.doors import DOORS, End, World, by_rest, offered
from tests.harness import is_alive, wait_for
from tests.scenarios.test_tcp import Wire

_CHANGING = re.compile(r"(run|session|job|approval|checkpoint|login|change)-[\w-]+|P[0-9a-f.:]+$")

_OF_ACTOR = frozenset({"actor", "by", "opened_by", "role", "scopes"})
"""What every actor is told differently."""
_OF_MOMENT = frozenset({"report"})
"""What was found just then: a shell, or what it became."""
_COALESCED = frozenset({"send_input", "resize"})
"""What is typed within a minute is one record."""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as made:
        made.write({**CONFIG, "port": made.tcp_port, "http_port": made.http_port})
        made.up()
        wait_for(lambda: {"tcp", "http"} <= made.status()["supervisor"]["doors"].keys())
        # Who reads the records is somebody else: reads of one actor are on record one by one
        # as long as they are no flood.
        made.auditor = made.ask("create_token", token_name="auditor", role="admin")["text"]
        yield made


@pytest.fixture
def again(world: World) -> Iterator[World]:
    """The same Holdfast, as it was at first."""
    yield world
    world.ask("unlock")
    world.ask("start", services=["web"])
    world.ask("resume", services=["web"])


def shape(value: Any) -> Any:
    """A result without what differs from one moment to the next."""
    match value:
        case dict():
            return {
                _CHANGING.sub("…", key): "…" if key in _OF_ACTOR | _OF_MOMENT else shape(item)
                for key, item in value.items()
            }
        case list():
            return sorted({json.dumps(shape(item), sort_keys=True) for item in value})
        case bool() | None:
            return value
        case int() | float():
            return "a number"
        case str():
            return "text" if _varies(value) else value
        case _:
            return type(value).__name__


def _varies(text: str) -> bool:
    return bool(_CHANGING.search(text)) or any(c.isdigit() for c in text) or len(text) > 60


def records(world: World, since: int, command: str) -> list[dict[str, Any]]:
    auditor = {"token": world.auditor}
    found = world.ask("audit", since=since, limit=1000, caller=auditor)["records"]
    told = [one for one in found if one["actor"] != "token auditor"]
    return [one for one in told if one["command"] == command and one["seq"] > since]


def last_record(world: World) -> int:
    newest = world.ask("audit", limit=1, caller={"token": world.auditor})["records"]
    return int(newest[-1]["seq"]) if newest else 0


def prepared(world: World, case: Case) -> dict[str, Any]:
    if case.before is not None:
        case.before(world)
    return case.fields(world) if callable(case.fields) else case.fields


def is_audited(name: str) -> bool:
    command = COMMANDS[name]
    return command.effect is not Effect.READS or command.reads_content


def test_every_command_has_a_case() -> None:
    """A new command is in the contract, or it is said where else it is shown."""
    assert set(COMMANDS) == set(CASES) | set(ELSEWHERE)
    assert not set(CASES) & set(ELSEWHERE)


@pytest.mark.parametrize("name", CASES)
def test_every_door_answers_alike(again: World, name: str) -> None:
    """The same command gives the same result, and is put on record once if it is audited."""
    case = CASES[name]
    ends: dict[str, End] = {}
    for way in offered(name):
        door, asks = DOORS[way]
        fields = prepared(again, case)
        before = last_record(again)
        end = asks(again, "" if way == "line" else again.token, name, fields)
        assert end.error == case.error, (way, end)
        ends[way] = End(shape(end.result), end.error)
        found = records(again, before, name)
        if name in _COALESCED:
            assert len(found) <= 1, (way, found)
        else:
            assert len(found) == is_audited(name), (way, found)
        for record in found:
            assert (record["door"], record["decision"]) == (door.value, "allowed")
    first, *others = ends
    for way in others:
        assert ends[way] == ends[first], f"{way} differs from {first}"


@pytest.mark.parametrize("name", CASES)
def test_every_door_refuses_without_permission(again: World, name: str) -> None:
    """One decision for all doors: the same refusal, on record once, and nothing is done."""
    command, token = COMMANDS[name], refused_token(again, COMMANDS[name].permission)
    if command.greets:
        pytest.skip("everybody who is known may greet")
    fields = prepared(again, CASES[name])
    before = again.ask("status")["services"]["web"]["run_id"]
    for way in offered(name):
        if way == "line":
            continue  # the owner may do everything
        door, asks = DOORS[way]
        place = last_record(again)
        assert asks(again, token, name, fields) == End(None, "refused"), way
        found = [one for one in records(again, place, name) if one["door"] != "cli"]
        if (name, way) == ("events", "websocket"):
            found = found[:1]  # the gate asked for its room before
        assert [(one["door"], one["decision"]) for one in found] == [(door.value, "refused")], way
        assert asks(again, "holdfast_nonsense", name, fields).error == "unauthorized", way
    assert again.ask("status")["services"]["web"]["run_id"] == before


def refused_token(world: World, permission: Permission) -> str:
    """The token of somebody who may not do this."""
    role, limits = {
        Permission.VIEW: ("viewer", {"commands": ["hello"]}),
        Permission.OPERATE: ("viewer", {}),
        Permission.ADMINISTER: ("operator", {}),
    }[permission]
    kept: dict[Permission, str] = world.__dict__.setdefault("refused_tokens", {})
    if permission not in kept:
        made = world.ask("create_token", token_name=f"no-{permission.value}", role=role, **limits)
        kept[permission] = made["text"]
    return kept[permission]


def test_in_words_too(again: World) -> None:
    """Words, tagged JSON, REST and the command line: the same restart, one record each."""

    def by_words() -> None:
        with Wire(again.tcp_port) as wire:
            wire.send(f"token {again.token}", "restart web")
            wire.line()
            assert "web" in wire.line()

    def by_cli() -> None:
        done = subprocess.run(
            again.command("restart", "web"), cwd=again.project, env=again.environ, check=True,
            capture_output=True, text=True, timeout=30,
        )  # fmt: skip
        assert "web" in done.stdout

    for door, restart in (("tcp", by_words), ("cli", by_cli)):
        pid, place = again.service("web")["pid"], last_record(again)
        restart()
        assert again.service("web")["pid"] != pid
        assert [one["door"] for one in records(again, place, "restart")] == [door]


def test_a_callers_word_grants_nothing(again: World) -> None:
    """`is_safe` from who asks opens no shell, at no door."""
    unsafe = {"command_type": "shell", "command": "touch made", "is_safe": True}
    for way in offered("execute_command"):
        asks = DOORS[way][1]
        end = asks(again, "" if way == "line" else again.token, "execute_command",
                   {"custom_command": unsafe})  # fmt: skip
        assert end.error == "refused", way
    assert not (again.project / "made").exists()


@pytest.mark.parametrize("way", offered("shutdown"))
def test_shutdown(way: str) -> None:
    """Ends the supervisor, the keeper and the services, whichever door it came through."""
    with World() as world:
        services = {"web": CONFIG["services"]["web"]}
        world.write({"services": services, "port": world.tcp_port, "http_port": world.http_port})
        world.up()
        wait_for(lambda: {"tcp", "http"} <= world.status()["supervisor"]["doors"].keys())
        if way in ("rest", "websocket"):
            wait_for(lambda: by_rest(world, world.token, "status", {}).error is None)
        pids = [world.keeper_pid, world.supervisor_pid, world.service("web")["pid"]]
        DOORS[way][1](world, "" if way == "line" else world.token, "shutdown", {})
        wait_for(lambda: not any(map(is_alive, pids)), what="all of it to end")
