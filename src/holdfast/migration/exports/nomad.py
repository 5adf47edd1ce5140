"""A Nomad job: a group and a task for each service."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlsplit

from holdfast.migration.exports.declared import (
    DeclaredProject,
    DeclaredService,
    Exported,
    one_probe,
    seconds,
)
from holdfast.migration.exports.kubernetes import dns_name
from holdfast.vocabulary.specs.probes import ExecTarget, HttpTarget, ProbeSpec, TcpTarget

_INSTEAD = {
    "depends_on": "write a prestart task, or let the program try again",
    "schedule": "a job of its own with a `periodic` block",
    "start_*": "a `check` says when it has started",
    "success_exit_codes": "only 0 is a success",
    "umask": "set it in the command",
    "terminal": "use `nomad alloc exec`",
    "stdin": "use `nomad alloc exec`",
    "rlimits": "write `ulimit` into the driver's config",
    "process_limit": "write `pids_limit` into the driver's config",
    "timeout": "write `timeout N` in front of the command",
    "essential": "write `leader = true`",
    "watch": "register the job again",
    "notify": "write a `check`",
    "recovery": "`restart` and `reschedule` are all that is done",
    "sockets": "let the program listen itself",
    "tags": "write `meta`",
}


def write(project: DeclaredProject, image: str | None) -> Exported:
    groups = {}
    for service in project.services:
        groups[f"group {_text(dns_name(service.name))}"] = _group(service, image)
        service.lose_rest(_INSTEAD)
    job = {"type": "service", **groups}
    text = "\n".join(_lines({f"job {_text(dns_name(project.name))}": job}, 0)) + "\n"
    return Exported({"job.nomad.hcl": text})


def _group(service: DeclaredService, image: str | None) -> dict[str, Any]:
    name = dns_name(service.name)
    group: dict[str, Any] = {
        "count": service.count if service.take("autostart") and service.spec.enabled else 0
    }
    service.take("enabled")
    if group["count"] == 0:
        service.lose("autostart", f"it has no allocations: write count = {service.count}")
    policy, restart = service.take("restart_policy"), service.take("restart")
    attempts = 0 if policy == "never" else max(0, restart.max_restarts)
    group["restart"] = {
        "attempts": attempts,
        "delay": f"{seconds(restart.delay)}s",
        "interval": f"{seconds(max(restart.reset_after, 5.0))}s",
        "mode": "delay" if restart.max_restarts < 0 and policy != "never" else "fail",
    }
    if policy == "on_failure":
        service.lose("restart_policy", "Nomad restarts a service's task after every exit")
    service.lose_parts("restart", "delay", "max_restarts", "reset_after")
    if service.take("overlap"):
        group["update"] = {"max_parallel": 1, "canary": 1, "auto_promote": True}
    if service.ports:
        group["network"] = {
            f"port {_text(port)}": {"static": number} for port, number in service.ports.items()
        }
    group |= _check(service, name)
    group[f"task {_text(name)}"] = _task(service, image)
    return group


def _task(service: DeclaredService, image: str | None) -> dict[str, Any]:
    program, *words = service.argv
    config: dict[str, Any] = {"command": program, "args": words}
    if image:
        config = {"image": image, **config}
        if service.ports:
            config["ports"] = list(service.ports)
    task: dict[str, Any] = {"driver": "docker" if image else "raw_exec", "config": config}
    if service.spec.working_dir != service.project.folder or not image:
        service.lose("working_dir", "set the folder in the image, or write `work_dir`")
    env: dict[str, str] = {}
    for key, text in service.env.items():
        if text is None:
            service.lose(f"env.{key}", "a secret: a `template` with `env = true` reads it")
        else:
            env[key] = text
    if env:
        is_plain = all(re.fullmatch(r"[A-Za-z_]\w*", key, re.ASCII) for key in env)
        task["env" if is_plain else "env ="] = env if is_plain else _quoted_keys(env)
    if user := service.take("user"):
        task["user"] = str(user).partition(":")[0]
    stop = service.take("stop")
    task["kill_timeout"] = f"{seconds(stop.grace)}s"
    if stop.signal is not None:
        task["kill_signal"] = f"SIG{stop.signal.removeprefix('SIG')}"
    resources: dict[str, Any] = {}
    if (memory := service.take("memory_limit")) is not None:
        resources["memory"] = max(10, memory.size >> 20)
        if memory.action != "kill":
            service.lose("memory_limit.action", "it is killed; `restart` says what follows")
    if (share := service.take("cpu_limit")) is not None:
        resources["cores"] = max(1, round(share / 100))
        service.lose("cpu_limit", f"whole cores are reserved: {resources['cores']} here")
    if resources:
        task["resources"] = resources
    log = service.take("log")
    if service.is_said("log"):
        task["logs"] = {
            "max_files": max(1, log.total_size // log.max_size),
            "max_file_size": max(1, log.max_size >> 20),
        }
    return task


def _check(service: DeclaredService, name: str) -> dict[str, Any]:
    probe = one_probe(service, HttpTarget, TcpTarget, ExecTarget)
    if probe is None:
        return {}
    block: dict[str, Any] = {"name": name, "provider": "nomad"}
    if service.ports:
        block["port"] = next(iter(service.ports))
    if isinstance(probe.target, ExecTarget):
        service.lose(probe.name, "Nomad's own checks ask by http and tcp; Consul's run scripts")
        return {}
    if not service.ports:
        service.lose(probe.name, "a check needs a port of the service")
        return {}
    block["check"] = _check_of(service, probe)
    return {"service": block}


def _check_of(service: DeclaredService, probe: ProbeSpec) -> dict[str, Any]:
    check: dict[str, Any] = {
        "type": "tcp",
        "interval": f"{seconds(probe.interval)}s",
        "timeout": f"{seconds(probe.timeout)}s",
    }
    if isinstance(probe.target, HttpTarget):
        check |= {"type": "http", "path": urlsplit(service.resolved(probe.target.url)).path or "/"}
    return check


def _text(text: str) -> str:
    """Return a text as HCL has it: `${` and `%{` would begin a template."""
    return json.dumps(text, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


def _lines(block: dict[str, Any], depth: int) -> list[str]:
    lines: list[str] = []
    for key, value in block.items():
        indent = "  " * depth
        if isinstance(value, dict):
            lines += [f"{indent}{key} {{", *_lines(value, depth + 1), f"{indent}}}"]
        else:
            lines.append(f"{indent}{key} = {_value(value)}")
    return lines


def _quoted_keys(values: dict[str, str]) -> dict[str, str]:
    """Return keys that are no words of HCL, as a map has them."""
    return {_text(key): text for key, text in values.items()}


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(_value(one) for one in value)}]"
    return _text(value) if isinstance(value, str) else str(value)
