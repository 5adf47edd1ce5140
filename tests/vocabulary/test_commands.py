"""The index of commands against the classes that define them."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.vocabulary import commands
from holdfast.vocabulary.commands import COMMANDS, PLACES, defined_in


@pytest.mark.parametrize("place", PLACES)
def test_a_module_defines_what_the_index_says(place: str) -> None:
    """No command is forgotten, and each is found under its own name."""
    assert sorted(kind.name for kind in defined_in(place)) == sorted(PLACES[place])
    for name in PLACES[place]:
        assert COMMANDS[name].name == name


def test_every_module_is_in_the_index() -> None:
    """A module that nobody lists could not be asked for."""
    found = {path.stem for path in Path(commands.__path__[0]).glob("*.py")}
    assert found - {"__init__", "command"} == set(PLACES)
