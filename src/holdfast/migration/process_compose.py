"""process-compose.yaml."""

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
)
from holdfast.migration.located import LocatedValue, read_located
from holdfast.vocabulary.errors import UsageError

NAMES = ("process-compose.yaml", "process-compose.yml")
_CONDITIONS = {
    "process_started": "started",
    "process_healthy": "ready",
    "process_completed": "exited",
    "process_completed_successfully": "completed",
    "process_log_ready": "ready",
}
NEEDLESS = frozenset(
    {"log_location", "description", "is_tty", "is_foreground", "log_configuration"}
)
_INSTEAD = {
    "shell": "commands run with /bin/sh; name another in `command`",
    "vars": "write the values, or `${NAME}` of the environment",
    "is_daemon": "let it run in the foreground; `timeout` bounds a run",
    "launch_timeout_seconds": "let it run in the foreground; `timeout` bounds a run",
    "is_elevated": "`user: root` where Holdfast runs as root, else `sudo` in the command",
    "is_disabled": "`enabled: false`, or `profiles`",
    "is_dotenv_disabled": "a service gets the variables of .env only by `env_file`",
    "is_interactive": "`terminal: true`, and `holdfast attach NAME`",
    "disable_ansi_colors": "write `NO_COLOR: 1` into `env`",
    "log_format": "Holdfast's own is `log_format`; output is kept as it is",
    "ordered_shutdown": "services always stop in reverse order of `depends_on`",
    "extends": "use `include`",
    "env_cmds": "set the variable where `holdfast up` is called",
    "mcp*": "assistants reach Holdfast with `holdfast mcp`",
    "schedule.*": "`holdfast start NAME` runs it now; `overlap` says whether runs may overlap",
}
_TOP_NEEDLESS = frozenset({
    *("version", "processes", "log_location", "log_level", "log_length", "log_configuration"),
    *("disable_env_expansion", "is_tui_disabled", "is_strict", "name"),
})  # fmt: skip


def recognises(name: str, text: str) -> bool:
    return re.search(r"^(?:processes\s*:|\s*\"processes\"\s*:)", text, re.MULTILINE) is not None


def read(path: str, text: str) -> Findings:
    found = Findings("process-compose", path)
    document = read_located(text, os.path.basename(path))
    processes = document.get("processes")
    if processes is None or not isinstance(processes.value, dict):
        raise UsageError(f"{path} has no processes", "process-compose keeps them under `processes`")
    shared = _environment(document.get("environment"))
    for name, process in processes.items():
        _process(found, name, process, shared)
    for key, inner in document.items():
        if key not in _TOP_NEEDLESS and key != "environment":
            found.lose(inner.line, key, advice(_INSTEAD, key))
    return found


def _environment(given: LocatedValue | None) -> dict[str, str]:
    if given is None:
        return {}
    value = given.plain()
    if isinstance(value, dict):
        return {key: escaped(text_of(item)) for key, item in value.items()}
    pairs = (str(item).partition("=") for item in value or ())
    return {name: escaped(text) for name, _, text in pairs}


def _process(found: Findings, name: str, process: LocatedValue, shared: dict[str, str]) -> None:
    keys: dict[str, Any] = {}
    env = dict(shared)
    for key, inner in process.items():
        if key == "environment":
            env |= _environment(inner)
        elif key in _PARTS:
            _PARTS[key](found, name, inner, keys)
        elif not _key(key, inner.plain(), keys):
            found.lose(inner.line, f"{name}: {key}", advice(_INSTEAD, key))
    keys.setdefault("restart_policy", "never")
    if env:
        keys["env"] = env
    if "command" not in keys:
        found.lose(process.line, f"{name} has no command", "it is left out")
        return
    found.add(name, keys, process.line)


def _key(key: str, value: Any, keys: dict[str, Any]) -> bool:
    """Carry one plain key over; returns whether that was possible."""
    if carry(_ROWS, key, value, keys):
        return True
    match key:
        case "command":
            keys.update(command_keys(str(value)))
        case "replicas":
            if isinstance(value, int) and value > 1:
                keys["instances"] = value
        case "disabled":
            if value:
                keys["enabled"] = False
        case "is_tty":
            if value:
                keys["terminal"] = True
        case "is_daemon":
            return not value
        case _:
            return key in NEEDLESS
    return True


def _dependencies(found: Findings, name: str, given: LocatedValue, keys: dict[str, Any]) -> None:
    value = given.plain()
    if not isinstance(value, dict):
        keys["depends_on"] = list(value or ())
        return
    wanted: dict[str, str] = {}
    for other, how in value.items():
        condition = (how or {}).get("condition", "process_started")
        if condition not in _CONDITIONS:
            found.lose(given.line_of(other), f"{name}: depends on {other} {condition}", "check it")
        wanted[other] = _CONDITIONS.get(condition, "started")
    keys["depends_on"] = wanted


