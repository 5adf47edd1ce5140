"""The keys of `mcp_servers`: other MCP servers, their processes and what of them is offered.

A server that Holdfast runs is a service with the keys of one, and with other defaults: a clean
environment, started when it is needed, given up after four restarts. One that somebody else runs
has an address and no process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.adapters.config.document import Node, Scalar, Table, TableEntry
from holdfast.adapters.config.keys.services import SERVICE, ServiceBuilder
from holdfast.adapters.config.kinds.addresses import Headers, Url
from holdfast.adapters.config.kinds.blocks import Block, Key, MapOf, Values
from holdfast.adapters.config.kinds.kind import Kind, Reading, Schema
from holdfast.adapters.config.kinds.scalars import (
    Boolean,
    Choice,
    Duration,
    Integer,
    ListOf,
    Text,
)
from holdfast.adapters.config.sources import resolve_path
from holdfast.vocabulary.specs.mcp_servers import McpServerSpec, ToolHints
from holdfast.vocabulary.specs.probes import McpTarget, ProbeSpec
from holdfast.vocabulary.specs.services import RestartSpec, ServiceSpec

NAME = r"[a-z0-9][a-z0-9-]{0,19}"
NEVER = "never"
MOST_RESTARTS = 4
_PASSED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "TMPDIR", "LANG")
"""What a server gets of the caller's environment, beside what is declared."""
OF_PROCESS = (
    *("command", "args", "shell", "working_dir", "env", "env_file", "enabled", "stop", "user"),
    *("umask", "rlimits", "memory_limit", "cpu_limit", "process_limit", "log", "depends_on"),
    *("tags", "port", "timeout"),
)
"""Keys that it has in common with a service."""
TOOL_HINTS = Block(
    [
        Key("readOnly", Boolean(), "It changes nothing."),
        Key("idempotent", Boolean(), "Calling it twice is no different from once."),
    ],
    definition="tool_hints",
    synonyms={"readonlyhint": "readOnly", "read_only": "readOnly", "idempotenthint": "idempotent"},
)


class IdleTime(Duration):
    """How long a server may be idle, or never."""

    wanted = "a duration, or never"

    def convert(self, text: str) -> float:
        return float("inf") if text.lower() == NEVER else super().convert(text)

    def spell(self, value: float) -> Any:
        return NEVER if value == float("inf") else super().spell(value)

    def schema(self) -> Schema:
        return {"anyOf": [*super().schema().get("anyOf", [super().schema()]), {"enum": [NEVER]}]}


MCP_SERVER = Block(
    [
        *(SERVICE.keys[name] for name in OF_PROCESS),
        Key("url", Url(), "The address of a server that somebody else runs."),
        Key("path", Text(r"/\S*", "a path"), "It speaks HTTP at its `port`, below this path."),
        Key("headers", Headers(), "Headers of every request to it."),
        Key("auth", Choice("oauth"), "It is asked only after `holdfast mcp login`."),
        Key("allow", ListOf(Text()), "Which of its tools are offered, with `*`."),
        Key("deny", ListOf(Text()), "Which are not; this wins."),
        Key("always", ListOf(Text()), "Which are listed also where tools are searched for."),
        Key("hints", MapOf(TOOL_HINTS, r".{1,200}"), "What it does not say about its tools."),
        Key(
            "pins",
            Choice("first", "ask"),
            "Take the definitions that are seen first, or ask; by default `ask` for remote ones.",
            "first",
        ),
        Key("scope", Choice("shared", "session"), "One for all, or one for each session."),
        Key("max_instances", Integer(1, 100), "With scope session: for so many at once."),
        Key("idle_stop", IdleTime("s", is_zero_allowed=False), "Stop it when idle for so long."),
        Key(
            "start_timeout",
            Duration("s", is_zero_allowed=False),
            "How long it may take until it has told its tools.",
        ),
        Key("call_timeout", Duration("s", is_zero_allowed=False), "How long a call may take."),
        Key("concurrency", Integer(1, 1000), "Calls that it is given at once."),
        Key(
            "check_interval",
            Duration("s", is_zero_allowed=False),
            "How often it is asked whether it still answers.",
            "30s",
        ),
        Key(
            "check_timeout",
            Duration("s", is_zero_allowed=False),
            "How long it may take to answer that.",
            "10s",
        ),
        Key("sampling", Boolean(), "It may ask the model of the client that calls."),
        Key("roots", ListOf(Text()), "Folders that it is told it may work in."),
    ],
    spec=McpServerSpec,
    definition="mcp_server",
    synonyms={
        "cwd": "working_dir",
        "environment": "env",
        "disabled_tools": "deny",
        "enabled_tools": "allow",
        "include_tools": "allow",
        "exclude_tools": "deny",
        "startup_timeout": "start_timeout",
        "timeout_ms": "call_timeout",
    },
)


