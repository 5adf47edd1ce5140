"""pm2's ecosystem file: JSON, YAML, and JavaScript where it is plain data."""

from __future__ import annotations

import os
import re
from typing import Any

from holdfast.migration.findings import (
    Findings,
    Rows,
    advice,
    carry,
    escaped,
    put,
    seconds,
    text_of,
    words_of,
)
from holdfast.migration.located import LocatedValue, read_located
from holdfast.vocabulary.errors import UsageError

NAMES = (
    *("ecosystem.config.js", "ecosystem.config.cjs", "ecosystem.config.mjs", "ecosystem.json"),
    *("ecosystem.config.json", "ecosystem.yaml", "ecosystem.yml", "process.json", "pm2.json"),
    *("pm2.config.js", "ecosystem.config.yaml", "ecosystem.config.yml"),
)
NEEDLESS = frozenset({
    *("name", "script", "cwd", "args", "interpreter", "node_args", "interpreter_args", "exec_mode"),
    *("instances", "merge_logs", "combine_logs", "windowsHide", "source_map_support", "vizion"),
    *("automation", "pmx", "treekill", "disable_logs", "error_file", "out_file", "log_file"),
    *("log_type", "append_env_to_name", "force", "instance_var", "env", "exec_interpreter"),
    *("disable_source_map_support", "interpreterArgs", "out", "output", "out_log"),
    *("error", "err", "err_file", "err_log", "log", "pid_file", "pid", "username"),
})  # fmt: skip
_INTERPRETERS = {
    ".js": "node", ".mjs": "node", ".cjs": "node", ".py": "python3", ".rb": "ruby", ".php": "php",
    ".pl": "perl", ".sh": "bash", ".ts": "bun", ".tsx": "bun",
}  # fmt: skip


def recognises(name: str, text: str) -> bool:
    if os.path.basename(name) in NAMES:
        return True
    return re.search(r"[\"']?apps[\"']?\s*:|\A\s*\[\s*\{", text) is not None and (
        re.search(r"[\"']?script[\"']?\s*:", text) is not None
    )


def read(path: str, text: str) -> Findings:
    found = Findings("pm2", path)
    name = os.path.basename(path)
    if name.endswith((".js", ".cjs", ".mjs")):
        text = _data_of(text, name)
    document = read_located(text, name)
    apps = document.get("apps")
    if apps is None and isinstance(document.value, list):
        apps = document
    listed = apps.value if apps is not None else None
    if isinstance(listed, dict):
        listed = [apps]
    if not isinstance(listed, list):
        raise UsageError(f"{name} has no apps", "pm2 keeps them under `apps`")
    for app in listed:
        _app(found, app)
    if document.get("deploy") is not None:
        found.lose(document.line_of("deploy"), "deploy", "deploy with a workflow, or another tool")
    return found


def _data_of(text: str, name: str) -> str:
    """Return the data of a JavaScript file that is nothing but data, as text that YAML reads.

    Nothing of it is run. What computes its values cannot be read so.
    """
    body = re.sub(r"/\*.*?\*/", lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)
    begin = re.search(r"(?:module\.exports\s*=|export\s+default)\s*", body)
    if begin is None:
        raise _is_program(name)
    head, data = body[: begin.end()], body[begin.end() :]
    # `//` begins a comment, but not within an address such as http://….
    data = re.sub(r"(^|[\s,{\[])//[^\n]*", r"\1", data)
    data = data.rstrip().rstrip(";").rstrip()
    outside = re.sub(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"", '""', data)
    if re.search(
        r"=>|\bfunction\b|\brequire\s*\(|process\.env|`|\.\.\.|[^\s\w\"',:{}\[\].\-+]", outside
    ):
        raise _is_program(name)
    data = re.sub(r"'((?:[^'\\\n]|\\.)*)'", lambda found: _quoted(found[1]), data)
    data = re.sub(r"([{,]\s*)([A-Za-z_$][\w$]*)\s*:", r'\1"\2": ', data)
    data = re.sub(r",(\s*[}\]])", r"\1", data)
    # YAML allows no tabs in its indentation.
    return "\n" * head.count("\n") + data.replace("\t", "  ")


def _quoted(text: str) -> str:
    import json

    return json.dumps(text.replace("\\'", "'"))


def _is_program(name: str) -> UsageError:
    return UsageError(
        f"{name} computes its values, and it is not run",
        f"export it once: node -p \"JSON.stringify(require('./{name}'))\" > ecosystem.json",
    )


def _app(found: Findings, app: LocatedValue) -> None:
    values = app.plain()
    if isinstance(values, str):
        values = {"script": values}
    if not isinstance(values, dict) or not values.get("script"):
        found.lose(app.line, "an app without a script", "it is left out")
        return
    name = str(values.get("name") or os.path.splitext(os.path.basename(values["script"]))[0])
    keys: dict[str, Any] = {"command": _command(values)}
    if values.get("cwd"):
        keys["working_dir"] = str(values["cwd"])
    if isinstance(values.get("env"), dict):
        keys["env"] = {key: escaped(text_of(value)) for key, value in values["env"].items()}
    # pm2 restarts what ends, whatever its exit code.
    keys["restart_policy"] = "always"
    _instances(found, app, name, values, keys)
    # `watch` first: what is ignored and the delay belong to it.
    for key in sorted(values, key=lambda key: key != "watch"):
        line = app.line_of(key)
        if not _key(key, values[key], keys) and key not in NEEDLESS:
            _lose(found, name, key, line)
    found.add(name, keys, app.line)


