"""The published description of the REST interface, derived from the commands (OpenAPI 3.1)."""

from __future__ import annotations

from typing import Any

import msgspec

import holdfast
from holdfast.gate.errors import STATUS, TITLES
from holdfast.gate.rest import examples
from holdfast.gate.rest.arguments import JSON, field_types, is_list
from holdfast.gate.rest.event_streams import EVENT_STREAM
from holdfast.gate.rest.pages import CURSOR, METRICS_TYPE
from holdfast.gate.rest.routes import Route, command_routes
from holdfast.vocabulary.command import Command, Effect
from holdfast.vocabulary.commands import subject_of
from holdfast.vocabulary.output import LogPart

_REFERENCE = "#/components/schemas/{name}"
_TEXT = {"type": "string"}
_KEY = {"type": "string", "minLength": 1, "maxLength": 200}
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code", "hint"],
    "properties": {
        "type": {"type": "string", "description": "`urn:holdfast:error:` and the code."},
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What happened."},
        "code": {"type": "string", "description": "Stable: programs decide by it."},
        "hint": {"type": "string", "description": "What to do."},
        "details": {"type": "object"},
    },
}
EVENT = {
    "type": "object",
    "description": "Of each event; `data` is JSON, and `id` is for `Last-Event-ID`.",
    "properties": {"id": _TEXT, "event": _TEXT, "data": _TEXT},
}
_ABOUT = """Keeps processes running. Every command of Holdfast, over HTTP.

Show a token as `Authorization: Bearer TOKEN`; `holdfast token create NAME` makes one. Errors are \
problem details (RFC 9457) with a stable `code`. What answers `text/event-stream` is told as it \
happens to who asks for that in `Accept`, and `Last-Event-ID` goes on where one was."""


def offered() -> list[type[Command]]:
    return list(dict.fromkeys(route.command for route in command_routes()))


