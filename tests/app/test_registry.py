"""Every command has exactly one handler, and every handler its command."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

from holdfast.app import handlers, registry
from holdfast.vocabulary.commands import COMMANDS


def test_every_command_has_exactly_one_place() -> None:
    """No command without a handler, no handler for two, none for nothing."""
    named = [name for names in registry.PLACES.values() for name in names]
    assert sorted(named) == sorted(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_handler_takes_its_command(name: str) -> None:
    """It is the function of the command's name, and takes that command and nothing else."""
    place = next(place for place, names in registry.PLACES.items() if name in names)
    handler = getattr(importlib.import_module(f"holdfast.app.handlers.{place}"), name)
    parameters = inspect.signature(handler).parameters
    assert parameters["command"].annotation == COMMANDS[name].__name__
    assert ("actor" in parameters) is (name in registry.TELLS_ACTOR)


def test_preloading_loads_every_handler() -> None:
    """Nothing is left to be loaded days later."""
    registry.preload()
    assert set(registry._loaded) == set(COMMANDS)


def test_every_public_coroutine_of_a_handler_module_is_meant() -> None:
    """A handler that no command reaches is dead."""
    for found in pkgutil.iter_modules(handlers.__path__):
        module = importlib.import_module(f"holdfast.app.handlers.{found.name}")
        for name, function in vars(module).items():
            is_own = getattr(function, "__module__", None) == module.__name__
            if inspect.iscoroutinefunction(function) and is_own and not name.startswith("_"):
                takes = list(inspect.signature(function).parameters)
                assert name in COMMANDS or takes[1:2] != ["command"], name
