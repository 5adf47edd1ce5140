"""Every command has exactly one handler, and every handler its command."""

from __future__ import annotations

from holdfast.app.registry import HANDLERS
from holdfast.vocabulary.commands import COMMANDS


def test_every_command_has_exactly_one_handler() -> None:
    """No command without a handler, no handler for two, none for nothing."""
    assert set(HANDLERS) == set(COMMANDS.values())
    assert len(set(HANDLERS.values())) == len(HANDLERS)


def test_a_handler_is_named_like_its_command() -> None:
    """Whoever looks for the handler of a command finds it by name."""
    for command, handler in HANDLERS.items():
        assert handler.__name__ == command.name
