"""Answers of commands in the form that older dashboards expect at some paths.

Pure: adds no fact and asks nobody.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec

from holdfast.vocabulary.errors import UnknownService

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


def one_service(answer: bytes, fields: dict[str, Any]) -> bytes:
    """Return the status of the one service asked for; raises for a name of several."""
    name = fields["services"][0]
    services = _decode(answer)["services"]
    if name not in services:
        raise UnknownService.named(name, sorted(services))
    return _encode(services[name])


def system_status(answer: bytes, _: dict[str, Any]) -> bytes:
    """Return a status with both spellings of usage and times."""
    status = _decode(answer)
    for service in status["services"].values():
        if "cpu_percent" in service:
            service["cpu"] = service["cpu_percent"]
        if "memory_mb" in service:
            service["memory"] = round(service["memory_mb"] * 1_000_000)
        if (began := service.get("started_at")) is not None:
            service["startTimeMs"] = round(began * 1000)
            service["startTime"] = rfc_3339(began)
    return _encode(status)


_USAGE = {
    "cpu": "cpu_percent", "memory": "memory_bytes", "bytesRead": "read_bytes",
    "bytesWritten": "written_bytes", "userTime": "user_seconds", "systemTime": "system_seconds",
}  # fmt: skip


def system_metrics(answer: bytes, _: dict[str, Any]) -> bytes:
    """Return metrics with both spellings; nothing is added for services that do not run."""
    metrics = _decode(answer)
    for service in metrics["services"].values():
        add_other_names(service)
    return _encode(metrics)


def add_other_names(service: dict[str, Any]) -> None:
    """Add what a service uses in the words of other programs, beside ours."""
    if (began := service.get("started_at")) is not None:
        service["startTime"] = rfc_3339(began)
    usage = {name: service.get(own) for name, own in _USAGE.items()}
    service.update({name: value for name, value in usage.items() if value is not None})


def rfc_3339(moment: float) -> str:
    written = dt.datetime.fromtimestamp(moment, dt.timezone.utc).isoformat(timespec="milliseconds")
    return written.replace("+00:00", "Z")
