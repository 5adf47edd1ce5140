"""The commands of all subjects."""

from __future__ import annotations

import threading
from importlib import import_module
from pathlib import Path

import pytest

from holdfast import vocabulary
from holdfast.vocabulary.command import Command
from holdfast.vocabulary.commands import COMMANDS, SUBJECTS, Commands, defined_in, subject_of


@pytest.mark.parametrize("subject", SUBJECTS)
def test_the_commands_of_a_subject_are_found_by_their_names(subject: str) -> None:
    """No command is forgotten, and each is found under its own name."""
    kinds = defined_in(subject)
    assert kinds
    assert [COMMANDS[kind.name] for kind in kinds] == kinds
    assert {subject_of(kind) for kind in kinds} == {subject}


def test_no_two_commands_have_the_same_name() -> None:
    """A name means one command."""
    names = [kind.name for subject in SUBJECTS for kind in defined_in(subject)]
    assert sorted(names) == sorted(set(names)) == sorted(COMMANDS)


def test_every_module_that_defines_a_command_is_a_subject() -> None:
    """A module that nobody lists could not be asked for."""
    found = {path.stem for path in Path(vocabulary.__path__[0]).glob("*.py")} - {"__init__"}
    defining = {
        name
        for name in found
        for kind in vars(import_module(f"holdfast.vocabulary.{name}")).values()
        if isinstance(kind, type) and issubclass(kind, Command) and kind is not Command
        if kind.__module__ == f"holdfast.vocabulary.{name}"
    }
    assert defining == set(SUBJECTS)


def test_an_unknown_name_is_no_command() -> None:
    """It is looked for in every subject, and then it is a KeyError as in every mapping."""
    commands = Commands()
    assert "dance" not in commands
    assert commands.get("dance") is None


def test_threads_find_commands_while_others_import_them() -> None:
    """A request that arrives during the background import is answered like any other."""
    commands = Commands()
    found: list[list[str]] = []
    threads = [threading.Thread(target=lambda: found.append(list(commands))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert commands["git_tag"].name == "git_tag"
    for thread in threads:
        thread.join()
    assert found == [list(COMMANDS)] * 4
