"""systemd units: a service, and the timer that starts it."""

from __future__ import annotations

import os
import re
from typing import Any

from holdfast.migration.findings import Findings, Rows, carry, escaped, put
from holdfast.vocabulary.errors import UsageError

NAMES: tuple[str, ...] = ()
_NEEDLESS = frozenset({
    *("Unit.Description", "Unit.Documentation", "Install.WantedBy", "Install.Alias"),
    *("Install.RequiredBy", "Install.Also", "Service.StandardOutput", "Service.StandardError"),
    *("Service.SyslogIdentifier", "Service.KillMode", "Service.RemainAfterExit"),
    *("Service.ExecStart", "Timer.Unit", "Timer.AccuracySec", "Unit.DefaultDependencies"),
    *("Service.SendSIGKILL", "Service.GuessMainPID", "Service.TimeoutStartSec"),
})  # fmt: skip
_INSTEAD = {
    "Unit.After": "the machine's own order is systemd's; between services use `depends_on`",
    "Unit.Wants": "between services use `depends_on`",
    "Unit.Requires": "between services use `depends_on`",
    "Unit.Before": "between services use `depends_on` of the other one",
    "Service.ExecStop": "handle the stop signal, or use a workflow",
    "Service.ExecReload": "`holdfast signal NAME HUP`",
    "Service.PIDFile": "let the program stay in the foreground",
    "Service.RuntimeDirectory": "make the folder yourself",
    "Service.StateDirectory": "make the folder yourself",
    "Service.LogsDirectory": "`holdfast logs` has the output",
    "Service.PrivateTmp": "a process sees the files of the machine; use `user:`",
    "Service.ProtectSystem": "a process sees the files of the machine; use `user:`",
    "Service.ProtectHome": "a process sees the files of the machine; use `user:`",
    "Service.NoNewPrivileges": "use `user:`",
    "Service.CapabilityBoundingSet": "use `user:`",
    "Service.AmbientCapabilities": "use `user:`",
    "Service.OOMScoreAdjust": "set it on the machine",
}
_LIMITS = {"NOFILE": "nofile", "NPROC": "nproc", "CORE": "core", "AS": "as", "MEMLOCK": "memlock",
           "STACK": "stack", "FSIZE": "fsize", "CPU": "cpu", "DATA": "data"}  # fmt: skip
_POLICIES = {"no": "never", "always": "always", "on-success": "always"}
_SIGNS = re.compile(r"^[@:+!\-]*")


def recognises(name: str, text: str) -> bool:
    return re.search(r"^\[(?:Service|Timer)\]", text, re.MULTILINE) is not None


def read(path: str, text: str) -> Findings:
    found = Findings("systemd", path)
    name = os.path.basename(path).rpartition(".")[0] or os.path.basename(path)
    entries = _entries(text)
    timer = None
    if path.endswith(".timer"):
        timer, path_of_service = entries, f"{path[: -len('.timer')]}.service"
        if not os.path.exists(path_of_service):
            raise UsageError(
                f"{path} starts a unit that is not here", "import the .service with it"
            )
        with open(path_of_service, encoding="utf-8", errors="replace") as file:
            entries = _entries(file.read())
    elif os.path.exists(f"{path[: -len('.service')]}.timer"):
        with open(f"{path[: -len('.service')]}.timer", encoding="utf-8", errors="replace") as file:
            timer = _entries(file.read())
    if name.endswith("@"):
        found.lose(None, f"{name} is a template", "`instances:` with {{ index }} for %i")
        name = name.rstrip("@")
    keys: dict[str, Any] = {"restart_policy": "never"}
    line = None
    commands = [entry for entry in entries if entry[0] == "Service.ExecStart" and entry[1]]
    if not commands:
        raise UsageError(f"{path} has no ExecStart", "there is nothing to run")
    for key, value, number in entries:
        if key == "Service.ExecStart" and value and line is None:
            line = number
            keys["command"] = _specifiers(found, name, _SIGNS.sub("", value), number)
        elif not _key(key, value, keys) and key not in _NEEDLESS:
            instead = _INSTEAD.get(key, "Holdfast has no such key")
            found.lose(number, f"{key.partition('.')[2]}={value[:60]}", instead)
    if len(commands) > 1:
        found.lose(
            commands[1][2], "several ExecStart", "only the first is taken; join them with `&&`"
        )
    if keys.get("notify") == {}:
        keys["notify"] = True
    if timer is not None:
        _timer(found, timer, keys)
    found.add(name, keys, line)
    return found


