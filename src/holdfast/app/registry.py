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
from holdfast.vocabulary.command import Command
from holdfast.vocabulary.commands import COMMANDS

Handler = Callable[[Any, Any], Any]

PLACES: dict[str, tuple[str, ...]] = {
    "alerts": ("alerts",),
    "authority": (
        *("get_mode", "set_mode", "lockdown", "unlock"),
        *("approvals", "approve", "reject"),
    ),
    "browser": ("create_login", "log_in", "log_out", "hand_over", "report_refusal"),
    "git.checkpoints": ("checkpoint", "checkpoints", "restore_checkpoint"),
    "workflows": (
        "custom_restart",
        "execute_command",
        "run_workflow",
        "cancel_workflow",
        "workflows",
    ),
    "declaring": ("up", "run", "adopt"),
    "explain": ("explain",),
    "files": (
        *("read_file", "list_files", "file_changes"),
        *("write_file", "edit_file", "apply_patch", "undo_files"),
    ),
    "git.reading": ("git_status", "git_diff", "git_log", "git_show", "git_blame", "git_branches"),
    "git.branching": ("git_switch", "git_stash", "git_tag"),
    "git.changing": ("git_add", "git_commit", "git_restore"),
    "health": ("health_check",),
    "history": ("events", "runs"),
    "holdfast": ("hello", "prune", "upgrade", "shutdown"),
    "instances": ("scale", "rolling_restart"),
    "live_runs": ("pause", "resume", "signal"),
    "metrics": ("metrics",),
    "output": ("logs", "open_output", "watch", "send_input", "resize"),
    "ports": ("ports",),
    "configuration": ("plan", "reload"),
    "search.logs": ("search_logs",),
    "search.files": ("search",),
    "security": ("create_token", "list_tokens", "revoke_token", "audit"),
    "services": ("start", "stop", "restart", "remove"),
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
    *("up", "run", "start", "restart", "create_token"),
    *("log_in", "log_out", "hand_over"),
    *("set_mode", "lockdown", "unlock", "approve", "reject"),
    *("open_session", "renew_session", "hold_session", "close_session"),
    *("checkpoint", "restore_checkpoint"),
    *("write_file", "edit_file", "apply_patch", "undo_files"),
    *("read_file", "list_files", "file_changes", "search", "reload", "scale"),
})  # fmt: skip
"""Commands whose handlers are told who asks: to answer it, or to keep it on record."""

_PLACE = {name: place for place, names in PLACES.items() for name in names}
_loaded: dict[str, Callable[..., Any]] = {}


def handler_of(command: Command) -> Callable[..., Any]:
    return _loaded.get(command.name) or _load(command.name)


def handler_for(command: Command, actor: Actor) -> Handler:
    """The handler, told who asks if it wants to know."""
    known = handler_of(command)
    handler: Handler = partial(known, actor=actor) if command.name in TELLS_ACTOR else known
    if command.changes_files and actor.session is not None:
        from holdfast.app.handlers.git.checkpoints import checkpointed

        handler = checkpointed(handler, actor.session)
    return handler


def preload() -> None:
    """Load every handler."""
    for name in COMMANDS:
        _load(name)


def _load(name: str) -> Callable[..., Any]:
    module = importlib.import_module(f"holdfast.app.handlers.{_PLACE[name]}")
    handler: Callable[..., Any] = getattr(module, name)
    _loaded[name] = handler
    return handler
