"""The keys at the top of a configuration, most of which may also stand under `supervisor:`.

Every key is one row in a block of this package: name, kind, meaning and default. The parser reads
by the rows, the JSON Schema is made from them, and a test compares the guide with them.
"""

from __future__ import annotations

import re

from holdfast.adapters.config.keys.alerts import AUDIT, AlertTargets
from holdfast.adapters.config.keys.backends import KEY as BACKENDS
from holdfast.adapters.config.keys.commands import NamedCommands, Workflow
from holdfast.adapters.config.keys.dependencies import Groups
from holdfast.adapters.config.keys.doors import DASHBOARD, MCP, SECURITY, TLS, AssistantDoor
from holdfast.adapters.config.keys.files import FILES, GIT
from holdfast.adapters.config.keys.foreign import ROOT_KEYS
from holdfast.adapters.config.keys.jobs import JOBS_KEY, QUEUE_KEY
from holdfast.adapters.config.keys.mcp_servers import KEY as MCP_SERVERS
from holdfast.adapters.config.keys.policies import PolicyList
from holdfast.adapters.config.keys.resources import HOST_LIMITS, PortRange
from holdfast.adapters.config.keys.services import (
    SERVICE_DEFAULTS,
    Service,
    ServicesByName,
)
from holdfast.adapters.config.kinds.blocks import Block, Key, MapOf, SpecOf, WordOrBlock, default_of
from holdfast.adapters.config.kinds.kind import ScalarKind, Schema
from holdfast.adapters.config.kinds.scalars import (
    LABEL,
    Boolean,
    Choice,
    Integer,
    Interval,
    Label,
    ListOf,
    Text,
)
from holdfast.system.patterns import pattern
from holdfast.vocabulary.names import closest
from holdfast.vocabulary.specs.settings import Configuration, DoorSpec, HttpSpec, Settings

LEVELS = ("trace", "debug", "info", "warning", "error", "critical")
_MODULE_LEVEL = pattern(r"[\w.:*-]+=(\w+)")


class LogLevel(ScalarKind):
    """A level, or levels of modules: `info`, `engine=debug,info`."""

    wanted = "a log level"

    def convert(self, text: str) -> str:
        parts = [part.strip() for part in text.lower().split(",")]
        for part in parts:
            found = _MODULE_LEVEL.fullmatch(part)
            level = {"warn": "warning"}.get(word := found[1] if found else part, word)
            if level not in LEVELS:
                guess = closest(level, list(LEVELS))
                known = f"write {', '.join(LEVELS)}, or levels of modules: engine=debug,info"
                hint = f'did you mean "{guess}"?' if guess else known
                raise ValueError(f'"{part}" is not a log level; {hint}')
        return ",".join(re.sub(r"(^|=)warn$", r"\1warning", part) for part in parts)

    def schema(self) -> Schema:
        return {"type": "string", "examples": list(LEVELS)}


_GLOBAL = [
    Key(
        "services",
        ServicesByName(Service(), rf"(?!holdfast\.){LABEL}"),
        "The services by name; a text instead of a block is the command.",
    ),
    Key("profiles", ListOf(Label()), "The profiles that are wanted if `up` names none."),
    Key("groups", Groups(ListOf(Text()), LABEL), "Names for several services: a list each."),
    Key("enabled", Boolean(), "False: no service is started by `up`.", True),
    Key("host", Text(), "Where the network doors listen.", default_of(DoorSpec, "host")),
    Key("port", Integer(0, 65535), "The port of the control door.", default_of(DoorSpec, "port")),
    Key("tcp", Boolean(), "Open the control door.", default_of(DoorSpec, "tcp")),
    Key(
        "http",
        Boolean(),
        "Serve HTTP: REST, WebSocket and what follows.",
        default_of(HttpSpec, "enabled"),
    ),
    Key("http_port", Integer(0, 65535), "The port of HTTP.", default_of(HttpSpec, "port")),
    Key("tls", WordOrBlock("mode", TLS), "Serve HTTPS: with this certificate, or `self`."),
    Key("dashboard", DASHBOARD, "The pages for people: where else they are served."),
    Key(
        "log_level",
        LogLevel(),
        "How much Holdfast's own log says.",
        default_of(Configuration, "log_level"),
    ),
    Key(
        "log_format",
        Choice("human", "json"),
        "How Holdfast's own log is written.",
        default_of(Configuration, "log_format"),
    ),
    Key("log_file", Text(), "Where Holdfast's own log lies, instead of the state folder."),
    Key("alerts", AlertTargets(), "Where alerts are told: webhooks, commands, this desktop."),
    Key(
        "runtime_mode",
        Choice("proxy", "advanced"),
        "Advanced adds policies.",
        default_of(Configuration, "runtime_mode"),
    ),
    Key(
        "policies",
        PolicyList(),
        "Who needs approval for what, and when; takes runtime_mode: advanced.",
    ),
    Key("audit", AUDIT, "Who did what: how the record is made safe against rollback."),
    Key("security", SECURITY, "Who may do what from the network."),
    Key("mcp", AssistantDoor(MCP), "The door of AI assistants."),
    MCP_SERVERS,
    BACKENDS,
    JOBS_KEY,
    QUEUE_KEY,
    Key("files", SpecOf(FILES), "Files that can be read and changed through the doors."),
    Key("git", SpecOf(GIT), "What git repositories may do."),
    Key(
        "port_range",
        PortRange(),
        "Where `auto` ports are leased from.",
    ),
    Key("limits", SpecOf(HOST_LIMITS), "When nothing more is started."),
    Key(
        "monitoring_interval",
        Interval(1.0),
        "Time between two looks at what services use; at least 1s.",
    ),
    Key("commands", NamedCommands(), "Commands by name, and which others may be run."),
    Key("workflows", MapOf(Workflow(), LABEL), "Steps that are done in order, by name."),
    Key(
        "production",
        Boolean(),
        "Run only what is allowed in production.",
        default_of(Settings, "is_production"),
    ),
    Key("default_service", Text(), "The service that is meant when none is named."),
    *SERVICE_DEFAULTS,
]
_LATER = ("agents", "pools", "tokens")
_SYNONYMS = {"service": "services", "programs": "services", "processes": "services"}
SUPERVISOR = Block(
    _GLOBAL,
    spec=Settings,
    definition="supervisor",
    later=_LATER,
    synonyms=_SYNONYMS,
    foreign=ROOT_KEYS,
    allows_extensions=True,
)
ROOT = Block(
    [
        *_GLOBAL,
        Key("supervisor", SUPERVISOR, "All of the above may also stand under this key."),
        Key("include", ListOf(Text()), "Further files, read before this one, which wins."),
        Key("$schema", Text(), "For editors; not used."),
    ],
    spec=Settings,
    later=_LATER,
    synonyms=_SYNONYMS,
    foreign=ROOT_KEYS,
    allows_extensions=True,
)
