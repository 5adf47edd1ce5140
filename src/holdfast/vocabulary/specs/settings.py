"""What a configuration says beyond its services, and the whole configuration.

The defaults here are the defaults of the product.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.vocabulary.alerts import TargetSpec
from holdfast.vocabulary.specs.audit import AnchorSpec
from holdfast.vocabulary.specs.files import FilesSpec
from holdfast.vocabulary.specs.git import GitSpec
from holdfast.vocabulary.specs.mcp import McpSpec
from holdfast.vocabulary.specs.policies import FilterSpec, Mode, PolicySpec, RateLimit
from holdfast.vocabulary.specs.resources import HostLimits
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.specs.workflows import (
    CommandPolicy,
    CommandSpec,
    WorkflowSpec,
)


class DoorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where the network doors listen, and who may pass; used by the doors."""

    host: str = "127.0.0.1"
    port: int = 8081
    allowed_commands: tuple[str, ...] | None = None
    authentication: bool = False
    token: str | None = None
    open_status: bool = False
    tcp: bool = True
    """Whether the control door is opened."""
    is_port_given: bool = False
    """Whether this very port is meant; else the next free one will do."""


class HttpSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where the gate listens for HTTP."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = 3001
    is_port_given: bool = False
    """Whether this very port is meant; else the next free one will do."""
    certificate: str | None = None
    key: str | None = None
    self_made: bool = False
    """Whether the gate makes a certificate for this machine itself."""
    allowed_origins: tuple[str, ...] = ()
    """Pages of these origins may use it, beside its own."""


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A service with `instances`, as written: enough to make one more instance of it."""

    instances: int
    """How many the configuration wants."""
    document: str
    """The configuration with this service alone, as JSON."""
    folder: str


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a configuration says beyond its services; kept in the keeper's memory."""

    door: DoorSpec | None = None
    """Nothing, as long as no configuration was read."""
    http: HttpSpec | None = None
    """Nothing, as long as no configuration was read."""
    groups: dict[str, tuple[str, ...]] = {}
    """Names for several services."""
    templates: dict[str, Template] = {}
    """Services that have instances."""
    is_production: bool = False
    """Whether commands must be allowed in production."""
    limits: HostLimits = HostLimits()
    monitoring_interval: float = 5.0
    port_range: tuple[int, int] = (8082, 9081)
    """Where ports are leased from, both ends included."""
    default_service: str | None = None
    """The service that is meant where one is needed and none is named."""
    commands: dict[str, CommandSpec] = {}
    command_policy: CommandPolicy = CommandPolicy()
    workflows: dict[str, WorkflowSpec] = {}
    files: FilesSpec = FilesSpec()
    git: GitSpec = GitSpec()
    alerts: tuple[TargetSpec, ...] = ()
    """Where alerts are delivered to."""
    runtime_mode: Mode | None = None
    """Nothing, as long as no configuration was read."""
    policies: tuple[PolicySpec, ...] = ()
    filters: FilterSpec | None = None
    rate_limit: RateLimit = RateLimit()
    mcp: McpSpec = McpSpec()
    secrets: tuple[str, ...] = ()
    """Further secrets: names of variables, or values."""
    audit_anchor: AnchorSpec = AnchorSpec()


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """A whole configuration file, checked and complete."""

    path: str | None
    project: str
    services: dict[str, ServiceSpec]
    sources: dict[str, str] = {}
    """The files that it was read from, each with a digest of what it held."""
    declares: Literal["nothing", "settings", "services"] = "services"
    """What the file has; `services: {}` counts as services, `services:` alone does not."""
    settings: Settings = Settings()
    log_level: str = "info"
    is_level_given: bool = False
    """Whether somebody chose that level."""
    log_format: Literal["human", "json"] = "human"
    runtime_mode: Literal["proxy", "advanced"] = "proxy"
