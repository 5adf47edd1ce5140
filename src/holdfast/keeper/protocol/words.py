"""The words of the protocol: one method answers each request that a peer may send.

Translates between messages and the parts of the keeper that do the work. Turns every failure into
a reply with a code, and lets none reach the loop. `messages` has the type of every request.
"""

from __future__ import annotations

import binascii
import os
import sys

from holdfast.keeper.memory import DESIRED
from holdfast.keeper.processes.unlisted_runs import reopen
from holdfast.keeper.protocol.connections import close_all, hand_parts
from holdfast.keeper.runs import stdio
from holdfast.keeper.runs.launch import SpawnError
from holdfast.keeper.runs.run import log_of, stop_of
from holdfast.keeper.upgrade import UpgradeAttempt, UpgradeError, own_package, own_prefix
from holdfast.system import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.protocol import messages
    from holdfast.keeper.protocol.connections import PeerConnection
    from holdfast.keeper.protocol.wire import Received
    from holdfast.keeper.runs.run import HeldRun

    Answer = Mapping[str, Any]
    Word = Callable[["Words", PeerConnection, Any, list[int]], Answer | None]

CONTROL_WORDS = frozenset((
    "hello", "list", "end", "stay_off", "signal", "tree", "supervise", "shutdown", "upgrade",
    "prune", "watch",
))  # fmt: skip
HARMLESS_WORDS = frozenset(["hello", "list"])
_AGENTS_LOOK_ONLY = (
    "a supervised run may not direct its own keeper, nor may a peer whose process is gone"
)


