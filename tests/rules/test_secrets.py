"""Which values of a configuration are secrets, and who is told."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.rules.secrets import MOST_VALUES, may_read_values, values_of
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.alerts import TargetSpec
from holdfast.vocabulary.command import Door
from holdfast.vocabulary.specs.probes import HttpTarget, ProbeSpec
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.specs.settings import DoorSpec, Settings


def of(env: dict[str, str], settings: Settings | None = None) -> list[str]:
    spec = ServiceSpec(name="web", argv=("x",), working_dir="/", env=env)
    return values_of([spec], [], settings or Settings())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("API_KEY", "abc-def-ghi"),
        ("DB_PASSWORD", "p4ssw0rd!"),
        ("SESSION_SECRET", "0123456789012"),
        ("GITHUB_TOKEN", "whatever-it-is"),
        ("DB_PWD", "hunter2-hunter2"),
    ],
)
def test_values_of_secret_names(name: str, value: str) -> None:
    """Wherever it is printed, it is hidden."""
    assert value in of({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PWD", "/srv/somewhere/project"),
        ("PWD", "/srv/with a blank/project"),
        ("SSH_AUTH_SOCK", "/tmp/agent.1"),
        ("TLS_KEY", "./certs/site.key"),
        ("TOKEN_SECONDS", "3600"),
        ("POSTGRES_PASSWORD", "postgres"),
        ("AUTH_MODE", "disabled"),
        ("API_KEY", "short"),
        ("GIT_AUTHOR_NAME", "Somebody Else"),
        ("AUTH_URL", "https://auth.example.com/login"),
        ("COLOUR", "a-value-that-is-none"),
    ],
)
def test_what_would_hide_half_of_every_log(name: str, value: str) -> None:
    """Paths, numbers, words, and what no name tells to be a secret."""
    assert of({name: value}) == []


def test_an_address_with_a_password() -> None:
    """The password alone counts as well, as it is written and as it is meant."""
    found = of({"DATABASE_URL": "postgres://app:p%40ss-word@db/x"})
    assert {"p%40ss-word", "p@ss-word", "postgres://app:p%40ss-word@db/x"} <= set(found)


def test_forms_of_a_value() -> None:
    """In JSON, in an address, and line by line."""
    found = of({"PRIVATE_KEY": 'first "long" line here\nsecond long line here'})
    assert 'first \\"long\\" line here\\nsecond long line here' in found
    assert "second long line here" in found
    assert "second%20long" in " ".join(found)


def test_settings_hold_secrets() -> None:
    """The token of the doors, addresses of alerts, headers, and what is named."""
    target = TargetSpec(
        name="chat",
        webhook="https://chat.example/hooks/T0001/B0002/abcdef",
        headers={"X-Auth-Token": "header-secret", "Content-Type": "text/plain"},
    )
    settings = Settings(
        door=DoorSpec(token="door-token-text"),
        alerts=(target,),
        secrets=("LICENSE", "literal-secret"),
    )
    found = of({"LICENSE": "licence-of-ours"}, settings)
    wanted = {"door-token-text", "licence-of-ours", "literal-secret", "header-secret"}
    assert wanted | {"/hooks/T0001/B0002/abcdef"} <= set(found)
    assert "text/plain" not in found


def test_headers_of_probes() -> None:
    """What a probe shows to be let in."""
    headers = {"Authorization": "Bearer let-me-in-please"}
    target: Any = HttpTarget(url="http://127.0.0.1/", headers=headers)
    probe = ProbeSpec(roles=("readiness",), target=target)
    spec = ServiceSpec(name="web", argv=("x",), working_dir="/", probes=(probe,))
    assert "let-me-in-please" in values_of([spec], [], Settings())


def test_arguments_behind_secret_flags() -> None:
    """As `ps` would show them; the program's own words are no secrets."""
    argv = (
        "serve",
        "--token",
        "argv-secret-1",
        "--password=argv-secret-2",
        "--key",
        "-v",
        "plain-text",
    )
    spec = ServiceSpec(name="web", argv=argv, working_dir="/")
    assert values_of([spec], [], Settings()) == ["argv-secret-1", "argv-secret-2"]


def test_no_arguments_are_no_secrets() -> None:
    """Of a run that was found without its declaration, not even the command is known."""
    spec = ServiceSpec(name="lost", argv=(), working_dir="/")
    assert values_of([spec], [], Settings()) == values_of([], [], Settings())


def test_there_are_not_endlessly_many() -> None:
    """Those of the settings come first."""
    settings = Settings(door=DoorSpec(token="door-token-text"))
    found = of({f"KEY_{n}": f"secret-number-{n}" for n in range(2000)}, settings)
    assert len(found) == MOST_VALUES
    assert found[0] == "door-token-text"


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("door", list(Door))
def test_who_is_told(role: Role, door: Door) -> None:
    """The gate for itself and the owner at this machine; no caller, not even an admin."""
    is_told = door is Door.GATE or (door is Door.CLI and role is Role.OWNER)
    assert may_read_values(Actor(role, "x", None, door)) is is_told