class McpServer(Kind):
    """The block of a server, or its command alone."""

    wanted = "an MCP server"

    def read(self, node: Node, key: str, reading: Reading) -> Values | None:
        if isinstance(node, Scalar) and not node.is_null:
            here = Scalar("command", True, node.line, node.column)
            node = Table({"command": TableEntry(here, node)}, node.line, node.column)
        return MCP_SERVER.read(node, key, reading)

    def schema(self) -> Schema:
        command = SERVICE.keys["command"].kind.schema()
        return {"anyOf": [*command["anyOf"], MCP_SERVER.schema()]}


class McpServersByName(MapOf):
    """The servers by name, which is in front of the names of their tools."""

    wanted = "a mapping of MCP servers"

    def __init__(self) -> None:
        super().__init__(McpServer(), NAME)

    def wrong_name(self, name: str) -> tuple[str, str]:
        rule = "use lower-case letters, digits and '-', at most 20"
        return f'"{name}" cannot name an MCP server', rule


def build_mcp_servers(
    reading: Reading,
    written: Mapping[str, Values],
    builder: ServiceBuilder,
    services: Mapping[str, ServiceSpec],
) -> tuple[dict[str, McpServerSpec], dict[str, ServiceSpec]]:
    """Return the servers, and the services that run them."""
    servers: dict[str, McpServerSpec] = {}
    processes: dict[str, ServiceSpec] = {}
    for name, values in written.items():
        if name in services:
            message = f"a service has the name {name} as well"
            reading.note(values.node, values.path, message, "give one of them another name")
        servers[name] = server = _build_server(reading, name, values)
        if server.transport == "remote":
            continue
        command, args = builder.split_command(values)
        if values.get("path") is not None and "port" not in values:
            message = "a server that speaks HTTP needs a port"
            reading.note(values.at("path"), values.path_of("path"), message, "add port: auto")
        processes[name] = _build_process(reading, server, values, builder, command, args)
    return servers, processes


def _build_server(reading: Reading, name: str, values: Values) -> McpServerSpec:
    if "url" in values:
        for key in (*OF_PROCESS, "path", "scope"):
            if key in values and key not in ("tags", "enabled"):
                message = f"{key} is for a server that Holdfast runs, not for an address"
                reading.note(values.at(key), values.path_of(key), message, "remove it, or url")
    elif "auth" in values:
        message = "auth is for an address, not for a server that Holdfast runs"
        reading.note(values.at("auth"), values.path_of("auth"), message, "remove it")
    fields = {key: value for key, value in MCP_SERVER.fill(values).items() if key != "hints"}
    idle = fields.get("idle_stop")
    if idle == float("inf"):
        fields["idle_stop"] = None
    roots = fields.pop("roots", ())
    hints = {
        tool: ToolHints(read_only=given.get("readOnly"), idempotent=given.get("idempotent"))
        for tool, given in values.get("hints", {}).items()
    }
    fields.setdefault("pins", "ask" if "url" in values else "first")
    return McpServerSpec(
        name=name,
        hints=hints,
        roots=tuple(resolve_path(one, reading.folder, reading.environ) for one in roots),
        **fields,
    )


def _build_process(
    reading: Reading,
    server: McpServerSpec,
    values: Values,
    builder: ServiceBuilder,
    command: tuple[str, ...],
    args: tuple[str, ...],
) -> ServiceSpec:
    """Return the service that runs it."""
    spec = builder.build_service(server.name, values, command, args)
    passed = {key: reading.environ[key] for key in _PASSED if key in reading.environ}
    probes = (
        ProbeSpec(
            roles=("startup",),
            target=McpTarget(),
            interval=server.start_timeout,
            timeout=server.start_timeout,
            retries=1,
        ),
        ProbeSpec(
            roles=("liveness",),
            target=McpTarget(),
            interval=values.get("check_interval", 30.0),
            timeout=values.get("check_timeout", 10.0),
        ),
    )
    return msgspec.structs.replace(
        spec,
        kind="mcp_server",
        stdin="channel" if server.transport == "stdio" else "null",
        env={**passed, **builder.collect_variables(values)},
        environment="clean",
        autostart=False,
        terminal=False,
        restart_policy="on_failure",
        restart=RestartSpec(
            delay=1.0, max_delay=8.0, backoff=2.0, max_restarts=MOST_RESTARTS, reset_after=60.0
        ),
        start_seconds=0.0,
        start_retries=MOST_RESTARTS,
        # Whoever runs it wants it to go on, so every end is a failure.
        success_exit_codes=(),
        survivors="stop",
        probes=probes,
        notify=None,
    )


KEY = Key(
    "mcp_servers", McpServersByName(), "Other MCP servers, whose tools assistants reach here."
)
