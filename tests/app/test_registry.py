"""Every command has exactly one handler, and every handler its command."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

from holdfast.app import handlers, registry
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.commands import COMMANDS, SUBJECTS, subject_of
from holdfast.vocabulary.services import Start, Stop

OWNER = Actor(Role.OWNER, "me")


def modules() -> list[ModuleType]:
    found = pkgutil.walk_packages(handlers.__path__, f"{handlers.__name__}.")
    return [importlib.import_module(one.name) for one in found]


def test_handlers_have_the_subjects_of_the_vocabulary() -> None:
    """A reader who knows the subject of a command knows the module or folder of its handler."""
    assert {found.name for found in pkgutil.iter_modules(handlers.__path__)} == set(SUBJECTS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_is_handled_by_the_function_of_its_name(name: str) -> None:
    """It lies in the subject's module, takes that command, and the actor only if it says so."""
    registry.preload()
    function, takes_actor = registry._ready[name]
    assert function.__name__ == name
    place = f"holdfast.app.handlers.{subject_of(COMMANDS[name])}"
    assert f"{function.__module__}.".startswith(f"{place}.")
    parameters = inspect.signature(function).parameters
    assert parameters["command"].annotation == COMMANDS[name].__name__
    assert takes_actor is ("actor" in parameters)


def test_a_handler_is_called_with_the_actor_if_it_takes_it() -> None:
    """Nothing but its signature says so."""
    assert getattr(registry.handler_for(Start(), OWNER), "keywords", {}) == {"actor": OWNER}
    assert not hasattr(registry.handler_for(Stop(), OWNER), "keywords")


def test_preloading_loads_every_handler() -> None:
    """Nothing is left to be loaded days later."""
    registry.preload()
    assert set(registry._ready) == set(registry._written) == set(COMMANDS)


def test_every_function_that_takes_a_command_is_tied_to_it() -> None:
    """A handler that no command reaches is dead."""
    registry.preload()
    tied = {entry.function for entry in registry._ready.values()}
    for module in modules():
        for name, function in vars(module).items():
            is_own = getattr(function, "__module__", None) == module.__name__
            if inspect.isfunction(function) and is_own and not name.startswith("_"):
                takes = list(inspect.signature(function).parameters)
                assert function in tied or takes[:2] != ["context", "command"], name
