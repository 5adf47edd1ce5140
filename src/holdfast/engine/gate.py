"""Keeps the gate running: the process that speaks HTTP, a client of ours like any other.

Kept as a service is, by a runner of its own, and hidden from the user's list. Its listening
socket is held by the keeper: a gate that is killed comes back on the same one.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from holdfast.adapters.own_log import logger
from holdfast.engine.answers import NewFuture
from holdfast.engine.attendants import Attendants
from holdfast.engine.declaration import Declaration
from holdfast.engine.listeners import Listeners
from holdfast.engine.ports import Open, Ports
from holdfast.engine.restored_runner import RestoredRunner
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.events import Kind
from holdfast.vocabulary.service_spec import (
    UNLIMITED,
    HttpSpec,
    LogSpec,
    RestartSpec,
    ServiceSpec,
    Settings,
    StopSpec,
)

NAME = "holdfast.gate"
SOCKET = "http"
START_AFTER_SECONDS = 0.5
_CODE = "import sys; sys.path[:0]={path!r}; from holdfast.gate.main import main; main()"
_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")
_LOG_BYTES = 1024 * 1024
_log = logger("gate")


class Gate:
    """The gate's runner and its socket."""

    def __init__(
        self,
        ports: Ports,
        listeners: Listeners,
        *,
        state: str,
        new_future: NewFuture,
        addresses: dict[str, str],
    ) -> None:
        self._ports = ports._replace(admission=Open(), attendants=Attendants())
        self._listeners = listeners
        self.line_socket = ""
        self._state = state
        self._new_future = new_future
        self._addresses = addresses
        self._wanted: HttpSpec | None = None
        self._has_begun = False
        self._is_ending = False
        self._runner: RestoredRunner | None = None
        self._left_over: dict[str, Any] | None = None

    def on_settings(self, settings: Settings) -> None:
        wanted = settings.http if settings.http is not None and settings.http.enabled else None
        if wanted != self._wanted:
            self._wanted = wanted
            if self._has_begun:
                self._apply()

    def take_over(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Take what the keeper says of the gate of an earlier supervisor out of its facts."""
        for run in facts.get("runs") or ():
            if run["service"] == NAME:
                self._left_over = run
        rest = {
            key: [it for it in facts.get(key) or () if it["service"] != NAME]
            for key in ("runs", "exits")
        }
        gone = [it["run_id"] for it in facts.get("exits") or () if it["service"] == NAME]
        for run_id in gone:
            self._ports.recorder.forget(run_id)
        return {**facts, **rest}

    def begin(self) -> None:
        """The keeper has handed over what it holds."""
        self._has_begun = True
        self._apply()

    def on_notice(self, notice: dict[str, Any]) -> bool:
        """Take a notice that is about the gate; says whether it was."""
        if notice.get("service") != NAME:
            return False
        if self._runner is None:
            if notice["notice"] == "exit":
                self._ports.recorder.forget(notice["run_id"])
        elif notice["notice"] == "exit":
            self._runner.on_exit(notice)
        elif notice["notice"] == "ended":
            self._runner.on_ended(notice)
        return True

    async def stop(self) -> None:
        """End it; nobody can be answered without a supervisor."""
        self._is_ending = True
        if self._runner is not None:
            self._runner.is_retiring = True
            await self._runner.stop(grace=None)

    def _apply(self) -> None:
        wanted = self._wanted
        if wanted is None:
            self._addresses.pop(SOCKET, None)
            self._listeners.close(SOCKET)
            if self._runner is not None:
                self._runner.stop()
            return
        try:
            listener = self._listeners.open(
                SOCKET, wanted.host, wanted.port, is_port_given=wanted.is_port_given
            )
        except HoldfastError as error:
            _log.error("there is no HTTP: %s", error.message)
            self._ports.recorder.event(
                Kind.DOOR_FAILED, door=SOCKET, port=wanted.port, reason=error.message
            )
            return
        scheme = "https" if wanted.certificate else "http"
        address = f"{scheme}://{listener.address}"
        listener.sock.close()
        if self._addresses.get(SOCKET) != address:
            self._addresses[SOCKET] = address
            self._ports.recorder.event(Kind.DOOR_OPENED, door=SOCKET, address=address)
        if self._runner is None and self._left_over is None:
            # Its imports would take the time of the services that are being started.
            self._ports.call_later(START_AFTER_SECONDS, self._begin_late)
        else:
            self._run(wanted)

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
                return
        else:
            self._runner = RestoredRunner(
                declaration,
                self._ports,
                new_future=self._new_future,
                on_failed=lambda _: _log.error("the gate has failed for good"),
            )
            if self._left_over is not None:
                self._runner.restore(None, self._left_over, [])
                self._left_over = None
        self._runner.start(wait=False)

    def _spec(self, wanted: HttpSpec) -> ServiceSpec:
        env = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
        env |= {
            "HOLDFAST_GATE_LINE": self.line_socket,
            "HOLDFAST_GATE_INSTANCE": os.path.basename(self._state),
            "ALLOWED_ORIGINS": ",".join(wanted.allowed_origins),
        }
        if wanted.certificate and wanted.key:
            env |= {"HOLDFAST_GATE_CERT": wanted.certificate, "HOLDFAST_GATE_KEY": wanted.key}
        path = [entry for entry in sys.path if entry and os.path.isdir(entry)]
        return ServiceSpec(
            name=NAME,
            argv=(sys.executable, "-I", "-S", "-c", _CODE.format(path=path)),
            working_dir=self._state,
            env=env,
            environment="clean",
            restart_policy="always",
            restart=RestartSpec(delay=0.1, max_delay=10.0, max_restarts=UNLIMITED),
            start_retries=1_000_000,
            stop=StopSpec(grace=3.0),
            log=LogSpec(max_size=_LOG_BYTES, total_size=2 * _LOG_BYTES),
            origin="gate",
            sockets=(f"listen:{SOCKET}",),
        )
