"""What a configuration says beyond its services, and the whole configuration.

The defaults here are the defaults of the product.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.vocabulary.alerts import TargetSpec
from holdfast.vocabulary.specs.audit import AnchorSpec
from holdfast.vocabulary.specs.backends import BackendSpec
from holdfast.vocabulary.specs.files import FilesSpec
from holdfast.vocabulary.specs.git import GitSpec
from holdfast.vocabulary.specs.jobs import JobTemplate, QueueSpec
from holdfast.vocabulary.specs.mcp import McpSpec
from holdfast.vocabulary.specs.mcp_servers import McpServerSpec
from holdfast.vocabulary.specs.policies import FilterSpec, Mode, PolicySpec, RateLimit
from holdfast.vocabulary.specs.resources import HostLimits
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.specs.workflows import (
    CommandPolicy,
    CommandSpec,
    WorkflowSpec,
)


class DoorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where the control door listens, and who may pass the network doors."""

    host: str = "127.0.0.1"
    port: int = 8081
    allowed_commands: tuple[str, ...] | None = None
    authentication: bool = False
    is_open: bool = False
    """Whether authentication is off on purpose: the owner's own processes need no token."""
    token: str | None = None
    open_status: bool = False
    tcp: bool = True
    """Whether the control door is opened."""
    is_port_given: bool = False
    """Whether this port is required. If not, the next free one is used."""


class HttpSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where the gate listens for HTTP."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = 3001
    is_port_given: bool = False
    """Whether this port is required. If not, the next free one is used."""
    dashboard_port: int | None = None
    """A second port with the same pages; None: there is none."""
    certificate: str | None = None
    key: str | None = None
    self_made: bool = False
    """Whether the gate makes a certificate for this machine itself."""
    allowed_origins: tuple[str, ...] = ()
    """Pages of these origins may use it, beside its own pages."""


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A service with `instances` as it was written, so that further instances can be made."""

    instances: int
    """The number of instances in the configuration."""
    document: str
    """The configuration with this service alone, as JSON."""
    folder: str


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a configuration says beyond its services. It is stored in the keeper's memory."""

    door: DoorSpec | None = None
    """None until a configuration is read."""
    http: HttpSpec | None = None
    """None until a configuration is read."""
    groups: dict[str, tuple[str, ...]] = {}
    """Names for several services."""
    templates: dict[str, Template] = {}
    """Services that have instances."""
    is_production: bool = False
    """Whether only commands that are allowed in production may run."""
    limits: HostLimits = HostLimits()
    monitoring_interval: float = 5.0
    port_range: tuple[int, int] = (8082, 9081)
    """The range that ports are leased from, both ends included."""
    default_service: str | None = None
    """The service that is used where one is needed and none is named."""
    commands: dict[str, CommandSpec] = {}
    command_policy: CommandPolicy = CommandPolicy()
    workflows: dict[str, WorkflowSpec] = {}
    files: FilesSpec = FilesSpec()
    git: GitSpec = GitSpec()
    alerts: tuple[TargetSpec, ...] = ()
    """Where alerts are delivered to."""
    runtime_mode: Mode | None = None
    """None until a configuration is read."""
    policies: tuple[PolicySpec, ...] = ()
    filters: FilterSpec | None = None
    rate_limit: RateLimit = RateLimit()
    mcp: McpSpec = McpSpec(changes_files=False)
    mcp_servers: dict[str, McpServerSpec] = {}
    backends: dict[str, BackendSpec] = {}
    jobs: dict[str, JobTemplate] = {}
    queue: QueueSpec = QueueSpec()
    secrets: tuple[str, ...] = ()
    """Further secrets: names of variables, or values."""
    audit_anchor: AnchorSpec = AnchorSpec()


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """A whole configuration file, checked and complete."""

    path: str | None
    project: str
    services: dict[str, ServiceSpec]
    sources: dict[str, str] = {}
    """The files that it was read from, each with the digest of its content."""
    declares: Literal["nothing", "settings", "services"] = "services"
    """What the file declares. `services: {}` counts as services, `services:` alone does not."""
    warnings: tuple[str, ...] = ()
    """What can be done as it is written, but is surely not meant so."""
    settings: Settings = Settings()
    log_level: str = "info"
    is_level_given: bool = False
    """Whether the level was given, and is not the default."""
    log_format: Literal["human", "json"] = "human"
    log_file: str | None = None
    """Where Holdfast's own log lies. None: in the state folder."""
    runtime_mode: Literal["proxy", "advanced"] = "proxy"
