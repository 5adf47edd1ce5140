"""Keeps the gate running: the process that speaks HTTP, a client of ours like any other.

It is kept like a service, by a runner of its own, but is in no list of services. The keeper holds
its listening socket: a killed gate comes back on the same one.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import replace

from holdfast.adapters import keeper_memory
from holdfast.adapters.own_log import logger
from holdfast.adapters.store.state_tables import OpenRun
from holdfast.engine.gate.http_door import DASHBOARD, SOCKET, HttpDoor
from holdfast.engine.gate.listeners import Listeners
from holdfast.engine.gate.watch import GateWatch
from holdfast.engine.runner.declaration import Declaration
from holdfast.engine.runner.environment import AdmitAll, RunnerEnvironment
from holdfast.engine.runner.observers import RunObservers
from holdfast.engine.runner.remains import Remains
from holdfast.engine.runner.runner import Runner
from holdfast.engine.runner.waiters import NewFuture
from holdfast.engine.survivors import Survivors, unknown_exit
from holdfast.system.own_process import LIBRARY_VARIABLES
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.names import GATE_SERVICE
from holdfast.vocabulary.specs.mcp import McpSpec
from holdfast.vocabulary.specs.services import (
    UNLIMITED,
    LogSpec,
    RestartSpec,
    ServiceSpec,
    StopSpec,
)
from holdfast.vocabulary.specs.settings import HttpSpec, Settings

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import Notice, RunFacts

NAME = GATE_SERVICE
RELAYS = "mcp"
"""The Unix socket for the relays of assistants."""
START_AFTER_SECONDS = 0.5
_CODE = "import sys; sys.path[:0]={path!r}; from holdfast.gate.main import main; main()"
_VARIABLES = (
    "PATH", "HOME", "TMPDIR", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", *LIBRARY_VARIABLES,
)  # fmt: skip
_LOG_BYTES = 1024 * 1024
_LEFT = "left behind by an earlier Holdfast"
_log = logger("gate")


class Gate:
    """The gate's runner and its socket."""

    def __init__(
        self,
        environment: RunnerEnvironment,
        listeners: Listeners,
        door: HttpDoor,
        *,
        state: str,
        new_future: NewFuture,
        survivors: Survivors,
    ) -> None:
        self._environment = replace(environment, admission=AdmitAll(), observers=RunObservers())
        self._listeners = listeners
        self.line_socket = ""
        self.relay_socket = ""
        self._state = state
        self._new_future = new_future
        self.door = door
        self._survivors = survivors
        self._watch = GateWatch(environment.call_later, lambda: self.door.address)
        self._ending: asyncio.Future[bool] | None = None
        self._wanted: HttpSpec | None = None
        self._mcp: McpSpec | None = None
        self._has_begun = False
        self._is_left_out = False
        self._unopened = ""
        self._is_ending = False
        self._runner: Runner | None = None
        self._left_over: dict[str, Any] | None = None
        self._left_behind: list[OpenRun] = []
        self._foreign: set[str] = set()

    def on_settings(self, settings: Settings) -> None:
        wanted = settings.http if settings.http is not None and settings.http.enabled else None
        self._is_left_out = settings.http is not None and wanted is None
        mcp = settings.mcp if settings.mcp.enabled is not False and wanted is not None else None
        if (wanted, mcp) != (self._wanted, self._mcp):
            self._wanted, self._mcp, self._unopened = wanted, mcp, ""
            if self._has_begun:
                self._apply()

    def take_over(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Take the gate of an earlier supervisor out of the keeper's facts."""
        for run in facts.get("runs") or ():
            if run["service"] == NAME:
                self._left_over = run
        rest = {
            key: [run for run in facts.get(key) or () if run["service"] != NAME]
            for key in ("runs", "exits")
        }
        gone = [ended["run_id"] for ended in facts.get("exits") or () if ended["service"] == NAME]
        for run_id in gone:
            self._environment.recorder.forget(run_id)
        return {**facts, **rest}

    def leave_behind(self, runs: list[OpenRun]) -> None:
        """Note gates that run by the history, but that the keeper does not know."""
        self._left_behind += [run for run in runs if run.run_id != self.run_id]

    @property
    def shut(self) -> str | None:
        """Why assistants cannot connect, if they cannot."""
        if self._is_left_out:
            return "HTTP is off (`http: false`), and assistants come through its gate"
        if self._wanted is not None and self._mcp is None:
            return self._unopened or "assistants are not let in (`mcp: {enabled: false}`)"
        if self.door.has_failed and not os.path.exists(self.relay_socket):
            return f"HTTP cannot be opened, and assistants come through its gate: {self.door.note}"
        return None

    @property
    def run_id(self) -> str | None:
        """The id of the gate's present run."""
        if self._runner is not None and self._runner.run is not None:
            return self._runner.run.run_id
        return str(self._left_over["run_id"]) if self._left_over is not None else None

    def try_again(self) -> None:
        """Try the port again: its holder may be gone."""
        if self._has_begun and self._wanted is not None and self.door.has_failed:
            self._apply()

    def begin(self) -> None:
        """Begin: the keeper has handed over its descriptors."""
        self._has_begun = True
        self._apply()

    def on_notice(self, notice: Notice) -> bool:
        """Take a notice if it is about the gate; return whether it was."""
        if notice["notice"] not in ("exit", "ended") or notice.get("service") != NAME:
            return False
        if self._runner is None or notice["run_id"] in self._foreign:
            if notice["notice"] == "exit":
                self._environment.recorder.run_ended(notice, None, _LEFT)
        elif notice["notice"] == "exit":
            self._runner.on_exit(notice)
        elif notice["notice"] == "ended":
            self._runner.on_ended(notice)
        return True

    async def stop(self) -> None:
        """Stop the gate: without a supervisor it cannot answer."""
        self._is_ending = True
        self._watch.stop()
        if self._runner is not None:
            self._runner.retire()
            await self._runner.stop(grace=None)
        self._listeners.close_unix(RELAYS, self.relay_socket)

    def _apply(self) -> None:
        wanted = self._wanted
        if wanted is None:
            self.door.close()
            if self._is_left_out:
                self._end_leftovers_soon()
            self._listeners.close_unix(RELAYS, self.relay_socket)
            self._watch.stop()
            if self._runner is not None:
                self._runner.stop()
            return
        self.door.open(wanted, self._on_open, self._end_left_behind)

    def _on_open(self, wanted: HttpSpec) -> None:
        self._end_leftovers_soon()
        self._open_mcp()
        if self._runner is None and self._left_over is None:
            # Its imports would slow down the services that are being started.
            self._environment.call_later(START_AFTER_SECONDS, self._begin_late)
        else:
            self._run(wanted)

    def _end_leftovers_soon(self) -> None:
        """End old gates: one at another port would go on serving, now that there is a supervisor
        again.
        """
        if self._left_behind:
            self._ending = asyncio.ensure_future(self._end_left_behind())

    async def _end_left_behind(self) -> bool:
        """End gates of an earlier Holdfast, if the keeper confirms what they are."""
        runs, self._left_behind = self._left_behind, []
        self._foreign |= {run.run_id for run in runs}
        has_lived = False
        for run in runs:
            if await self._survivors.end(run):
                has_lived = True
            else:
                self._environment.recorder.run_ended(unknown_exit(run), None, _LEFT)
        return has_lived

    def _open_mcp(self) -> None:
        if self._mcp is None:
            self._listeners.close_unix(RELAYS, self.relay_socket)
            return
        try:
            self._listeners.open_unix(RELAYS, self.relay_socket)
        except HoldfastError as error:
            _log.error("assistants cannot connect: %s", error.message)
            self._mcp, self._unopened = None, error.message

    def _begin_late(self) -> None:
        if self._wanted is not None and not self._is_ending:
            self._run(self._wanted)

    def _run(self, wanted: HttpSpec) -> None:
        declaration = Declaration(self._spec(wanted))
        if self._runner is not None:
            is_other = self._runner.declaration.spec != declaration.spec
            self._runner.declare(declaration)
            if is_other:
                self._runner.restart(wait=False)
                self._watch.begin(self._runner)
                return
        else:
            self._runner = Runner(
                declaration,
                self._environment,
                new_future=self._new_future,
                on_failed=lambda _: _log.error("the gate has failed for good"),
            )
            if self._left_over is not None:
                self._runner.restore(Remains(run=cast("RunFacts", self._left_over)))
                self._left_over = None
        self._runner.start(wait=False)
        self._watch.begin(self._runner)

    def _spec(self, wanted: HttpSpec) -> ServiceSpec:
        env = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
        env |= {
            "HOLDFAST_GATE_LINE": self.line_socket,
            "HOLDFAST_GATE_INSTANCE": os.path.basename(self._state),
            "ALLOWED_ORIGINS": ",".join(wanted.allowed_origins),
        }
        if (files := self.door.certificate(wanted)) is not None:
            env |= {"HOLDFAST_GATE_CERT": files[0], "HOLDFAST_GATE_KEY": files[1]}
            env["HOLDFAST_GATE_SELF_MADE"] = wanted.host if wanted.self_made else ""
        # Another address needs another run: a socket is passed on only at the start.
        env["HOLDFAST_GATE_ADDRESS"] = self.door.address
        sockets = [SOCKET]
        if self.door.dashboard_address:
            env["HOLDFAST_GATE_DASHBOARD"] = self.door.dashboard_address
            sockets.append(DASHBOARD)
        if self._mcp is not None:
            env["HOLDFAST_GATE_MCP"] = msgspec.json.encode(self._mcp).decode()
            sockets.append(RELAYS)
        env["HOLDFAST_GATE_SOCKETS"] = ",".join(sockets)
        path = [entry for entry in sys.path if entry and os.path.isdir(entry)]
        return ServiceSpec(
            name=NAME,
            argv=(sys.executable, "-I", "-S", "-c", _CODE.format(path=path)),
            working_dir=self._state,
            env=env,
            environment="clean",
            restart_policy="always",
            restart=RestartSpec(delay=0.1, max_delay=60.0, max_restarts=UNLIMITED),
            start_retries=1_000_000,
            stop=StopSpec(grace=3.0),
            log=LogSpec(max_size=_LOG_BYTES, total_size=2 * _LOG_BYTES),
            origin="gate",
            sockets=tuple(keeper_memory.listener(name) for name in sockets),
        )
