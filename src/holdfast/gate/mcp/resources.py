"""What can be read by its address: services, their logs and runs, events.

Every resource has a tool that tells the same, for clients that show no resources to the model.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from holdfast.gate.mcp import answers
from holdfast.gate.mcp.call import Client
from holdfast.gate.mcp.processes import facts_of
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
_PLACE = re.compile(
    rf"{SERVICES}(?:/(?P<name>[^/]+)(?:/(?P<part>log|runs)(?:/(?P<run>\d{{1,9}})/log)?)?)?"
)


class Place(NamedTuple):
    """What an address means."""

    kind: str
    """services, service, log, runs, run-log or events"""
    name: str = ""
    run: int = 0


def place_of(uri: str) -> Place | None:
    """What is at an address, if it is one of ours."""
    if uri == EVENTS:
        return Place("events")
    found = _PLACE.fullmatch(uri)
    if found is None:
        return None
    name, part, run = found["name"], found["part"], found["run"]
    if name is None:
        return Place("services")
    if run is not None:
        return Place("run-log", name, int(run)) if part == "runs" else None
    return Place(part or "service", name)


async def listed(client: Client) -> list[dict[str, Any]]:
    """The resources that there are now; those with a parameter are told as templates."""
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


async def read(client: Client, place: Place) -> tuple[str, str] | None:
    """Kind and text of what is there; None: nothing is."""
    try:
        match place.kind:
            case "services":
                services = (await client.ask("status"))["services"]
                return _json([facts_of(name, it) for name, it in services.items()])
            case "service":
                services = (await client.ask("status", services=[place.name]))["services"]
                return _json([facts_of(name, it) for name, it in services.items()])
            case "runs":
                return _json((await client.ask("runs", service=place.name))["runs"])
            case "events":
                return _json((await client.ask("events", limit=MOST_EVENTS))["events"])
            case _:
                return await _log(client, place)
    except (UnknownService, NotFound):
        return None


async def _log(client: Client, place: Place) -> tuple[str, str]:
    fields: dict[str, Any] = {"run": place.run} if place.run else {"tail": LOG_LINES}
    result = await client.ask(
        "logs", service=place.name, max_bytes=answers.MOST_BYTES, limit=2000, **fields
    )
    lines, left_out = answers.newest(answers.told(result["lines"]), answers.MOST_BYTES - 100)
    note = [f"-- {left_out} older lines left out"] if left_out else []
    return "text/plain", "\n".join([*note, *lines])


def _json(value: Any) -> tuple[str, str]:
    value = redact_value(value)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    while len(text.encode()) > answers.MOST_BYTES and isinstance(value, list) and len(value) > 1:
        # The newest are the last of events, the first of runs; half of either is better than none.
        value = value[len(value) // 2 :]
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return "application/json", text
