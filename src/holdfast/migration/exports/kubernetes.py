"""Kubernetes manifests: a Deployment, Job or CronJob for each service, and its Service."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from holdfast.migration.exports.declared import DeclaredProject, DeclaredService, Exported
from holdfast.vocabulary.specs.probes import ExecTarget, HttpTarget, ProbeSpec, TcpTarget

_INSTEAD = {
    "restart": "Kubernetes waits longer after each failure, up to five minutes",
    "depends_on": "nothing waits there: let the program try again, or write an initContainer",
    "start_*": "a startupProbe says when it has started",
    "success_exit_codes": "only 0 is a success",
    "umask": "set it in the image, or in the command",
    "rlimits": "set them in the image, or in the command",
    "process_limit": "set podPidsLimit of the node",
    "log": "the node keeps output: containerLogMaxSize",
    "essential": "a pod ends for itself",
    "watch": "build a new image",
    "notify": "write a readinessProbe",
    "recovery": "restartPolicy is all that is done",
    "stop": "the signal is that of the image (STOPSIGNAL)",
    "tags": "write labels",
    "sockets": "let the program listen itself",
}
_PROBES = (
    ("startup", "startupProbe"),
    ("readiness", "readinessProbe"),
    ("liveness", "livenessProbe"),
)


def write(project: DeclaredProject, image: str | None) -> Exported:
    import yaml

    documents: list[dict[str, Any]] = []
    for service in project.services:
        documents += _documents(service, image)
        service.lose_rest(_INSTEAD)
    text = yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)
    return Exported({"kubernetes.yaml": text})


def dns_name(name: str) -> str:
    """Return the nearest name that an object may have."""
    return re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")[:52] or "app"


def _documents(service: DeclaredService, image: str | None) -> list[dict[str, Any]]:
    name = dns_name(service.name)
    schedule, policy = service.take("schedule"), service.take("restart_policy")
    pod = _pod(service, name, image)
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    count = service.count if service.take("autostart") and service.take("enabled") else 0
    service.take("enabled")
    service.take("overlap")
    if count == 0:
        service.lose("autostart", f"it has no replicas: kubectl scale --replicas={service.count}")
    if schedule is not None:
        return [_cron_job(service, name, template)]
    if policy != "never":
        if policy == "on_failure":
            service.lose("restart_policy", "a Deployment restarts after every exit")
        strategy = "RollingUpdate" if service.spec.overlap else "Recreate"
        spec = {
            "replicas": count,
            "strategy": {"type": strategy},
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        }
        documents = [_object("apps/v1", "Deployment", name, spec)]
    else:
        pod["restartPolicy"] = "Never"
        spec = {"backoffLimit": 0, "completions": service.count, "parallelism": service.count,
                "suspend": count == 0, "template": template}  # fmt: skip
        documents = [_object("batch/v1", "Job", name, spec)]
    if service.ports and policy != "never":
        ports = [
            {"name": dns_name(port)[:15], "port": number, "targetPort": number}
            for port, number in service.ports.items()
        ]
        documents.append(
            _object("v1", "Service", name, {"selector": {"app": name}, "ports": ports})
        )
    return documents


def _object(version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _cron_job(service: DeclaredService, name: str, template: dict[str, Any]) -> dict[str, Any]:
    schedule = service.spec.schedule
    assert schedule is not None
    cron = schedule.cron
    if cron is None or len(cron.split()) == 6:
        minutes = max(1, round((schedule.every or 60) / 60))
        told = f"every {schedule.every:g} s" if schedule.every else cron
        hours = minutes // 60 % 24 or 1
        cron = f"*/{minutes} * * * *" if minutes < 60 else f"0 */{hours} * * *"
        service.lose("schedule", f"{told} is not a CronJob's time: it is {cron} here")
    template["spec"]["restartPolicy"] = (
        "OnFailure" if service.spec.restart_policy == "on_failure" else "Never"
    )
    spec: dict[str, Any] = {
        "schedule": cron,
        "concurrencyPolicy": "Forbid" if schedule.overlap == "skip" else "Allow",
        "jobTemplate": {"spec": {"template": template}},
    }
    if schedule.timezone:
        spec["timeZone"] = schedule.timezone
    if schedule.catch_up:
        spec["startingDeadlineSeconds"] = 86400
    return _object("batch/v1", "CronJob", name, spec)


def _pod(service: DeclaredService, name: str, image: str | None) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": name,
        "image": image or name,
        "command": [word.replace("$(", "$$(") for word in service.argv],
    }
    if image is None:
        service.lose("command", f'the image is called "{name}": name it with --image')
    if service.spec.working_dir != service.project.folder:
        service.lose("working_dir", "set the folder in the image, or `workingDir`")
    env = [_variable(service, name, key, text) for key, text in service.env.items()]
    if env:
        container["env"] = env
    if service.ports:
        container["ports"] = [
            {"name": dns_name(port)[:15], "containerPort": number}
            for port, number in service.ports.items()
        ]
    if service.take("terminal"):
        container |= {"tty": True, "stdin": True}
    if service.take("stdin") != "null":
        container["stdin"] = True
    if limits := _limits(service):
        container["resources"] = {"limits": limits}
    container |= _probes(service)
    pod: dict[str, Any] = {"containers": [container]}
    stop = service.take("stop")
    pod["terminationGracePeriodSeconds"] = max(1, round(stop.grace))
    if stop.signal is not None:
        service.lose("stop.signal", _INSTEAD["stop"])
    if context := _user(service):
        pod["securityContext"] = context
    if (most := service.take("timeout")) is not None:
        pod["activeDeadlineSeconds"] = max(1, round(most))
    return pod


def _limits(service: DeclaredService) -> dict[str, str]:
    limits: dict[str, str] = {}
    if (memory := service.take("memory_limit")) is not None:
        limits["memory"] = str(memory.size)
        if memory.action != "kill":
            service.lose("memory_limit.action", "it is killed and started again")
    if (share := service.take("cpu_limit")) is not None:
        limits["cpu"] = f"{round(share * 10)}m"
    return limits


def _user(service: DeclaredService) -> dict[str, int]:
    user, _, group = str(service.take("user") or "").partition(":")
    if user and not (user.isdigit() and (not group or group.isdigit())):
        service.lose("user", "write its number: a pod knows no names")
        return {}
    return ({"runAsUser": int(user)} if user else {}) | (
        {"runAsGroup": int(group)} if group else {}
    )


def _variable(service: DeclaredService, name: str, key: str, text: str | None) -> dict[str, Any]:
    if text is None:
        service.lose(f"env.{key}", f"a secret: put it into the Secret {name} under {key}")
        return {"name": key, "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}
    return {"name": key, "value": text.replace("$(", "$$(")}


def _probes(service: DeclaredService) -> dict[str, Any]:
    roles = service.take_probes(
        ("startup", "readiness", "liveness"), ExecTarget, HttpTarget, TcpTarget
    )
    found: dict[str, Any] = {}
    for role, key in _PROBES:
        if probe := roles.get(role):  # type: ignore[call-overload]
            found[key] = _probe(service, probe, role)
    return found


def _probe(service: DeclaredService, probe: ProbeSpec, role: str) -> dict[str, Any]:
    keys: dict[str, Any] = {
        "periodSeconds": max(1, round(probe.interval)),
        "timeoutSeconds": max(1, round(probe.timeout)),
        "failureThreshold": probe.retries,
        "initialDelaySeconds": round(probe.initial_delay),
        # Only readiness may ask for more than one success.
        "successThreshold": probe.success_threshold if role == "readiness" else 1,
    }
    match probe.target:
        case HttpTarget(url=url, headers=headers):
            parts = urlsplit(service.resolved(url))
            port = parts.port or (443 if parts.scheme == "https" else 80)
            path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
            get: dict[str, Any] = {"path": path, "port": port, "scheme": parts.scheme.upper()}
            if headers:
                get["httpHeaders"] = [{"name": one, "value": headers[one]} for one in headers]
            return {"httpGet": get} | keys
        case TcpTarget(port=port, lease=lease):
            number = port or service.ports.get(lease or "port", 0)
            return {"tcpSocket": {"port": number}} | keys
        case ExecTarget(argv=argv):
            return {"exec": {"command": [service.resolved(word) for word in argv]}} | keys
        case _:
            return keys
