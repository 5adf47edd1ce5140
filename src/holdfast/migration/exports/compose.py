"""compose.yaml: a container for each service."""

from __future__ import annotations

from typing import Any

from holdfast.migration.exports.declared import (
    DeclaredProject,
    DeclaredService,
    Exported,
    one_probe,
    question_of,
    seconds,
)
from holdfast.vocabulary.specs.probes import ExecTarget, HttpTarget, TcpTarget

_INSTEAD = {
    "start_*": "a container is started when its process is",
    "success_exit_codes": "only 0 is a success",
    "umask": "set it in the image, or in the command",
    "log": "write `logging:` with max-size and max-file",
    "timeout": "write `timeout N` in front of the command",
    "essential": "docker compose up --abort-on-container-exit",
    "watch": "write `develop: {watch: …}`",
    "schedule": "a container that runs cron, or the machine's own",
    "notify": "write a healthcheck",
    "recovery": "`restart:` is all that is done",
    "overlap": "one container ends before the next begins",
    "sockets": "let the program listen itself",
}
_ASKED = (ExecTarget, HttpTarget, TcpTarget)
_CONDITIONS = {
    "started": "service_started", "ready": "service_healthy", "healthy": "service_healthy",
    "completed": "service_completed_successfully", "log": "service_started",
}  # fmt: skip


def write(project: DeclaredProject, image: str | None) -> Exported:
    import yaml

    services: dict[str, Any] = {}
    for service in project.services:
        services[service.name] = _service(project, service, image)
        service.lose_rest(_INSTEAD)
    text = yaml.safe_dump({"services": services}, sort_keys=False, allow_unicode=True)
    return Exported({"compose.yaml": text})


def _service(project: DeclaredProject, service: DeclaredService, image: str | None) -> Any:
    keys: dict[str, Any] = {"image": image} if image else {"build": "."}
    keys["command"] = [_plain(word) for word in service.argv]
    env = {name: _variable(service, name, text) for name, text in service.env.items()}
    if env:
        keys["environment"] = env
    for name, number in service.ports.items():
        keys.setdefault("ports", []).append(f"{number}:{number}")
        if service.count > 1:
            service.lose(name, "instances cannot publish the same port: put a proxy before them")
    if service.spec.working_dir != project.folder:
        service.lose("working_dir", "set the folder in the image, or `working_dir`")
    keys["restart"] = _restart(service)
    if needs := _needs(project, service):
        keys["depends_on"] = needs
    keys |= _health(service)
    stop = service.take("stop")
    if stop.signal is not None:
        signal = stop.signal
        keys["stop_signal"] = signal if signal.isdigit() else f"SIG{signal.removeprefix('SIG')}"
    keys["stop_grace_period"] = f"{seconds(stop.grace)}s"
    keys |= _limits(service)
    if user := service.take("user"):
        keys["user"] = user
    if service.take("terminal"):
        keys["tty"] = True
    if service.take("stdin") != "null":
        keys["stdin_open"] = True
    if service.count > 1:
        keys["scale"] = service.count
    tags = service.take("tags")
    if tags:
        keys["labels"] = {f"holdfast.tag.{tag}": "true" for tag in tags}
    if not (service.take("autostart") and service.take("enabled")):
        keys["profiles"] = [service.name]
    service.take("enabled")
    return keys


def _limits(service: DeclaredService) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    if (memory := service.take("memory_limit")) is not None:
        keys["mem_limit"] = memory.size
        if memory.action != "kill":
            service.lose("memory_limit.action", "it is killed; `restart:` says what follows")
    if (share := service.take("cpu_limit")) is not None:
        keys["cpus"] = share / 100
    if (most := service.take("process_limit")) is not None:
        keys["pids_limit"] = most
    if limits := service.take("rlimits"):
        keys["ulimits"] = {
            name: {"soft": soft, "hard": hard} for name, (soft, hard) in limits.items()
        }
    return keys


def _needs(project: DeclaredProject, service: DeclaredService) -> dict[str, Any]:
    needs: dict[str, Any] = {}
    for need in service.take("depends_on"):
        for other in project.members(need.service):
            condition = _CONDITIONS[need.condition]
            target = project.named(other)
            if condition == "service_healthy" and not (target and _asked(target)):
                condition = "service_started"
            needs[other] = {"condition": condition} | ({"restart": True} if need.restart else {})
            if _CONDITIONS[need.condition] != condition or need.condition == "log":
                told = f"it only waits for the start of {other}: write a healthcheck for that"
                service.lose(f"depends_on.{need.service}", told)
    return needs


def _variable(service: DeclaredService, name: str, text: str | None) -> str:
    if text is None:
        service.lose(f"env.{name}", "a secret: it is taken from the caller's variables, or .env")
        return f"${{{name}}}"
    return _plain(text)


def _plain(text: str) -> str:
    """compose replaces variables; a doubled `$` is one."""
    return text.replace("$", "$$")


def _restart(service: DeclaredService) -> str:
    policy, restart = service.take("restart_policy"), service.take("restart")
    if policy == "never":
        return "no"
    service.lose_parts("restart", *(("max_restarts",) if policy == "on_failure" else ()))
    if policy == "always":
        return "always"
    return "on-failure" if restart.max_restarts < 0 else f"on-failure:{restart.max_restarts}"


def _asked(service: DeclaredService) -> bool:
    probes = [service.probe("readiness"), service.probe("liveness")]
    return any(probe is not None and isinstance(probe.target, _ASKED) for probe in probes)


def _health(service: DeclaredService) -> dict[str, Any]:
    probe = one_probe(service, *_ASKED)
    if probe is None:
        return {}
    line = service.resolved(question_of(probe))
    if isinstance(probe.target, ExecTarget):
        test = ["CMD", *(_plain(service.resolved(word)) for word in probe.target.argv)]
    else:
        test = ["CMD-SHELL", _plain(line)]
    return {
        "healthcheck": {
            "test": test,
            "interval": f"{seconds(probe.interval)}s",
            "timeout": f"{seconds(probe.timeout)}s",
            "retries": probe.retries,
            "start_period": f"{seconds(probe.initial_delay)}s",
        }
    }
