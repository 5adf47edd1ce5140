"""pitchfork.toml: daemons."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from holdfast.migration.findings import (
    Findings,
    Rows,
    advice,
    carry,
    command_keys,
    escaped,
    put,
    text_of,
    whole_seconds,
    words_of,
)
from holdfast.migration.located import LocatedValue, read_located_toml
from holdfast.vocabulary.errors import UsageError

NAMES = ("pitchfork.toml",)
NEEDLESS = frozenset({"description"})
_TOP_NEEDLESS = frozenset({"daemons", "namespace"})
_TOP_INSTEAD = {
    "settings": "Holdfast's own settings: docs/guides/configuration.md",
    "slugs": "`port: auto` and `holdfast ports`",
    "proxy": "`port: auto` and `holdfast ports`, or a proxy of your own",
    "groups": "write `groups: {NAME: [SERVICE, …]}`",
}
_INSTEAD = {
    "auto": "say `holdfast up` in the folder: no shell hook starts or stops it",
    "boot_start": "`holdfast install-service` starts the whole file at boot",
    "hooks": "`recovery:` for crashes, `alerts:` to be told, `holdfast events -f` for all else",
    "port_bump_attempts": "`port: auto` takes any free port",
    "mise": "write `mise x --` in front of the command",
    "oneshot": "`restart_policy: never`; `holdfast wait NAME --for exited`",
    "proxy": "`port: auto` and `holdfast ports`, or a proxy of your own",
    "watch_base_dir": "paths are relative to the file: write them out",
    "log_format": "every line is kept as it is; `holdfast logs --level` knows JSON and logfmt",
}


_READY = frozenset({"ready_output", "ready_http", "ready_port", "ready_cmd"})


def recognises(name: str, text: str) -> bool:
    return re.search(r"^\s*\[daemons\.|^\s*\[daemons\]", text, re.MULTILINE) is not None


def read(path: str, text: str) -> Findings:
    found = Findings("pitchfork", path)
    document = read_located_toml(text, os.path.basename(path))
    daemons = document.get("daemons")
    if daemons is None or not isinstance(daemons.value, dict):
        raise UsageError(f"{path} has no daemons", "pitchfork keeps them under [daemons.NAME]")
    shared = (document.get("settings") or document).plain().get("supervisor") or {}
    for name, daemon in daemons.items():
        _daemon(found, name, daemon, shared.get("user") if isinstance(shared, dict) else None)
    for key, inner in document.items():
        if key not in _TOP_NEEDLESS:
            found.lose(inner.line, key, advice(_TOP_INSTEAD, key))
    return found


def _daemon(found: Findings, name: str, daemon: LocatedValue, user: str | None) -> None:
    keys: dict[str, Any] = {"restart_policy": "never"}
    if user:
        keys["user"] = str(user)
    for key, inner in daemon.items():
        if not _key(found, name, key, inner, keys):
            found.lose(inner.line, f"{name}: {key}", advice(_INSTEAD, key))
    if "command" not in keys:
        found.lose(daemon.line, f"{name} has no command", "it is left out")
        return
    found.add(name, keys, daemon.line)


def _key(found: Findings, name: str, key: str, item: LocatedValue, keys: dict[str, Any]) -> bool:
    """Carry one key over; returns whether that was possible."""
    value = item.plain()
    if key in _READY and "readiness" in keys:
        instead = "a probe asks one thing; the first of them is taken"
        found.lose(item.line, f"{name}: {key}", instead)
    elif key in _PARTS:
        _PARTS[key](found, name, item, keys)
    elif not carry(_ROWS, key, value, keys):
        match key:
            case "run":
                line = " ".join(value) if isinstance(value, list) else str(value)
                keys.update(command_keys(line))
            case "retry":
                if value is True or (value and int(value) > 0):
                    keys["restart_policy"] = "on_failure"
                    put(keys, "restart.max_restarts", "unlimited" if value is True else int(value))
            case "watch_mode":
                keys.setdefault("watch", {})["polling"] = value != "native"
            case "auto_bump_port":
                keys |= {"port": "auto"} if value else {}
            case "pty":
                keys |= {"terminal": True} if value else {}
            case _:
                return key in NEEDLESS
    return True


def _ready_http(found: Findings, name: str, item: LocatedValue, keys: dict[str, Any]) -> None:
    value = item.plain()
    put(keys, "readiness.http", value.get("url") if isinstance(value, dict) else str(value))
    put(keys, "readiness.status", ["2xx"])
    if isinstance(value, dict) and "status" in value:
        put(keys, "readiness.status", value["status"])


def _stop_signal(found: Findings, name: str, item: LocatedValue, keys: dict[str, Any]) -> None:
    value = item.plain()
    if isinstance(value, dict):
        put(keys, "stop.signal", str(value.get("signal", "TERM")))
        if "timeout" in value:
            put(keys, "stop.grace", str(value["timeout"]))
    else:
        put(keys, "stop.signal", str(value))


def _depends(found: Findings, name: str, item: LocatedValue, keys: dict[str, Any]) -> None:
    """pitchfork starts a daemon when those that it needs are ready."""
    for other in item.plain() or ():
        space, _, plain = str(other).rpartition("/")
        if space:
            instead = "services of another file are not known here: `include` that file"
            found.lose(item.line, f"{name}: depends on {other}", instead)
        else:
            put(keys, "depends_on", {**keys.get("depends_on", {}), plain: "ready"})


def _port(found: Findings, name: str, item: LocatedValue, keys: dict[str, Any]) -> None:
    value = item.plain()
    wanted, is_bumped = value, keys.get("port") == "auto"
    if isinstance(value, dict):
        wanted, is_bumped = value.get("expect"), bool(value.get("bump"))
    numbers = wanted if isinstance(wanted, list) else [] if wanted is None else [wanted]
    if is_bumped:
        keys["port"] = "auto"
    elif numbers:
        keys["port"] = int(numbers[0])
    for number in numbers[1:]:
        found.lose(item.line, f"{name}: port {number}", "list it under `ports:` by a name")


def _cron(found: Findings, name: str, item: LocatedValue, keys: dict[str, Any]) -> None:
    value = item.plain()
    if not isinstance(value, dict):
        value = {"schedule": value}
    for key, inner in value.items():
        line = item.line_of(key)
        if key == "schedule":
            keys["schedule"] = {"cron": str(inner)}
        elif key == "retrigger":
            if inner != "finish":
                instead = "a time at which it still runs is left out"
                found.lose(line, f"{name}: cron.retrigger {inner}", instead)
        elif key == "immediate":
            if inner:
                found.lose(line, f"{name}: cron.immediate", "`holdfast start NAME` runs it now")
        else:
            found.lose(line, f"{name}: cron.{key}", "Holdfast has no such key")


_PARTS: dict[str, Callable[[Findings, str, LocatedValue, dict[str, Any]], None]] = {
    "ready_http": _ready_http,
    "depends": _depends,
    "port": _port,
    "expected_port": _port,
    "stop_signal": _stop_signal,
    "cron": _cron,
}
_ROWS: Rows = {
    "dir": ("working_dir", str),
    "env": ("env", lambda value: {one: escaped(text_of(text)) for one, text in value.items()}),
    "user": ("user", str),
    "ready_delay": ("start_seconds", whole_seconds),
    "ready_output": ("readiness.log", str),
    "ready_port": ("readiness.tcp", int),
    "ready_cmd": ("readiness.exec", lambda value: ["sh", "-c", escaped(str(value))]),
    "watch": ("watch.paths", lambda value: words_of(value)),
    "memory_limit": ("memory_limit", str),
    "cpu_limit": ("cpu_limit", "{}%".format),
}