def _command(values: dict[str, Any]) -> list[str] | str:
    script = str(values["script"])
    args = values.get("args") or []
    words = words_of(args)
    interpreter = values.get("interpreter") or values.get("exec_interpreter")
    options = words_of(
        values.get("node_args")
        or values.get("interpreter_args")
        or values.get("interpreterArgs")
        or []
    )
    if interpreter in (None, ""):
        interpreter = _INTERPRETERS.get(os.path.splitext(script)[1])
    if interpreter in (None, "none"):
        return [escaped(word) for word in [*words_of(script), *words]]
    return [escaped(word) for word in [str(interpreter), *options, script, *words]]


def _instances(
    found: Findings, app: LocatedValue, name: str, values: dict[str, Any], keys: dict[str, Any]
) -> None:
    count = values.get("instances", 1)
    if count in ("max", 0, -1, "-1", "0"):
        count = max(1, (os.cpu_count() or 1) - (1 if count in (-1, "-1") else 0))
        found.lose(
            app.line_of("instances"), f"{name}: instances by processors", f"it is {count} here"
        )
    if not str(count).isdigit() or int(count) < 2:
        return
    keys["instances"] = int(count)
    if str(values.get("exec_mode", "")).startswith("cluster"):
        found.lose(
            app.line_of("exec_mode"),
            f"{name}: cluster mode shares one port",
            "give each a port (`port: auto`) and a proxy, or let node's cluster module fork",
        )


def _key(key: str, value: Any, keys: dict[str, Any]) -> bool:
    """Carry one key over; returns whether that was possible."""
    if carry(_ROWS, key, value, keys):
        return True
    match key:
        case "autostart":
            if value is False:
                keys["autostart"] = False
        case "autorestart":
            if value is False:
                keys["restart_policy"] = "never"
        case "exp_backoff_restart_delay":
            keys.setdefault("restart", {}).update(delay=_milliseconds(value), backoff=1.5)
        case "watch":
            if value:
                put(keys, "watch.paths", ["."] if value is True else _list(value))
        case "ignore_watch":
            if "watch" in keys:
                keys["watch"]["ignore"] = _list(value)
            else:
                return False
        case "watch_delay":
            if "watch" in keys:
                keys["watch"]["debounce"] = _period(value)
            else:
                return False
        case "wait_ready" | "shutdown_with_message":
            return not value
        case _:
            return key == "time"
    return True


def _lose(found: Findings, name: str, key: str, line: int) -> None:
    table = {
        "env_*": "another environment is another file: holdfast -c FILE, or `env_file`",
        "name_prefix": "write the whole name",
        "install_url": "install the program on this machine",
        "log_date_format": "`holdfast logs -t` shows the time of each line",
        "execute_command": "`command` names the whole program",
        "post_update": "use a workflow",
        "trace": "`holdfast metrics` has what the system tells",
        "disable_trace": "`holdfast metrics` has what the system tells",
        "v8": "`holdfast metrics` has what the system tells",
        "event_loop_inspector": "`holdfast metrics` has what the system tells",
        "deep_monitoring": "`holdfast metrics` has what the system tells",
        "io": "`holdfast metrics` has what the system tells",
        "kill_retry_time": "`stop: {grace: …}` is the only wait",
        "write": "`stdin: pipe`, and `holdfast send NAME …`",
        "wait_ready": "add `readiness:` (an address, a port or a line of the log)",
        "listen_timeout": "add `readiness:` with `retries` and `interval`",
        "cron_restart": "a task of its own with `schedule:` that runs `holdfast restart`",
        "cron": "a task of its own with `schedule:` that runs `holdfast restart`",
        "shutdown_with_message": "handle SIGTERM",
        "ignore_watch": "nothing is watched here",
        "watch_delay": "nothing is watched here",
        "gid": "write `user: USER:GROUP`",
        "filter_env": "`environment: clean` begins with nothing",
        "increment_var": "use `{{ index }}`",
        "watch_options": "`watch: {polling: true}` where the system does not tell of changes",
    }
    found.lose(line, f"{name}: {key}", advice(table, key))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _period(value: Any) -> str:
    """Return pm2's times: milliseconds, or a text such as 10s."""
    text = str(value).strip()
    return seconds(float(text) / 1000) if text.replace(".", "", 1).isdigit() else text


def _size(value: Any) -> str:
    """Return pm2's sizes: bytes, or 300M, whose letters count by 1024."""
    text = str(value).strip()
    return f"{text}iB" if text[-1:].upper() in "KMG" else text


def _milliseconds(value: Any) -> str:
    return seconds(float(value) / 1000)


_ROWS: Rows = {
    "max_memory_restart": (
        "memory_limit", lambda value: {"size": _size(value), "action": "restart"},
    ),
    "max_restarts": ("restart.max_restarts", int),
    "restart_delay": ("restart.delay", _milliseconds),
    "min_uptime": ("start_seconds", _period),
    "kill_timeout": ("stop.grace", _period),
    "uid": ("user", str),
    "user": ("user", str),
    "stop_exit_codes": ("success_exit_codes", lambda value: [int(code) for code in _list(value)]),
    "port": ("port", int),
    "namespace": ("tags", lambda value: [str(value)]),
    "env_file": ("env_file", str),
}  # fmt: skip
