"""A request of every command, made from its definition: the least that it takes."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec

from holdfast.vocabulary.commands import COMMANDS

_NAMED: dict[str, Any] = {
    "services": ["web"],
    "service": "web",
    "path": "docs/a.md",
    "paths": ["docs/a.md"],
    "condition": "running",
    "patch": "--- a/docs/a.md\n+++ b/docs/a.md\n@@ -1 +1 @@\n-one\n+two\n",
    "edits": [{"old": "one", "new": "two"}],
    "instances": {"web": 1},
    "signal": "CONT",
    "mode": "advanced",
    "argv": ["true"],
    "argv_prefix": ["true"],
    "import_path": [],
    "data": "",
    "values": {"theme": "dark"},
    "tool": "web__tool",
    "cols": 80,
    "rows": 24,
}
_WHOLE: dict[str, dict[str, Any]] = {
    "execute_command": {"custom_command": {"command": "greet"}, "service": "web"},
    "git_switch": {"branch": "main"},
    "log_in": {},
    "custom_restart": {"service": "web"},
    "restart": {"services": ["web"]},
    "explain": {"service": "web"},
    "undo_files": {"path": "docs/a.md"},
    "list_files": {"path": "docs"},
    "search": {"pattern": "x", "path": "docs"},
    "file_changes": {"path": "docs/a.md"},
    "start": {"services": ["web"]},
    "stop": {"services": ["web"]},
    "prune": {"services": ["web"]},
    "add_job": {"kind": "kill", "service": "web"},
    "run": {"argv": ["true"], "service": "web"},
}
_WITH_SERVICES = ("status", "ps", "logs", "alerts", "metrics", "health_check", "plan", "events")


def sample(name: str) -> dict[str, Any]:
    """Fields with which the command can be made."""
    return dict(_sample(name))


@cache
def _sample(name: str) -> dict[str, Any]:
    if name in _WHOLE:
        return _WHOLE[name]
    kind = COMMANDS[name]
    hints = get_type_hints(kind)
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.required or (name in _WITH_SERVICES and field.name == "services"):
            found[field.encode_name] = _NAMED.get(field.name, _of(hints[field.name]))
    return found


def names_services(name: str) -> bool:
    """Whether the sample is about services."""
    return (
        bool({"service", "services", "instances", "tool"} & set(sample(name)))
        and name != "create_token"
    )


def _of(kind: Any) -> Any:
    if kind is str or str in get_args(kind):
        return "something"
    if kind in (int, float):
        return 1
    return [] if getattr(kind, "__origin__", None) is list else {}
