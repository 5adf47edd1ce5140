"""The published description: complete, consistent, and of what is really there."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from holdfast.gate.rest import examples
from holdfast.gate.rest.arguments import field_types
from holdfast.gate.rest.openapi import describe, offered
from holdfast.gate.rest.routes import Route, command_routes
from holdfast.vocabulary.command import Result
from holdfast.vocabulary.commands import COMMANDS
from tests.gate.conftest import Gate

DOCUMENT = describe()


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [ref for item in value.values() for ref in references(item)]
    if isinstance(value, list):
        return [ref for item in value for ref in references(item)]
    return []


def test_every_reference_leads_somewhere() -> None:
    """No schema refers to one that is not in the document."""
    for reference in references(DOCUMENT):
        value: Any = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            value = value[part]


def test_every_schema_is_one() -> None:
    """Each is a right JSON Schema."""
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("command", offered(), ids=lambda command: command.name)
def test_every_route_fits_its_command(command: Any) -> None:
    """What the path names is a field; nobody else has this route; what it answers is told."""
    method, path = command.route
    assert set(re.findall(r"{(\w+)}", path)) <= set(field_types(command))
    assert [one.route for one in COMMANDS.values()].count(command.route) == 1
    operation = DOCUMENT["paths"][path][method.lower()]
    assert operation["operationId"] == command.name
    assert operation["summary"]
    assert command.answers is not Result


@pytest.mark.parametrize("command", offered(), ids=lambda command: command.name)
def test_every_command_has_an_example(command: Any) -> None:
    """That the command takes, and one of its answers, too; names in it stand for themselves."""
    msgspec.convert(examples.request(command), command)
    msgspec.convert(examples.answer(command.answers), command.answers)
    assert "…" not in str(examples.request(command)), "add a word to gate/rest/examples.py"


@pytest.mark.parametrize("route", command_routes(), ids=lambda route: route.operation)
def test_every_answer_of_another_name_fits(route: Route) -> None:
    """No two operations have one name; each example is of the published type."""
    assert [one.operation for one in command_routes()].count(route.operation) == 1
    operation = DOCUMENT["paths"][route.path][route.method.lower()]
    content = operation["responses"]["200"]["content"]["application/json"]
    whole = {**content["schema"], "components": DOCUMENT["components"]}
    Draft202012Validator(whole).validate(content["example"])


def test_it_is_served(gate: Gate) -> None:
    """To everybody, since it tells nothing about this Holdfast."""
    assert gate.get("/api/openapi.json", token=None)["openapi"] == "3.1.0"


def validated(answer: Any, path: str, method: str) -> None:
    schema = DOCUMENT["paths"][path][method]["responses"]["200"]["content"]["application/json"]
    whole = {**schema["schema"], "components": DOCUMENT["components"]}
    Draft202012Validator(whole).validate(answer)


def test_answers_are_as_published(gate: Gate) -> None:
    """The real answers of a few commands against their schemas."""
    validated(gate.get("/api/status"), "/api/status", "get")
    validated(gate.get("/api/events"), "/api/events", "get")
    validated(gate.get("/api/processes"), "/api/processes", "get")
    validated(gate.get("/api/tokens"), "/api/tokens", "get")
    path = "/api/services/{service}/logs"
    validated(gate.get("/api/services/web/logs"), path, "get")
    body = {"services": ["web"]}
    validated(gate.post("/api/services/restart", body), "/api/services/restart", "post")
