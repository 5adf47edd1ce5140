"""Which handler answers which command: the function of the same name, in one of these modules.

Handlers are loaded when first needed, so that a new supervisor answers early, and the rest in
the background right after (`preload`): the files on disk may be another version later.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.commands import COMMANDS, Command

Handler = Callable[[Any, Any], Any]

PLACES: dict[str, tuple[str, ...]] = {
    "alerting": ("alerts",),
    "authority": (
        *("get_mode", "set_mode", "lockdown", "unlock"),
        *("approvals", "approve", "reject"),
    ),
    "browsing": ("create_login", "log_in", "log_out", "hand_over", "report_refusal"),
    "custom": (
        "custom_restart",
        "execute_command",
        "run_workflow",
        "cancel_workflow",
        "workflows",
    ),
    "declaring": ("up", "run", "adopt"),
    "explaining": ("explain",),
    "health": ("health_check",),
    "history": ("events", "runs"),
    "holdfast": ("hello", "prune", "upgrade", "shutdown"),
    "instances": ("scale", "rolling_restart"),
    "metrics": ("metrics",),
    "output": ("logs", "open_output", "watch", "send_input", "resize"),
    "reloading": ("plan", "reload"),
    "security": ("create_token", "list_tokens", "revoke_token", "audit"),
    "services": ("start", "stop", "restart", "pause", "resume", "signal", "remove"),
    "sessions": (
        "open_session",
        "renew_session",
        "hold_session",
        "close_session",
        "list_sessions",
    ),
    "status": ("status", "ps"),
    "waiting": ("wait",),
}
"""Modules below `app.handlers`, and the commands that each answers."""
TELLS_ACTOR = frozenset({
    *("hello", "custom_restart", "execute_command", "run_workflow"),
    *("up", "run", "start", "restart"),
    *("log_in", "log_out", "hand_over"),
    *("set_mode", "lockdown", "unlock", "approve", "reject"),
    *("open_session", "renew_session", "hold_session", "close_session"),
})  # fmt: skip
"""Commands whose handlers are told who asks: to answer it, or to keep it on record."""

_PLACE = {name: place for place, names in PLACES.items() for name in names}
_loaded: dict[str, Callable[..., Any]] = {}


def handler_of(command: Command) -> Callable[..., Any]:
    return _loaded.get(command.name) or _load(command.name)


def handler_for(command: Command, actor: Actor) -> Handler:
    """The handler, told who asks if it wants to know."""
    handler = handler_of(command)
    return partial(handler, actor=actor) if command.name in TELLS_ACTOR else handler


def preload() -> None:
    """Load every handler."""
    for name in COMMANDS:
        _load(name)


def _load(name: str) -> Callable[..., Any]:
    module = importlib.import_module(f"holdfast.app.handlers.{_PLACE[name]}")
    handler: Callable[..., Any] = getattr(module, name)
    _loaded[name] = handler
    return handler