def _entries(text: str) -> list[tuple[str, str, int]]:
    """Return SECTION.KEY, value and line of each entry. A backslash continues a line."""
    entries: list[tuple[str, str, int]] = []
    section, waiting, first = "", "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not waiting and (not line or line[0] in "#;"):
            continue
        if waiting and line[:1] in ("#", ";"):
            continue
        if line.endswith("\\"):
            waiting, first = f"{waiting}{line[:-1].strip()} ", first or number
            continue
        line, waiting = f"{waiting}{line}", ""
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        else:
            key, sign, value = line.partition("=")
            if sign:
                entries.append((f"{section}.{key.strip()}", value.strip(), first or number))
        first = 0
    return entries


def _specifiers(found: Findings, name: str, value: str, line: int) -> str:
    """Replace systemd's %-letters; `$NAME` and `${NAME}` are the unit's own variables."""

    def replaced(match: re.Match[str]) -> str:
        own = {"%": "%", "i": "{{ index }}", "I": "{{ index }}", "n": name, "N": name, "p": name,
               "h": "~", "H": "${HOSTNAME}", "u": "${USER}"}  # fmt: skip
        if match[1] in own:
            return own[match[1]]
        found.lose(line, f"%{match[1]} in ExecStart", "write the value itself")
        return match[0]

    return re.sub(r"%(\w|%)", replaced, value)


def _key(key: str, value: str, keys: dict[str, Any]) -> bool:
    """Carry one entry over; returns whether that was possible."""
    if carry(_ROWS, key, value, keys):
        return True
    match key:
        case "Service.Type":
            if value == "notify":
                keys.setdefault("notify", {})
            return value in ("simple", "exec", "notify", "oneshot", "idle")
        case "Service.User":
            group = keys.get("user", "").partition(":")[2]
            keys["user"] = f"{value}:{group}" if group else value
        case "Service.Group":
            keys["user"] = f"{keys.get('user', '').partition(':')[0]}:{value}"
        case "Service.Environment":
            keys.setdefault("env", {}).update(_assignments(value))
        case "Service.EnvironmentFile":
            keys.setdefault("env_file", []).append(value)
        case "Unit.StartLimitIntervalSec" | "Service.StartLimitInterval":
            path = "restart.max_restarts" if value == "0" else "restart.reset_after"
            put(keys, path, "unlimited" if value == "0" else _period(value))
        case _ if key.startswith("Service.Limit") and key[13:] in _LIMITS:
            limit = "unlimited" if value == "infinity" else value
            put(keys, f"rlimits.{_LIMITS[key[13:]]}", int(limit) if limit.isdigit() else limit)
        case _:
            return False
    return True


def _assignments(value: str) -> dict[str, str]:
    import shlex

    try:
        words = shlex.split(value)
    except ValueError:
        words = value.split()
    pairs = (word.partition("=") for word in words)
    return {name: escaped(text) for name, sign, text in pairs if sign}


def _period(value: str) -> str:
    """Return systemd's times: seconds, or 1min 30s."""
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return f"{value}s"
    units = {
        **dict.fromkeys(("min", "minutes", "minute"), "m"),
        **dict.fromkeys(("sec", "seconds", "second"), "s"),
        **dict.fromkeys(("hr", "hours", "hour"), "h"),
        **dict.fromkeys(("days", "day"), "d"),
        "msec": "ms",
    }
    parts = re.findall(r"(\d+)\s*([a-z]+)", value)
    return "".join(f"{number}{units.get(unit, unit)}" for number, unit in parts) or value


