"""Resources that a client reads by their URI: services, their logs and runs, events.

Every resource has a tool that says the same, for clients that show no resources to the model.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from holdfast.gate.mcp import answers
from holdfast.gate.mcp.call import McpClient
from holdfast.secrets.redaction import redact_value
from holdfast.vocabulary.errors import NotFound, UnknownService

ROOT = "holdfast://"
SERVICES = f"{ROOT}services"
EVENTS = f"{ROOT}events"
LOG_LINES = 200
MOST_EVENTS = 100
MOST_LISTED = 200
TEMPLATES = (
    (f"{SERVICES}/{{name}}", "service", "State of one service", "application/json"),
    (f"{SERVICES}/{{name}}/log", "log", f"Last {LOG_LINES} lines of a service", "text/plain"),
    (f"{SERVICES}/{{name}}/runs", "runs", "Newest runs and how each ended", "application/json"),
    (f"{SERVICES}/{{name}}/runs/{{run}}/log", "run-log", "Output of one run", "text/plain"),
)
_FACTS = {
    "pid": "pid",
    "uptime": "uptime_s",
    "restart_count": "restarts",
    "exit_code": "exit",
    "signal": "signal",
    "ready": "ready",
    "health": "health",
    "reason": "reason",
    "waiting_for": "waiting_for",
    "next_start_in": "next_start_in_s",
    "ports": "ports",
}
_ADDRESS = re.compile(
    rf"{SERVICES}(?:/(?P<name>[^/]+)(?:/(?P<part>log|runs)(?:/(?P<run>\d{{1,9}})/log)?)?)?"
)


class ResourceUri(NamedTuple):
    """The meaning of a URI."""

    kind: str
    """services, service, log, runs, run-log or events"""
    name: str = ""
    run: int = 0


def address_of(uri: str) -> ResourceUri | None:
    """Return the meaning of a URI; None if it is not one of ours."""
    if uri == EVENTS:
        return ResourceUri("events")
    found = _ADDRESS.fullmatch(uri)
    if found is None:
        return None
    name, part, run = found["name"], found["part"], found["run"]
    if name is None:
        return ResourceUri("services")
    if run is not None:
        return ResourceUri("run-log", name, int(run)) if part == "runs" else None
    return ResourceUri(part or "service", name)


async def list_all(client: McpClient) -> list[dict[str, Any]]:
    """Return the resources that exist now; those with a parameter are templates."""
    services = (await client.ask("status"))["services"]
    found = [
        {"uri": SERVICES, "name": "services", "description": "State of all services"},
        {"uri": EVENTS, "name": "events", "description": "What happened last"},
    ]
    resources: list[dict[str, Any]] = [{**one, "mimeType": "application/json"} for one in found]
    logs = [
        {"uri": f"{SERVICES}/{name}/log", "name": f"{name} log", "mimeType": "text/plain"}
        for name in list(services)[:MOST_LISTED]
    ]
    return [*resources, *logs]


def templates() -> list[dict[str, Any]]:
    return [
        {"uriTemplate": uri, "name": name, "description": about, "mimeType": kind}
        for uri, name, about, kind in TEMPLATES
    ]


async def read(client: McpClient, address: ResourceUri) -> tuple[str, str] | None:
    """Return the media type and the text; None if there is no such resource."""
    try:
        match address.kind:
            case "services":
                services = (await client.ask("status"))["services"]
                return as_json([facts_of(name, status) for name, status in services.items()])
            case "service":
                services = (await client.ask("status", services=[address.name]))["services"]
                return as_json([facts_of(name, status) for name, status in services.items()])
            case "runs":
                return as_json((await client.ask("runs", service=address.name))["runs"])
            case "events":
                events = (await client.ask("events", limit=MOST_EVENTS))["events"]
                return as_json(events, is_newest_last=True)
            case _:
                return await _log(client, address)
    except (UnknownService, NotFound):
        return None


def facts_of(name: str, status: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a service, by short names."""
    found = {own: status[key] for key, own in _FACTS.items() if status.get(key) is not None}
    return {"name": name, "state": status["status"], **found}


async def _log(client: McpClient, address: ResourceUri) -> tuple[str, str]:
    fields: dict[str, Any] = {"run": address.run} if address.run else {"tail": LOG_LINES}
    result = await client.ask(
        "logs", service=address.name, max_bytes=answers.MOST_BYTES, limit=2000, **fields
    )
    lines, left_out = answers.newest_lines(
        answers.show_lines(result["lines"]), answers.MOST_BYTES - 100
    )
    note = [f"-- {left_out} older lines left out"] if left_out else []
    return "text/plain", "\n".join([*note, *lines])


def as_json(value: Any, *, is_newest_last: bool = False) -> tuple[str, str]:
    value = redact_value(value)
    if isinstance(value, list):
        value = _newest(value[::-1])[::-1] if is_newest_last else _newest(value)
    return "application/json", _dump(value)


def _newest(entries: list[Any]) -> list[Any]:
    """Return the first entries that fit, and how many are left out; at least one is kept."""
    room = answers.MOST_BYTES - 100
    kept: list[Any] = []
    for entry in entries:
        room -= len(_dump(entry).encode()) + 1
        if room < 0 and kept:
            return [*kept, {"left_out": len(entries) - len(kept)}]
        kept.append(entry)
    return kept


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
