"""`holdfast status`: what each service is doing, and what to do about those that failed.

On the hot path: imports nothing that is not needed to ask and to lay out a table.
"""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.terminal import durations, screen
from holdfast.client.discovery import SupervisorAway

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEADS = ("SERVICE", "STATE", "PID", "UPTIME", "RESTARTS", "DETAIL")
TROUBLED = frozenset({"failed", "backoff"})


def status(call: Call) -> int:
    try:
        result = call.ask("status", services=call.operands)
    except SupervisorAway as away:
        from holdfast.cli import keeper_fallback

        result = keeper_fallback.status(call, away)
    if call.is_json:
        call.emit(result)
        return 0
    call.say("\n".join(render(result, call.paint, screen.width())))
    return 0


def render(result: dict[str, Any], paint: screen.Paint, columns: int | None) -> list[str]:
    """The whole answer for people."""
    services: dict[str, dict[str, Any]] = result["services"]
    notices = notices_of(result.get("supervisor") or {}, paint)
    if not services:
        empty = "no services yet; `holdfast run -- COMMAND` or a holdfast.yaml brings some"
        return [*notices, empty]
    rows = [row_of(name, service) for name, service in services.items()]
    lines = [*notices, *screen.table(HEADS, rows, paint, columns, state_column=1)]
    troubled = [name for name, service in services.items() if service["status"] in TROUBLED]
    supervisor: dict[str, Any] = result.get("supervisor") or {}
    counts: dict[str, int] = supervisor.get("alerts") or {}
    if troubled or counts:
        lines.append("")
    if counts:
        told = ", ".join(f"{count} {severity}" for severity, count in counts.items())
        lines.append(paint(f"open alerts: {told} (holdfast alerts)", "dim"))
    for name in troubled[:3]:
        if supervisor.get("status") == "running":
            lines.append(paint(f"why? holdfast explain {name}", "dim"))
        elif services[name].get("log_bytes"):
            lines.append(paint(f"why? holdfast logs {name} --tail 20", "dim"))
    if len(troubled) > 3:
        lines.append(paint(f"… and {len(troubled) - 3} more", "dim"))
    return lines + [paint(line, "dim") for line in doors_of(supervisor)]


def doors_of(supervisor: dict[str, Any]) -> list[str]:
    """Where Holdfast can be reached over the network, and why not."""
    doors: dict[str, str] = supervisor.get("doors") or {}
    notes: dict[str, str] = supervisor.get("door_notes") or {}
    lines = [", ".join(f"{name}: {where}" for name, where in doors.items())] if doors else []
    lines += [f"{'' if name in doors else 'no '}{name}: {note}" for name, note in notes.items()]
    if fingerprint := supervisor.get("fingerprint"):
        lines.append(f"certificate: SHA-256 {fingerprint}")
    return ["", *lines] if lines else []


def notices_of(supervisor: dict[str, Any], paint: screen.Paint) -> list[str]:
    """What holds for all of them."""
    lines = []
    if lockdown := supervisor.get("lockdown"):
        since = f" since {_moment(lockdown['since'])}" if lockdown.get("since") else ""
        told = f"LOCKED DOWN{since} by {lockdown['by']}: {lockdown['reason']} (holdfast unlock)"
        lines.append(paint(told, "red"))
    if why := supervisor.get("unrecorded"):
        lines.append(paint(f"history cannot be written: {why} (holdfast doctor)", "red"))
    if unclaimed := supervisor.get("unclaimed"):
        told = screen.processes(unclaimed)
        lines.append(paint(f"belongs to no service: {told} (holdfast down ends it)", "yellow"))
    if waiting := supervisor.get("approvals"):
        lines.append(paint(f"waiting for approval: {waiting} (holdfast approvals)", "yellow"))
    return lines


def row_of(name: str, service: dict[str, Any]) -> tuple[str, ...]:
    pid, restarts = service.get("pid"), service.get("restart_count", 0)
    return (
        name,
        service["status"],
        "-" if pid is None else str(pid),
        durations.show(service.get("uptime")),
        "-" if restarts is None else str(restarts),
        detail_of(service),
    )


def _moment(seconds: float) -> str:
    from time import localtime, strftime, time

    is_today = strftime("%F", localtime(seconds)) == strftime("%F", localtime(time()))
    return strftime("%H:%M:%S" if is_today else "%F %H:%M", localtime(seconds))


def detail_of(service: dict[str, Any]) -> str:
    """Why it is in its state, and what comes next."""
    parts: list[str] = []
    reason = service.get("reason") or ""
    if reason:
        parts.append(reason)
    elif service.get("signal") and service.get("pid") is None:
        parts.append(f"ended by {service['signal']}")
    elif service.get("exit_code") is not None and service.get("pid") is None:
        parts.append(f"exit {service['exit_code']}")
    awaited = service.get("waiting_for") or []
    if awaited:
        parts.append(f"waits for {' and '.join(awaited)}")
    wait = service.get("next_start_in")
    if wait is not None and "restarting in" not in reason and not awaited:
        parts.append(f"restarting in {f'{wait:.0f} s' if wait >= 0.5 else 'a moment'}")
    if (following := service.get("next_scheduled")) is not None:
        parts.append(f"next start {_moment(following)}")
    parts += health_of(service)
    beside = service.get("beside")
    if beside:
        what = "run {run} is on its way out" if beside["leaving"] else "run {run} is on trial"
        parts.append(what.format(**beside))
    if service.get("scaled"):
        parts.append(service["scaled"])
    if ports := service.get("ports"):
        parts.append(" ".join(_port(name, port) for name, port in ports.items()))
    if owner := service.get("owner"):
        parts.append(_owned(owner))
    if service.get("adopted"):
        parts.append("adopted")
    others = [name for name, value in sorted((service.get("overrides") or {}).items()) if value]
    if others:
        parts.append("started with other " + " and ".join(others))
    return ", ".join(parts)


def _port(name: str, port: int) -> str:
    return f":{port}" if name == "port" else f"{name}:{port}"


def _owned(owner: dict[str, Any]) -> str:
    through = f" through {owner['call']}" if owner.get("call") else ""
    others = len(owner.get("with_others") or ())
    joined = f", joined by {others} more" if others else ""
    return f"started by {owner['client']}{through}{joined}{' (gone)' if owner.get('ended') else ''}"


def health_of(service: dict[str, Any]) -> list[str]:
    """What its probes say, as far as it is worth a word, and what it says itself."""
    known, failures = service.get("health"), service.get("consecutive_failures") or 0
    parts: list[str] = []
    if service.get("ready") is False:
        parts.append("not ready")
    if known is not None and (known != "unknown" or not parts):
        parts.append("health unknown" if known == "unknown" else known)
    if failures:
        parts.append(f"{failures} failed check{'s' if failures > 1 else ''}")
    if service.get("ready") and known is None:
        parts.append("ready")
    if service.get("said"):
        parts.append(f"“{service['said']}”")
    return parts
