"""Examples for the OpenAPI document: derived from the types, with words that a reader knows.

Every example fits its type; a test converts each of them.
"""

from __future__ import annotations

import types
import typing
from typing import Any

import msgspec

from holdfast.gate.rest.arguments import field_types
from holdfast.vocabulary.command import Command

REQUESTS: dict[str, dict[str, Any]] = {
    "add_job": {"template": "render", "argv": ["scene.blend"], "delay": 60},
    "wait_job": {"job": "job-render-1a1f605a8e1d4b361", "timeout": 30},
    "adopt": {"service": "legacy", "pid": 4711},
    "check_access": {"who": "ci", "about": "restart", "services": ["web"]},
    "create_token": {"token_name": "ci", "role": "operator", "services": ["web"]},
    "custom_restart": {
        "service": "web",
        "pre_commands": [{"command_type": "make", "command": "clean", "is_safe": True}],
        "args": ["--config", "production.yaml"],
    },
    "events": {"since": 120, "limit": 50},
    "execute_command": {"command": {"command_type": "make", "command": "test"}, "service": "web"},
    "explain": {"service": "web"},
    "git_switch": {"branch": "fix-login", "create": True},
    "logs": {"service": "web", "tail": 100},
    "metrics": {"services": ["web"], "history": 600},
    "prune": {"services": ["web"], "older_than": 604800},
    "revoke_token": {"token": "ci"},
    "rotate_token": {"token": "ci"},
    "scale": {"instances": {"web": 4}},
    "send_input": {"service": "shell", "data": "bHMgLWwK"},
    "shutdown": {"keep_running": True},
    "signal": {"services": ["web"], "signal": "SIGHUP"},
    "stop": {"services": ["web"], "grace": 10},
    "wait": {"service": "web", "condition": "ready", "timeout": 30},
}
"""Requests that show what a command is for; the others are made from their required fields."""

_WORDS: dict[str, Any] = {
    "action": "restart", "actor": "token ci",
    "address": "http://127.0.0.1:40123/callback?code=5d1e&state=9b7a",
    "callback": "http://127.0.0.1:40123/callback", "advanced_services": "policies",
    "approval": "approval-7", "approvers": "admin", "attempt": 1, "author": "ci",
    "banner": "mode", "branch": "main", "by": "token ci", "cause": "start_failure",
    "change": "change-3", "check": "http", "client": "claude-code", "cols": 120,
    "command": "python -m web",
    "commit": "4f1c2e9", "condition": "ready", "config": "/srv/shop/holdfast.yaml",
    "content": "hello\n", "cpu_percent": 2.1, "created_at": 1767225600.0, "cursor": "P1f4",
    "data": "aGVsbG8K", "description": "Clean build artifacts", "desired": "running",
    "diff": "-PORT = 8080\n+PORT = 8081\n", "door": "rest", "duration": 0.012,
    "email": "ci@example.org", "queue": "process-queue", "template": "render",
    "encoding": "utf8", "ended_at": 1767225900.0,
    "etag": "9f2c1b7e", "etag_before": "1a2b3c4d", "event": "process:started", "exit_code": 0,
    "head": "4f1c2e9", "health": "healthy", "id": "run-7f3a",
    "job": "job-render-1a1f605a8e1d4b361", "keeper_pid": 4700,
    "kind": "process:started", "last": 128, "limit": 100, "log_bytes": 20480,
    "memory_bytes": 47395635, "memory_mb": 47.4, "message": "done", "mode": "proxy",
    "name": "web", "new": "8081", "next": "nothing is planned", "number": 3, "old": "8080",
    "opened_by": "token ci", "outcome": "restarted", "parents": "0d9e8f7",
    "patch": "--- a/src/app.py\n+++ b/src/app.py\n@@ -1 +1 @@\n-PORT = 8080\n+PORT = 8081\n",
    "path": "src/app.py", "paths": "src/app.py", "pattern": "TODO", "pid": 4711,
    "policy": "confirm stops", "port": 8080, "probe": "readiness", "project": "/srv/shop",
    "proxy_services": "registry", "reason": "asked to", "repository": "project",
    "restart_count": 0, "rev": "HEAD", "role": "operator", "root": "project", "rows": 40,
    "run": 3, "run_id": "run-7f3a", "seconds": 0.4, "seq": 128, "service": "web",
    "services": "web", "session": "session-6c9d7a52-2f6e-4f5b-8f0e-0f7f0d1c2b3a",
    "signal": "SIGTERM", "since": 1767225600.0, "started_at": 1767225600.0,
    "startTime": "2026-01-01T00:00:00.000Z", "startTimeMs": 1767225600000, "state": "running",
    "status": "running", "steps": "make clean", "stream": "out", "subject": "Listen on 8081",
    "summary": "web runs", "tag": "v1.0", "tags": "backend", "text": "listening on 8080",
    "time": 1767225600.25, "timeout": 30.0, "title": "Restart web", "to": "main", "token": "ci",
    "tool": "files__read_file", "token_name": "ci", "type": "http", "undone": "change-3",
    "uptime": 3500.0, "version": "0.1.0", "what": "make clean", "workflow": "release",
}  # fmt: skip
_SHOWN = frozenset(
    {"pid", "started_at", "cpu_percent", "memory_mb", "run_id", "reason", "exit_code", "startTime"}
)
"""Optional fields that the examples show."""


def request(command: type[Command]) -> dict[str, Any]:
    """Return fields of a valid request."""
    if command.name in REQUESTS:
        return REQUESTS[command.name]
    kinds = field_types(command)
    fields = msgspec.structs.fields(command)
    needed = [field.encode_name for field in fields if field.required]
    if "services" in kinds and "services" not in needed:
        needed.append("services")
    return {name: value(kinds[name], name) for name in needed}


def answer(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return a possible answer."""
    kinds = field_types(kind)
    return {
        field.encode_name: value(kinds[field.encode_name], field.encode_name)
        for field in msgspec.structs.fields(kind)
        if field.required or field.encode_name in _SHOWN
    }


def value(kind: Any, name: str) -> Any:
    """Return a value of this type that fits the name."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        known = [one for one in inner if one not in (type(None), msgspec.UnsetType)]
        return value(known[0], name)
    if origin is typing.Literal:
        return inner[0]
    if origin in (list, tuple):
        return [value(inner[0], name)] if inner else []
    if origin is dict:
        return {_key(name): value(inner[1], "service" if inner[1] is str else name)}
    if origin is typing.Annotated:
        return value(inner[0], name)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return answer(kind)
    try:
        return msgspec.to_builtins(msgspec.convert(_WORDS.get(name), kind, strict=True))
    except msgspec.ValidationError:
        return _plain(kind)


def _key(name: str) -> str:
    return {"doors": "http", "settings": "port", "env_vars": "LOG_LEVEL"}.get(name, "web")


def _plain(kind: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, str):
        members = list(getattr(kind, "__members__", {}).values())
        return members[0].value if members else "…"
    return {bool: True, int: 1, float: 1.0}.get(kind, {})
