"""Lines of the TCP door: three forms, one meaning; nothing strange gets through."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.doors import tcp_answers
from holdfast.doors.tcp_requests import TcpRequest, parse
from holdfast.vocabulary import codec
from holdfast.vocabulary.commands import COMMANDS
from holdfast.vocabulary.configuration import ReloadResult
from holdfast.vocabulary.errors import HoldfastError, UsageError
from holdfast.vocabulary.health import CheckResult, HealthResult, ServiceHealth

SAME: list[tuple[str, str, str, str, set[str]]] = [
    ("status", '"Status"', '{"command": "status"}', "status", set()),
    (
        "restart web",
        '{"Restart": {"service": "web", "args": null}}',
        '{"command": "restart", "service": "web"}',
        "restart",
        {"web"},
    ),
    ("stop web", '{"Stop": {"service": "web"}}', '{"command": "stop", "services": ["web"]}',
     "stop", {"web"}),
    ("shutdown", '"Shutdown"', '{"command": "shutdown"}', "shutdown", set()),
    ("reload other.yaml", '{"ReloadConfig": {"config_path": "other.yaml"}}',
     '{"command": "reload", "config": "other.yaml"}', "reload", set()),
]  # fmt: skip


def command_of(request: TcpRequest) -> Any:
    return codec.command_from(request.name, request.fields)


@pytest.mark.parametrize(("words", "tagged", "flat", "name", "about"), SAME)
def test_three_forms_mean_the_same(
    words: str, tagged: str, flat: str, name: str, about: set[str]
) -> None:
    """Words, tagged JSON as source programs write it, and flat JSON."""
    requests = [parse(line.encode()) for line in (words, tagged, flat)]
    assert [request.is_json for request in requests] == [False, True, True]
    for request in requests:
        command = command_of(request)
        assert command.name == name
        named = [*getattr(command, "services", ()), getattr(command, "service", None)]
        assert {one for one in named if one} == set(about)


@pytest.mark.parametrize("line", ["stop", '"Stop"', '{"Stop": null}', '{"command": "stop"}'])
def test_without_a_name_the_default_service_is_meant(line: str) -> None:
    """Never all of them."""
    assert command_of(parse(line.encode())).default is True


def test_an_id_and_a_token_travel_with_a_request() -> None:
    """In JSON beside the command, in words as a line of its own."""
    request = parse(b'{"id": 7, "token": "t", "command": "status"}')
    assert (request.id, request.token, request.fields) == (7, "t", {})
    assert parse(b"token t").token == "t"
    assert parse(b'{"token": "t"}').name == "token"


@pytest.mark.parametrize(
    "line",
    [
        "stauts", '"Stauts"', '{"command": "nothing"}', "{", "[1]", '{"a": 1, "b": 2}', "'",
        '{"Restart": 5}', '{"id": [], "command": "status"}', '{"token": 5}', "token", "token a b",
        '{"command": 5}',
    ],
)  # fmt: skip
def test_what_is_not_understood_is_said(line: str) -> None:
    """Bad input is an error with a message, never a guess."""
    with pytest.raises(UsageError) as raised:
        command_of(parse(line.encode()))
    assert raised.value.message


def test_a_mistyped_word_gets_a_suggestion() -> None:
    """As on the command line."""
    with pytest.raises(UsageError, match="did you mean"):
        parse(b"stauts")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_a_tag(name: str) -> None:
    """`health_check` is `HealthCheck`."""
    tag = "".join(part.capitalize() for part in name.split("_"))
    assert parse(json.dumps(tag).encode()).name == name


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_a_request_or_an_error(line: bytes) -> None:
    """Nothing but our own errors comes out, whatever comes in."""
    try:
        command_of(parse(line))
    except HoldfastError:
        pass


@pytest.mark.parametrize(
    "line",
    [
        "logs web \u00b2",
        "logs web " + "9" * 5000,
        "logs web many",
        '{"command": "status", "service": "web", "services": 5}',
    ],
)
def test_what_only_looks_like_a_number_or_a_list_is_refused(line: str) -> None:
    """As any other mistake, in words."""
    with pytest.raises(UsageError):
        parse(line.encode())


def test_answers_are_lines() -> None:
    """A check that was made is told with what it found; a reload without a change, too."""
    check = CheckResult(
        probe="liveness", check="http", passed=False, reason="answered 500", duration=0.1
    )
    health = ServiceHealth(
        status="running", ready=None, health="unhealthy", consecutive_failures=3, checks=[check]
    )
    told = tcp_answers.of_result(HealthResult(services={"web": health}))
    assert told == "web: running, liveness (http) failed: answered 500"
    same = ReloadResult(config="x", plan={}, services={}, settings=[], changes=False)
    assert tcp_answers.of_result(same) == "nothing to change"


def test_a_command_that_is_no_word_is_told_in_json() -> None:
    """Not every command has a word; all of them can be written as JSON."""
    with pytest.raises(UsageError, match="explain") as refused:
        parse(b"explain web")
    assert '{"command": "explain"}' in refused.value.hint