def _timer(found: Findings, timer: list[tuple[str, str, int]], keys: dict[str, Any]) -> None:
    schedule: dict[str, Any] = {}
    for key, value, line in timer:
        match key:
            case "Timer.OnCalendar":
                if (cron := _cron(value)) is not None and "cron" not in schedule:
                    schedule["cron"] = cron
                else:
                    found.lose(line, f"OnCalendar={value}", "write it as `schedule: {cron: …}`")
            case "Timer.OnUnitActiveSec" | "Timer.OnUnitInactiveSec":
                schedule["every"] = _period(value)
            case "Timer.Persistent":
                if value.lower() in ("true", "yes", "1", "on"):
                    schedule["catch_up"] = True
            case "Timer.OnBootSec" | "Timer.OnStartupSec":
                found.lose(line, f"{key.partition('.')[2]}={value}", "`schedule: {every: …}`")
            case _ if key in _NEEDLESS:
                pass
            case _:
                found.lose(line, f"{key.partition('.')[2]}={value}", "Holdfast has no such key")
    if "cron" in schedule or "every" in schedule:
        schedule.pop("every", None) if "cron" in schedule else None
        keys["schedule"] = schedule


_DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")


def _cron(calendar: str) -> str | None:
    """Return a calendar expression as cron has it; None where that needs a person."""
    words = {"hourly": "@hourly", "daily": "@daily", "weekly": "@weekly", "monthly": "@monthly",
             "yearly": "@yearly", "annually": "@yearly", "minutely": "* * * * *"}  # fmt: skip
    if calendar in words:
        return words[calendar]
    parts = re.fullmatch(
        r"(?:([A-Za-z][A-Za-z,.\-]*)\s+)?(?:(?:\*|\d{4})-(\*|[\d,/]+)-(\*|[\d,/]+)\s+)?"
        r"(\*|[\d,/]+):(\*|[\d,/*]+)(?::(\d+))?",
        calendar.strip(),
    )
    if parts is None or (parts[6] or "0").strip("0"):
        return None
    days = "*"
    if parts[1]:
        days = parts[1].upper().replace("..", "-")
        if any(day[:3] not in _DAYS for day in re.split(r"[,\-]", days)):
            return None
        days = re.sub(r"([A-Z]{3})[A-Z]*", r"\1", days)
    fields = [part or "*" for part in (parts[5], parts[4], parts[3], parts[2])]
    # `0/15` there is `*/15` here; a leading zero means nothing in either.
    minute, hour, day, month = (
        re.sub(r"\b0(\d)", r"\1", re.sub(r"^0+/", "*/", field)) for field in fields
    )
    return f"{minute} {hour} {day} {month} {days}"


def _size(value: str) -> str:
    """systemd's letters count by 1024."""
    return f"{value}iB" if value[-1:] in "KMGT" else value


_ROWS: Rows = {
    "Service.WorkingDirectory": ("working_dir", lambda value: value.removeprefix("-")),
    "Service.Restart": ("restart_policy", lambda value: _POLICIES.get(value, "on_failure")),
    "Service.RestartSec": ("restart.delay", _period),
    "Service.SuccessExitStatus": (
        "success_exit_codes",
        lambda value: sorted({0, *(int(word) for word in value.split() if word.isdigit())}),
    ),
    "Service.TimeoutStopSec": ("stop.grace", _period),
    "Service.KillSignal": ("stop.signal", str),
    "Service.UMask": ("umask", str),
    "Service.MemoryMax": ("memory_limit", _size),
    "Service.MemoryLimit": ("memory_limit", _size),
    "Service.CPUQuota": ("cpu_limit", str),
    "Service.TasksMax": ("process_limit", int),
    "Service.RuntimeMaxSec": ("timeout", _period),
    "Service.WatchdogSec": ("notify.watchdog", _period),
    "Unit.StartLimitBurst": ("restart.max_restarts", int),
    "Service.StartLimitBurst": ("restart.max_restarts", int),
}
