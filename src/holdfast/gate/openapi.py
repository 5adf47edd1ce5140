"""The published description of the REST interface, made from the registry (OpenAPI 3.1)."""

from __future__ import annotations

import re
from typing import Any

import msgspec

import holdfast
from holdfast.gate.arguments import JSON, is_list, kinds_of
from holdfast.gate.failures import STATUS, TITLES
from holdfast.gate.server_sent import EVENT_STREAM
from holdfast.vocabulary.commands import COMMANDS, Command
from holdfast.vocabulary.commands.command import Door

_PATH_PARAMETER = re.compile(r"{(\w+)}")
_REFERENCE = "#/components/schemas/{name}"
PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What happened."},
        "code": {"type": "string", "description": "Stable: programs decide by it."},
        "hint": {"type": "string", "description": "What to do."},
        "details": {"type": "object"},
    },
}


def offered() -> list[type[Command]]:
    return [
        command
        for command in COMMANDS.values()
        if command.route is not None and Door.REST in command.doors
    ]


def describe() -> dict[str, Any]:
    """The whole document."""
    commands = offered()
    answers = {command.name: command.answers for command in commands}
    kinds: list[Any] = [*commands, *dict.fromkeys(answers.values())]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    by_kind = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, Any] = {}
    for command in commands:
        assert command.route is not None
        method, path = command.route
        own = components[command.__name__]
        answer = by_kind[answers[command.name]]
        paths.setdefault(path, {})[method.lower()] = _operation(command, own, answer)
    for command in commands:
        # What a path or a query says is told there; a body's schema is told in place.
        components.pop(command.__name__, None)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": holdfast.__version__,
            "description": "Keeps processes running. Every command of Holdfast, over HTTP.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": {**paths, **_own_paths()},
        "components": {
            "schemas": {**components, "Problem": PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(command: type[Command], own: dict[str, Any], answer: dict[str, Any]) -> Any:
    assert command.route is not None
    method, path = command.route
    summary, _, rest = (command.__doc__ or command.name).strip().partition("\n\n")
    in_path = set(_PATH_PARAMETER.findall(path))
    properties: dict[str, Any] = own.get("properties", {})
    content: dict[str, Any] = {JSON: {"schema": answer}}
    if command.streams:
        content[EVENT_STREAM] = {"schema": {"type": "string"}}
    operation: dict[str, Any] = {
        "operationId": command.name,
        "summary": " ".join(summary.split()),
        "description": " ".join(rest.split()),
        "tags": [command.__module__.rpartition(".")[2]],
        "responses": {
            "200": {"description": "Done.", "content": content},
            "default": _problem_response(),
        },
        "x-holdfast-permission": command.permission.value,
        "x-holdfast-effect": command.effect.value,
    }
    parameters = [_parameter(name, properties[name], "path", command) for name in sorted(in_path)]
    others = {name: schema for name, schema in properties.items() if name not in in_path}
    if method == "GET":
        required = set(own.get("required", ()))
        parameters += [
            {**_parameter(name, schema, "query", command), "required": name in required}
            for name, schema in others.items()
        ]
    else:
        body = {
            "type": "object",
            "properties": others,
            "required": [name for name in own.get("required", ()) if name in others],
            "additionalProperties": False,
        }
        operation["requestBody"] = {
            "required": bool(body["required"]),
            "content": {JSON: {"schema": body}},
        }
    if parameters:
        operation["parameters"] = parameters
    return operation


def _parameter(name: str, schema: Any, where: str, command: type[Command]) -> dict[str, Any]:
    parameter = {"name": name, "in": where, "required": True, "schema": schema}
    if where == "query" and is_list(kinds_of(command)[name]):
        parameter |= {"style": "form", "explode": True}
    return parameter


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


def _own_paths() -> dict[str, Any]:
    def simple(summary: str) -> dict[str, Any]:
        answer = {"type": "object", "required": ["status"], "properties": {"status": _TEXT}}
        return {
            "get": {
                "summary": summary,
                "operationId": re.sub(r"\W+", "_", summary.lower()).strip("_"),
                "security": [],
                "responses": {
                    "200": {"description": "Yes.", "content": {JSON: {"schema": answer}}},
                    "default": _problem_response(),
                },
            }
        }

    return {
        "/health": simple("Whether the gate answers"),
        "/ready": simple("Whether the supervisor answers"),
    }


_TEXT = {"type": "string"}
