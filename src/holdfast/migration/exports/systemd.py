"""systemd units: one for each service, and a timer for each schedule."""

from __future__ import annotations

import os
import re
import shutil

from holdfast.migration.exports.declared import DeclaredProject, DeclaredService, Exported, seconds
from holdfast.vocabulary.specs.services import UNLIMITED

_INSTEAD = {
    "start_*": "systemd counts starts in StartLimitBurst= alone",
    "terminal": "a unit has a terminal only with TTYPath=",
    "stdin": "a unit reads from a socket: StandardInput=socket",
    "log": "the journal keeps output: SystemMaxUse= in journald.conf",
    "essential": "write FailureAction=exit, or a target that needs it",
    "watch": "write a NAME.path unit",
    "health_check": "let the program report with sd_notify, or a timer ask",
    "recovery": "write OnFailure=",
    "overlap": "one run ends before the next begins",
    "tags": "use a target, or a slice",
    "sockets": "write a NAME.socket unit",
}
_RESTART = {"always": "always", "on_failure": "on-failure", "never": "no"}
_DAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_NAMED = {
    "@hourly": "hourly", "@daily": "daily", "@midnight": "daily", "@weekly": "weekly",
    "@monthly": "monthly", "@yearly": "yearly", "@annually": "yearly",
}  # fmt: skip


def write(project: DeclaredProject, image: str | None) -> Exported:
    files: dict[str, str] = {}
    for service in project.services:
        schedule = service.take("schedule")
        is_many = service.count > 1
        name = f"{service.name}@" if is_many else service.name
        files[f"{name}.service"] = _unit(project, service, has_timer=schedule is not None)
        if is_many:
            numbers = f"systemctl start '{service.name}@{{1..{service.count}}}'"
            service.lose("instances", f"start each by its number: {numbers}")
        if schedule is not None and (timer := _timer(service)) is not None:
            files[f"{name}.timer"] = timer
        service.lose_rest(_INSTEAD)
    return Exported(files)


def _unit(project: DeclaredProject, service: DeclaredService, *, has_timer: bool) -> str:
    unit = [f"Description={service.name} of {project.name}", *_needs(project, service)]
    restart = service.take("restart")
    if restart.max_restarts == UNLIMITED:
        unit.append("StartLimitIntervalSec=0")
    else:
        unit += [
            f"StartLimitIntervalSec={seconds(restart.reset_after)}",
            f"StartLimitBurst={restart.max_restarts}",
        ]
    service.lose_parts("restart", "delay", "max_restarts", "reset_after")
    lines = ["[Unit]", *unit, "", "[Service]", *_process(service, has_timer=has_timer)]
    lines += [f"RestartSec={seconds(restart.delay)}"]
    lines += _limits(service)
    if service.take("autostart") and service.take("enabled") and not has_timer:
        lines += ["", "[Install]", "WantedBy=multi-user.target"]
    service.take("enabled")
    return "\n".join(lines) + "\n"


def _needs(project: DeclaredProject, service: DeclaredService) -> list[str]:
    lines: list[str] = []
    for need in service.take("depends_on"):
        for other in project.members(need.service):
            lines += [f"Wants={other}.service", f"After={other}.service"]
        if need.condition != "started":
            service.lose(
                f"depends_on.{need.service}",
                f"it waits for {need.condition} only if the other one has Type=notify or oneshot",
            )
        if need.restart:
            service.lose(f"depends_on.{need.service}", "write PartOf=")
    return lines


def _process(service: DeclaredService, *, has_timer: bool) -> list[str]:
    spec = service.spec
    notify = service.take("notify")
    kind = "notify" if notify is not None else "exec"
    policy = service.take("restart_policy")
    lines = [
        f"Type={'oneshot' if has_timer and policy != 'always' else kind}",
        f"ExecStart={_command(service)}",
        f"WorkingDirectory={_plain(spec.working_dir)}",
        f"Restart={'no' if has_timer and policy == 'always' else _RESTART[policy]}",
    ]
    if notify is not None:
        if notify.fd is not None:
            service.lose("notify.fd", "let the program use sd_notify")
        if notify.watchdog is not None:
            lines.append(f"WatchdogSec={seconds(notify.watchdog)}")
    for name, text in service.env.items():
        if text is None:
            service.lose(f"env.{name}", "a secret: put it into a 0600 file for EnvironmentFile=")
        else:
            lines.append(f"Environment={_quoted(f'{name}={text}')}")
    if user := service.take("user"):
        name, _, group = str(user).partition(":")
        lines += [f"User={name}", *([f"Group={group}"] if group else [])]
    if (umask := service.take("umask")) is not None:
        lines.append(f"UMask={umask:04o}")
    codes = service.take("success_exit_codes")
    if others := [str(code) for code in codes if code]:
        lines.append(f"SuccessExitStatus={' '.join(others)}")
    stop = service.take("stop")
    if stop.signal is not None:
        lines.append(f"KillSignal={_signal(stop.signal)}")
    lines.append(f"TimeoutStopSec={seconds(stop.grace)}")
    if (most := service.take("timeout")) is not None:
        lines.append(f"RuntimeMaxSec={seconds(most)}")
    return lines


