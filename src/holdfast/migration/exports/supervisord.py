"""supervisord.conf: a program for each service, started in the order of what they need."""

from __future__ import annotations

import re
import shlex

from holdfast.migration.exports.declared import DeclaredProject, DeclaredService, Exported

_INSTEAD = {
    "restart": "supervisord restarts at once, without a limit; startretries= counts starts",
    "terminal": "programs have no terminal",
    "stdin": "`supervisorctl fg NAME` types into a program",
    "rlimits": "set minfds= and minprocs= of supervisord, or write `prlimit` in front",
    "memory_limit": "run memmon as an eventlistener",
    "cpu_limit": "set it on the machine",
    "process_limit": "set it on the machine",
    "timeout": "write `timeout N` in front of the command",
    "essential": "an eventlistener that ends supervisord",
    "watch": "run a watcher that calls `supervisorctl restart`",
    "schedule": "use cron",
    "health_check": "run httpok as an eventlistener",
    "notify": "startsecs= is all that it waits for",
    "recovery": "run an eventlistener",
    "enabled": "autostart=false",
    "overlap": "one run ends before the next begins",
    "tags": "use a group",
}
_POLICY = {"always": "true", "on_failure": "unexpected", "never": "false"}


def write(project: DeclaredProject, image: str | None) -> Exported:
    lines = ["[supervisord]", "nodaemon=true", ""]
    order = _order(project)
    for service in project.services:
        lines += [f"[program:{service.name}]", *_program(project, service, order), ""]
        service.lose_rest(_INSTEAD)
    for group, members in project.groups.items():
        names = [name for member in members for name in project.members(member)]
        lines += [f"[group:{group}]", f"programs={','.join(names)}", ""]
    return Exported({"supervisord.conf": "\n".join(lines).rstrip() + "\n"})


def _program(
    project: DeclaredProject, service: DeclaredService, order: dict[str, int]
) -> list[str]:
    spec = service.spec
    lines = [
        f"command={_plain(shlex.join(service.argv))}",
        f"directory={_plain(spec.working_dir)}",
        f"autostart={'true' if service.take('autostart') and spec.enabled else 'false'}",
        f"autorestart={_POLICY[service.take('restart_policy')]}",
        f"startsecs={round(service.take('start_seconds'))}",
        f"startretries={service.take('start_retries')}",
        f"exitcodes={','.join(map(str, service.take('success_exit_codes')))}",
        f"stopwaitsecs={max(1, round(service.take('stop').grace))}",
        "stopasgroup=true",
        "killasgroup=true",
    ]
    if spec.stop.signal is not None:
        lines.append(f"stopsignal={spec.stop.signal.removeprefix('SIG')}")
    pairs: list[str] = []
    for name, text in service.env.items():
        if text is None:
            service.lose(f"env.{name}", f"a secret: it is taken from supervisord's own {name}")
            pairs.append(f'{name}="%(ENV_{name})s"')
        elif any(letter in text for letter in '"\n;'):
            service.lose(f"env.{name}", "supervisord cannot quote it: set it in the command")
        else:
            pairs.append(f'{name}="{_plain(text)}"')
    if pairs:
        lines.append(f"environment={','.join(pairs)}")
    if user := service.take("user"):
        name, _, group = str(user).partition(":")
        lines.append(f"user={name}")
        if group:
            service.lose("user", "programs have the first group of the user")
    if (umask := service.take("umask")) is not None:
        lines.append(f"umask={umask:03o}")
    if service.count > 1:
        lines += [f"numprocs={service.count}", "process_name=%(program_name)s-%(process_num)d"]
    log = service.take("log")
    if service.is_said("log"):
        backups = max(0, log.total_size // log.max_size - 1)
        lines += [f"stdout_logfile_maxbytes={log.max_size}", f"stdout_logfile_backups={backups}"]
    if service.take("depends_on"):
        service.lose("depends_on", "priority= orders starts, and waits for nothing")
    if len(set(order.values())) > 1:
        lines.append(f"priority={order[service.name]}")
    return lines


def _order(project: DeclaredProject) -> dict[str, int]:
    """Return a priority for each service, later for what needs another."""
    needs = {
        service.name: [
            other for need in service.spec.depends_on for other in project.members(need.service)
        ]
        for service in project.services
    }
    order = dict.fromkeys(needs, 100)
    for _ in needs:
        for name, others in needs.items():
            order[name] = max([order[name], *(order[other] + 10 for other in others)])
    return order


def _plain(text: str) -> str:
    """`%` begins an expansion, and ` ;` a remark."""
    return re.sub(r"\s;", lambda found: f"{found[0][0]}\\;", text.replace("%", "%%"))
