"""The sockets over which services report their state, and the pipe for services in the manner of
s6.

The keeper holds them, so that no message is lost while there is no supervisor. Only processes of
the live run are heard.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.keeper_link import KeeperLink
from holdfast.adapters.own_log import logger
from holdfast.adapters.probes import notify
from holdfast.adapters.probes.notify import Message, Sender
from holdfast.engine.runner.live_run import LiveRun
from holdfast.engine.runner.observers import MonitoredRun, RunObserver
from holdfast.engine.runner.run_slot import RunSlot
from holdfast.engine.runner.runner import Runner
from holdfast.system import processes

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import SpawnRequest

SOCKET, PIPE, PIPE_END = "notify:", "ready:", "ready-end:"
_log = logger("notify")

Hear = Callable[[MonitoredRun, Message], None]


class NotifySockets(RunObserver):
    """The sockets and pipes of all services that have one."""

    def __init__(
        self, link: KeeperLink, loop: asyncio.AbstractEventLoop, state: str, hear: Hear
    ) -> None:
        self._link = link
        self._loop = loop
        self._state = state
        self._hear = hear
        self._secret = ""
        self._sockets: dict[str, socket.socket] = {}
        self._pipes: dict[str, int] = {}
        """By run id: a newline of one run never counts for another."""
        self._runners: dict[str, Runner] = {}
        self._candidates: dict[str, RunSlot] = {}
        self._refused: set[str] = set()
        self._has_spares = False

    # Runs

    def spawning(self, runner: Runner, message: SpawnRequest) -> None:
        """Tell the run where it can report."""
        if runner.declaration.spec.notify is not None:
            self._runners[runner.name] = runner
            self._prepare(runner, message)

    def _prepare(self, runner: MonitoredRun, message: SpawnRequest) -> None:
        spec, name = runner.declaration.spec, runner.name
        assert spec.notify is not None
        if self._has_spares or SOCKET + name not in (self._link.facts.get("held") or ()):
            self._open(name)
        env = message["env"]
        env["NOTIFY_SOCKET"] = self._address(name)
        if spec.notify.watchdog is not None:
            env["WATCHDOG_USEC"] = str(round(spec.notify.watchdog * 1_000_000))
        if spec.notify.fd is not None:
            run_id: str = message["run_id"]
            ours, theirs = os.pipe()
            os.set_blocking(ours, False)
            self._link.hold(PIPE + run_id, ours)
            self._link.hold(PIPE_END + run_id, theirs)
            message["ready_fd"] = {"name": PIPE_END + run_id, "fd": spec.notify.fd}

    def candidate_spawning(self, candidate: RunSlot, message: SpawnRequest) -> None:
        """The same for a candidate, which is recognised by the process that speaks."""
        if candidate.declaration.spec.notify is not None:
            self._candidates[candidate.name] = candidate
            self._runners.setdefault(candidate.name, candidate.runner)
            self._prepare(candidate, message)

    def candidate_began(self, candidate: RunSlot) -> None:
        if candidate.name in self._candidates:
            self._attend(candidate.name)

    def candidate_over(self, candidate: RunSlot) -> None:
        self._candidates.pop(candidate.name, None)
        self._close_pipe(candidate.run.run_id)

    def run_began(self, runner: Runner) -> None:
        spec = runner.launched or runner.declaration.spec
        if spec.notify is not None:
            self._runners[runner.name] = runner
            if self._has_spares:
                self._attend(runner.name)
        else:
            self.removed(runner)

    def run_over(self, runner: Runner) -> None:
        if runner.run is not None:
            self._close_pipe(runner.run.run_id)

    def on_spares(self) -> None:
        """Continue with what the keeper holds, after an earlier supervisor."""
        self._has_spares = True
        live = {runner.run.run_id for runner in self._runners.values() if runner.run is not None}
        for held in list(self._link.held):
            prefix, _, run_id = held.rpartition(":")
            if f"{prefix}:" in (PIPE, PIPE_END) and run_id not in live:
                self._link.release(held)
        for name in list(self._runners):
            self._hear_noted(name)
            self._attend(name)

    def removed(self, runner: Runner) -> None:
        name = runner.name
        if self._runners.pop(name, None) is None:
            return
        if (sock := self._sockets.pop(name, None)) is not None:
            self._loop.remove_reader(sock.fileno())
            sock.close()
        self._link.release(SOCKET + name)

    def _attend(self, name: str) -> None:
        self._open(name)
        for runner in (self._candidates.get(name), self._runners.get(name)):
            if runner is None or runner.run is None or runner.run.pid is None:
                continue
            run_id = runner.run.run_id
            self._link.release(PIPE_END + run_id)
            if PIPE + run_id in self._link.held and run_id not in self._pipes:
                fd = self._pipes[run_id] = self._link.held[PIPE + run_id]
                self._loop.add_reader(fd, self._on_pipe, name, run_id)

    def _open(self, name: str) -> None:
        """Listen on the held socket; for a surviving service it is made anew."""
        if SOCKET + name not in self._link.held:
            try:
                sock = notify.make_socket(self._address(name))
            except OSError as error:
                _log.error("%s cannot tell how it is: %s", name, error)
                return
            self._link.hold(SOCKET + name, sock.detach())
        if name not in self._sockets:
            sock = socket.socket(fileno=os.dup(self._link.held[SOCKET + name]))
            notify.prepare(sock)
            self._sockets[name] = sock
            self._loop.add_reader(sock.fileno(), self._on_message, name, sock)

    def _close_pipe(self, run_id: str) -> None:
        if (fd := self._pipes.pop(run_id, None)) is not None:
            self._loop.remove_reader(fd)
        self._link.release(PIPE + run_id)
        self._link.release(PIPE_END + run_id)

    def _address(self, name: str) -> str:
        self._secret = self._secret or notify.secret_of(self._state)
        return notify.address(self._secret, name)

    # Messages

    def _hear_noted(self, name: str) -> None:
        """Take what the keeper noted of the live run while nobody listened."""
        kept = self._link.kept.get(keeper_memory.heard(name))
        if kept is None:
            return
        self._link.keep(keeper_memory.heard(name), None)
        noted, runner = msgspec.json.decode(kept), self._runners[name]
        if runner.run is not None and runner.run.run_id == noted.get("run_id"):
            said = [noted[key] for key in ("state", "status") if key in noted]
            self._hear(runner, notify.parse("\n".join(said).encode()))

    def _on_pipe(self, name: str, run_id: str) -> None:
        heard = notify.heard_newline(self._pipes[run_id])
        if heard is False:
            return
        # It speaks once; a closed end would be readable for ever.
        self._close_pipe(run_id)
        for runner in (self._candidates.get(name), self._runners.get(name)):
            if (
                heard
                and runner is not None
                and runner.run is not None
                and runner.run.run_id == run_id
            ):
                self._hear(runner, Message(is_ready=True))

    def _on_message(self, name: str, sock: socket.socket) -> None:
        try:
            messages = notify.receive(sock)
        except OSError as error:
            _log.error("%s: its socket is of no use any more: %s", name, error)
            self._loop.remove_reader(sock.fileno())
            return
        for data, sender in messages:
            self._deliver(name, data, sender)

    def _deliver(self, name: str, data: bytes, sender: Sender | None) -> None:
        known = (self._candidates.get(name), self._runners.get(name))
        speakers = [
            (runner, runner.run)
            for runner in known
            if runner is not None and runner.run is not None and not runner.run.main_gone
        ]
        for runner, run in speakers:
            if run.pid is not None and _belongs(sender, run):
                self._hear(runner, notify.parse(data))
                return
        for runner, run in speakers:
            if run.pid is None:
                # It spoke before the keeper reported its start; its pid is needed.
                self._loop.call_soon(self._hear_later, runner, run, data, sender)
                return
        for _, run in speakers[-1:]:
            self._refuse(name, run, sender)

    def _hear_later(
        self, runner: MonitoredRun, run: LiveRun, data: bytes, sender: Sender | None
    ) -> None:
        if runner.run is not run or run.main_gone:
            return
        if run.pid is None:
            self._loop.call_later(0.005, self._hear_later, runner, run, data, sender)
        elif _belongs(sender, run):
            self._hear(runner, notify.parse(data))

    def _refuse(self, name: str, run: LiveRun, sender: Sender | None) -> None:
        if run.run_id not in self._refused:
            self._refused = {*list(self._refused)[-100:], run.run_id}
            _log.warning("%s: a stranger spoke for it and was not heard: %s", name, sender)


def _belongs(sender: Sender | None, run: LiveRun) -> bool:
    if sender is None:
        return True
    main = (run.pid or 0, run.start_time or "")
    return processes.belongs_to_run((sender.pid, sender.uid), main, run.run_id)
