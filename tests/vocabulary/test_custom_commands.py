"""Custom commands on the wire: every shape that clients write, and clear refusals."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.vocabulary.codec import command_from
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.workflows import CustomRestart, ExecuteCommand, RunWorkflow

WITH_NULLS: dict[str, Any] = {
    "pre_commands": [
        {
            "command_type": "Make",
            "command": "clean",
            "args": None,
            "working_dir": None,
            "env": None,
            "description": "Clean build artifacts",
            "is_safe": True,
        }
    ],
    "post_commands": [
        {
            "command_type": "Shell",
            "command": "echo 'Restart complete'",
            "args": None,
            "working_dir": None,
            "env": None,
            "description": "Completion notification",
            "is_safe": True,
        }
    ],
    "start_args": ["--config", "production.yaml"],
    "env_vars": {"RUNTIME_MODE": "advanced", "RUST_LOG": "info"},
}
SHORT: dict[str, Any] = {
    "pre_commands": [{"command_type": "make", "command": "clean", "is_safe": True}],
    "post_commands": [
        {"command_type": "shell", "command": 'echo "Restart complete"', "is_safe": True}
    ],
    "args": ["--config", "production.yaml"],
}


def test_both_shapes_of_a_custom_restart_mean_the_same() -> None:
    """All nulls listed or keys left out, «Make» or «make», start_args or args."""
    long, short = command_from("custom_restart", WITH_NULLS), command_from("custom_restart", SHORT)
    assert isinstance(long, CustomRestart)
    assert isinstance(short, CustomRestart)
    for one in (long, short):
        assert [command.command_type for command in one.pre_commands or ()] == ["make"]
        assert [command.command_type for command in one.post_commands or ()] == ["shell"]
        assert (one.start_args or one.args) == ["--config", "production.yaml"]
    assert long.env_vars == {"RUNTIME_MODE": "advanced", "RUST_LOG": "info"}
    assert command_from("custom_restart", {"pre_commands": None, "start_args": None})


def test_a_single_command_has_two_names() -> None:
    """In a flat request its own name stands under `command`."""
    for key in ("command", "custom_command"):
        fields = {key: {"command_type": "CARGO", "command": "build"}, "timeout_seconds": 5}
        asked = command_from("execute_command", fields)
        assert isinstance(asked, ExecuteCommand)
        assert (asked.asked.command_type, asked.asked.command) == ("cargo", "build")


def test_a_workflow_is_run_by_its_name() -> None:
    """The field is called `name`, as in the configuration."""
    asked = command_from("run_workflow", {"name": "deploy"})
    assert isinstance(asked, RunWorkflow)
    assert asked.workflow == "deploy"


@pytest.mark.parametrize(
    ("name", "fields", "told"),
    [
        ("custom_restart", {"pre_commands": [{"command": "x", "comand": 1}]}, "field `comand`"),
        ("custom_restart", {"precommands": []}, 'no field "precommands"; did you mean'),
        (
            "custom_restart",
            {"pre_commands": [{"command": "x", "command_type": "mak"}]},
            'did you mean "make"?',
        ),
        ("custom_restart", {"args": ["a"], "start_args": ["b"]}, "contradict each other"),
        ("custom_restart", {"timeout": 0}, "above 0"),
        ("execute_command", {}, "there must be one command"),
        ("execute_command", {"command": {"command": " "}}, "`command` is empty"),
        ("execute_command", {"command": {"command": "a\0b"}}, "NUL"),
        (
            "execute_command",
            {"command": {"command": "a", "timeout": 1, "timeout_seconds": 2}},
            "contradict each other",
        ),
    ],
)
def test_what_is_wrong_is_said(name: str, fields: dict[str, Any], told: str) -> None:
    """An unknown key, type or contradiction is refused in words."""
    with pytest.raises(UsageError) as caught:
        command_from(name, fields)
    assert told in caught.value.message


@pytest.mark.parametrize("command", ["restart", "custom_restart"])
@pytest.mark.parametrize(
    "fields",
    [
        {"env_vars": {"A=B": "x"}},
        {"env_vars": {"": "x"}},
        {"env_vars": {"A": "\0"}},
        {"args": ["\0"]},
    ],
)
def test_what_no_process_can_be_started_with_is_refused(
    command: str, fields: dict[str, object]
) -> None:
    """Before the service that runs is stopped for it."""
    with pytest.raises(UsageError):
        command_from(command, {"service": "web", **fields})
