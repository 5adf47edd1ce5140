"""compose.yaml of Docker: services with a command. What belongs to containers is listed as lost."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from holdfast.migration.findings import Findings, Rows, advice, carry, text_of, words_of
from holdfast.migration.located import LocatedValue, read_located
from holdfast.vocabulary.errors import UsageError

NAMES = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
_INSTEAD = {
    "image": "install the program on this machine",
    "build": "build it yourself, or with a workflow",
    "volumes": "programs see the folders of this machine",
    "networks": "programs share the network of this machine",
    "network_mode": "programs share the network of this machine",
    "container_name": "the service's own name is used",
    "links": "write localhost and the port",
    "extra_hosts": "write it into /etc/hosts",
    "secrets": "`env_file`, or {file: PATH} as a value",
    "configs": "programs see the files of this machine",
    "cap_add": "use `user:`",
    "cap_drop": "use `user:`",
    "privileged": "use `user:`",
    "security_opt": "use `user:` and limits",
    "ulimits": "use `rlimits:`",
    "logging": "output is always recorded; `log:` says how much is kept",
    "restart": "use `restart_policy`",
    "working_dir": "a folder of the container",
    "c[gp][ru]*": "use `cpu_limit` in percent of one core",
    "mem_reservation": "nothing is reserved; `memory_limit` is the most that it may use",
    "mem*": "use `memory_limit`",
    "oom_*": "set it on the machine",
    "blkio_config": "set it on the machine",
    "deploy.replicas": "use `instances`",
    "deploy.restart_policy": "use `restart_policy`",
    "deploy.*_config": "`holdfast rolling-restart`, with `overlap` in the service",
    "deploy.resources*": "use `memory_limit`, `cpu_limit` and `process_limit`",
    "deploy*": "Holdfast supervises one machine",
    "develop": "use `watch:`",
    "device*": "programs see the devices of this machine",
    "gpus": "programs see the devices of this machine",
    "storage_opt": "programs see the files of this machine",
    "shm_size": "programs see the files of this machine",
    "tmpfs": "programs see the files of this machine",
    "read_only": "programs see the files of this machine; use `user:`",
    "volumes_from": "programs see the folders of this machine",
    "dns*": "programs use the network of this machine",
    "domainname": "programs use the network of this machine",
    "mac_address": "programs use the network of this machine",
    "external_links": "write localhost and the port",
    "extends": "use an anchor (`&name`, `<<: *name`) or `include`",
    "include": "use `include`, or import both files at once",
    "label_file": "use `tags`",
    "labels": "use `tags`",
    "annotations": "use `tags`",
    "group_add": "write `user: USER:GROUP`",
    "credential_spec": "use `user:`",
    "userns_mode": "use `user:`",
    "ipc": "programs share the machine with all others",
    "pid": "programs share the machine with all others",
    "uts": "programs share the machine with all others",
    "isolation": "programs share the machine with all others",
    "runtime": "programs share the machine with all others",
    "sysctls": "set it on the machine",
    "driver_opts": "programs share the machine with all others",
    "post_start": "a service of its own that depends on this one, with `restart_policy: never`",
    "pre_stop": "handle the stop signal, or use a workflow",
    "model*": "run the model's server as a service",
    "provider": "run it as a service",
    "use_api_socket": "programs see the files of this machine",
    "attach": "`holdfast logs -f` of the services that are wanted",
    "expose": "a port needs no permission on this machine",
}
NEEDLESS = frozenset(
    {"command", "entrypoint", "stdin_open", "init", "hostname", "pull_policy", "platform"}
)


def recognises(name: str, text: str) -> bool:
    if os.path.basename(name) in NAMES:
        return True
    return re.search(r"^\s*\"?services\"?\s*:", text, re.MULTILINE) is not None and (
        re.search(r"[\s{\"](?:image|build)\"?\s*:", text) is not None
    )


def read(path: str, text: str) -> Findings:
    found = Findings("compose", path)
    document = read_located(text, os.path.basename(path))
    services = document.get("services")
    if services is None or not isinstance(services.value, dict):
        raise UsageError(f"{path} has no services", "compose keeps them under `services`")
    for name, service in services.items():
        _service(found, name, service)
    for key, inner in document.items():
        if key not in ("services", "version", "name") and not key.startswith("x-"):
            found.lose(inner.line, key, advice(_INSTEAD, key))
    known = {service.name for service in found.services}
    for moved in found.services:
        wanted = moved.keys.get("depends_on")
        if isinstance(wanted, dict):
            for other in [other for other in wanted if other not in known]:
                del wanted[other]
                instead = "it is not here: start it before, or add it with its command"
                found.lose(moved.line, f"{moved.name}: depends on {other}", instead)
            if not wanted:
                del moved.keys["depends_on"]
    return found


def _service(found: Findings, name: str, service: LocatedValue) -> None:
    values = service.plain() or {}
    command = [*words_of(values.get("entrypoint") or []), *words_of(values.get("command") or [])]
    if not command:
        found.lose(
            service.line,
            f"{name}: it runs what its image says",
            "it is left out; add a service with the `command` that starts it on this machine",
        )
        return
    keys: dict[str, Any] = {"command": command}
    keys["restart_policy"] = "never"
    for key, inner in service.items():
        if not _key(found, name, key, inner, keys) and key not in NEEDLESS:
            found.lose(inner.line, f"{name}: {key}", advice(_INSTEAD, key))
    found.add(name, keys, service.line)


def _key(found: Findings, name: str, key: str, inner: LocatedValue, keys: dict[str, Any]) -> bool:
    """Carry one key over; returns whether that was possible."""
    value = inner.plain()
    if carry(_ROWS, key, value, keys):
        return True
    if key in _PARTS:
        _PARTS[key](found, name, inner, keys)
        return True
    match key:
        case "environment":
            pairs = value.items() if isinstance(value, dict) else _pairs(value)
            keys["env"] = {str(one): None if text is None else text_of(text) for one, text in pairs}
        case "working_dir":
            found.lose(inner.line, f"{name}: working_dir {value}", "a folder of the container")
        case "restart":
            word, _, count = str(value).partition(":")
            keys["restart_policy"] = _POLICIES.get(word, "never")
            if count.isdigit():
                keys["restart"] = {"max_restarts": int(count)}
        case "tty":
            if value:
                keys["terminal"] = True
        case "scale":
            if isinstance(value, int) and value > 1:
                keys["instances"] = value
        case "profiles":
            keys.update(tags=list(value), autostart=False)
        case _:
            return False
    return True


def _pairs(items: Any) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    for item in items or ():
        one, sign, text = str(item).partition("=")
        found.append((one, text if sign else None))
    return found


def _file(given: Any) -> str:
    if isinstance(given, dict):
        return f"{'' if given.get('required', True) else '-'}{given.get('path')}"
    return str(given)


def _size(value: Any) -> str:
    """compose counts k, m and g by 1024."""
    text = str(value).strip()
    number = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg])b?", text, re.IGNORECASE)
    return f"{number[1]}{number[2].upper()}iB" if number else text


def _dependencies(value: Any) -> dict[str, str]:
    conditions = {
        "service_started": "started",
        "service_healthy": "ready",
        "service_completed_successfully": "completed",
    }
    if isinstance(value, dict):
        return {
            other: conditions.get((how or {}).get("condition", ""), "started")
            for other, how in value.items()
        }
    return dict.fromkeys(value or (), "started")


def _ports(found: Findings, name: str, given: LocatedValue, keys: dict[str, Any]) -> None:
    """The first published port is the service's. The program itself has to listen on it."""
    for item in given.value or ():
        value = item.plain()
        if isinstance(value, dict):
            outer, inner = value.get("published"), value.get("target")
        else:
            parts = str(value).partition("/")[0].split(":")
            outer, inner = (parts[-2] if len(parts) > 1 else parts[-1]), parts[-1]
        if "port" in keys or not str(outer).isdigit():
            found.lose(item.line, f"{name}: port {value}", "list it under `ports:` by a name")
            continue
        keys["port"] = int(str(outer))
        if str(outer) != str(inner):
            found.lose(
                item.line,
                f"{name}: port {inner} in the container is {outer} outside",
                f"let the program listen on {outer} (it is told PORT)",
            )


