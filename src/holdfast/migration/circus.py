"""circus.ini: watchers, their environment, and the files that it includes."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from typing import Any

from holdfast.migration.findings import Findings, Rows, advice, carry, escaped, put, whole_seconds
from holdfast.migration.ini import IniValue, Section, first_line, is_no, read_ini

NAMES = ("circus.ini",)
_WATCHER = "watcher:"
_EXPANSION = re.compile(r"\$?\(\(?(?:circus\.)?([\w.]+)\)?\)", re.IGNORECASE)
NEEDLESS = frozenset({
    *("cmd", "args", "copy_env", "uid", "gid", "numprocesses", "singleton", "stop_children"),
    *("stdout_stream.class", "stderr_stream.class", "stdout_stream.filename", "respawn"),
    *("stderr_stream.filename", "stdout_stream.time_format", "stderr_stream.time_format"),
    *("stdout_stream.refresh_time", "stderr_stream.refresh_time", "name"),
})  # fmt: skip
"""What is read with another key, and what Holdfast does anyway: it records both streams, ends
the whole tree."""
_INSTEAD = {
    "shell_args": "write the shell into the command: `command: [bash, -lc, …]`",
    "copy_path": "set PYTHONPATH under `env`",
    "warmup_delay": "`depends_on` with `ready` orders starts",
    "close_child_stdout": "write `> /dev/null` and `shell: true`",
    "close_child_stderr": "write `2> /dev/null` and `shell: true`",
    "send_hup": "`holdfast signal NAME HUP`",
    "priority": "say what needs what with `depends_on`",
    "use_sockets": "let the program listen itself",
    "max_age": "a task of its own with `schedule:` that runs `holdfast restart`",
    "max_age_variance": "a task of its own with `schedule:` that runs `holdfast restart`",
    "on_demand": "`autostart: false`, and start it when it is needed",
    "hooks.*": "`recovery:` for crashes, a workflow for what is done around a start",
    "virtualenv": "name its program: `command: VENV/bin/python …`",
}
_SECTIONS = {
    "socket": "let the program listen itself, on `port`",
    "plugin": "`alerts:`, `health_check:` and `holdfast metrics` are built in",
}
_OWN_NEEDLESS = frozenset({
    *("include", "include_dir", "check_delay", "stream_backend", "pidfile", "debug", "loglevel"),
    *("logoutput", "statsd", "stats_endpoint", "statsd_close_outputs", "proc_name"),
})  # fmt: skip
_OWN_INSTEAD = {
    "endpoint": "the command line finds Holdfast by itself; `port` is its network door",
    "pubsub_endpoint": "`holdfast events -f`, or the WebSocket door",
    "httpd": "the dashboard: `holdfast dashboard`",
    "httpd_host": "`host`",
    "httpd_port": "`http_port`",
    "httpd_close_outputs": "the gate has its own log",
    "umask": "set `umask` in each service",
    "warmup_delay": "`depends_on` with `ready` orders starts",
    "papa_endpoint": "Holdfast's keeper keeps services over its own restarts",
}


def recognises(name: str, text: str) -> bool:
    return re.search(r"^\[(?:circus|watcher:[^\]]+)\]", text, re.MULTILINE) is not None


def read(path: str, text: str) -> Findings:
    found = Findings("circus", path)
    sections = _with_included(path, read_ini(text, keeps_case=True))
    watchers = [title[len(_WATCHER) :] for title in sections if title.startswith(_WATCHER)]
    environments = {name: _environment(found, sections, name) for name in watchers}
    for title, section in sections.items():
        kind, _, name = title.partition(":")
        if kind == "watcher" and name:
            _watcher(found, name, section, environments[name])
        elif kind == "circus":
            for key, entry in section.items():
                if key not in _OWN_NEEDLESS:
                    instead = advice(_OWN_INSTEAD, key)
                    found.lose(entry.line, key, instead)
        elif kind != "env":
            instead = _SECTIONS.get(kind, "Holdfast has no such section")
            found.lose(first_line(section), f"[{title}]", instead)
    return found


def _with_included(path: str, sections: dict[str, Section]) -> dict[str, Section]:
    own = sections.get("circus", {})
    patterns = own["include"].value.split() if "include" in own else []
    if "include_dir" in own:
        patterns += [os.path.join(folder, "*.ini") for folder in own["include_dir"].value.split()]
    for pattern in patterns:
        for name in sorted(glob.glob(os.path.join(os.path.dirname(path), pattern))):
            with open(name, encoding="utf-8", errors="replace") as file:
                sections = {**read_ini(file.read(), keeps_case=True, is_included=True), **sections}
    return sections


def _environment(found: Findings, sections: dict[str, Section], watcher: str) -> dict[str, str]:
    """Return the variables of every [env] section that means this watcher; later ones win."""
    values: dict[str, str] = {}
    for title, section in sections.items():
        kind, _, names = title.partition(":")
        wanted = [name.strip() for name in names.split(",")] if names else ["*"]
        if kind == "env" and any(fnmatch.fnmatchcase(watcher, one) for one in wanted):
            for key, entry in section.items():
                values[key] = re.sub(r"\$(\w+)|\$\{(\w+)\}", _variable, entry.value)
    return values


def _variable(found: re.Match[str]) -> str:
    return "${" + (found[1] or found[2]) + ":-}"


def _watcher(found: Findings, name: str, section: Section, env: dict[str, str]) -> None:
    keys: dict[str, Any] = {}
    count = section["numprocesses"].value if "numprocesses" in section else "1"
    is_many = count.isdigit() and int(count) > 1 and _is_no(section, "singleton", "false")
    line = section["cmd"].value if "cmd" in section else ""
    if line and "args" in section:
        line = f"{line} {section['args'].value}"
    if line:
        keys["command"] = _expanded(found, name, line, section, is_many=is_many)
    # circus restarts what ends, whatever its exit code, and gives up after five times.
    keys["restart_policy"] = "always"
    if is_many:
        keys["instances"] = int(count)
    if _is_no(section, "copy_env", "false"):
        keys["environment"] = "clean"
    if env:
        keys["env"] = env
    user, group = (section[key].value if key in section else "" for key in ("uid", "gid"))
    if user or group:
        keys["user"] = f"{user}:{group}" if group else user
    if _is_no(section, "respawn", "true"):
        keys["restart_policy"] = "never"
    for key, entry in section.items():
        if not _key(key, entry.value, keys) and key not in NEEDLESS:
            found.lose(entry.line, f"{name}: {key}", advice(_INSTEAD, key))
    keys.setdefault("stop", {}).setdefault("grace", "30s")
    if "command" not in keys:
        found.lose(first_line(section), f"watcher {name}", "it has no cmd, so it is left out")
        return
    found.add(name, keys, first_line(section))


def _is_no(section: Section, key: str, default: str) -> bool:
    return is_no(section.get(key, IniValue(0, default)).value)


def _expanded(found: Findings, name: str, text: str, section: Section, *, is_many: bool) -> str:
    """Return a command with circus' expansions replaced by ours."""

    def replaced(match: re.Match[str]) -> str:
        word = match[1]
        if word.lower() == "wid":
            return "{{ index }}" if is_many else "1"
        if word.lower().startswith("env."):
            return "${" + word[4:] + "}"
        entry = section["cmd" if match[0] in section["cmd"].value else "args"]
        found.lose(entry.line, f"{name}: {match[0]}", "let the program listen itself, on `port`")
        return match[0]

    return _EXPANSION.sub(replaced, escaped(text))