def describe() -> dict[str, Any]:
    """Return the whole document."""
    routes = command_routes()
    commands = list(dict.fromkeys(route.command for route in routes))
    kinds: list[Any] = [*commands, *dict.fromkeys(route.answers for route in routes), LogPart]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    by_kind = dict(zip(kinds, schemas, strict=True))

    def schema_of(kind: Any) -> dict[str, Any]:
        own: dict[str, Any] = components[by_kind[kind]["$ref"].rpartition("/")[2]]
        return own

    paths: dict[str, Any] = {}
    for route in routes:
        operation = _operation(route, schema_of(route.command), by_kind[route.answers])
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    for path, operation in _pages(schema_of(LogPart)).items():
        paths[path] = {"get": operation}
    # The fields of paths and queries are parameters, and bodies have their schemas in place.
    unused = {by_kind[kind]["$ref"].rpartition("/")[2] for kind in (*commands, LogPart)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": holdfast.__version__, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": [{"name": name} for name in dict.fromkeys(_tag(route.command) for route in routes)],
        "paths": paths,
        "components": {
            "schemas": {
                **{name: schema for name, schema in components.items() if name not in unused},
                "Problem": PROBLEM,
            },
            "responses": {"Problem": _problem_response()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _tag(command: type[Command]) -> str:
    return command.rest_tag or subject_of(command)


def _operation(route: Route, own: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    command = route.command
    summary, _, rest = (command.__doc__ or command.name).strip().partition("\n\n")
    content: dict[str, Any] = {
        JSON: {"schema": answer, "example": examples.answer(route.answers)},
    }
    if route.can_stream:
        content[EVENT_STREAM] = {"schema": EVENT}
    operation: dict[str, Any] = {
        "operationId": route.operation,
        "summary": route.summary or " ".join(summary.split()),
        "description": " ".join(rest.split()),
        "tags": [_tag(command)],
        "responses": _responses({"description": "Done.", "content": content}),
        "x-holdfast-command": command.name,
        "x-holdfast-permission": command.permission.value,
        "x-holdfast-effect": command.effect.value,
    }
    shown = examples.request(command)
    parameters = [
        _parameter(name, own["properties"].get(name, _TEXT), "path", shown.get(name, "web"))
        for name in route.parameters
    ]
    others = {
        name: schema
        for name, schema in own.get("properties", {}).items()
        if name not in route.parameters and (route.takes is None or name in route.takes)
    }
    required = set(own.get("required", ())) & others.keys()
    if route.method == "GET":
        for name, schema in others.items():
            asked = _parameter(name, schema, "query", shown.get(name))
            parameters.append({**asked, "required": name in required, **_form(command, name)})
    elif others:
        operation["requestBody"] = _body(others, required, shown)
    if route.can_stream and route.method == "GET":
        parameters.append(_header("Last-Event-ID", _TEXT, "Go on after this event."))
    elif command.effect is not Effect.READS:
        parameters.append(_header("Idempotency-Key", _KEY, "Done once under one key."))
    if parameters:
        operation["parameters"] = parameters
    return operation


def _form(command: type[Command], name: str) -> dict[str, Any]:
    """Return how several values of one name stand in a query."""
    return {"style": "form", "explode": True} if is_list(field_types(command)[name]) else {}


def _body(others: dict[str, Any], required: set[str], shown: dict[str, Any]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": others,
        "required": [name for name in others if name in required],
        "additionalProperties": False,
    }
    example = {name: value for name, value in shown.items() if name in others}
    return {"required": bool(required), "content": {JSON: {"schema": schema, "example": example}}}


def _parameter(name: str, schema: Any, where: str, example: Any) -> dict[str, Any]:
    found = {"name": name, "in": where, "required": True, "schema": schema}
    return found if example is None else {**found, "example": example}


def _header(name: str, schema: Any, meaning: str) -> dict[str, Any]:
    where = {"name": name, "in": "header", "required": False}
    return {**where, "schema": schema, "description": meaning}


def _responses(done: dict[str, Any]) -> dict[str, Any]:
    return {"200": done, "default": {"$ref": "#/components/responses/Problem"}}


def _problem_response() -> dict[str, Any]:
    codes = ", ".join(sorted(STATUS))
    return {
        "description": f"It failed; `code` is one of {codes}, or another stable one.",
        "content": {
            "application/problem+json": {
                "schema": {"$ref": "#/components/schemas/Problem"},
                "example": {
                    "type": "urn:holdfast:error:unknown_service",
                    "title": TITLES[404],
                    "status": 404,
                    "detail": 'no service "wbe"; did you mean "web"? known: web, db',
                    "code": "unknown_service",
                    "hint": "`holdfast status` lists the services",
                },
            }
        },
    }


def _pages(part: dict[str, Any]) -> dict[str, Any]:
    """Describe the pages that are no commands."""
    log = {
        **_page("log", "Download a service's log", {"application/octet-stream": {}}),
        "description": "As a file of any size. `cursor` to `until_cursor`, `since` to `until`, "
        f"`run` and `tail` choose a part. `{CURSOR}` tells where to read on.",
        "parameters": [
            _parameter("service", _TEXT, "path", "web"),
            *(
                {"name": name, "in": "query", "required": False, "schema": schema}
                for name, schema in part["properties"].items()
            ),
        ],
    }
    done = log["responses"]["200"]
    done["content"]["text/plain"] = {"schema": _TEXT}
    done["headers"] = {CURSOR: {"schema": _TEXT, "description": "Where to read on."}}
    return {
        "/api/services/{service}/log": log,
        "/metrics": _page(
            "prometheus", "Every number of `metrics`, for Prometheus",
            {METRICS_TYPE.partition(";")[0]: {"schema": _TEXT}},
        ),
        "/health": _open_page("health", "Whether the gate answers", "ok"),
        "/ready": _open_page("ready", "Whether the supervisor answers", "ready"),
    }  # fmt: skip


def _page(name: str, summary: str, content: dict[str, Any]) -> dict[str, Any]:
    responses = _responses({"description": "Done.", "content": content})
    return {"operationId": name, "summary": summary, "tags": ["pages"], "responses": responses}


def _open_page(name: str, summary: str, said: str) -> dict[str, Any]:
    schema = {"type": "object", "required": ["status"], "properties": {"status": _TEXT}}
    example = {"status": said, "version": holdfast.__version__}
    return {**_page(name, summary, {JSON: {"schema": schema, "example": example}}), "security": []}
