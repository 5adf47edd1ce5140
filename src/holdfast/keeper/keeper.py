"""The keeper as a whole: everything it holds, its connections, and its end.

Builds the parts and carries facts between them. `protocol/words.py` answers the requests of peers,
and `runs/children.py` keeps the runs.
"""

from __future__ import annotations

import os
import signal
import socket
import time

import holdfast
from holdfast.keeper import lock, stderr
from holdfast.keeper.descriptors import Descriptors
from holdfast.keeper.memory import Memory
from holdfast.keeper.notify_sockets import NotifyReader
from holdfast.keeper.processes.cgroups import Cgroups, hash_of
from holdfast.keeper.processes.unclaimed import UnclaimedProcesses
from holdfast.keeper.protocol.connections import ListeningSocket, PeerConnection, hand_parts, listen
from holdfast.keeper.protocol.words import Words
from holdfast.keeper.recording.logs import ServiceLogs
from holdfast.keeper.retry import Retry
from holdfast.keeper.runs.children import Children
from holdfast.keeper.runs.journal import Journal
from holdfast.keeper.runs.run import DEFAULT_GRACE_SECONDS
from holdfast.keeper.runs.run_records import RunRecords
from holdfast.keeper.supervisor_launcher import SupervisorChild
from holdfast.system import kernel_files, lean_json, own_process, peers, processes, run_marks
from holdfast.system.private_files import make_folder, read_plain, remove_torn, replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from holdfast.keeper.handover import Table
    from holdfast.keeper.loop import Loop
    from holdfast.keeper.options import Options
    from holdfast.keeper.protocol.messages import (
        GapNotice,
        GapState,
        KeeperFacts,
        Notice,
        RunFacts,
    )
    from holdfast.keeper.runs.run import HeldRun, Origin
    from holdfast.keeper.supervisor_launcher import Launcher
    from holdfast.system.processes import Process

PROTOCOL = 1
_LOOK_SECONDS = 1.0
_MAX_CEILINGS = 20
_LAST_REQUESTS_SECONDS = 3.0
_READY_SECONDS = 30.0
_NOTED_SECONDS = 3.0
_HOPELESS_FAILURES = 3