def _key(key: str, value: str, keys: dict[str, Any]) -> bool:
    """Carry one entry over; returns whether that was possible."""
    if carry(_ROWS, key, value, keys):
        return True
    if key.startswith("rlimit_"):
        limit = value if value.isdigit() else "unlimited"
        put(keys, f"rlimits.{key[7:].lower()}", int(limit) if limit.isdigit() else limit)
    elif key == "autostart":
        keys |= {"autostart": False} if is_no(value) else {}
    elif key == "shell":
        keys |= {} if is_no(value) else {"shell": True}
    elif key == "max_retry":
        retries = "unlimited" if value == "-1" else int(value)
        put(keys, "restart.max_restarts", retries)
    elif key.endswith("_stream.max_bytes") and value.isdigit():
        put(keys, "log.max_size", max(4096, int(value)))
    elif key.endswith("_stream.backup_count") and value.isdigit():
        size = keys.get("log", {}).get("max_size", 16 << 20)
        put(keys, "log.total_size", size * (int(value) + 1))
    else:
        return False
    return True


_ROWS: Rows = {
    "working_dir": ("working_dir", str),
    "stop_signal": ("stop.signal", lambda value: value.upper().removeprefix("SIG")),
    "graceful_timeout": ("stop.grace", whole_seconds),
}
