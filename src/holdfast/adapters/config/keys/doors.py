"""The network doors: where they listen, who may pass, and what assistants are offered."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from holdfast.adapters.config.document import ListNode, Node, Table
from holdfast.adapters.config.keys.policies import FILTERS, RATE_LIMIT
from holdfast.adapters.config.kinds.blocks import Block, Key, SpecOf, Values, default_of
from holdfast.adapters.config.kinds.command_lines import split_words
from holdfast.adapters.config.kinds.kind import Kind, Reading, Schema
from holdfast.adapters.config.kinds.scalars import (
    Boolean,
    Choice,
    Integer,
    ListOf,
    Text,
)
from holdfast.adapters.config.problems import Problem
from holdfast.adapters.config.sources import resolve_path
from holdfast.rules.authority import tokens
from holdfast.vocabulary.addresses import is_loopback
from holdfast.vocabulary.names import TOOLSETS
from holdfast.vocabulary.specs.mcp import McpSpec
from holdfast.vocabulary.specs.settings import DoorSpec, HttpSpec

AUTHENTICATION = Block(
    [
        Key(
            "enabled",
            Boolean(),
            "Ask for a token on the network doors. `false` lets your own programs on this machine "
            "pass without one.",
        ),
        Key(
            "token",
            Text(),
            "The token, 20 characters or more; better ${SUPERVISOR_TOKEN} than written out.",
        ),
    ],
    definition="authentication",
)
TLS_MODE = Choice("self", "off", aliases={"true": "self", "false": "off", "on": "self"})
TLS = Block(
    [
        Key("mode", TLS_MODE, "self: make a certificate for this machine.", "off"),
        Key("certificate", Text(), "A file with the certificate and its chain (PEM)."),
        Key("key", Text(), "A file with its private key (PEM)."),
    ],
    spec=HttpSpec,
    definition="tls",
    synonyms={"cert": "certificate", "certfile": "certificate", "keyfile": "key"},
)
DASHBOARD = Block(
    [
        Key("port", Integer(0, 65535), "A second port with the same pages, such as 5173."),
    ],
    spec=HttpSpec,
    definition="dashboard",
)
SECURITY = Block(
    [
        Key("allowed_origins", ListOf(Text()), "Pages of these origins may use HTTP as well."),
        Key("bind_to_localhost", Boolean(), "Listen only for this machine.", True),
        Key("allowed_commands", ListOf(Text()), "The only commands the network doors take."),
        Key("open_status", Boolean(), "Loopback may ask status and health without token."),
        Key("authentication", AUTHENTICATION, "Who may pass the network doors."),
        Key(
            "filters",
            FILTERS,
            "What arguments of requests may not be; takes runtime_mode: advanced.",
        ),
        Key(
            "rate_limit",
            SpecOf(RATE_LIMIT),
            "How often one actor may ask through one network door.",
        ),
        Key(
            "secrets",
            ListOf(Text()),
            "Further secrets to hide: names of variables, or `${VARIABLE}`.",
        ),
    ],
    spec=DoorSpec,
    definition="security",
)


def build_door(reading: Reading, values: Values, chosen: Mapping[str, Any]) -> DoorSpec:
    """Build the control door. A door that anybody in the network could use is a problem."""
    security: Values = values.get("security") or Values("security", values.node)
    authentication: Values = security.get("authentication") or Values("", values.node)
    host = chosen.get("host", default_of(DoorSpec, "host"))
    token = chosen.get("token") or authentication.get("token") or None
    written = authentication.get("token")
    if written and token == written and (weakness := tokens.why_weak(written)):
        place, key = authentication.at("token"), authentication.path_of("token")
        reading.note(place, key, weakness, tokens.HINT)
    is_local = is_loopback(host)
    is_authenticated = authentication.get("enabled", token is not None)
    is_bound = security.get("bind_to_localhost", is_local)
    if not is_local and is_bound:
        message = f'"{host}" is not this machine, but bind_to_localhost is true'
        place = security.at("bind_to_localhost")
        hint = "write host: 127.0.0.1, or bind_to_localhost: false"
        reading.note(place, security.path_of("bind_to_localhost"), message, hint)
    elif not is_local and not is_authenticated:
        message = f'"{host}" can be reached from the network, and nobody would be asked for a token'
        hint = "write security: {authentication: {enabled: true}}, or host: 127.0.0.1"
        if values.get("host") == host:
            reading.note(values.at("host"), values.path_of("host"), message, hint, host)
        else:
            outside = ("the environment", None, None, "SUPERVISOR_HOST")
            reading.problems.append(Problem(*outside, host, message, hint))
    fields = SECURITY.fill(security)
    fields.update({name: chosen[name] for name in ("host", "port", "tcp") if name in chosen})
    fields.update(
        allowed_commands=_check_commands(reading, security),
        authentication=is_authenticated,
        is_open=is_local and authentication.get("enabled") is False,
        token=token,
        is_port_given="port" in chosen,
    )
    return DoorSpec(**fields)


def _check_commands(reading: Reading, security: Values) -> tuple[str, ...] | None:
    """Return the allowed commands by their own names. An unknown name would allow nothing."""
    if "allowed_commands" not in security:
        return None
    from holdfast.vocabulary.commands import canonical_name, why_unknown

    given: tuple[str, ...] = security["allowed_commands"]
    where = security.at("allowed_commands"), security.path_of("allowed_commands")
    for wrong in filter(None, map(why_unknown, given)):
        reading.note(*where, *wrong)
    return tuple(map(canonical_name, given))


def build_http(reading: Reading, values: Values, chosen: Mapping[str, Any]) -> HttpSpec:
    """Build the door of the gate, with its certificate."""
    security: Values = values.get("security") or Values("security", values.node)
    tls: Values = values.get("tls") or Values("tls", values.node)
    certificate, key = (_find_file(reading, tls, name) for name in ("certificate", "key"))
    if (certificate is None) is not (key is None):
        message = "a certificate and its key belong together"
        reading.note(tls.node, tls.path, message, "write tls: {certificate: …, key: …}")
    self_made = tls.get("mode") == "self"
    if self_made and certificate is not None:
        message = "either a certificate is given, or one is made"
        reading.note(tls.at("mode"), tls.path_of("mode"), message, "leave out mode: self")
    given = [word.strip() for word in reading.environ.get("ALLOWED_ORIGINS", "").split(",")]
    origins = given if any(given) else security.get("allowed_origins", ())
    fields: dict[str, Any] = {
        field: chosen[name]
        for name, field in (("http", "enabled"), ("http_port", "port"))
        if name in chosen
    }
    if "host" in chosen:
        host = str(chosen["host"]).strip("[]")
        fields["host"] = "127.0.0.1" if host == "localhost" else host
    dashboard: Values = values.get("dashboard") or Values("dashboard", values.node)
    return HttpSpec(
        **fields,
        dashboard_port=dashboard.get("port") or None,
        is_port_given="http_port" in chosen,
        certificate=certificate,
        key=key,
        self_made=self_made,
        allowed_origins=tuple(dict.fromkeys(word for word in origins if word)),
    )


def _find_file(reading: Reading, tls: Values, name: str) -> str | None:
    written = tls.get(name)
    if written is None:
        return None
    path = resolve_path(written, reading.folder, reading.environ)
    if not os.access(path, os.R_OK):
        message, hint = "this file cannot be read", "check its name and its permissions"
        reading.note(tls.at(name), tls.path_of(name), message, hint, written)
    return path


class Programs(Kind):
    """True, false, or the beginnings of the command lines that may be run."""

    wanted = "true, false, or a list of commands"

    def read(self, node: Node, key: str, reading: Reading) -> dict[str, Any] | None:
        if not isinstance(node, ListNode):
            is_on = Boolean().read(node, key, reading)
            return None if is_on is None else {"run": is_on}
        programs: list[tuple[str, ...]] = []
        for number, one in enumerate(node.items):
            if isinstance(one, Table):
                self.refuse(one, f"{key}[{number}]", reading)
            elif words := split_words(one, f"{key}[{number}]", reading, is_command=True):
                programs.append(tuple(words))
        return {"run": True, "programs": tuple(programs)}

    def schema(self) -> Schema:
        return {"anyOf": [*Boolean().schema()["anyOf"], ListOf(Text()).schema()]}


MCP = Block(
    [
        Key("enabled", Boolean(), "Let assistants connect; by default as HTTP is."),
        Key("read_only", Boolean(), "Offer only tools that look."),
        Key("toolsets", ListOf(Choice(*TOOLSETS)), "Which tools are offered."),
        Key("run", Programs(), "Let assistants run programs: all, none, or these."),
        Key("send", Boolean(), "Let assistants type into services."),
        Key("delegate", Boolean(), "Let assistants hand tasks to `backends`."),
        Key("supervised", Boolean(), "Let agents that Holdfast runs change things."),
        Key(
            "aliases", Boolean(), "Offer start_task, read_file, git_commit … as names of our tools."
        ),
        Key("legacy_sse", Boolean(), "Serve the old HTTP transport at /mcp/sse as well."),
        Key(
            "tools",
            Choice("auto", "list", "search"),
            "Tools of other servers: listed, searched for, or listed while all fit the budget.",
        ),
        Key("tools_budget", Integer(0, 10_000_000), "Tokens that all definitions may take."),
    ],
    spec=McpSpec,
    definition="mcp",
)


class AssistantDoor(SpecOf):
    """The block `mcp`. Its key `run` fills two fields."""

    def build(self, values: Values) -> McpSpec:
        fields = {name: value for name, value in values.items() if name != "run"}
        return McpSpec(**fields, **values.get("run", {}))
