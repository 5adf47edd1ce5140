"""Editors and readers are told the same keys that the parser knows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from holdfast.adapters.config import load
from holdfast.adapters.config.keys.jobs import OF_PROCESS as OF_JOB
from holdfast.adapters.config.keys.mcp_servers import OF_PROCESS
from holdfast.adapters.config.keys.root import ROOT
from holdfast.adapters.config.keys.services import SERVICE
from holdfast.adapters.config.kinds.blocks import Block
from holdfast.adapters.config.schema import BLOCKS, SCHEMA_PATH, schema, schema_text

REPOSITORY = Path(__file__).parents[3]
GUIDE = REPOSITORY / "docs" / "guides" / "configuration.md"


def test_published_schema_is_current() -> None:
    """The shipped file is what the keys describe; `python -m holdfast.adapters.config.schema`."""
    assert Path(SCHEMA_PATH).read_text(encoding="utf-8") == schema_text()


def test_schema_is_valid() -> None:
    """The schema is itself a right JSON Schema of draft 2020-12."""
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("path", sorted((REPOSITORY / "examples").rglob("*.yaml")), ids=str)
def test_examples_pass_the_schema(path: Path) -> None:
    """What the parser takes, an editor does not mark as wrong."""
    jsonschema.validate(yaml.safe_load(path.read_text()), schema())


@pytest.mark.parametrize(
    "text",
    [
        "services: {web: npm start}",
        "services: {web: {command: [a, 1], restart: always, max_restarts: unlimited}}",
        "services: {web: {command: x, autostart: '${AUTO:-true}', start_seconds: 1m30s}}",
        "services: {web: {command: x, rlimits: {nofile: [1, 2]}, env: [A=1], depends_on: db}}",
        "services: {web: {command: true, args: 5, restart: on-failure, start_retries: '3'}}",
        "services: {web: {command: x, restart: no, autostart: 'yes', log: {max_size: .5MB}}}",
        "tls: false\nrestart_policy: unless-stopped\nlimits: {max_cpu: '80'}",
        "policies: {effect: deny}\nsecurity: {filters: {forbid: '*rm*'}}",
        "x-any: {a: [1]}\nservices: {}\nrestart: {delay: 200ms, jitter: 10%}\nport: ${PORT}",
    ],
)
def test_right_documents_pass(text: str) -> None:
    """The shorthands and variables of the guide pass the schema."""
    jsonschema.validate(yaml.safe_load(text), schema())


@pytest.mark.parametrize(
    "text",
    [
        "services: {web: {comand: x}}",
        "services: {web: {command: x, restart: {delay: soon}}}",
        "services: {Web: x}",
        "services: {holdfast.x: x}",
        "services: {web: {command: x, umask: all}}",
        "services: {web: {command: x, readiness: {http: 'http://h/', status: 500ms}}}",
        "services: {web: {command: x, restart: {backoff: 2000}}}",
        f"services: {{web: {{command: x, timeout: 1{'a' * 5000}!}}}}",
        "services: {web: {command: x, start_retries: -1}}",
        "servics: {}",
    ],
)
def test_wrong_documents_fail(text: str) -> None:
    """What the parser refuses for its form, an editor marks."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), schema())


def documented() -> dict[str, str]:
    """The rows of the guide's tables: key and default."""
    rows: dict[str, str] = {}
    for line in GUIDE.read_text(encoding="utf-8").splitlines():
        found = re.match(r"\| `([^`]+)` \| ([^|]*) \|", line)
        if found:
            rows[found[1]] = found[2].strip().strip("`")
    return rows


def described() -> dict[str, Any]:
    """Every key by its path in the guide, with its default."""
    blocks: dict[str, Block] = {block.definition: block for block in BLOCKS}
    found = {name: block.default(name) for block in (SERVICE, ROOT) for name in block.keys}
    own = ("restart", "stop", "log", "watch", "schedule", "health_check", "security")
    for name in (*own, "memory_limit", "limits"):
        block = blocks[name]
        found.update({f"{name}.{key}": block.default(key) for key in block.keys})
    inner = blocks["authentication"]
    found.update({f"security.authentication.{key}": inner.default(key) for key in inner.keys})
    return found


def test_every_key_fills_a_field_or_is_worked_out() -> None:
    """No key is accepted and then forgotten: a builder reads those that have no field by name."""
    worked_out = {
        "command": {"command", "args", "command_type", "shell"},
        "health_check": {
            *("http", "url", "tcp", "exec", "command", "log", "raw", "notify", "shell"),
            *("consecutive_failures", "method", "status", "body", "headers", "verify", "follow"),
        },
        "job": {*OF_JOB},
        "mcp_server": {*OF_PROCESS, "check_interval", "check_timeout"},
        "restart": {"policy"},
        "security": {
            *("allowed_origins", "bind_to_localhost", "filters", "rate_limit", "secrets"),
        },
        "service": {
            *("command", "args", "shell", "env_file", "max_restarts", "instances", "port"),
            *("health_check", "health_check_url", "health_check_interval", "consecutive_failures"),
            *("startup", "readiness", "liveness", "profiles"),
        },
        "supervisor": {
            *("services", "enabled", "host", "port", "tcp", "http_port", "tls", "log_level"),
            *("log_format", "audit", "security", "production", "restart_policy", "restart", "stop"),
            *("log", "health_check", "environment", "env", "env_file", "dashboard", "profiles"),
            *("log_file", "resources"),
        },
        "tls": {"mode"},
    }
    for block in BLOCKS:
        if block.spec is not None:
            others = set(block.keys) - block.fields
            assert others == worked_out.get(block.definition, set()), block.definition


def test_every_key_is_documented() -> None:
    """The guide has a row for every key, and none for a key that does not exist."""
    assert set(documented()) == set(described())


def test_documented_defaults_are_right() -> None:
    """The default in the guide is the default of the key."""
    rows = documented()
    for key, default in described().items():
        if default is not None:
            shown = json.dumps(default) if not isinstance(default, str) else default
            assert rows[key] == shown, key


def test_every_example_of_the_guide_loads(tmp_path: Path) -> None:
    """Each piece of YAML in the guide is a right configuration, for the parser and the editor."""
    pieces = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(pieces) >= 7
    path = tmp_path / "holdfast.yaml"
    for piece in pieces:
        path.write_text(piece, encoding="utf-8")
        load(str(path), environ={"SUPERVISOR_TOKEN": "Kq3-vT9x_Zr7mWp2Lc8Y"})
        jsonschema.validate(yaml.safe_load(piece), schema())
