"""What handlers may use. Built once by the composition root."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.audit_anchors import Anchors
from holdfast.adapters.audit_log import AuditLog
from holdfast.adapters.keeper_link import KeeperLink
from holdfast.adapters.ports.registry import PortRegistry
from holdfast.adapters.store.state_store import StateStore
from holdfast.adapters.tokens import Tokens
from holdfast.app.audit.auditor import Auditor
from holdfast.app.idempotency import Repeats
from holdfast.engine.admission.host_capacity import HostCapacity
from holdfast.engine.alerts.alerting import Alerting
from holdfast.engine.authority.authority import Authority
from holdfast.engine.caller import CallersEnvironment
from holdfast.engine.event_bus import EventBus
from holdfast.engine.gate.gate import Gate
from holdfast.engine.health.monitor import HealthMonitor
from holdfast.engine.instances.rolling import Rolling
from holdfast.engine.instances.scaling import Scaling
from holdfast.engine.metrics.monitor import ResourceMonitor
from holdfast.engine.output.log_sizes import LogSizes
from holdfast.engine.output.subscriptions import OutputSubscriptions
from holdfast.engine.roster import Roster
from holdfast.engine.schedules import Schedules
from holdfast.engine.secrets import ConfiguredSecrets
from holdfast.engine.sessions.sessions import Sessions
from holdfast.engine.settings import CurrentSettings
from holdfast.engine.shutdown import Shutdown
from holdfast.engine.survivors import Survivors
from holdfast.engine.tasks import Tasks
from holdfast.engine.workflows.workflows import Workflows
from holdfast.system.places import CONFIG_NAMES, folder_name
from holdfast.vocabulary.specs.settings import Configuration, HttpSpec

if TYPE_CHECKING:
    from holdfast.adapters.files.files import Files
    from holdfast.engine.git.checkpoints import Checkpoints
    from holdfast.engine.git.git import Git
    from holdfast.engine.git.status_cache import StatusCache
    from holdfast.engine.search import Ripgrep

MOST_SEARCHES = 16
T = TypeVar("T")


class Context(msgspec.Struct, kw_only=True, eq=False, dict=True, weakref=True):
    """Everything that handlers may use."""

    roster: Roster
    store: StateStore
    link: KeeperLink
    bus: EventBus
    subscriptions: OutputSubscriptions
    survivors: Survivors
    log_sizes: LogSizes
    shutdown: Shutdown
    tasks: Tasks
    health: HealthMonitor
    resources: ResourceMonitor
    host_capacity: HostCapacity
    settings: CurrentSettings
    secrets: ConfiguredSecrets
    scaling: Scaling
    rolling: Rolling
    schedules: Schedules
    workflows: Workflows
    alerting: Alerting
    tokens: Tokens
    sessions: Sessions
    repeats: Repeats
    port_registry: PortRegistry
    authority: Authority
    audit: AuditLog
    auditor: Auditor
    anchors: Anchors
    doors: dict[str, str]
    """Where each open network door listens."""
    door_notes: dict[str, str]
    """Why a door is closed, or elsewhere than usual."""
    gate: Gate
    project: str
    state: str
    logs: str
    started_mono: float
    changes: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Held while a configuration is applied: two never mix."""
    searches: asyncio.Semaphore = msgspec.field(
        default_factory=lambda: asyncio.Semaphore(MOST_SEARCHES)
    )
    """Held by who looks for an expression: each costs a process."""
    _threads: ThreadPoolExecutor = msgspec.field(
        default_factory=lambda: ThreadPoolExecutor(4, "reader")
    )

    @cached_property
    def git(self) -> Git:
        from holdfast.engine.git.git import Git

        spec = lambda: self.settings.now.git  # noqa: E731
        return Git(self.tasks, self.in_thread, CallersEnvironment(self.link), spec)

    @cached_property
    def git_status(self) -> StatusCache:
        from holdfast.engine.git.status_cache import StatusCache

        return StatusCache(self.git, self.in_thread)

    @cached_property
    def ripgrep(self) -> Ripgrep:
        from holdfast.engine.search import Ripgrep

        return Ripgrep(self.tasks, self.in_thread, CallersEnvironment(self.link))

    @cached_property
    def checkpoints(self) -> Checkpoints:
        from holdfast.engine.git.checkpoints import Checkpoints

        return Checkpoints(self.git, self.in_thread, self.state, lambda: self.files.roots)

    @cached_property
    def files(self) -> Files:
        from holdfast.adapters.files.files import Files

        now = self.settings
        never = lambda: self.never_opened(self.config, now.now.http)  # noqa: E731
        return Files(self.state, self.project, lambda: now.now.files, never)

    def settle_files(self) -> asyncio.Future[None] | None:
        """Take back what an earlier supervisor died in the middle of, if anything."""
        try:
            begun = os.listdir(os.path.join(self.state, "files", "pending"))
        except OSError:
            begun = []
        if not begun:
            return None
        from holdfast.app.handlers.files import settle

        return asyncio.ensure_future(settle(self))

    def foresee_files(self, configuration: Configuration) -> None:
        """Look up what a configuration offers, before it is in force. Blocks: in a thread."""
        if "files" in self.__dict__:
            never = self.never_opened(configuration.path, configuration.settings.http)
            self.files.foresee(configuration.settings.files, never)

    def never_opened(self, config: str | None, http: HttpSpec | None) -> list[tuple[str, str]]:
        """Files and folders that no command opens, each with the reason."""
        configs = [os.path.join(self.project, name) for name in CONFIG_NAMES]
        configs += [config] if config else []
        never = [(path, "it is Holdfast's configuration") for path in configs]
        never.append((self._states, "it is Holdfast's own state"))
        if http is not None and http.key:
            never.append((http.key, "it is a private key"))
        return never

    @cached_property
    def _states(self) -> str:
        """The folder of our state; of all states, if it lies beside those of other projects."""
        states, name = os.path.split(self.state)
        return states if name == folder_name(self.project) else self.state

    @property
    def config(self) -> str | None:
        return self.link.kept.get(keeper_memory.CONFIGURATION)

    async def in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        """Do something that blocks elsewhere than on the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *arguments)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        if "git_status" in self.__dict__:
            self.git_status.close()
        if "files" in self.__dict__:
            self.files.close()
