"""Composition root of the supervisor: builds every object once, in order.

It also gives each object what an earlier supervisor left for it, and passes the notices of the
keeper to the objects that they concern. It decides nothing itself. How the process begins and
ends is in `supervisor_process`.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import holdfast
from holdfast.adapters import keeper_memory, own_log
from holdfast.adapters.agents.records import AgentStore
from holdfast.adapters.audit_anchors import Anchors
from holdfast.adapters.audit_log import AuditLog, Head
from holdfast.adapters.keeper_link import KeeperLink
from holdfast.adapters.lockdown_file import LockdownFile
from holdfast.adapters.mcp_servers.catalogues import CatalogueStore
from holdfast.adapters.mcp_servers.logins import LoginStore
from holdfast.adapters.ports.registry import PortRegistry
from holdfast.adapters.queue.sqlite_store import SqliteJobStore
from holdfast.adapters.reader_threads import ReaderThreads
from holdfast.adapters.search.matcher import SharedMatcher
from holdfast.adapters.sessions import SessionStore
from holdfast.adapters.store.state_store import StateStore
from holdfast.adapters.tokens import Tokens
from holdfast.app.application import Application
from holdfast.app.audit.auditor import Auditor
from holdfast.app.context import Context
from holdfast.app.idempotency import Idempotency
from holdfast.doors.line import LineDoor
from holdfast.doors.tcp_settings import ConfiguredTcpDoor
from holdfast.engine import event_log
from holdfast.engine.admission.admission import DependencyAdmission
from holdfast.engine.admission.awaited_lines import AwaitedLines
from holdfast.engine.admission.host_capacity import HostCapacity
from holdfast.engine.agents.backends import Backends
from holdfast.engine.agents.conversation import AgentParts
from holdfast.engine.agents.sessions import Agents
from holdfast.engine.agents.worktrees import Worktrees
from holdfast.engine.alerts.alerting import Alerting
from holdfast.engine.authority import security_counters
from holdfast.engine.authority.approvals import REPLACED, ApprovalQueue
from holdfast.engine.authority.authority import Authority
from holdfast.engine.authority.lockdown import LockdownSwitch
from holdfast.engine.authority.mode_followers import ModeFollowers
from holdfast.engine.authority.modes import Modes
from holdfast.engine.banners import BannerMemory
from holdfast.engine.caller import CallersEnvironment
from holdfast.engine.edited_configuration import EditedConfiguration
from holdfast.engine.event_bus import EventBus
from holdfast.engine.file_watches import FileWatches
from holdfast.engine.gate.gate import Gate
from holdfast.engine.gate.http_door import HttpDoor
from holdfast.engine.gate.listeners import Listeners
from holdfast.engine.health.monitor import HealthMonitor
from holdfast.engine.health.notify_sockets import NotifySockets
from holdfast.engine.health.probes import ProbeChecks
from holdfast.engine.instances.rolling import Rolling
from holdfast.engine.instances.scaling import Scaling
from holdfast.engine.jobs.queue import JobQueue
from holdfast.engine.mcp_servers import checks
from holdfast.engine.mcp_servers.inbox import McpInbox
from holdfast.engine.mcp_servers.lending import Lender
from holdfast.engine.mcp_servers.servers import McpServers
from holdfast.engine.metrics.monitor import monitor_for
from holdfast.engine.output.log_sizes import LogSizes
from holdfast.engine.output.subscriptions import OutputSubscriptions
from holdfast.engine.ports import PortLeases, in_thread_of
from holdfast.engine.preferences import PreferenceStore
from holdfast.engine.roster import Roster
from holdfast.engine.runner.environment import Clock, RunnerEnvironment
from holdfast.engine.runner.observers import RunObservers
from holdfast.engine.schedules import Schedules
from holdfast.engine.secrets import ConfiguredSecrets
from holdfast.engine.sessions.sessions import Sessions
from holdfast.engine.settings import CurrentSettings
from holdfast.engine.shutdown import ShutdownProcedure
from holdfast.engine.survivors import Survivors
from holdfast.engine.tasks import Tasks
from holdfast.engine.workflows.recovery import RecoveryCommands
from holdfast.engine.workflows.workflows import WorkflowRunner
from holdfast.engine.workspace import Workspace
from holdfast.system.places import project_of, states_root
from holdfast.vocabulary.events import Event, EventKind
from holdfast.vocabulary.names import GATE_SERVICE

if TYPE_CHECKING:
    from holdfast.adapters.watch.file_watch import FileWatch, OnChanges, OnFailed
    from holdfast.engine.gate.port_conflicts import PortConflicts
    from holdfast.keeper.protocol.messages import Notice

LOG_EVENTS_AFTER_SECONDS = 0.05
_Facts = dict[str, Any]


class Supervisor:
    """Owns every object of one supervisor."""

    def __init__(
        self,
        link: KeeperLink,
        loop: asyncio.AbstractEventLoop,
        *,
        state: str,
        runtime: str,
        began: float,
    ) -> None:
        self._link = link
        self._loop = loop
        self._state = state
        self._project = project_of(state)
        self._is_closed = False
        self._unlogged: list[Event] = []
        self._build_storage()
        self._build_runners()
        self._build_observers()
        self._build_gate(runtime)
        self._build_mcp_servers(runtime)
        self._build_jobs()
        self._build_application(began)
        self._build_doors()

    def _build_storage(self) -> None:
        """Build the history, the bus that publishes events, and the settings."""
        link = self._link
        self._clock = Clock()
        self._bus = EventBus()
        self._store = StateStore(
            os.path.join(self._state, "holdfast.db"),
            self._loop,
            publish=self._publish,
            forget=link.forget,
            reserve=lambda seq: link.keep(keeper_memory.SEQUENCE, str(seq)),
            on_replaced=self._on_database_replaced,
        )
        self._banners = BannerMemory(link.keep, self._clock.time)
        self._preferences = PreferenceStore(self._store.set_meta)
        self._settings = CurrentSettings(link)
        self._resources = monitor_for(link, self._store, self._clock, self._loop, self._state)

    def _build_runners(self) -> None:
        """Build the roster, and what every start of a service passes through.

        A start asks the port leases first, they ask the host's capacity, and that asks admission.
        """
        link, loop, settings = self._link, self._loop, self._settings
        self._observers = RunObservers()
        self._tasks = Tasks(link, loop)
        self._workflows = WorkflowRunner(link, self._store, self._clock, loop)
        remedies = RecoveryCommands(self._workflows, self._tasks, settings, self._store)
        self._admission = DependencyAdmission(
            loop.call_later, lambda name: name in settings.now.templates
        )
        self._host_capacity = HostCapacity(
            self._admission,
            loop.call_later,
            lambda: self._roster.live_runs + len(self._jobs.running),
        )
        registry = PortRegistry(states_root(os.environ), self._state, self._project)
        self._port_leases = PortLeases(self._host_capacity, registry, link, in_thread_of(loop))
        self._environment = RunnerEnvironment(
            link,
            self._store,
            self._clock,
            random.random,  # jitter, not secrets
            loop.call_later,
            self._port_leases,
            self._observers,
            remedies,
        )
        self._roster = Roster(
            self._environment,
            new_future=loop.create_future,
            on_failed=lambda runner: self._shutdown.on_failed(runner),
            on_changed=lambda: self._subscriptions.update(),
            groups=lambda: settings.now.groups,
        )
        self._port_leases.find_by(self._roster.runners.get)
        self._subscriptions = OutputSubscriptions(link, lambda: self._roster.runners)
        self._secrets = ConfiguredSecrets(self._roster, settings, self._observers, loop.call_soon)

    def _build_observers(self) -> None:
        """Build what follows the runs of services, and register it.

        The observers are called in the order in which they are registered.
        """
        logs, matcher = os.path.join(self._state, "logs"), SharedMatcher(self._link)
        lines = AwaitedLines(logs, matcher, self._subscriptions, self._admission.mark)
        self._admission.lines = lines
        self._probe_checks = ProbeChecks(
            self._tasks, self._subscriptions, matcher, self._loop, logs
        )
        self._health = health = HealthMonitor(self._environment, self._probe_checks)
        self._notify = NotifySockets(self._link, self._loop, self._state, health.hear)
        self._schedules = Schedules(
            self._environment,
            kept=lambda: self._link.kept,
            runners=lambda: self._roster.runners,
            start=self._roster.start_one,
        )
        self._file_watches = FileWatches(
            self._environment, runners=lambda: self._roster.runners, new_watch=self._new_file_watch
        )
        self._alerting = Alerting(
            self._store, self._bus, self._tasks, self._roster, self._environment, self._project
        )
        store = SessionStore(self._state)
        new_future, runs = self._loop.create_future, self._link.runs
        self._sessions = Sessions(self._environment, store, self._roster, runs, new_future)
        for observer in (
            self._sessions.ownership,
            self._port_leases,
            self._notify,
            health,
            self._admission,
            lines,
            self._host_capacity,
            self._resources,
            self._schedules,
            self._file_watches,
            self._alerting.good_runs,
        ):
            self._observers.add(observer)
        capacity = self._host_capacity
        self._resources.on_sample = lambda sample: capacity.take(sample.host)
        health.on_metric = self._resources.take_custom
        for follower in (capacity, self._port_leases, self._resources):
            self._settings.listen(follower.use)
        self._settings.listen(self._alerting.deliveries.on_settings)

    def _build_gate(self, runtime: str) -> None:
        """Build the gate, the process that speaks HTTP, and the sockets that it listens on."""
        self._listeners = Listeners(self._link)
        self._doors: dict[str, str] = {}
        self._door_notes: dict[str, str] = {}
        self._tokens = Tokens(self._state)
        self._survivors = Survivors(self._roster, self._link)
        door = HttpDoor(
            self._listeners,
            self._store,
            state=self._state,
            new_conflicts=self._new_port_conflicts,
            addresses=self._doors,
            notes=self._door_notes,
        )
        self._gate = Gate(
            self._environment,
            self._listeners,
            door,
            state=self._state,
            new_future=self._loop.create_future,
            survivors=self._survivors,
        )
        self._gate.line_socket = os.path.join(runtime, "line.sock")
        self._gate.relay_socket = os.path.join(runtime, "mcp.sock")

    def _build_mcp_servers(self, runtime: str) -> None:
        """Build what makes services servers of tools, for the gate to speak with."""
        lender = Lender(
            os.path.join(runtime, "lend.sock"),
            self._loop,
            channel_of=self._link.channel_of,
            is_gate=self._is_gate,
        )
        self._mcp_servers = McpServers(
            self._environment,
            self._roster,
            self._link,
            CatalogueStore(self._state),
            LoginStore(self._state),
            lender,
            self._sessions.ownership,
        )
        self._observers.add(self._mcp_servers)
        self._probe_checks.open_mcp = partial(checks.open_check, self._mcp_servers)

    def _build_agents(self, approvals: ApprovalQueue, in_thread: ReaderThreads) -> Agents:
        """Build what runs AI backends, and the sessions with them."""
        environ = CallersEnvironment(self._link)
        self._backends = Backends(self._tasks, self._settings, environ, self._project)
        parts = AgentParts(
            environment=self._environment,
            roster=self._roster,
            subscriptions=self._subscriptions,
            approvals=approvals,
            store=AgentStore(self._state),
            in_thread=in_thread,
            logs=os.path.join(self._state, "logs"),
            mcp_command=(sys.executable, "-m", "holdfast", "mcp", "-C", self._project),
        )
        agents = Agents(self._backends, parts)
        self._observers.add(agents)
        return agents

    def _build_jobs(self) -> None:
        """Build the queue of jobs. Its file is opened when it is there, or when a job is added."""
        self._jobs = JobQueue(
            self._link,
            SqliteJobStore(os.path.join(self._state, "jobs.db"), self._clock.steady),
            self._loop,
            self._clock,
            event=self._store.event,
            environ=CallersEnvironment(self._link),
            project=self._project,
        )
        self._settings.listen(self._jobs.use)

    def _is_gate(self, pid: int) -> bool:
        run = self._link.runs.get(self._gate.run_id or "", {})
        return bool(run) and run.get("pid") == pid

    def _build_application(self, began: float) -> None:
        """Build the audit and the context: what the handlers of commands may use."""
        audit = AuditLog(os.path.join(self._state, "audit"), self._keep_audit_head)
        self._anchors = Anchors(
            os.path.basename(self._state),
            lambda: audit.head,
            lambda why: audit.record({"gap": why}),
        )
        self._settings.listen(lambda settings: self._anchors.use(settings.audit_anchor))
        self._shutdown = ShutdownProcedure(
            self._roster, self._store, self._link, self._gate, self._jobs
        )
        in_thread = ReaderThreads()
        authority = self._build_authority()
        self._agents = self._build_agents(authority.approvals, in_thread)
        servers = self._mcp_servers
        inbox = McpInbox(servers.registry, authority.approvals, self._clock)
        servers.on_sighting = lambda *_: inbox.update()
        inbox.on_approved = servers.tell_approved
        self._settings.listen(servers.use)
        self._settings.listen(lambda _: inbox.update(is_quiet=True))
        workspace = Workspace(
            self._tasks,
            in_thread,
            self._link,
            self._settings,
            project=self._project,
            state=self._state,
        )
        self._context = Context(
            roster=self._roster,
            store=self._store,
            link=self._link,
            bus=self._bus,
            subscriptions=self._subscriptions,
            survivors=self._survivors,
            log_sizes=LogSizes(self._roster, self._link, self._clock),
            shutdown=self._shutdown,
            tasks=self._tasks,
            health=self._health,
            resources=self._resources,
            host_capacity=self._host_capacity,
            settings=self._settings,
            secrets=self._secrets,
            scaling=Scaling(self._link, self._roster),
            rolling=Rolling(self._roster, self._admission, self._store),
            schedules=self._schedules,
            workflows=self._workflows,
            alerting=self._alerting,
            banners=self._banners,
            edited_configuration=EditedConfiguration(self._link.kept, in_thread),
            preferences=self._preferences,
            tokens=self._tokens,
            sessions=self._sessions,
            idempotency=Idempotency(self._link, self._clock),
            port_registry=self._port_leases.registry,
            authority=authority,
            audit=audit,
            auditor=Auditor(audit, keep=self._link.keep),
            anchors=self._anchors,
            doors=self._doors,
            door_notes=self._door_notes,
            gate=self._gate,
            mcp_servers=servers,
            mcp_inbox=inbox,
            backends=self._backends,
            agents=self._agents,
            worktrees=Worktrees(self._tasks, CallersEnvironment(self._link), self._state),
            jobs=self._jobs,
            project=self._project,
            state=self._state,
            logs=os.path.join(self._state, "logs"),
            started_mono=began,
            in_thread=in_thread,
            workspace=workspace,
        )

    def _build_authority(self) -> Authority:
        """Build the runtime mode, the lockdown and the approvals."""
        link, store, clock = self._link, self._store, self._clock
        modes = Modes(link, store, os.environ, self._doors)
        self._settings.listen(modes.on_settings)
        later, new_future = self._loop.call_later, self._loop.create_future
        capacity = self._host_capacity
        lockdown = LockdownSwitch(LockdownFile(self._state), link, store, clock)
        lockdown.on_began = modes.counters.locked_down

        def obstacle() -> str | None:
            if lockdown.now is not None:
                return "a lockdown is in force"
            words = capacity.obstacle()
            return None if words is None else f"room on this host: {words}"

        self._jobs.obstacle = obstacle
        self._file_watches.is_held = lambda: lockdown.now is not None
        approvals = ApprovalQueue(link, store, clock, later, new_future)
        approvals.on_decided = modes.count_decision
        followers = ModeFollowers(link, lambda: modes.now, lambda: self._roster.runners)
        self._observers.add(followers)
        modes.on_changed = followers.restart
        return Authority(modes, lockdown, approvals, followers)

    def _build_doors(self) -> None:
        """Build the application and the doors through which commands reach it."""
        context = self._context
        application = Application(context, context.auditor)
        application.counters = self._resources.counters
        recheck = application.streams.recheck
        context.tokens.on_revoked = recheck
        context.sessions.on_closed = recheck
        context.sessions.on_ended = context.auditor.session_ended

        def on_lockdown() -> None:
            recheck()
            self._jobs.ring()

        context.authority.lockdown.on_change = on_lockdown
        self._settings.listen(lambda _: recheck())
        self._line = LineDoor(application)
        self._tcp = ConfiguredTcpDoor(
            application,
            self._listeners,
            self._store.event,
            self._doors,
            self._door_notes,
            self._new_port_conflicts,
        )
        self._settings.listen(self._tcp.on_settings)
        self._settings.listen(self._gate.on_settings)
        self._settings.on_reapplied += [self._tcp.try_again, self._gate.try_again]

    def restore(self, facts: _Facts) -> None:
        """Go on where the last supervisor was.

        An empty memory of the keeper means that there was none. The order matters: numbers of
        events first, then who may do what, then services, then what was under way.
        """
        link, context = self._link, self._context
        kept = dict(link.kept)
        told = [*(facts.get("exits") or ()), *(facts.get("ended_unseen") or ())]
        exits = [ended["run_id"] for ended in told]
        loaded = self._store.load(int(kept.get(keeper_memory.SEQUENCE) or 0), exits)
        self._bus.last_seq = self._store.last_seq
        own_log.restore(kept)
        self._banners.restore(kept)
        self._preferences.restore(loaded.meta)
        self._alerting.restore(kept, loaded.meta, self._store.last_seq)
        if self._store.database.moved_aside:
            self._report_replaced_database()
        self._announce_self(kept)
        context.tokens.load()
        heads = (kept.get(keeper_memory.AUDIT_HEAD), loaded.meta.get("audit_head"))
        context.audit.open(max(heads, key=lambda text: Head.parse(text).seq))
        context.authority.modes.restore(kept)
        context.authority.modes.counters.restore(
            loaded.meta.get(security_counters.KEY),
            partial(self._store.set_meta, security_counters.KEY),
            self._loop.call_later,
        )
        context.authority.lockdown.restore(kept)
        for record in context.authority.approvals.restore(kept):
            context.auditor.void(record, REPLACED)
        context.auditor.restore(kept)
        self._settings.restore(kept)
        self._shutdown.resume(kept)
        rest = self._jobs.take_over(self._gate.take_over(facts))
        self._roster.restore(rest, kept, loaded)
        self._jobs.begin()
        self._gate.leave_behind(self._roster.open_runs.pop(GATE_SERVICE, []))
        context.scaling.restore(kept)
        context.sessions.restore(kept)
        context.mcp_servers.restore(kept)
        context.agents.restore()
        context.idempotency.restore(kept)
        self._tasks.end_leftovers(facts.get("runs") or [])
        self._workflows.restore(kept, facts.get("exits") or [])
        context.authority.followers.resume()
        self._alerting.start()
        if context.workspace.has_pending_changes():
            from holdfast.app.handlers.files import settle

            self._settling = asyncio.ensure_future(settle(context))
        if context.scaling.unfinished():
            from holdfast.app.handlers.instances import resume_scaling

            self._resuming = asyncio.ensure_future(resume_scaling(context))
        if not kept:
            # The first supervisor of this keeper: the keeper searches for survivors while the
            # configuration is read.
            context.survivors.look_ahead()

    async def open_doors(self) -> None:
        """Serve on sockets that the keeper holds, so that no connection is refused."""
        self._notify.on_spares()
        await self._line.open(socket.socket(fileno=os.dup(self._link.held["line"])))
        self._tcp.begin()
        self._gate.begin()

    async def close(self) -> None:
        """Close the doors first, then write what is not written yet."""
        self._is_closed = True
        await self._line.close()
        await self._tcp.close()
        await self._jobs.close()
        self._context.auditor.close()
        await self._anchors.close()
        self._context.authority.modes.counters.save()
        self._alerting.close()
        self._store.close()
        self._log_events()
        self._context.in_thread.close()
        self._context.workspace.close()
        self._resources.close()
        self._file_watches.close()
        self._probe_checks.close()
        self._mcp_servers.close()
        self._agents.close()

    def on_notice(self, notice: Notice) -> None:
        """Pass a notice of the keeper to the object that it concerns."""
        if self._is_closed:
            return
        match notice["notice"]:
            case "exit" | "ended" if self._tasks.on_notice(notice) or self._gate.on_notice(notice):
                pass
            case "exit" | "ended" if self._jobs.on_notice(notice):
                self._subscriptions.on_exit(notice["service"])
            case "exit":
                self._roster.on_notice(notice)
                self._subscriptions.on_exit(notice["service"])
            case "ended" | "end_asked":
                self._roster.on_notice(notice)
            case "grew":
                self._subscriptions.on_grew(notice["service"], notice["position"])
            case "gap":
                is_begin = notice.get("state") == "begin"
                self._store.event(
                    EventKind.OUTPUT_GAP if is_begin else EventKind.OUTPUT_RESUMED,
                    notice["service"],
                    lost=notice.get("lost"),
                    why=notice.get("why"),
                )
            case "shutdown_requested":
                self._shutdown.on_signal(int(notice.get("signal") or 15))
            case _:
                pass

    def _publish(self, events: list[Event]) -> None:
        self._bus.publish(events)
        self._banners.take(events)
        self._resources.counters.stored(events)
        if not self._unlogged:
            # A caller that waits for an answer must not wait for Holdfast's own log, too.
            self._loop.call_later(LOG_EVENTS_AFTER_SECONDS, self._log_events)
        self._unlogged += events

    def _log_events(self) -> None:
        events, self._unlogged = self._unlogged, []
        event_log.write(events)

    def _announce_self(self, kept: dict[str, str]) -> None:
        """Record that Holdfast, or this supervisor, started, and what was replaced."""
        link, event = self._link, self._store.event
        me: dict[str, Any] = {"pid": os.getpid(), "version": holdfast.__version__}
        if keeper_memory.KEEPER not in kept:
            event(EventKind.HOLDFAST_STARTED, **me)
        else:
            if kept[keeper_memory.KEEPER].partition(":")[0] != str(link.keeper_pid):
                event(EventKind.KEEPER_REPLACED, pid=link.keeper_pid)
            if keeper_memory.UPGRADE_FROM in kept:
                versions = {"from": kept[keeper_memory.UPGRADE_FROM], "to": holdfast.__version__}
                event(EventKind.HOLDFAST_UPGRADED, **versions)
                link.keep(keeper_memory.UPGRADE_FROM, None)
            event(EventKind.SUPERVISOR_STARTED, **me)
        link.keep(keeper_memory.KEEPER, f"{link.keeper_pid}:{link.facts.get('started_at')}")

    def _new_file_watch(self, on_changes: OnChanges, on_failed: OnFailed) -> FileWatch:
        """Import the watcher when the first service watches files: most never do."""
        from holdfast.adapters.watch.file_watch import FileWatch

        folder = os.path.realpath(self._state)
        return FileWatch(self._loop, never=(folder,), on_changes=on_changes, on_failed=on_failed)

    def _new_port_conflicts(self) -> PortConflicts:
        """Import the resolver when the first port is taken: it seldom is."""
        from holdfast.engine.gate.port_conflicts import PortConflicts

        return PortConflicts(self._listeners, self._tokens, os.path.basename(self._state))

    def _keep_audit_head(self, head: str) -> None:
        """Keep the head of the audit in two more places, so that a tail cut off is noticed."""
        self._link.keep(keeper_memory.AUDIT_HEAD, head)
        self._store.set_meta("audit_head", head)
        self._anchors.moved()

    def _on_database_replaced(self) -> None:
        self._report_replaced_database()
        self._roster.save_all()

    def _report_replaced_database(self) -> None:
        where = self._store.database.moved_aside
        self._store.event(EventKind.DATABASE_REPLACED, moved_to=where)