def _availability(found: Findings, name: str, given: LocatedValue, keys: dict[str, Any]) -> None:
    for key, inner in given.items():
        value = inner.plain()
        if key == "restart":
            policies = {"always": "always", "on_failure": "on_failure"}
            keys["restart_policy"] = policies.get(str(value), "never")
            if value == "exit_on_failure":
                keys["essential"] = True
        elif key == "backoff_seconds":
            keys.setdefault("restart", {}).update(delay=f"{value}s", backoff=1)
        elif key == "max_restarts":
            if value:
                put(keys, "restart.max_restarts", value)
        elif key in ("exit_on_end", "exit_on_skipped"):
            if value:
                found.lose(inner.line, f"{name}: {key}", "`essential: true` ends all if it fails")
        else:
            found.lose(inner.line, f"{name}: availability.{key}", "Holdfast has no such key")


def _readiness(found: Findings, name: str, given: LocatedValue, keys: dict[str, Any]) -> None:
    keys["readiness"] = _probe(found, f"{name}: readiness_probe", given)


def _liveness(found: Findings, name: str, given: LocatedValue, keys: dict[str, Any]) -> None:
    keys["liveness"] = _probe(found, f"{name}: liveness_probe", given)


def _probe(found: Findings, what: str, given: LocatedValue) -> dict[str, Any]:
    probe: dict[str, Any] = {}
    for key, inner in given.items():
        value = inner.plain()
        if key == "http_get":
            probe |= _http(value)
        elif key == "exec":
            line = escaped(str(value.get("command", "")))
            if value.get("working_dir"):
                instead = "it is asked in the folder of the service"
                found.lose(inner.line_of("working_dir"), f"{what}.exec.working_dir", instead)
            probe["exec"] = ["sh", "-c", line] if command_keys(line).get("shell") else line
        elif not carry(_PROBE_ROWS, key, value, probe):
            found.lose(inner.line, f"{what}.{key}", "Holdfast has no such key")
    return probe


def _http(value: dict[str, Any]) -> dict[str, Any]:
    scheme, host = value.get("scheme") or "http", value.get("host") or "127.0.0.1"
    number = value.get("port") or value.get("num_port")
    port = f":{number}" if number else ""
    probe: dict[str, Any] = {"http": f"{scheme}://{host}{port}{value.get('path') or '/'}"}
    if value.get("headers"):
        probe["headers"] = value["headers"]
    if value.get("status_code"):
        probe["status"] = value["status_code"]
    return probe


def _shutdown(found: Findings, name: str, given: LocatedValue, keys: dict[str, Any]) -> None:
    stop: dict[str, Any] = {}
    for key, inner in given.items():
        value = inner.plain()
        if key == "signal":
            stop["signal"] = value
        elif key == "timeout_seconds":
            stop["grace"] = f"{value}s"
        elif key == "command":
            found.lose(inner.line, f"{name}: shutdown.command", "handle the stop signal instead")
        elif key != "parent_only":
            found.lose(inner.line, f"{name}: shutdown.{key}", "Holdfast has no such key")
        elif value:
            found.lose(inner.line, f"{name}: shutdown.parent_only", "the whole tree is ended")
    if stop:
        keys["stop"] = stop


def _schedule(found: Findings, name: str, given: LocatedValue, keys: dict[str, Any]) -> None:
    schedule: dict[str, Any] = {}
    names = {"cron": "cron", "interval": "every", "timezone": "timezone"}
    for key, inner in given.items():
        if key in names:
            schedule[names[key]] = inner.plain()
        elif inner.plain():
            what = f"{name}: schedule.{key}"
            found.lose(inner.line, what, advice(_INSTEAD, f"schedule.{key}"))
    keys["schedule"] = schedule or given.plain()


def _watch(found: Findings, name: str, given: LocatedValue, keys: dict[str, Any]) -> None:
    value = given.plain()
    if isinstance(value, dict):
        for key, inner in given.items():
            if key in ("paths", "ignore", "debounce"):
                put(keys, f"watch.{key}", inner.plain())
            else:
                found.lose(inner.line, f"{name}: watch.{key}", "a change restarts the service")
    elif value:
        put(keys, "watch.paths", value if isinstance(value, list) else [str(value)])


_PARTS: dict[str, Callable[[Findings, str, LocatedValue, dict[str, Any]], None]] = {
    "depends_on": _dependencies,
    "availability": _availability,
    "readiness_probe": _readiness,
    "liveness_probe": _liveness,
    "shutdown": _shutdown,
    "schedule": _schedule,
    "watch": _watch,
}
_ROWS: Rows = {
    "entrypoint": ("command", lambda value: [escaped(str(word)) for word in value]),
    "working_dir": ("working_dir", str),
    "env_file": ("env_file", lambda value: value),
    "ready_log_line": ("readiness.log", lambda value: re.escape(str(value))),
    "namespace": ("tags", lambda value: [str(value)]),
}
_PROBE_ROWS: Rows = {
    "initial_delay_seconds": ("initial_delay", whole_seconds),
    "period_seconds": ("interval", whole_seconds),
    "timeout_seconds": ("timeout", whole_seconds),
    "failure_threshold": ("retries", int),
    "success_threshold": ("success_threshold", int),
}
