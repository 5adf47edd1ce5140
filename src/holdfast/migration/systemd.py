"""systemd units: a service, and the timer that starts it."""

from __future__ import annotations

import os
import re
from typing import Any

from holdfast.migration.findings import Findings, Rows, advice, carry, escaped, put
from holdfast.vocabulary.errors import UsageError

NAMES: tuple[str, ...] = ()
NEEDLESS = frozenset({
    *("Unit.Description", "Unit.Documentation", "Install.WantedBy", "Install.Alias"),
    *("Install.RequiredBy", "Install.Also", "Service.StandardOutput", "Service.StandardError"),
    *("Service.SyslogIdentifier", "Service.KillMode", "Service.RemainAfterExit"),
    *("Service.ExecStart", "Timer.Unit", "Timer.AccuracySec", "Unit.DefaultDependencies"),
    *("Service.SendSIGKILL", "Service.GuessMainPID", "Service.TimeoutStartSec"),
    *("Timer.RemainAfterElapse",),
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
    "Service.OOM*": "set it on the machine",
    "Unit.OnFailure*": "`alerts:` to be told, `recovery:` to do something",
    "Unit.OnSuccess": "`holdfast wait NAME --for exited` in a script",
    "Unit.Condition*": "test it in the command, under `shell: true`",
    "Unit.Assert*": "test it in the command, under `shell: true`",
    "Unit.*Action*": "`essential: true` ends all with this one",
    "Unit.JobTimeout*": "`timeout` bounds a run",
    "Unit.JobRunning*": "`timeout` bounds a run",
    "Unit.*Mounts*": "the machine's own order is systemd's; see install-service",
    "Unit.*[RP]*agate*": "`depends_on: {NAME: {restart: true}}`",
    "Unit.SourcePath": "nothing: it only says where the unit comes from",
    "Unit.*": "between services use `depends_on`",
    "Service.ExecStartPre": "write it in front: `command: PRE && exec PROGRAM`, `shell: true`",
    "Service.ExecStartPost": "a service of its own that depends on this one",
    "Service.ExecCondition": "test it in the command, under `shell: true`",
    "Service.ExecReloadPost": "`holdfast signal NAME HUP`",
    "Service.ExecStopPost": "`recovery:` for crashes, a workflow for stops",
    "Service.ReloadSignal": "`holdfast signal NAME HUP`",
    "Service.RestartSteps": "`restart: {backoff: …}` says how waits grow",
    "Service.RestartMode": "what depends on it waits or goes on; see `depends_on`",
    "Service.Restart*ExitStatus": "`success_exit_codes` says what is no failure",
    "Service.*KillSignal": "what outlives `stop.grace` is killed",
    "Service.SendSIGHUP": "`terminal: true` gets SIGHUP, too",
    "Service.Timeout*": "`stop.grace` and `timeout` bound a stop and a run",
    "Service.Watchdog*": "a run that is silent is restarted; see `notify.watchdog`",
    "Service.RuntimeRandom*": "`timeout` bounds a run",
    "Service.NotifyAccess": "any process of the service may notify",
    "Service.BusName": "`readiness:` asks an address, a port or a line of the log",
    "Service.*Socket*": "let the program listen itself, on `port`",
    "Service.FileDescriptor*": "let the program listen itself, on `port`",
    "Service.NonBlocking": "let the program listen itself, on `port`",
    "Service.OpenFile": "let the program open it itself",
    "Service.USB*": "let the program open it itself",
    "Service.ExitType": "a run ends with its main process",
    "Service.PassEnvironment": "variables of the caller are inherited",
    "Service.UnsetEnvironment": "`environment: clean` begins with no variable at all",
    "Service.StandardInput*": "`stdin: pipe`, and `holdfast send NAME …`",
    "Service.[LS]*": "output is always recorded: `holdfast logs`; `log:` says how much is kept",
    "Service.TTY*": "`terminal: true`",
    "Service.*Credential*": "`env_file`, or {file: PATH} as a value",
    "Service.*Directory*": "make the folder yourself",
    "Service.Nice": "write `nice -n N` in front of the command",
    "Service.CPUScheduling*": "write `chrt` in front of the command",
    "Service.IOScheduling*": "write `ionice` in front of the command",
    "Service.CPUAffinity": "write `taskset` in front of the command",
    "Service.NUMA*": "write `numactl` in front of the command",
    "Service.Personality": "write `setarch` in front of the command",
    "Service.Allowed*": "write `taskset` in front of the command",
    "Service.*Accounting": "`holdfast metrics` always counts",
    "Service.CPU*": "use `cpu_limit` in percent of one core",
    "Service.*CPUWeight": "use `cpu_limit` in percent of one core",
    "Service.Memory*": "use `memory_limit`",
    "Service.IO*": "set it on the machine",
    "Service.IP*": "programs share the network of the machine",
    "Service.Device*": "use `user:`",
    "Service.ManagedOOM*": "use `memory_limit`",
    "Service.Slice": "`cpu_limit` and `memory_limit` of each service",
    "Service.Delegate": "`install-service` delegates its cgroup to Holdfast",
    "Service.DisableControllers": "`install-service` delegates its cgroup to Holdfast",
    "Service.SupplementaryGroups": "write `user: USER:GROUP`",
    "Service.DynamicUser": "use `user:` with a user that exists",
    "Service.Utmp*": "write `login` or `agetty` as the command",
    "Service.LimitLOCKS": "the system ignores it",
    "Service.LimitRTTIME": "Holdfast marks its processes with it",
    "Service.*": "a process sees the machine as it is; use `user:`",
    "Timer.On*": "`schedule: {every: …}`, or `holdfast start NAME` once",
    "Timer.Random*": "times are kept exactly; write another minute",
    "Timer.FixedRandomDelay": "times are kept exactly; write another minute",
    "Timer.*": "a schedule goes on as long as Holdfast runs",
    "Install.*": "`holdfast install-service` starts all services at boot",
}
_LIMITS = {"NOFILE": "nofile", "NPROC": "nproc", "CORE": "core", "AS": "as", "MEMLOCK": "memlock",
           "STACK": "stack", "FSIZE": "fsize", "CPU": "cpu", "DATA": "data", "RSS": "rss",
           "SIGPENDING": "sigpending", "MSGQUEUE": "msgqueue", "NICE": "nice",
           "RTPRIO": "rtprio"}  # fmt: skip
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
        # Lines are those of the service, whichever of the two was named.
        path = found.path = path_of_service
    elif os.path.exists(f"{path[: -len('.service')]}.timer"):
        with open(f"{path[: -len('.service')]}.timer", encoding="utf-8", errors="replace") as file:
            timer = _entries(file.read())
    if name.endswith("@"):
        instead = "%i is the number of an instance here; `instances:` says how many"
        found.lose(None, f"{name} is a template", instead)
    keys: dict[str, Any] = {"restart_policy": "never"}
    if name.endswith("@"):
        name = name.rstrip("@")
        keys["instances"] = 1
    line = None
    commands = [entry for entry in entries if entry[0] == "Service.ExecStart" and entry[1]]
    if not commands:
        raise UsageError(f"{path} has no ExecStart", "there is nothing to run")
    for key, value, number in entries:
        if key == "Service.ExecStart" and value and line is None:
            line = number
            keys["command"] = _specifiers(found, name, _SIGNS.sub("", value), number)
        elif not _key(key, value, keys) and key not in NEEDLESS:
            instead = advice(_INSTEAD, key)
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
            limits = [_limit(part) for part in value.split(":")]
            pair = dict(zip(("soft", "hard"), limits, strict=False))
            put(keys, f"rlimits.{_LIMITS[key[13:]]}", pair if len(limits) > 1 else limits[0])
        case _:
            return False
    return True


def _limit(value: str) -> int | str:
    if value.isdigit():
        return int(value)
    return "unlimited" if value == "infinity" else value


def _assignments(value: str) -> dict[str, str]:
    import shlex

    try:
        words = shlex.split(value)
    except ValueError:
        words = value.split()
    pairs = (word.partition("=") for word in words)
    return {name: escaped(text.replace("%%", "%")) for name, sign, text in pairs if sign}


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


def _grace(value: str) -> str:
    """systemd waits without end for `infinity`; the longest that Holdfast waits is a day."""
    return "1d" if value == "infinity" else _period(value)


def _timer(found: Findings, timer: list[tuple[str, str, int]], keys: dict[str, Any]) -> None:
    schedule: dict[str, Any] = {}
    place = f"{os.path.basename(found.path).removesuffix('.service')}.timer"
    for key, value, line in timer:
        match key:
            case "Timer.OnCalendar":
                if (cron := _cron(value)) is not None and "cron" not in schedule:
                    schedule["cron"] = cron
                else:
                    instead = "write it as `schedule: {cron: …}`"
                    found.lose(None, f"{place}:{line}: OnCalendar={value}", instead)
            case "Timer.OnUnitActiveSec" | "Timer.OnUnitInactiveSec":
                schedule["every"] = _period(value)
            case "Timer.Unit" if value != os.path.basename(found.path):
                found.lose(None, f"{place}:{line}: Unit={value}", "import that unit, too")
            case "Timer.Persistent":
                if value.lower() in ("true", "yes", "1", "on"):
                    schedule["catch_up"] = True
            case "Timer.OnBootSec" | "Timer.OnStartupSec":
                instead = "`schedule: {every: …}`"
                found.lose(None, f"{place}:{line}: {key[6:]}={value}", instead)
            case _ if key in NEEDLESS:
                pass
            case _:
                what = f"{key.partition('.')[2]}={value}"
                found.lose(None, f"{place}:{line}: {what}", advice(_INSTEAD, key))
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
    "Service.TimeoutStopSec": ("stop.grace", _grace),
    "Service.TimeoutSec": ("stop.grace", _grace),
    "Service.RestartMaxDelaySec": ("restart.max_delay", _period),
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
