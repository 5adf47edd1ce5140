#!/usr/bin/env python3
"""Writes `web/src/api.gen.ts`: the types of all commands, of the OpenAPI description.

`--check` writes nothing and fails if the file is stale.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from holdfast.gate.rest.openapi import describe

TARGET = Path(__file__).resolve().parent.parent / "web" / "src" / "api.gen.ts"
HEAD = """\
// Written by scripts/api_types.py of the OpenAPI description. Change the vocabulary instead.

"""
_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_PLAIN = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}


def kind_of(schema: dict[str, Any]) -> str:
    """Return the TypeScript type of a schema."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(dict.fromkeys(kind_of(choice) for choice in choices))
    match schema.get("type"):
        case "array":
            inner = kind_of(schema.get("items", {}))
            return f"{inner}[]" if inner.isalnum() else f"({inner})[]"
        case "object" if "properties" in schema:
            return _object(schema)
        case "object":
            more = schema.get("additionalProperties")
            return f"Record<string, {kind_of(more) if isinstance(more, dict) else 'unknown'}>"
        case str(name):
            return _PLAIN[name]
        case _:
            return "unknown"


def _object(schema: dict[str, Any]) -> str:
    fields = _fields(schema["properties"], schema.get("required", ()))
    return "{ " + " ".join(f"{field};" for field in fields) + " }"


def _fields(properties: dict[str, Any], required: Any) -> list[str]:
    return [
        f"{name if _NAME.match(name) else json.dumps(name)}{'' if name in required else '?'}: "
        f"{kind_of(schema)}"
        for name, schema in properties.items()
    ]


def _interface(name: str, schema: dict[str, Any]) -> str:
    if "properties" not in schema:
        return f"export type {name} = {kind_of(schema)};\n"
    fields = _fields(schema["properties"], schema.get("required", ()))
    return f"export interface {name} {{\n" + "".join(f"  {field};\n" for field in fields) + "}\n"


def _command(operation: dict[str, Any]) -> str:
    """Return a command's row: what it takes, and what it answers."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in operation.get("parameters", ()):
        if parameter["in"] != "header":
            properties[parameter["name"]] = parameter["schema"]
            if parameter.get("required"):
                required.append(parameter["name"])
    if body := operation.get("requestBody"):
        schema = body["content"]["application/json"]["schema"]
        properties |= schema.get("properties", {})
        required += schema.get("required", ())
    takes = _object({"properties": properties, "required": required}) if properties else "{}"
    content = operation["responses"]["200"]["content"]["application/json"]["schema"]
    permission = operation["x-holdfast-permission"]
    effect = operation["x-holdfast-effect"]
    return (
        f"  {operation['operationId']}: {{\n    takes: {takes};\n    answers: {kind_of(content)};\n"
        f"    permission: {json.dumps(permission)};\n    effect: {json.dumps(effect)};\n  }};\n"
    )


def types() -> str:
    """Return the text of the file."""
    description = describe()
    schemas = description["components"]["schemas"]
    commands = [
        _command(operation)
        for methods in description["paths"].values()
        for operation in methods.values()
        if operation.get("x-holdfast-command") == operation["operationId"]
    ]
    text = "".join(_interface(name, schema) for name, schema in sorted(schemas.items()))
    return f"{HEAD}{text}\nexport interface Commands {{\n{''.join(sorted(commands))}}}\n"


def main(arguments: list[str]) -> int:
    wanted = types()
    if arguments == ["--check"]:
        if TARGET.exists() and TARGET.read_text() == wanted:
            return 0
        print(f"{TARGET.name} is stale: run scripts/check --fix", file=sys.stderr)
        return 1
    TARGET.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