def _health(found: Findings, name: str, given: LocatedValue, keys: dict[str, Any]) -> None:
    value = given.plain()
    test = value.get("test")
    if value.get("disable") or test in (None, "NONE", ["NONE"]):
        return
    if isinstance(test, str) or (test and test[0] == "CMD-SHELL"):
        line = test if isinstance(test, str) else " ".join(test[1:])
        probe: dict[str, Any] = {"exec": ["sh", "-c", line]}
    else:
        probe = {"exec": [str(word) for word in test[1:]]}
    for theirs in ("interval", "timeout", "retries", "start_period"):
        if theirs in value:
            probe["initial_delay" if theirs == "start_period" else theirs] = value[theirs]
    if "start_interval" in value:
        line_number = given.line_of("start_interval")
        found.lose(
            line_number, f"{name}: start_interval", "a run that is not ready is asked sooner"
        )
    # compose restarts nothing for it, and lets dependents wait.
    keys["readiness"] = probe


def _deploy(found: Findings, name: str, given: LocatedValue, keys: dict[str, Any]) -> None:
    for key, inner in given.items():
        value = inner.plain()
        if key == "replicas" and isinstance(value, int):
            if value > 1:
                keys["instances"] = value
        elif key == "resources" and isinstance(value, dict):
            for limit, size in (value.get("limits") or {}).items():
                if not carry(_LIMITS, limit, size, keys):
                    what = f"{name}: deploy.resources.limits.{limit}"
                    found.lose(inner.line, what, "Holdfast has no such limit")
            if value.get("reservations"):
                what = f"{name}: deploy.resources.reservations"
                found.lose(inner.line, what, "nothing is reserved")
        else:
            found.lose(inner.line, f"{name}: deploy.{key}", advice(_INSTEAD, f"deploy.{key}"))


def _percent(cores: Any) -> str:
    return f"{float(cores) * 100:g}%"


def _files(value: Any) -> list[str]:
    return [_file(one) for one in (value if isinstance(value, list) else [value])]


_POLICIES = {"always": "always", "unless-stopped": "always", "on-failure": "on_failure"}
_ROWS: Rows = {
    "env_file": ("env_file", _files),
    "depends_on": ("depends_on", _dependencies),
    "user": ("user", str),
    "stop_signal": ("stop.signal", str),
    "stop_grace_period": ("stop.grace", str),
    "mem_limit": ("memory_limit", _size),
    "cpus": ("cpu_limit", _percent),
    "pids_limit": ("process_limit", int),
}
_LIMITS: Rows = {
    "memory": ("memory_limit", _size),
    "cpus": ("cpu_limit", _percent),
    "pids": ("process_limit", int),
}
_PARTS: dict[str, Callable[[Findings, str, LocatedValue, dict[str, Any]], None]] = {
    "ports": _ports,
    "healthcheck": _health,
    "deploy": _deploy,
}
