"""supervisord.conf: programs, groups, and the files that it includes."""

from __future__ import annotations

import glob
import os
import re
from typing import Any

from holdfast.migration.findings import (
    Findings,
    Rows,
    advice,
    carry,
    escaped,
    whole_seconds,
)
from holdfast.migration.ini import IniValue, Section, first_line, is_no, read_ini

NAMES = ("supervisord.conf",)
_EXPANSION = re.compile(r"%\((\w+)\)([-0-9.]*[sd])|%%")
NEEDLESS = frozenset({
    *("process_name", "redirect_stderr", "stdout_logfile", "stderr_logfile", "stdout_syslog"),
    *("stderr_syslog", "stdout_capture_maxbytes", "stderr_capture_maxbytes", "stopasgroup"),
    *("killasgroup", "stdout_events_enabled", "stderr_events_enabled"),
})  # fmt: skip
"""What Holdfast does anyway: it records both streams and always ends the whole tree."""
_OWN_NEEDLESS = frozenset({
    *("logfile", "logfile_maxbytes", "logfile_backups", "loglevel", "pidfile", "nodaemon"),
    *("silent", "nocleanup", "childlogdir", "strip_ansi", "identifier", "environment"),
})  # fmt: skip
_OWN_INSTEAD = {
    "user": "start Holdfast as this user, or write `user` in each service",
    "umask": "write `umask` in each service",
    "directory": "write `working_dir` in each service",
    "minfds": "write `rlimits: {nofile: …}` in each service",
    "minprocs": "write `rlimits: {nproc: …}` in each service",
}
_KEYS_INSTEAD = {
    "serverurl": "a service finds its Holdfast by the variables HOLDFAST_*",
    "socket*": "let the program listen itself, on `port`",
    "*_syslog": "`holdfast logs -f NAME | logger -t NAME`",
}
_OURS = ("unix_http_server", "supervisorctl", "include")
_INSTEAD = {
    "eventlistener": "listen to `holdfast events -f`, or use `alerts:`",
    "inet_http_server": "the dashboard: `holdfast dashboard`",
    "rpcinterface": "REST, WebSocket and TCP are built in",
}


def recognises(name: str, text: str) -> bool:
    return (
        re.search(
            r"^\[(?:program|supervisord|eventlistener|fcgi-program|group)[:\]]", text, re.MULTILINE
        )
        is not None
    )


def read(path: str, text: str) -> Findings:
    found = Findings("supervisord", path)
    sections = _with_included(path, read_ini(text))
    shared = _environment(sections.get("supervisord", {}), {}, found)
    groups: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    ranks: list[tuple[int, str]] = []
    for title, section in sections.items():
        kind, _, name = title.partition(":")
        if kind in ("program", "fcgi-program") and name:
            if kind == "fcgi-program":
                what = f"[{title}] shares one socket"
                found.lose(first_line(section), what, "let the program listen itself")
            own, rank = _program(found, name, section, shared)
            names[name] = own
            ranks.append((rank, own))
        elif kind == "group" and name:
            groups[name] = _words(section.get("programs", IniValue(0, "")).value)
        elif kind == "supervisord":
            for key, entry in section.items():
                if key not in _OWN_NEEDLESS:
                    found.lose(entry.line, key, advice(_OWN_INSTEAD, key))
        elif kind not in _OURS and "supervisor.rpcinterface" not in str(section):
            instead = advice(_INSTEAD, kind)
            found.lose(first_line(section), f"[{title}]", instead)
    for group, members in groups.items():
        found.top.setdefault("groups", {})[group] = [names[one] for one in members if one in names]
    if len({rank for rank, _ in ranks}) > 1:
        found.lose(
            None, "priority orders starts by numbers", "say what needs what with `depends_on`"
        )
    return found


def _with_included(path: str, sections: dict[str, Section]) -> dict[str, Section]:
    """Return the sections with those of the files that `[include]` names."""
    files = sections.get("include", {}).get("files")
    for pattern in files.value.split() if files else ():
        for name in sorted(glob.glob(os.path.join(os.path.dirname(path), pattern))):
            with open(name, encoding="utf-8", errors="replace") as file:
                sections = {**read_ini(file.read(), is_included=True), **sections}
    return sections


def _words(text: str) -> list[str]:
    return [word.strip() for word in re.split(r"[,\n]", text) if word.strip()]