class Keeper:
    """Everything one keeper process holds."""

    _standby: PeerConnection | None = None
    """A supervisor that was replaced and stands by until the next one could take our place."""

    def __init__(
        self,
        options: Options,
        loop: Loop,
        shared: dict[str, int],
        table: Table,
        launcher: Launcher,
    ) -> None:
        """`shared`: descriptors that every supervisor gets, too."""
        self._options = options
        self.loop = loop
        self._shared = shared
        self.started_at = float(table.get("started_at") or time.time())
        self.memory = Memory(table.get("kept"))
        self.memory.on_kept = self._on_kept
        self.held = Descriptors(table.get("held"))
        self.link: PeerConnection | None = None
        self._late: PeerConnection | None = None
        self.peers: list[PeerConnection] = []
        self.exit_code = 0
        self.is_shutting_down = False
        self.is_shutdown_noted = False
        """Whether the supervisor has said that it carries out the shutdown we were asked for."""
        self._shutdown_signals = 0
        self.spawner, launcher.memory = launcher.spawner, self.memory
        self._ceiling = launcher.ceiling
        self.ceilings = self._find_ceilings()
        own_process.set_subreaper()
        kernel_files.reserve()
        self.cgroups = Cgroups(hash_of(options.state))
        # A keeper that takes over processes must go on, whatever fails. A fresh one may fail.
        self._is_successor = bool(table)
        self._retry = Retry(loop)
        self._unrestored: list[Any] = []
        logs_folder = os.path.join(options.state, "logs")
        self._begin("making the folder of logs", lambda: make_folder(logs_folder))
        untold: list[GapNotice] = table.get("untold_gaps") or []
        self._untold_gaps = {(gap["service"], gap["state"]): gap for gap in untold}
        self.logs = ServiceLogs(logs_folder, loop, self._on_grew, self._on_gap)
        self.journal = Journal(
            os.path.join(options.state, "exits.jsonl"),
            inherited=table.get("journal"),
            may_wait=self._is_successor,
            on_refused=lambda: self._retry.later("writing exits.jsonl", self._retry_journal),
        )
        self.children = Children(
            loop,
            self.spawner,
            self.logs,
            self.cgroups,
            self.journal,
            self.held,
            self.announce,
            lambda runs: RunRecords(
                os.path.join(options.state, "runs.jsonl"),
                runs,
                is_inherited="journal" in table,
                on_refused=lambda: self._retry.later(
                    "writing runs.jsonl", lambda: self.children.records.retry()
                ),
            ),
        )
        self.children.exits.has_requests = self._has_requests
        self._unclaimed = UnclaimedProcesses(
            self.children, self.cgroups, self.ceilings, is_successor=self._is_successor
        )
        self.notify_sockets = NotifyReader(loop, self.held, self.memory, self.children.runs)
        self.supervisor = SupervisorChild(loop, launcher, self.children, self._on_link)
        self._words = Words(self)
        self._door: ListeningSocket | None = None
        self._host: Any = {
            "cgroup": self.cgroups.root,
            "cgroup_kill": self.cgroups.can_kill,
            "ceilings": self.ceilings,
            **processes.facts(),
        }

    def _find_ceilings(self) -> list[int]:
        """Our own ceiling, and those of earlier keepers that were killed: their orphans may live.
        Empty if some of our processes were started without a ceiling."""
        if self._ceiling is None:
            return []
        try:
            note = lean_json.loads(read_plain(self._description_path()))
        except (OSError, ValueError):
            note = {}
        if not isinstance(note, dict) or note.get("boot_id") != processes.boot_id():
            return [self._ceiling]
        noted = run_marks.ceilings_of(note)
        earlier = [ceiling for ceiling in noted if ceiling != self._ceiling]
        return [self._ceiling, *earlier][:_MAX_CEILINGS]

    # Doors.

    def open(self, listener: socket.socket | None = None) -> None:
        """Listen for peers, and at the supervisor's socket on its behalf. Write keeper.json."""
        self._begin("opening line.sock", self._open_line)
        self._begin("opening keeper.sock", lambda: self._open_door(listener))
        self._begin("writing keeper.json", self._write_description)
        remove_torn(self._options.state)
        self.children.placement.sweep()
        if self.link is None:
            self.notify_sockets.listen()

    def _begin(self, what: str, do: Callable[[], None]) -> None:
        if self._is_successor:
            self._retry.attempt(what, do)
        else:
            do()

    def _open_line(self) -> None:
        if self.held.get("line") is None:
            make_folder(self._options.runtime)
            self.held.hold("line", listen(self._socket_path("line")).detach())

    def _open_door(self, listener: socket.socket | None) -> None:
        if listener is None:
            make_folder(self._options.runtime)
            listener = listen(self._socket_path("keeper"))
        self._door = ListeningSocket(listener, self.loop, self._on_peer)

    def reopen(self) -> None:
        """Make files of ours anew that were deleted, as cleaners of temporary folders and logouts
        do."""
        self._retry.attempt("writing its files again", self._rewrite)
        self._retry.attempt("opening the sockets again", self._reopen)

    def _rewrite(self) -> None:
        if self.is_shutting_down:
            return
        make_folder(self._options.state)
        lock.renew(self._options.state, self._shared["lock"])
        if not os.path.exists(self._description_path()):
            self._write_description()
        self.journal.renew()
        self.children.records.renew()

    def _reopen(self) -> None:
        if self.is_shutting_down or self.supervisor.state == "retiring":
            return
        if not os.path.exists(self._socket_path("keeper")):
            if self._door is not None:
                self._door.close()
                self._door = None
            self._open_door(None)
        if not os.path.exists(self._socket_path("line")):
            self.held.release("line")
            self._open_line()
            if self.supervisor.state != "off":
                self.retire_and_relaunch()

    def _retry_journal(self) -> None:
        self.journal.retry()
        if not self.journal.is_settled:
            raise OSError("the file refuses, the exits wait in memory")

    def _on_link(self, fd: int) -> None:
        late, link = self.link, self.set_link(socket.socket(fileno=fd))
        if late is not None:
            # The dead supervisor's last requests are read first: its successor must know of them.
            self._late = late
            link.wait()
            self.loop.call_later(_LAST_REQUESTS_SECONDS, late.close)
            self._on_absent()

    def set_link(self, sock: socket.socket) -> PeerConnection:
        self.link = self.new_link(sock)
        return self.link

    def new_link(self, sock: socket.socket) -> PeerConnection:
        return PeerConnection(sock, "supervisor", self.loop, self._words.handle, self._on_closed)

    def _has_requests(self) -> bool:
        return self.link is not None and self.link.has_requests

    def _on_peer(self, sock: socket.socket, process: Process | None) -> None:
        runs = self.children.runs
        standing = peers.standing_of(
            process,
            {run_id: (run.pid, run.start_time) for run_id, run in runs.items()},
            cgroup_root=self.cgroups.root,
            keeper_pid=os.getpid(),
            supervisor_pid=self.supervisor.pid,
            ceilings=self.ceilings,
        )
        # In doubt it is supervised: only a person may direct the keeper.
        self._add_peer(sock, standing.is_supervised is not False)

    def _add_peer(self, sock: socket.socket, is_agent: bool) -> PeerConnection:
        handle, on_closed = self._words.handle, self._on_closed
        peer = PeerConnection(sock, "control", self.loop, handle, on_closed, is_agent)
        self.peers.append(peer)
        return peer

    def _on_closed(self, connection: PeerConnection) -> None:
        if connection is self.link:
            self.link = None
            self._on_absent()
            self.supervisor.hung_up()
        elif connection is self._late:
            self._late = None
            if self.link is not None:
                self.link.go_on()
        elif connection is self._standby:
            self._standby = None
            self.supervisor.insist_on_leave()
        elif connection in self.peers:
            self.peers.remove(connection)
        self.update_watches()

    def _on_absent(self) -> None:
        self.children.supervisor_present(False)
        self.notify_sockets.listen()

    def update_watches(self) -> None:
        connections = [*self.peers, *([self.link] if self.link else [])]
        self.logs.watch({service for peer in connections for service in peer.watched})

    # Telling.

    def announce(self, notice: Notice) -> None:
        """Send a notice to the supervisor, and to every peer that has said hello."""
        self.tell_supervisor(notice)
        if self._standby is not None:
            self._standby.send(dict(notice))
        for peer in list(self.peers):
            if peer.is_greeted:
                peer.send(dict(notice))

    def tell_supervisor(self, notice: Notice) -> None:
        if self.link is not None and self.link.is_greeted:
            self.link.send(dict(notice))

    def _on_kept(self, values: Mapping[str, str | None]) -> None:
        if self._standby is not None:
            self._standby.send({"notice": "kept", "kept": dict(values)})

    def _on_grew(self, service: str, position: int) -> None:
        for connection in [*self.peers, *([self.link] if self.link else [])]:
            if service in connection.watched:
                connection.grew(service, position)

    def _on_gap(self, service: str, state: GapState, lost: int | None, why: str) -> None:
        notice: GapNotice = {
            "notice": "gap",
            "service": service,
            "state": state,
            "lost": lost,
            "why": why,
        }
        self.announce(notice)
        if self.link is None or not self.link.is_greeted:
            if before := self._untold_gaps.pop((service, state), None):
                earlier = before["lost"]
                is_known = lost is not None and earlier is not None
                notice["lost"] = (lost or 0) + (earlier or 0) if is_known else None
            self._untold_gaps[service, state] = notice

    def facts(self) -> KeeperFacts:
        return {
            "protocol": PROTOCOL,
            "version": holdfast.__version__,
            "pid": os.getpid(),
            "boot_id": processes.boot_id(),
            "started_at": self.started_at,
            "host": self._host,
            "runs": [run.facts() for run in self.children.runs.values()],
            "exits": self.journal.exits(),
            "held": self.held.names(),
            "supervisor": self.supervisor.facts(),
            "unclaimed": self._unclaimed.facts(),
        }

    def recorded(self) -> KeeperFacts:
        """The few facts that `status` asks for again and again."""
        runs: list[RunFacts] = [
            {"run_id": run.run_id, "service": run.service, "log_bytes": run.log_bytes}
            for run in self.children.runs.values()
        ]
        return {"runs": runs, "unclaimed": self._unclaimed.facts()}

    def hand_spares(self, connection: PeerConnection) -> None:
        """Send the supervisor copies of all descriptors that must survive this process, and notices
        that nobody got. Held sockets come first: there may be too few descriptors for all."""
        for name, fd in self.held:
            connection.hand({"notice": "held", "name": name}, fd)
        for run in self.children.runs.values():
            hand_parts(connection, {"notice": "spare", "run_id": run.run_id}, run)
        connection.send({"notice": "spares_done"})
        self.supervisor.greeted()
        if self._standby is not None:
            # A supervisor of an earlier version does not say that it is ready.
            self.loop.call_later(_READY_SECONDS, lambda: self._trust(connection))
        untold, self._untold_gaps = self._untold_gaps, {}
        for notice in untold.values():
            connection.send(notice)

    # Ending.

    def on_shutdown_signal(self, number: int) -> None:
        """SIGTERM or SIGINT. The first is the supervisor's to carry out, in the order of its
        services, if it is there and answers. Asked again, the keeper ends everything itself."""
        self._shutdown_signals += 1
        if self._shutdown_signals == 1 and self.link is not None and self.link.is_greeted:
            self.announce({"notice": "shutdown_requested", "signal": number})
            self.loop.call_later(_NOTED_SECONDS, self._ensure_shutdown)
            return
        self.shutdown(0.0 if self._shutdown_signals > 2 else None)

    def _ensure_shutdown(self) -> None:
        """End everything without the supervisor if it hangs, or dies and cannot start."""
        if self.is_shutting_down or self.supervisor.state == "off":
            return
        if self.is_shutdown_noted and self.supervisor.failures < _HOPELESS_FAILURES:
            self.loop.call_later(_NOTED_SECONDS, self._ensure_shutdown)
            return
        self.abandon_supervisor()
        self.shutdown()

    def abandon_supervisor(self) -> None:
        """Kill a supervisor that does not answer, and launch no other."""
        self.supervisor.retire(lambda: None)
        if self.supervisor.pid is not None:
            os.kill(self.supervisor.pid, signal.SIGKILL)

    def check_shutdown(self, grace: Any, exit_code: Any) -> None:
        """Raise ValueError if these make no sense, before anything has begun."""
        if grace is not None and not (isinstance(grace, (int, float)) and grace >= 0):
            raise ValueError(f"{grace!r} is no grace in seconds")
        if exit_code is not None and not isinstance(exit_code, int):
            raise ValueError(f"{exit_code!r} is no exit code")

    def shutdown(self, grace: float | None = None, exit_code: int | None = None) -> None:
        """End every run, then the supervisor, then this process."""
        self.check_shutdown(grace, exit_code)
        if exit_code is not None:
            self.exit_code = exit_code
        self.is_shutting_down = True
        self.children.exits.on_empty = lambda: self._on_runs_ended(grace)
        for run in list(self.children.runs.values()):
            seconds = run.stop["grace"] if grace is None else grace
            self.children.exits.end(run, run.stop["signal"], seconds)
        self._on_runs_ended(grace)

    def _on_runs_ended(self, grace: float | None) -> None:
        if self.children.runs:
            return
        self.children.exits.on_empty = None
        self._unclaimed.end(
            DEFAULT_GRACE_SECONDS if grace is None else grace, self.loop, self._retire_supervisor
        )

    def _retire_supervisor(self) -> None:
        self.dismiss_standby()
        self.supervisor.retire(
            self.tell_to_retire, lambda: self.supervisor.when_alone(self.loop.stop)
        )

    def tell_to_retire(self) -> None:
        if self.link is not None:
            self.link.send({"notice": "retire"})

    def retire_and_relaunch(self) -> None:
        """Replace the supervisor. The old one stands by until the next one could take our place, so
        that somebody holds the spares at every moment."""
        self.supervisor.retire(self._tell_to_stand_by, self.supervisor.launch)

    def _tell_to_stand_by(self) -> None:
        if self.link is not None:
            self.link.send({"notice": "retire", "standby": True})

    def stand_by(self) -> None:
        """The supervisor has finished. It waits until it is dismissed, and the next is launched."""
        if (standby := self.link) is None:
            return
        self.dismiss_standby()
        self._standby, self.link = standby, None
        standby.watched.clear()
        self.update_watches()
        self._on_absent()
        self.supervisor.stand_by()

    def _trust(self, connection: PeerConnection) -> None:
        if connection is self.link:
            self.dismiss_standby()

    def dismiss_standby(self) -> None:
        """Send the supervisor that stands by away: another one can take our place, or nothing is
        left to take over."""
        if self._standby is not None:
            self._standby.send({"notice": "leave"})
            self.supervisor.insist_on_leave()

    def close(self) -> None:
        """Remove everything that looks like a living keeper. keeper.json stays if processes of a
        killed keeper are left, because it tells their ceilings."""
        self.logs.close()
        self.journal.close()
        self.children.records.close()
        self.children.placement.remove_stale()
        self.cgroups.close()
        sockets = (*map(self._socket_path, ("keeper", "line")), *self.notify_sockets.addresses())
        notes = () if self.children.unlisted.are_left() else (self._description_path(),)
        for name in (*notes, *sockets):
            if os.path.exists(name):
                os.unlink(name)
        try:
            os.rmdir(self._options.runtime)
        except OSError:
            pass  # a file of another program is in it

    # Handing over.

    def options(self, import_path: list[str]) -> list[str]:
        return self._options.arguments(import_path or self._options.import_path)

    def table(self) -> Table:
        """The table for the next program image (see `handover`)."""
        link = [{**self.link.state(), "is_link": True}] if self.link is not None else []
        if self._standby is not None:
            link.append({**self._standby.state(), "is_standby": True})
        return {
            **self._shared,
            "listener": self._door.fileno() if self._door else None,
            "state": self._options.state,
            "runtime": self._options.runtime,
            "started_at": self.started_at,
            "kept": self.memory.values,
            "held": self.held.table(),
            "nofile": self.spawner.nofile,
            "oom_score": self.spawner.oom_score,
            "ceiling": self._ceiling,
            "umask": self.spawner.umask,
            "logs": self.logs.states(),
            "untold_gaps": [*self._untold_gaps.values()],
            "journal": self.journal.state(),
            "runs": self.children.table() + self._unrestored,
            "supervisor": self.supervisor.facts(),
            "connections": link + [peer.state() for peer in self.peers],
            "answer": self._words.pending_upgrade(),
        }

    def restore_runs(self, table: Table) -> None:
        states = table.get("logs") or {}
        for facts in table.get("runs") or ():
            try:
                self.children.restore(facts, states.get(facts["service"]))
            except Exception as error:  # noqa: BLE001 - the other runs must go on
                self._on_unrestored(facts, error)
        try:
            self.children.unlisted.take_pending(table.get("pending") or [])
        except Exception as error:  # noqa: BLE001 - the runs that are known must go on
            stderr.on_fault(type(error), error, error.__traceback__)
        self.children.records.forget_known()

    def _on_unrestored(self, facts: Origin, error: Exception) -> None:
        """A run could not be restored, but its process lives. Its entry stays in the table, and its
        descriptors stay open."""
        stderr.on_fault(type(error), error, error.__traceback__)
        run = self.children.runs.get(facts.get("run_id") or "")
        if run is None:
            what = "it is out of control until the next upgrade, which tries again"
            self._unrestored.append(facts)
        else:
            what = "it can be ended, but its output may not be recorded"
            for part, fd in (facts.get("parts") or {}).items():
                if _is_open(fd):
                    run.parts.setdefault(part, fd)
            if not run.is_child:
                self._poll_exit(run)
        name = f"{facts.get('service')} (process {facts.get('pid')}, run {facts.get('run_id')})"
        stderr.say(f"taking over {name} failed: {what}")

    def _poll_exit(self, run: HeldRun) -> None:
        if run.exit is None and processes.start_time(run.pid) == run.start_time:
            self.loop.call_later(_LOOK_SECONDS, lambda: self._poll_exit(run))
        else:
            status = processes.zombie_exit_status(run.pid, run.start_time)
            self.children.exits.foreign_exit(run, status)

    def restore_connections(self, table: Table) -> None:
        for state in table.get("connections") or ():
            sock = socket.socket(fileno=state["fd"])
            if state.get("is_link"):
                connection = self.set_link(sock)
                self.children.supervisor_present(state["is_greeted"])
            elif state.get("is_standby"):
                connection = self._standby = self.new_link(sock)
            else:
                connection = self._add_peer(sock, state.get("is_supervised", True))
            try:
                connection.restore(state)
            except Exception as error:  # noqa: BLE001 - only half-read requests of one peer are lost
                stderr.on_fault(type(error), error, error.__traceback__)
            if (answer := table.get("answer")) and answer["fd"] == state["fd"]:
                facts = {"version": holdfast.__version__, "pid": os.getpid()}
                connection.send({"id": answer["id"], "ok": True, **facts})
        self.update_watches()

    # Description.

    def _socket_path(self, name: str) -> str:
        return os.path.join(self._options.runtime, f"{name}.sock")

    def _description_path(self) -> str:
        return os.path.join(self._options.state, "keeper.json")

    def _write_description(self) -> None:
        description = {
            "pid": os.getpid(),
            "start_time": processes.start_time(os.getpid()),
            "boot_id": processes.boot_id(),
            "version": holdfast.__version__,
            "protocol": PROTOCOL,
            "project": self._options.project,
            "state": self._options.state,
            "runtime": self._options.runtime,
            "started_at": self.started_at,
            "ceilings": self.ceilings,
        }
        data = lean_json.encoded(description) + b"\n"
        replace_file(self._description_path(), data, is_synced=False)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