def _limits(service: DeclaredService) -> list[str]:
    lines: list[str] = []
    for name, (soft, hard) in service.take("rlimits").items():
        both = [("infinity" if one < 0 else str(one)) for one in (soft, hard)]
        text = both[0] if both[0] == both[1] else ":".join(both)
        lines.append(f"Limit{name.upper()}={text}")
    if (memory := service.take("memory_limit")) is not None:
        lines.append(f"MemoryMax={memory.size}")
        if memory.action != "kill":
            service.lose("memory_limit.action", "systemd kills it; Restart= says what follows")
    if (share := service.take("cpu_limit")) is not None:
        lines.append(f"CPUQuota={share:g}%")
    if (most := service.take("process_limit")) is not None:
        lines.append(f"TasksMax={most}")
    return lines


def _command(service: DeclaredService) -> str:
    program, *words = service.argv
    if "/" not in program:
        program = shutil.which(program, path=service.spec.env.get("PATH")) or program
    elif not program.startswith("/"):
        program = os.path.normpath(os.path.join(service.spec.working_dir, program))
    return " ".join(_quoted(word, in_command=True) for word in (program, *words))


def _plain(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(text: str, *, in_command: bool = False) -> str:
    """Return a word as a unit has it: `%` and, in a command, `$` are doubled."""
    text = _plain(text)
    if in_command:
        text = text.replace("$", "$$")
    if text and re.fullmatch(r"[\w@%+=:,./$-]+", text, re.ASCII):
        return text
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(plain, escaped)
    return f'"{text}"'


def _signal(signal: str) -> str:
    return signal if signal.isdigit() or signal.startswith("SIG") else f"SIG{signal}"


def _timer(service: DeclaredService) -> str | None:
    schedule = service.spec.schedule
    assert schedule is not None
    lines = ["[Unit]", f"Description=Times of {service.name}", "", "[Timer]"]
    if schedule.cron is not None:
        calendar = calendar_of(schedule.cron)
        if calendar is None:
            service.lose("schedule", f"write OnCalendar= for {schedule.cron} yourself")
            return None
        zone = f" {schedule.timezone}" if schedule.timezone else ""
        lines.append(f"OnCalendar={calendar}{zone}")
    else:
        every = seconds(schedule.every or 0)
        lines += [f"OnActiveSec={every}", f"OnUnitActiveSec={every}"]
    if schedule.catch_up:
        lines.append("Persistent=true")
    if schedule.overlap != "skip":
        service.lose("schedule.overlap", "a unit runs once at a time")
    return "\n".join([*lines, "", "[Install]", "WantedBy=timers.target"]) + "\n"


def calendar_of(cron: str) -> str | None:
    """Return cron's fields as a calendar expression; None where both days are restricted, which
    cron takes as «or» and systemd as «and»."""
    if cron in _NAMED:
        return _NAMED[cron]
    fields = cron.split()
    if len(fields) not in (5, 6):
        return None
    second = fields.pop(0) if len(fields) == 6 else "0"
    minute, hour, day, month, weekday = fields
    if day != "*" and weekday != "*":
        return None
    parts = [_field(one) for one in (second, minute, hour, day, month)]
    days = _weekdays(weekday)
    if days is None or not all(parts):
        return None
    second, minute, hour, day, month = (str(part) for part in parts)
    return f"{days}*-{month}-{day} {hour}:{minute}:{second}"


def _field(field: str) -> str | None:
    """`*/5` of cron is `0/5` there, `1-5` is `1..5`."""
    words: list[str] = []
    for part in field.split(","):
        found = re.fullmatch(r"(\*|\d+)(?:-(\d+))?(?:/(\d+))?", part)
        if found is None:
            return None
        begin, end, step = found.groups()
        begin = "0" if begin == "*" and step else begin
        words.append(begin + (f"..{end}" if end else "") + (f"/{step}" if step else ""))
    return ",".join(words)


def _weekdays(field: str) -> str | None:
    if field == "*":
        return ""
    words: list[str] = []
    for part in field.split(","):
        ends = part.split("-")
        names = [_DAYS[int(end)] if end in "01234567" else end.capitalize() for end in ends]
        if len(names) > 2 or any(name not in _DAYS for name in names):
            return None
        words.append("..".join(names))
    return ",".join(words) + " "
