"""The JSON Schema of the configuration, for editors, made from the rows that the parser reads.

`python -m holdfast.adapters.config.schema` writes the file that the package ships.
"""

from __future__ import annotations

import json
import os
from typing import Any

import holdfast
from holdfast.adapters.config.keys.alerts import ANCHOR, AUDIT, TARGET
from holdfast.adapters.config.keys.backends import BACKEND, BUDGET, RULE
from holdfast.adapters.config.keys.commands import (
    COMMAND,
    COMMAND_POLICY,
    RECOVERY,
    STEP,
    WAIT,
    WORKFLOW,
)
from holdfast.adapters.config.keys.doors import AUTHENTICATION, MCP, SECURITY, TLS
from holdfast.adapters.config.keys.files import BACKUPS, FILE_ROOT, FILES, GIT
from holdfast.adapters.config.keys.health import HEALTH_CHECK, NOTIFY
from holdfast.adapters.config.keys.jobs import BACKOFF, JOB, QUEUE, RATE
from holdfast.adapters.config.keys.mcp_servers import MCP_SERVER, TOOL_HINTS
from holdfast.adapters.config.keys.policies import FILTERS, POLICY, RATE_LIMIT
from holdfast.adapters.config.keys.resources import HOST_LIMITS, MEMORY_LIMIT
from holdfast.adapters.config.keys.root import ROOT, SUPERVISOR
from holdfast.adapters.config.keys.services import LOG, RESTART, SERVICE, STOP
from holdfast.adapters.config.keys.triggers import SCHEDULE, WATCH
from holdfast.adapters.config.kinds.blocks import Block

SCHEMA_PATH = os.path.join(os.path.dirname(holdfast.__file__), "schema", "holdfast.schema.json")
BLOCKS: tuple[Block, ...] = (
    *(SERVICE, RESTART, STOP, LOG, HEALTH_CHECK, NOTIFY, SECURITY, TLS, AUTHENTICATION),
    *(WATCH, SCHEDULE, TARGET, MEMORY_LIMIT, HOST_LIMITS),
    *(FILES, FILE_ROOT, BACKUPS),
    *(POLICY, FILTERS, RATE_LIMIT, AUDIT, ANCHOR),
    *(MCP, GIT, MCP_SERVER, TOOL_HINTS),
    *(BACKEND, BUDGET, RULE),
    *(COMMAND, COMMAND_POLICY, STEP, WAIT, WORKFLOW, RECOVERY),
    *(JOB, BACKOFF, RATE, QUEUE),
    SUPERVISOR,
)
_AMOUNT = r"(\d+(\.\d*)?|\.\d+)"
# Every part begins with a digit or a point, so that no text can match in more than one way.
_DURATION = rf"^\s*({_AMOUNT}|({_AMOUNT}\s*[A-Za-zµ]+\s*)+)\s*$"


def schema() -> dict[str, Any]:
    """Return the whole schema, draft 2020-12."""
    definitions: dict[str, Any] = {
        "interpolated": {
            "description": "A text with ${NAME} or ${NAME:-default} in it.",
            "type": "string",
            "pattern": r"\$\{",
        },
        "size": {
            "description": "16MB (millions), 16MiB (times 1024²), or a number of bytes.",
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": rf"^\s*{_AMOUNT}\s*[kKmMgGtT]?([iI]?[bB])?\s*$"},
                {"$ref": "#/$defs/interpolated"},
            ],
        },
    }
    for unit, name in (("s", "seconds"), ("ms", "milliseconds")):
        definitions[f"duration_{unit}"] = {
            "description": f"5s, 200ms, 1h30m, or a number of {name}.",
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "string", "pattern": _DURATION},
                {"$ref": "#/$defs/interpolated"},
            ],
        }
    for block in BLOCKS:
        definitions[block.definition] = block.full_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Holdfast configuration",
        **ROOT.full_schema(),
        "$defs": definitions,
    }


def schema_text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def write_schema() -> None:
    os.makedirs(os.path.dirname(SCHEMA_PATH), exist_ok=True)
    with open(SCHEMA_PATH, "w", encoding="utf-8") as file:
        file.write(schema_text())


if __name__ == "__main__":
    write_schema()
