"""Ties each command to its handler: `@handles(Start)` stands above the function that does it.

The handlers of a subject are in the module of `app.handlers` that has the subject's name, or in
the modules of the folder of that name. A subject is imported when one of its commands is first
asked for, so that a new supervisor answers early. `preload` imports the rest right after, because
the files on disk may be of another version later.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.command import Command, Result
from holdfast.vocabulary.commands import COMMANDS, defined_in, subject_of

if TYPE_CHECKING:
    from holdfast.app.context import Context

Answer = Result | Awaitable[Result] | AsyncGenerator[Any, None]
"""What a command answers: a result at once, one to await, or a stream of items."""
Handler = Callable[["Context", Any], Any]
"""Answers one command. Returns an `Answer` or a `streams.FollowedWork`."""
F = TypeVar("F", bound=Callable[..., Any])


class _RegisteredHandler(NamedTuple):
    function: Callable[..., Any]
    takes_actor: bool


_written: dict[str, _RegisteredHandler] = {}
"""Every handler whose definition was executed; its module may not be complete yet."""
_ready: dict[str, _RegisteredHandler] = {}
"""Handlers of subjects that are imported completely, so that any thread may call them."""


def handles(kind: type[Command]) -> Callable[[F], F]:
    """Tie a handler to its command. It takes context and command, and `actor` if it wants it."""

    def tie(function: F) -> F:
        assert kind.name not in _written, f"{kind.name} has two handlers"
        takes_actor = "actor" in inspect.signature(function).parameters
        _written[kind.name] = _RegisteredHandler(function, takes_actor)
        return function

    return tie


def handler_for(command: Command, actor: Actor) -> Handler:
    """Return the handler of a command, bound to the actor if it wants it.

    In a session it makes a checkpoint before it first changes files.
    """
    function, takes_actor = _ready.get(command.name) or _load(type(command))
    handler = partial(function, actor=actor) if takes_actor else function
    if command.changes_files and actor.session is not None:
        from holdfast.app.handlers.git.checkpoints import checkpointed

        return checkpointed(handler, actor.session)
    return handler


def preload() -> None:
    """Import every handler."""
    for kind in COMMANDS.values():
        if kind.name not in _ready:
            _load(kind)


def _load(kind: type[Command]) -> _RegisteredHandler:
    """Import the handlers of a whole subject, and return the one of this command."""
    name = subject_of(kind)
    subject = import_module(f"holdfast.app.handlers.{name}")
    if hasattr(subject, "__path__"):
        import pkgutil

        for part in pkgutil.iter_modules(subject.__path__):
            import_module(f"{subject.__name__}.{part.name}")
    _ready.update({of.name: _written[of.name] for of in defined_in(name)})
    return _ready[kind.name]
