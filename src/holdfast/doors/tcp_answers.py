"""Answers of the TCP door in plain lines, for people with telnet or a pipe. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.vocabulary import codec
from holdfast.vocabulary.authority import ApprovalInfo, ApprovalsResult, ModeResult
from holdfast.vocabulary.command import Result
from holdfast.vocabulary.configuration import ReloadResult
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.health import HealthResult, ServiceHealth
from holdfast.vocabulary.output import LogsResult
from holdfast.vocabulary.printable import printable_lines
from holdfast.vocabulary.quantities import format_duration
from holdfast.vocabulary.services import StatusResult, WrittenStatus


def of_result(result: Result | dict[str, Any]) -> str:
    """Return the answer as text, which is never empty. Output of services is not changed."""
    if isinstance(result, LogsResult):
        return "\n".join(line.text for line in result.lines) or "nothing was printed"
    return printable_lines(_of(result))


def _of(result: Result | dict[str, Any]) -> str:
    if isinstance(result, WrittenStatus):
        result = result.read()
    if isinstance(result, StatusResult):
        return _status(result)
    if isinstance(result, ModeResult):
        return f"{result.runtime_mode}, {result.service_count} services. {result.message}".rstrip()
    if isinstance(result, ApprovalsResult):
        return "\n".join(map(_approval, result.waiting)) or "nothing waits for approval"
    if isinstance(result, HealthResult):
        return "\n".join(f"{name}: {_health(one)}" for name, one in result.services.items())
    if isinstance(result, ReloadResult) and not result.services:
        changed = f"settings changed: {', '.join(result.settings)}" if result.settings else ""
        return changed or "nothing to change"
    facts = msgspec.to_builtins(result)
    services = facts.get("services")
    if isinstance(services, dict) and services:
        return "\n".join(f"{name}: {_outcome(one)}" for name, one in services.items())
    if facts.get("message"):
        return str(facts["message"])
    return codec.encode(facts).decode()


def of_error(error: HoldfastError) -> str:
    return printable_lines(f"error: {error.message}" + (f" ({error.hint})" if error.hint else ""))


def _status(result: StatusResult) -> str:
    own = result.supervisor
    lines = [
        f"holdfast {own.version}: {own.status}, up {format_duration(own.uptime)},"
        f" {own.managed_services} services"
    ]
    if own.lockdown is not msgspec.UNSET:
        lines.append(f"LOCKED DOWN by {own.lockdown['by']}: {own.lockdown['reason']}")
    for name, one in result.services.items():
        words = [f"{name}: {one.status}"]
        if one.pid is not None:
            words.append(f"pid {one.pid}")
        if one.uptime is not None:
            words.append(f"up {format_duration(one.uptime)}")
        if one.restart_count:
            words.append(f"{one.restart_count} restarts")
        if one.reason:
            words.append(one.reason)
        lines.append(", ".join(words))
    return "\n".join(lines)


def _health(one: ServiceHealth) -> str:
    found = [
        f"{check.probe} ({check.check}) {'passed' if check.passed else 'failed'}: {check.reason}"
        for check in one.checks
        if check.check != "process"
    ]
    return ", ".join([one.status, *found])


def _approval(one: ApprovalInfo) -> str:
    return f"{one.approval}: {one.actor} asks {one.command} {one.arguments}; {one.reason}"


def _outcome(one: Any) -> str:
    if not isinstance(one, dict):
        return str(one)
    words = [str(one.get("outcome") or one.get("status") or "done")]
    if one.get("pid"):
        words.append(f"pid {one['pid']}")
    if one.get("reason"):
        words.append(str(one["reason"]))
    return ", ".join(words)