def _program(
    found: Findings, name: str, section: Section, shared: dict[str, str]
) -> tuple[str, int]:
    count = int(section["numprocs"].value) if "numprocs" in section else 1
    first = int(section["numprocs_start"].value) if "numprocs_start" in section else 0

    def text(entry: IniValue) -> str:
        return _expanded(entry, name, first, found, is_many=count > 1)

    keys: dict[str, Any] = {}
    rank, line = 999, first_line(section)
    for key, entry in section.items():
        value = entry.value.strip()
        if key == "priority":
            rank = int(value) if value.isdigit() else 999
        elif key == "command":
            # supervisord starts no shell: signs of one are plain text there.
            keys["command"] = text(entry)
        elif key in ("numprocs", "numprocs_start"):
            keys |= {"instances": count} if count > 1 else {}
        elif key == "directory":
            keys["working_dir"] = text(entry)
        elif key == "environment":
            keys["env"] = _environment(section, shared, found)
        elif key == "autostart":
            keys |= {"autostart": False} if is_no(value) else {}
        elif not carry(_ROWS, key, value, keys) and key not in NEEDLESS:
            found.lose(entry.line, f"{name}: {key}", advice(_KEYS_INSTEAD, key))
    _set_log(keys)
    keys.setdefault("restart_policy", "on_failure")
    # supervisord waits 10 s before SIGKILL, unless told.
    keys.setdefault("stop", {}).setdefault("grace", "10s")
    if shared and "env" not in keys:
        keys["env"] = dict(shared)
    if "command" not in keys:
        found.lose(line, f"program {name}", "it has no command, so it is left out")
        return name, rank
    return found.add(name, keys, line), rank


def _size(value: str) -> str:
    """supervisord's units count by 1024."""
    return re.sub(r"(?i)\s*([KMG])B$", lambda unit: f"{unit[1].upper()}iB", value)


def _policy(value: str) -> str:
    if is_no(value):
        return "never"
    return "on_failure" if value.lower() == "unexpected" else "always"


def _codes(value: str) -> list[int]:
    return [int(code) for code in _words(value) if code.isdigit()]


def _backups(value: str) -> int:
    return int(value) if value.isdigit() else 10


_ROWS: Rows = {
    "autorestart": ("restart_policy", _policy),
    "startsecs": ("start_seconds", whole_seconds),
    "startretries": ("start_retries", int),
    "exitcodes": ("success_exit_codes", _codes),
    "stopsignal": ("stop.signal", lambda value: value.removeprefix("SIG")),
    "stopwaitsecs": ("stop.grace", whole_seconds),
    "user": ("user", str),
    "umask": ("umask", str),
    "stdout_logfile_maxbytes": ("log.max_size", _size),
    "stderr_logfile_maxbytes": ("log.max_size", _size),
    "stdout_logfile_backups": ("log.backups", _backups),
    "stderr_logfile_backups": ("log.backups", _backups),
}


def _set_log(keys: dict[str, Any]) -> None:
    """Make one total of the size of a file and the number of its backups."""
    log = keys.pop("log", {})
    number = re.fullmatch(r"(\d+)(\w*)", log.get("max_size", "50MiB"))
    if not log or number is None or number[1] == "0":
        return
    total = int(number[1]) * (log.get("backups", 10) + 1)
    keys["log"] = {"max_size": number[0], "total_size": f"{total}{number[2]}"}


def _environment(section: Section, shared: dict[str, str], found: Findings) -> dict[str, str]:
    entry = section.get("environment")
    values = dict(shared)
    if entry is None:
        return values
    pairs = re.findall(r'(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|\'[^\']*\'|[^,\n]*)', entry.value)
    for key, value in pairs:
        plain = value.strip()
        if plain[:1] in ('"', "'") and plain[-1:] == plain[:1]:
            plain = plain[1:-1]
        values[key] = _expanded(IniValue(entry.line, plain), "", 0, found, is_many=False)
    return values


def _expanded(entry: IniValue, name: str, first: int, found: Findings, *, is_many: bool) -> str:
    """Return a text with supervisord's expansions replaced by ours."""
    # Instances are counted from 1 here, and from `numprocs_start` there.
    offset = first - 1
    number = "{{ index }}" if offset == 0 else f"{{{{ index {offset:+d} }}}}"
    number = number.replace("-", "- ").replace("+", "+ ")

    def replaced(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        word = match[1]
        if word.startswith("ENV_"):
            return "${" + word[4:] + "}"
        if word == "process_num":
            return number if is_many else str(first)
        if word == "here":
            return "."
        if word in ("program_name", "group_name"):
            return name
        found.lose(entry.line, f"{name}: {match[0]}", "write the value itself")
        return match[0]

    return _EXPANSION.sub(replaced, escaped(entry.value))
