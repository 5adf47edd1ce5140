"""All that can be asked. One class a command; every door is made from these definitions.

A module is loaded when one of its commands is first meant, so that a new supervisor answers
early; it loads the rest in the background right after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from holdfast.vocabulary.commands.command import Command

PLACES: dict[str, tuple[str, ...]] = {
    "holdfast": ("hello", "up", "run", "adopt", "prune", "upgrade", "shutdown"),
    "services": (
        "status", "start", "stop", "restart", "pause", "resume", "signal", "ps", "wait", "remove",
    ),
    "output": ("logs", "open_output", "watch", "send_input", "resize"),
    "history": ("events", "runs"),
    "configuration": ("plan", "reload"),
    "security": ("create_token", "list_tokens", "revoke_token", "audit"),
    "browsing": ("create_login", "log_in", "log_out", "hand_over", "report_refusal"),
    "authority": (
        "get_mode", "set_mode", "lockdown", "unlock", "approvals", "approve", "reject",
    ),
    "custom": (
        "custom_restart", "execute_command", "run_workflow", "cancel_workflow", "workflows",
    ),
    "trouble": ("alerts", "explain"),
    "metrics": ("metrics",),
    "health": ("health_check",),
    "instances": ("scale", "rolling_restart"),
    "sessions": (
        "open_session", "renew_session", "hold_session", "close_session", "list_sessions",
    ),
    "ports": ("ports",),
    "files": (
        "read_file", "list_files", "write_file", "edit_file", "apply_patch", "undo_files",
        "file_changes",
    ),
    "search": ("search", "search_logs"),
    "git": (
        "git_status", "git_diff", "git_log", "git_show", "git_blame", "git_branches", "git_add",
        "git_commit", "git_restore", "git_switch", "git_stash", "git_tag",
    ),
    "checkpoints": ("checkpoint", "checkpoints", "restore_checkpoint"),
}  # fmt: skip
"""Modules of this package, and the names of the commands in each."""


class Commands(Mapping[str, "type[Command]"]):
    """Every command by its name."""

    def __init__(self) -> None:
        self._place = {name: place for place, names in PLACES.items() for name in names}
        self._loaded: dict[str, type[Command]] = {}

    def __getitem__(self, name: str) -> type[Command]:
        return self._loaded.get(name) or self._load(name)

    def __contains__(self, name: object) -> bool:
        return name in self._place

    def __iter__(self) -> Iterator[str]:
        return iter(self._place)

    def __len__(self) -> int:
        return len(self._place)

    def _load(self, name: str) -> type[Command]:
        for kind in defined_in(self._place[name]):
            self._loaded[kind.name] = kind
        return self._loaded[name]


def defined_in(place: str) -> list[type[Command]]:
    """The commands that a module of this package defines."""
    module = import_module(f"{__name__}.{place}")
    return [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, Command)
        and kind.__module__ == module.__name__
        and "name" in vars(kind)
    ]


COMMANDS = Commands()

__all__ = ["COMMANDS", "PLACES", "Command", "defined_in"]
