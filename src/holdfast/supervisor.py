"""Composition root of the process that thinks: builds every object once, in order.

Started by the keeper with one end of the link. Ends when the keeper retires it; turns into
a keeper itself when the keeper dies without a word.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import signal
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import holdfast
from holdfast.adapters import http_client, own_log, processes
from holdfast.adapters.audit_log import AuditLog, Head
from holdfast.adapters.keeper_link import KeeperLink
from holdfast.adapters.matching import SharedMatcher
from holdfast.adapters.own_log import logger
from holdfast.adapters.state_store import StateStore
from holdfast.adapters.tokens import Tokens
from holdfast.app import registry
from holdfast.app.application import Application, SupervisedProcesses
from holdfast.app.auditing import Auditor
from holdfast.app.context import Context
from holdfast.app.handlers.instances import resume_scaling
from holdfast.doors.line import LineDoor
from holdfast.doors.network import NetworkDoors
from holdfast.engine import chronicle
from holdfast.engine.admission import Admission
from holdfast.engine.attendants import Attendants
from holdfast.engine.awaited_lines import AwaitedLines
from holdfast.engine.event_bus import EventBus
from holdfast.engine.file_watches import FileWatches
from holdfast.engine.health_monitor import HealthMonitor
from holdfast.engine.host_gate import HostGate
from holdfast.engine.listeners import Listeners
from holdfast.engine.notify_sockets import NotifySockets
from holdfast.engine.ports import Clock, Ports
from holdfast.engine.probing import Probing
from holdfast.engine.recorded_bytes import RecordedBytes
from holdfast.engine.recovery import RecoveryCommands
from holdfast.engine.resource_monitor import monitor_for
from holdfast.engine.rolling import Rolling
from holdfast.engine.roster import Roster
from holdfast.engine.scaling import Scaling
from holdfast.engine.schedules import Schedules
from holdfast.engine.settings import CurrentSettings
from holdfast.engine.shutdown import Shutdown
from holdfast.engine.survivors import Survivors
from holdfast.engine.tasks import Tasks
from holdfast.engine.trouble import Trouble
from holdfast.engine.watches import Watches
from holdfast.engine.workflows import Workflows
from holdfast.vocabulary.events import Event, Kind

if TYPE_CHECKING:
    from holdfast.adapters.file_watch import FileWatch, OnChanges, OnFailed

PRELOAD_AFTER_SECONDS = 1.0
PARENT_SECONDS = 2.0
SWITCH_SECONDS = 0.0005
_log = logger("supervisor")


def main() -> None:
    """Run a supervisor for the keeper that started this process."""
    # Words of the keeper, in pairs; argparse would take 12 ms of the way to the first answer.
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    state, runtime = options["--state"], options["--runtime"]
    link_fd, lock_fd = int(options["--link"]), int(options["--lock"])
    umask = os.umask(0o077)
    for fd in (link_fd, lock_fd):
        os.set_inheritable(fd, False)
    # The loop must not wait for whole slices of the writer's or the importer's time.
    sys.setswitchinterval(SWITCH_SECONDS)
    processes.raise_descriptor_limit()
    processes.lower_oom_score()
    style = os.environ.get("HOLDFAST_LOG_STYLE", "human")
    own_log.open_log(os.path.join(state, "holdfast.log"), style=style)
    supervisor = Supervisor(state, runtime, link_fd, lock_fd, umask)
    asyncio.run(supervisor.run())
    supervisor.after_loop()


class Supervisor:
    """Everything one supervisor process owns."""

    def __init__(self, state: str, runtime: str, link_fd: int, lock_fd: int, umask: int) -> None:
        self._umask = umask
        self._state = state
        self._runtime = runtime
        self._link_fd = link_fd
        self._lock_fd = lock_fd
        self._started_mono = time.monotonic()
        self._keeper_pid = os.getppid()
        self._is_keeper_gone = False
        self._is_built = False
        self._is_running = False
        self._early: list[dict[str, Any]] = []
        self._has_spares: asyncio.Event
        self._end: asyncio.Event

    async def run(self) -> None:
        """Take over, serve until told to go, and leave in order."""
        loop = asyncio.get_running_loop()
        self._end, self._has_spares = asyncio.Event(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end.set)
        self._link = KeeperLink(
            socket.socket(fileno=self._link_fd),
            loop,
            on_notice=self._on_notice,
            on_gone=self._on_keeper_gone,
        )
        beginning = asyncio.create_task(self._begin(loop))
        ending = asyncio.create_task(self._end.wait())
        # A keeper that dies while we begin will never answer what we wait for.
        await asyncio.wait({beginning, ending}, return_when=asyncio.FIRST_COMPLETED)
        if beginning.done():
            beginning.result()
            await ending
        else:
            beginning.cancel()
        if self._is_built:
            await self._close()

    async def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        facts = await self._link.hello(holdfast.__version__)
        self._build(loop)
        self._is_built = True
        self._restore(facts)
        if facts.get("kept") == {}:
            # The first supervisor of this keeper; the keeper looks while we read a configuration.
            self._context.survivors.look_ahead()
        await self._open_door()
        _log.info("supervisor %s is up, pid %d", holdfast.__version__, os.getpid())
        loop.call_later(PRELOAD_AFTER_SECONDS, self._preload)

    def after_loop(self) -> None:
        """If the keeper died, become it; nothing else runs in this process any more."""
        if not self._is_keeper_gone:
            return
        if not self._is_built or not processes.parent_is_gone(self._keeper_pid, PARENT_SECONDS):
            # Two keepers would fight over the same services. The one that lives starts another
            # supervisor; and without its table we could not take its place.
            _log.error("the link to keeper %d broke; leaving", self._keeper_pid)
            sys.exit(1)
        self._link.turn_into_keeper(
            lock_fd=self._lock_fd, state=self._state, runtime=self._runtime, umask=self._umask
        )

    def _build(self, loop: asyncio.AbstractEventLoop) -> None:
        link, bus = self._link, EventBus()

        def publish(events: list[Event]) -> None:
            bus.publish(events)
            chronicle.tell(events)
            self._resources.tallies.stored(events)

        store = StateStore(
            os.path.join(self._state, "holdfast.db"),
            loop,
            publish=publish,
            forget=link.forget,
            reserve=lambda seq: link.keep("seq", str(seq)),
            on_replaced=self._on_database_replaced,
        )
        clock = Clock()
        self._resources = monitor_for(link, store, clock, loop, self._state)
        # Jitter, not secrets.
        attendants, settings = Attendants(), CurrentSettings(link)
        tasks, workflows = Tasks(link, loop), Workflows(link, store, clock, loop)
        remedies = RecoveryCommands(workflows, tasks, settings, store)
        admission = Admission(loop.call_later, lambda name: name in settings.now.templates)
        gate = HostGate(admission, loop.call_later, lambda: roster.live_runs)
        ports = Ports(
            link, store, clock, random.random, loop.call_later, gate, attendants, remedies
        )
        roster = Roster(
            ports,
            new_future=loop.create_future,
            on_failed=lambda runner: shutdown.on_failed(runner),
            on_changed=lambda: watches.update(),
            groups=lambda: settings.now.groups,
        )
        watches = Watches(link, lambda: roster.runners)
        logs = os.path.join(self._state, "logs")
        matcher = SharedMatcher(link)
        admission.lines = lines = AwaitedLines(logs, matcher, watches, admission.mark)
        self._probing = Probing(tasks, watches, matcher, loop, logs)
        health = HealthMonitor(ports, self._probing)
        self._notify = NotifySockets(link, loop, self._state, health.hear)
        attendants.add(self._notify)
        attendants.add(health)
        attendants.add(admission)
        attendants.add(lines)
        attendants.add(gate)
        attendants.add(self._resources)
        self._resources.on_seen = lambda seen: gate.take(seen.host) if seen.host else None
        health.on_metric = self._resources.take_custom
        settings.listen(gate.use)
        settings.listen(self._resources.use)
        shutdown = Shutdown(roster, store, link)
        schedules = Schedules(
            ports, kept=lambda: link.kept, runners=lambda: roster.runners, start=roster.start_one
        )
        attendants.add(schedules)
        self._file_watches = FileWatches(
            ports, runners=lambda: roster.runners, new_watch=self._new_file_watch
        )
        attendants.add(self._file_watches)
        self._tasks, self._settings = tasks, settings
        self._trouble = Trouble(store, bus, tasks, roster, ports, self._project())
        settings.listen(self._trouble.deliveries.on_settings)
        attendants.add(self._trouble.good_runs)
        self._store, self._bus, self._roster, self._watches = store, bus, roster, watches
        self._shutdown = shutdown
        self._context = Context(
            roster=roster,
            store=store,
            link=link,
            bus=bus,
            watches=watches,
            survivors=Survivors(roster, link),
            recorded=RecordedBytes(roster, link, clock),
            shutdown=shutdown,
            tasks=self._tasks,
            health=health,
            resources=self._resources,
            gate=gate,
            settings=settings,
            scaling=Scaling(link, roster),
            rolling=Rolling(roster, admission, store),
            schedules=schedules,
            workflows=workflows,
            trouble=self._trouble,
            tokens=Tokens(self._state),
            audit=AuditLog(os.path.join(self._state, "audit"), self._keep_audit_head),
            project=self._project(),
            state=self._state,
            logs=logs,
            started_mono=self._started_mono,
        )
        auditor = Auditor(self._context.audit)
        application = Application(self._context, SupervisedProcesses(self._context), auditor)
        application.tallies = self._resources.tallies
        self._door = LineDoor(application)
        self._network = NetworkDoors(application, Listeners(link), store.event)
        self._context.doors = self._network.addresses
        settings.listen(self._network.on_settings)

    def _restore(self, facts: dict[str, Any]) -> None:
        """Go on where the last supervisor was; the keeper's memory says whether there was one."""
        kept = dict(self._link.kept)
        exits = [ended["run_id"] for ended in facts.get("exits") or ()]
        loaded = self._store.load(int(kept.get("seq") or 0), exits)
        self._bus.last_seq = self._store.last_seq
        if level := kept.get("log_level"):
            own_log.set_level(level)
        if style := kept.get("log_format"):
            own_log.set_style(style)
        self._trouble.restore(kept, loaded.meta, self._store.last_seq)
        if self._store.database.moved_aside:
            self._tell_moved_aside()
        self._announce_self(kept)
        self._context.tokens.load()
        heads = (kept.get("audit_head"), loaded.meta.get("audit_head"))
        self._context.audit.open(max(heads, key=lambda text: Head.parse(text).seq))
        self._settings.restore(kept)
        self._shutdown.resume(kept)
        self._roster.restore(facts, kept, loaded)
        self._context.scaling.restore(kept)
        self._tasks.end_leftovers(facts.get("runs") or [])
        self._context.workflows.restore(kept, facts.get("exits") or [])
        self._is_running = True
        self._trouble.start()
        early, self._early = self._early, []
        for notice in early:
            self._on_notice(notice)
        if self._context.scaling.unfinished():
            self._resuming = asyncio.ensure_future(resume_scaling(self._context))

    def _new_file_watch(self, on_changes: OnChanges, on_failed: OnFailed) -> FileWatch:
        """Loaded when the first service watches files: most never do."""
        from holdfast.adapters.file_watch import FileWatch

        loop = asyncio.get_running_loop()
        folder = os.path.realpath(self._state)
        return FileWatch(loop, never=(folder,), on_changes=on_changes, on_failed=on_failed)

    def _keep_audit_head(self, head: str) -> None:
        """In the keeper's memory and in the history: who cuts the audit's tail is found out."""
        self._link.keep("audit_head", head)
        self._store.set_meta("audit_head", head)

    def _announce_self(self, kept: dict[str, str]) -> None:
        keeper = f"{self._link.keeper_pid}:{self._link.facts.get('started_at')}"
        if "keeper" not in kept:
            self._store.event(Kind.HOLDFAST_STARTED, pid=os.getpid(), version=holdfast.__version__)
        else:
            if kept["keeper"].partition(":")[0] != str(self._link.keeper_pid):
                self._store.event(Kind.KEEPER_REPLACED, pid=self._link.keeper_pid)
            if "upgrade_from" in kept:
                versions = {"from": kept["upgrade_from"], "to": holdfast.__version__}
                self._store.event(Kind.HOLDFAST_UPGRADED, **versions)
                self._link.keep("upgrade_from", None)
            self._store.event(
                Kind.SUPERVISOR_STARTED, pid=os.getpid(), version=holdfast.__version__
            )
        self._link.keep("keeper", keeper)

    async def _open_door(self) -> None:
        """Serve on the socket that the keeper holds, so that no connection is refused."""
        await self._has_spares.wait()
        self._notify.on_spares()
        await self._door.open(socket.socket(fileno=os.dup(self._link.held["line"])))
        self._network.begin()

    async def _close(self) -> None:
        self._is_running = False
        await self._door.close()
        await self._network.close()
        self._trouble.close()
        self._store.close()
        self._context.close()
        self._resources.close()
        self._file_watches.close()
        self._probing.close()
        if not self._is_keeper_gone:
            self._link.flush()
            self._link.close()

    def _on_notice(self, notice: dict[str, Any]) -> None:
        word = notice["notice"]
        if word == "spares_done":
            self._has_spares.set()
            return
        if word == "retire":
            self._end.set()
            return
        if not self._is_running:
            self._early.append(notice)
            return
        match word:
            case "exit" | "ended" if self._tasks.on_notice(notice):
                pass
            case "exit":
                self._roster.on_notice(notice)
                self._watches.on_exit(notice["service"])
            case "ended":
                self._roster.on_notice(notice)
            case "grew":
                self._watches.on_grew(notice["service"], notice["position"])
            case "gap":
                is_begin = notice.get("state") == "begin"
                self._store.event(
                    Kind.OUTPUT_GAP if is_begin else Kind.OUTPUT_RESUMED,
                    notice["service"],
                    lost=notice.get("lost"),
                    why=notice.get("why"),
                )
            case "shutdown_requested":
                self._shutdown.on_signal(int(notice.get("signal") or 15))
            case _:
                pass

    def _on_keeper_gone(self) -> None:
        """It closed the link: on our way out that is the end, else we take its place."""
        if not self._end.is_set():
            self._is_keeper_gone = True
            self._end.set()

    def _on_database_replaced(self) -> None:
        self._tell_moved_aside()
        self._roster.save_all()

    def _tell_moved_aside(self) -> None:
        where = self._store.database.moved_aside
        self._store.event(Kind.DATABASE_REPLACED, moved_to=where)

    def _preload(self) -> None:
        """Load what is needed later now, so that code never mixes with newly installed files."""
        gc.freeze()
        gc.enable()
        threading.Thread(target=_import_the_rest, name="preload", daemon=True).start()

    def _project(self) -> str:
        try:
            with open(os.path.join(self._state, "keeper.json"), encoding="utf-8") as file:
                return str(json.load(file).get("project") or "")
        except (OSError, ValueError):
            return ""


def _import_the_rest() -> None:
    from holdfast.app.handlers import explaining, reloading

    try:
        processes.preload()
        http_client.preload()
        registry.preload()
        reloading.preload()
        explaining.preload()
    except Exception:  # noqa: BLE001 - a broken install must not end what runs
        _log.exception("something could not be loaded ahead of time")


if __name__ == "__main__":
    main()
