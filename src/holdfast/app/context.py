"""What handlers may use: every part of the supervisor, by name. Built once by `supervisor.py`."""

from __future__ import annotations

import asyncio

import msgspec

from holdfast.adapters.audit_anchors import Anchors
from holdfast.adapters.audit_log import AuditLog
from holdfast.adapters.keeper_link import KeeperLink
from holdfast.adapters.ports.registry import PortRegistry
from holdfast.adapters.reader_threads import ReaderThreads
from holdfast.adapters.store.state_store import StateStore
from holdfast.adapters.tokens import Tokens
from holdfast.app.audit.auditor import Auditor
from holdfast.app.idempotency import Idempotency
from holdfast.engine.admission.host_capacity import HostCapacity
from holdfast.engine.agents.backends import Backends
from holdfast.engine.agents.sessions import Agents
from holdfast.engine.agents.worktrees import Worktrees
from holdfast.engine.alerts.alerting import Alerting
from holdfast.engine.authority.authority import Authority
from holdfast.engine.banners import BannerMemory
from holdfast.engine.edited_configuration import EditedConfiguration
from holdfast.engine.event_bus import EventBus
from holdfast.engine.gate.gate import Gate
from holdfast.engine.health.monitor import HealthMonitor
from holdfast.engine.instances.rolling import Rolling
from holdfast.engine.instances.scaling import Scaling
from holdfast.engine.jobs.queue import JobQueue
from holdfast.engine.mcp_servers.inbox import McpInbox
from holdfast.engine.mcp_servers.servers import McpServers
from holdfast.engine.metrics.monitor import ResourceMonitor
from holdfast.engine.output.log_sizes import LogSizes
from holdfast.engine.output.subscriptions import OutputSubscriptions
from holdfast.engine.preferences import PreferenceStore
from holdfast.engine.roster import Roster
from holdfast.engine.schedules import Schedules
from holdfast.engine.secrets import ConfiguredSecrets
from holdfast.engine.sessions.sessions import Sessions
from holdfast.engine.settings import CurrentSettings
from holdfast.engine.shutdown import ShutdownProcedure
from holdfast.engine.survivors import Survivors
from holdfast.engine.tasks import Tasks
from holdfast.engine.workflows.workflows import WorkflowRunner
from holdfast.engine.workspace import Workspace

MOST_SEARCHES = 16


class Context(msgspec.Struct, kw_only=True, frozen=True, eq=False, weakref=True):
    """The parts of one supervisor. A record: it computes nothing."""

    roster: Roster
    store: StateStore
    link: KeeperLink
    bus: EventBus
    subscriptions: OutputSubscriptions
    survivors: Survivors
    log_sizes: LogSizes
    shutdown: ShutdownProcedure
    tasks: Tasks
    health: HealthMonitor
    resources: ResourceMonitor
    host_capacity: HostCapacity
    settings: CurrentSettings
    secrets: ConfiguredSecrets
    scaling: Scaling
    rolling: Rolling
    schedules: Schedules
    workflows: WorkflowRunner
    alerting: Alerting
    banners: BannerMemory
    edited_configuration: EditedConfiguration
    preferences: PreferenceStore
    tokens: Tokens
    sessions: Sessions
    idempotency: Idempotency
    port_registry: PortRegistry
    authority: Authority
    audit: AuditLog
    auditor: Auditor
    anchors: Anchors
    doors: dict[str, str]
    """Where each open network door listens."""
    door_notes: dict[str, str]
    """Why a door is closed, or not where it usually is."""
    gate: Gate
    mcp_servers: McpServers
    mcp_inbox: McpInbox
    backends: Backends
    agents: Agents
    worktrees: Worktrees
    jobs: JobQueue
    project: str
    state: str
    logs: str
    started_mono: float
    in_thread: ReaderThreads
    """Does a call that blocks elsewhere than on the loop."""
    workspace: Workspace
    changes: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Held while a configuration is applied, so that two are never mixed."""
    searches: asyncio.Semaphore = msgspec.field(
        default_factory=lambda: asyncio.Semaphore(MOST_SEARCHES)
    )
    """Held while an expression is matched, because each matcher is a process."""