class Refusal(Exception):
    """A request that cannot be done, with a code that programs can act on."""

    def __init__(self, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.facts = {"code": code, "message": message, **more}


class Words:
    """Answers requests. The method `do_WORD` does what WORD asks, and returns the reply, or None if
    the reply comes later."""

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self.upgrade: tuple[PeerConnection, Any] | None = None

    def handle(self, connection: PeerConnection, message: Received, fds: list[int]) -> None:
        """Answer a request. Descriptors that its word does not take are closed."""
        name = message.get("id")
        answer: Answer | None
        try:
            word = self._find(connection, message.get("do"), "kept" in message)
            if kept := message.get("kept"):
                self.keeper.memory.keep(kept)
            answer = word(self, connection, message, fds)
        except Refusal as refusal:
            answer = {"ok": False, "error": refusal.facts}
        except SpawnError as error:
            facts = {"code": "spawn_failed", "message": str(error)}
            answer = {"ok": False, "error": {**facts, "stage": error.stage, "errno": error.errno}}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            why = f"{type(error).__name__}: {error}"
            answer = {"ok": False, "error": {"code": "bad_request", "message": why}}
        except Exception as error:  # noqa: BLE001 - the border between peers and the loop
            sys.excepthook(*sys.exc_info())
            why = f"{type(error).__name__}: {error}"
            answer = {"ok": False, "error": {"code": "internal_error", "message": why}}
        close_all(fds)
        if answer is not None:
            connection.send({"id": name, "ok": True, **answer})
            if message.get("do") == "hello" and answer.get("ok", True):
                self._greet(connection)

    def pending_upgrade(self) -> dict[str, Any] | None:
        if self.upgrade is None or not self.upgrade[0].is_open:
            return None
        return {"fd": self.upgrade[0].fileno(), "id": self.upgrade[1]}

    def on_upgrade_failed(self, code: str, why: str) -> None:
        assert self.upgrade is not None
        (connection, name), self.upgrade = self.upgrade, None
        error = {"code": code, "message": why}
        connection.send({"id": name, "ok": False, "error": error})

    def _find(self, connection: PeerConnection, name: Any, has_kept: bool) -> Word:
        word: Word | None = _WORDS.get(name) if isinstance(name, str) else None
        if word is None:
            raise Refusal("unknown_word", f"this keeper does not know the word {name!r}")
        if connection.role == "control":
            if name not in CONTROL_WORDS or has_kept:
                raise Refusal("refused", f"{name} is the supervisor's to ask")
            if name not in HARMLESS_WORDS and connection.is_supervised:
                raise Refusal("refused", _AGENTS_LOOK_ONLY)
        return word

    def _greet(self, connection: PeerConnection) -> None:
        connection.is_greeted = True
        if connection is self.keeper.link:
            self.keeper.hand_spares(connection)
            self.keeper.children.supervisor_present(True)
            self.keeper.notify_sockets.leave()

    def run(self, message: messages.RunRequest) -> HeldRun:
        run = self.keeper.children.runs.get(message["run_id"])
        if run is None:
            raise Refusal("not_found", f"no run {message['run_id']} is here")
        return run

    # Runs.

    def do_spawn(
        self, connection: PeerConnection, message: messages.SpawnRequest, fds: list[int]
    ) -> None:
        keeper = self.keeper
        if keeper.is_shutting_down:
            raise Refusal("shutting_down", "this keeper is ending")
        run_id, service = message["run_id"], message["service"]
        if run_id in keeper.children.runs or run_id in keeper.journal:
            raise Refusal("exists", f"a run {run_id} exists already")
        if not isinstance(service, str) or "/" in service or not service.strip("."):
            raise Refusal("bad_request", f"{service!r} cannot name a service")
        if not isinstance(message["argv"], list):
            raise Refusal("bad_request", "argv must be a list")
        if (key := message.get("environ")) is not None:
            message["env"] = {**keeper.memory.environment(key), **(message.get("env") or {})}
        run, handed = keeper.children.spawn(message)
        if handed:
            hand_parts(connection, {"id": message.get("id"), **run.beginning()}, run, handed)
            close_all([*handed.values()])
        else:
            connection.reply_later(message.get("id"), run)

    def do_adopt(
        self, connection: PeerConnection, message: messages.AdoptRequest, fds: list[int]
    ) -> None:
        keeper = self.keeper
        pid = int(message["pid"])
        if message["run_id"] in keeper.children.runs:
            raise Refusal("exists", f"a run {message['run_id']} exists already")
        found = processes.process(pid)
        if pid in (1, os.getpid(), keeper.supervisor.pid, *keeper.children.others):
            raise Refusal("refused", f"process {pid} runs this machine or this Holdfast")
        if found is None or not found.is_alive or pid < 1:
            raise Refusal("not_found", f"no process {pid} is here")
        wanted = message.get("start_time")
        if wanted is not None and wanted != found.start_time:
            raise Refusal("identity_mismatch", f"process {pid} is another one by now")
        if message.get("boot_id") not in (None, processes.boot_id()):
            raise Refusal("identity_mismatch", "the machine was restarted since")
        if message.get("cookie") and not (wanted and message.get("boot_id")):
            # Start time or boot is not recorded, so the environment must name the run.
            is_marked = processes.run_id_of(pid) == message["run_id"]
            if not is_marked and not (wanted and processes.hides_marks(pid)):
                doubt = f"whether process {pid} is of this run is not known"
                raise Refusal("identity_unknown", doubt)
        for run in keeper.children.runs.values():
            if run.pid == pid and run.exit is None:
                whose = f"process {pid} belongs to {run.service} already"
                raise Refusal("exists", f"{whose}; `holdfast status {run.service}` shows it")
        parts = reopen(pid) if message.get("reopen") else {}
        run = keeper.children.adopt(message, pid, found.start_time, parts)
        hand_parts(connection, {"id": message.get("id"), "ok": True, **run.facts()}, run)

    def do_signal(
        self, connection: PeerConnection, message: messages.SignalRequest, fds: list[int]
    ) -> messages.Reply:
        run, number = self.run(message), int(message["signal"])
        match message.get("to") or "main":
            case "main":
                sent = processes.send_signal(run.pid, run.start_time, number, run.pidfd)
            case "group":
                sent = run.tree.signal_group(number)
            case "tree":
                sent = run.tree.signal(number) > 0
            case other:
                raise Refusal("bad_request", f"to: {other!r} is none of main, group, tree")
        if not sent:
            raise Refusal("not_found", "there was no process to signal")
        return {}

    def do_end(
        self, connection: PeerConnection, message: messages.EndRequest, fds: list[int]
    ) -> messages.Reply:
        run = self.run(message)
        stop = run.stop.copy()
        if (number := message.get("signal")) is not None:
            stop["signal"] = number
        if (grace := message.get("grace")) is not None:
            stop["grace"] = grace
        stop = stop_of(stop)
        if connection.role == "control":
            self._stay_off(run.service, stop["grace"])
        self.keeper.children.exits.end(run, stop["signal"], stop["grace"])
        return {}

    def do_adjust(
        self, connection: PeerConnection, message: messages.AdjustRequest, fds: list[int]
    ) -> messages.Reply:
        """Change how a live run is ended, and how much of its output is kept."""
        run = self.run(message)
        if (stop := message.get("stop")) is not None:
            run.stop = stop_of(stop)
        if (log := message.get("log")) is not None:
            run.log = log_of(log)
            if run.recorder is not None:
                run.recorder.limits(run.log["max_size"], run.log["total_size"])
        return {}

    def do_pause(
        self, connection: PeerConnection, message: messages.PauseRequest, fds: list[int]
    ) -> messages.Reply:
        run = self.run(message)
        if not run.tree.pause():
            raise Refusal("not_found", "there was no process to pause")
        run.is_paused = True
        return {}

    def do_resume(
        self, connection: PeerConnection, message: messages.ResumeRequest, fds: list[int]
    ) -> messages.Reply:
        run = self.run(message)
        run.tree.resume()
        run.is_paused = False
        return {}

    def do_write(
        self, connection: PeerConnection, message: messages.WriteRequest, fds: list[int]
    ) -> messages.Reply:
        run = self.run(message)
        if run.feed is None:
            raise Refusal("no_stdin", "this run has no open standard input")
        data = binascii.a2b_base64(message.get("data") or "")
        ends = bool(message.get("eof"))
        if ends and "terminal" in run.parts:
            data, ends = data + stdio.end_of_input(run.parts["terminal"]), False
        if not run.feed.write(data, ends):
            raise Refusal("buffer_full", "the run does not read its input; 1 MiB is waiting")
        return {}

    def do_resize(
        self, connection: PeerConnection, message: messages.ResizeRequest, fds: list[int]
    ) -> messages.Reply:
        run = self.run(message)
        master = run.parts.get("terminal")
        if master is None:
            raise Refusal("no_terminal", "this run has no terminal")
        cols, rows = int(message["cols"]), int(message["rows"])
        if not (0 < cols < 65536 and 0 < rows < 65536):
            raise Refusal("bad_request", "cols and rows must lie between 1 and 65535")
        stdio.resize_terminal(master, cols, rows)
        run.cols, run.rows = cols, rows
        return {}

    def do_lease(
        self, connection: PeerConnection, message: messages.LeaseRequest, fds: list[int]
    ) -> messages.Reply:
        run = self.run(message)
        kind = message.get("kind") or (run.lease.kind if run.lease is not None else "job")
        if kind not in ("job", "session"):
            raise Refusal("bad_request", f"{kind!r} is no kind of lease")
        self.keeper.children.lease(run, message["seconds"], kind)
        return {}

    # The keeper itself.

    def do_hello(
        self, connection: PeerConnection, message: messages.HelloRequest, fds: list[int]
    ) -> messages.KeeperFacts:
        wanted = message.get("role") or connection.role
        if wanted != connection.role:
            raise Refusal("refused", f"this connection cannot have the role {wanted}")
        facts = self.keeper.facts()
        if connection.role == "supervisor":
            facts["kept"] = self.keeper.memory.values
            facts["ended_unseen"] = self.keeper.children.ended_unseen()
        return facts

    def do_list(
        self, connection: PeerConnection, message: messages.ListRequest, fds: list[int]
    ) -> messages.KeeperFacts:
        is_brief = message.get("only") == "log_bytes"
        return self.keeper.recorded() if is_brief else self.keeper.facts()

    def do_strays(
        self, connection: PeerConnection, message: messages.StraysRequest, fds: list[int]
    ) -> messages.StraysReply:
        """List the live runs of this state folder that are in no table."""
        unlisted = self.keeper.children.unlisted
        return {
            "strays": [run.facts() for run in unlisted.unknown()],
            "doubts": unlisted.doubts,
            "marks": list(unlisted.unlisted_marks()),
        }

    def do_end_rest(
        self, connection: PeerConnection, message: messages.EndRestRequest, fds: list[int]
    ) -> messages.EndRestReply | None:
        """End the leftovers of a run that is in no table. The reply comes when they are gone."""
        children, run_id = self.keeper.children, message["run_id"]
        main = processes.process(int(message["pid"])) if message.get("pid") else None
        if run_id in children.runs:
            raise Refusal("exists", f"a run {run_id} is here, and can be ended")
        if main is not None and main.is_alive and main.start_time == message.get("start_time"):
            raise Refusal("exists", f"process {main.pid} of run {run_id} lives")
        answer: messages.EndRestReply = {"ok": True}
        if "id" in message:
            answer["id"] = message["id"]
        answer["pids"] = children.unlisted.end_rest(message, lambda: connection.send(answer))
        return None if answer["pids"] else answer

    def do_stay_off(
        self, connection: PeerConnection, message: messages.StayOffRequest, fds: list[int]
    ) -> messages.Reply:
        """A person stops a service, also one that has ended. Neither a supervisor that hangs nor
        the next one must undo it."""
        self._stay_off(str(message["service"]), float(message.get("grace") or 0.0))
        return {}

    def _stay_off(self, service: str, grace: float) -> None:
        self.keeper.memory.keep({DESIRED + service: "stopped"})
        self.keeper.tell_supervisor({"notice": "end_asked", "service": service, "grace": grace})

    def do_tree(
        self, connection: PeerConnection, message: messages.TreeRequest, fds: list[int]
    ) -> messages.TreeReply:
        return {
            "processes": [
                {
                    "pid": process.pid,
                    "ppid": process.ppid,
                    "name": process.name,
                    "state": process.state,
                    "start_time": process.start_time,
                }
                for process in self.run(message).tree.processes()
            ]
        }

    def do_watch(
        self, connection: PeerConnection, message: messages.WatchRequest, fds: list[int]
    ) -> messages.Reply:
        if message.get("on", True):
            connection.watched.add(message["service"])
        else:
            connection.watched.discard(message["service"])
        self.keeper.update_watches()
        return {}

    def do_hold(
        self, connection: PeerConnection, message: messages.HoldRequest, fds: list[int]
    ) -> messages.Reply:
        if len(fds) != 1:
            raise Refusal("bad_request", "hold takes exactly one descriptor")
        self.keeper.held.hold(str(message["name"]), fds.pop())
        return {}

    def do_release(
        self, connection: PeerConnection, message: messages.ReleaseRequest, fds: list[int]
    ) -> messages.Reply:
        if not self.keeper.held.release(str(message["name"])):
            raise Refusal("not_found", f"no descriptor {message['name']} is held")
        return {}

    def do_keep(
        self, connection: PeerConnection, message: messages.KeepRequest, fds: list[int]
    ) -> messages.Reply:
        """Do nothing more than `handle` does with the `kept` of any request."""
        return {}

    def do_forget(
        self, connection: PeerConnection, message: messages.ForgetRequest, fds: list[int]
    ) -> messages.Reply:
        self.keeper.journal.forget(message["run_ids"])
        for run_id in message["run_ids"]:
            self.keeper.children.records.forget(run_id)
        return {}

    def do_prune(
        self, connection: PeerConnection, message: messages.PruneRequest, fds: list[int]
    ) -> messages.PruneReply:
        service = message["service"]
        if not isinstance(service, str) or "/" in service:
            raise Refusal("bad_request", f"{service!r} cannot name a service")
        logs = self.keeper.logs
        runs = self.keeper.children.runs.values()
        live = {run.number for run in runs if run.service == service}
        if message.get("all"):
            deleted, count = logs.forget(service, live)
        else:
            keep, before = message.get("keep_segments"), message.get("before")
            deleted, count = logs.prune(service, keep, before, live)
        return {"deleted_bytes": deleted, "segments": count}

    def do_supervise(
        self, connection: PeerConnection, message: messages.SuperviseRequest, fds: list[int]
    ) -> messages.SuperviseReply:
        keeper = self.keeper
        if message["on"] and message.get("again"):
            if keeper.is_shutting_down or keeper.supervisor.state == "retiring":
                raise Refusal("busy", "the supervisor is being retired")
            keeper.supervisor.forget_failures()
            keeper.retire_and_relaunch()
        elif message["on"]:
            keeper.supervisor.forget_failures()
            keeper.supervisor.launch()
        else:
            keeper.supervisor.retire(keeper.tell_to_retire)
        return {"supervisor": keeper.supervisor.facts()}

    def do_stand_by(
        self, connection: PeerConnection, message: messages.StandByRequest, fds: list[int]
    ) -> messages.Reply:
        """A supervisor that is replaced has finished. It stays until the next one is `ready`."""
        if connection is not self.keeper.link or self.keeper.supervisor.state != "retiring":
            raise Refusal("refused", "only a supervisor that is being replaced stands by")
        self.keeper.stand_by()
        return {}

    def do_ready(
        self, connection: PeerConnection, message: messages.ReadyRequest, fds: list[int]
    ) -> messages.Reply:
        """This supervisor has everything that it needs to take our place."""
        if connection is self.keeper.link:
            self.keeper.dismiss_standby()
        return {}

    def do_upgrade(
        self, connection: PeerConnection, message: messages.UpgradeRequest, fds: list[int]
    ) -> None:
        keeper = self.keeper
        if self.upgrade is not None or keeper.is_shutting_down:
            raise Refusal("busy", "an upgrade or a shutdown is under way")
        attempt = UpgradeAttempt(
            keeper,
            message.get("argv_prefix") or own_prefix(),
            message.get("package") or own_package(),
            message.get("import_path") or [],
            self.on_upgrade_failed,
        )
        try:
            attempt.rehearse()
        except UpgradeError as error:
            raise Refusal("upgrade_failed", str(error)) from None
        self.upgrade = (connection, message.get("id"))

    def do_noted(
        self, connection: PeerConnection, message: messages.NotedRequest, fds: list[int]
    ) -> messages.Reply:
        """The supervisor carries out the shutdown that was requested."""
        self.keeper.is_shutdown_noted = True
        return {}

    def do_shutdown(
        self, connection: PeerConnection, message: messages.ShutdownRequest, fds: list[int]
    ) -> messages.Reply:
        grace, code = message.get("grace"), message.get("exit_code")
        keeper = self.keeper
        keeper.check_shutdown(grace, code)
        if message.get("abandon"):
            keeper.abandon_supervisor()
        keeper.loop.at_turn_end(lambda: keeper.shutdown(grace, code))
        return {}


_WORDS: dict[str, Any] = {
    name[3:]: word for name, word in vars(Words).items() if name.startswith("do_")
}
