"""The foreground of `up`: the output of all services, what happens to them, and Ctrl-C.

In the `up` that started Holdfast, standard error shows Holdfast's own log, Ctrl-C stops
everything, a second Ctrl-C kills at once, and the exit code is the keeper's. In an `up` that
joined, Ctrl-C detaches. Apart from `up`, which imports it when the keeper has been started.
"""

from __future__ import annotations

import os
import select
import signal
import time

from holdfast.cli.call import Call
from holdfast.cli.down import ShutdownReport, describe_end
from holdfast.cli.history import describe_event
from holdfast.cli.terminal.follow import learn_secrets
from holdfast.cli.terminal.output import LogFollower, Printer, Style
from holdfast.cli.terminal.own_log import OwnLog
from holdfast.cli.terminal.screen import PLAIN
from holdfast.cli.terminal.signals import reap_orphans
from holdfast.client.connection import Connection, ConnectionLost
from holdfast.client.discovery import SupervisorAway, connect
from holdfast.client.launch import KeeperProcess
from holdfast.logbook.cursors import Cursor
from holdfast.system.places import lock_is_held
from holdfast.vocabulary.errors import NoDaemon, TimedOut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SHOWN_EVENTS = frozenset(
    {
        "process:started",
        "exit",
        "process:start_failed",
        "service:waiting",
        "service:restart_scheduled",
        "service:suppressed",
        "output:gap",
        "output:resumed",
        "watch:changed",
        "service:follows",
    }
)
RED_EVENTS = frozenset({"process:start_failed", "service:suppressed", "output:gap"})
KEEPER_END_SECONDS = 10.0
FIRST_EVENTS = 1000


class Foreground:
    """Runs until Holdfast is down or the user leaves."""

    def __init__(
        self,
        call: Call,
        keeper: KeeperProcess | None,
        ends: dict[str, Cursor],
        services: list[str],
        names: list[str],
        since: int,
        own_log: OwnLog | None = None,
    ) -> None:
        """`ends` and `since` say where logs and events ended before this `up` asked anything."""
        self._call = call
        self._keeper = keeper
        self._services = services
        self._own_log = own_log
        style = Style(
            call.paint,
            prefix=not call.options.get("no_prefix"),
            timestamps=bool(call.options.get("timestamps")),
            is_json=call.is_json,
            only_colours=True,
        )
        self._printer = Printer(style, names)
        self._logs = LogFollower(call.places.logs, self._printer, services)
        for name in filter(self._logs.follows, ends):
            self._logs.add(name, ends[name])
        self._report = ShutdownReport()
        self._interrupts = 0
        self._handled = 0
        self._is_stopping = False
        self._watch_request = self._events_request = 0
        self._secrets_number: int | None = None
        self._second_connection: Connection | None = None
        self._exit_code: int | None = None
        self._last_event = since
        self._is_first = True

    def stay(self) -> int:
        wake, self._wake_end = os.pipe()
        os.set_blocking(self._wake_end, False)
        before = {
            number: signal.signal(number, self._interrupted)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        reap_orphans(self._keeper)
        try:
            while self._use_connection(wake):
                pass
            self._logs.finish_all()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(wake)
            os.close(self._wake_end)
            self._logs.close()
            if self._second_connection is not None:
                self._second_connection.close()
        return self._leave()

    def _interrupted(self, *_: object) -> None:
        self._interrupts += 1
        os.write(self._wake_end, b"!")

    def _use_connection(self, wake: int) -> bool:
        """Use one connection until it is lost; returns whether to try another."""
        try:
            connection = self._call.connect()
        except SupervisorAway as away:
            return self._while_away(away)
        except TimedOut:
            return True
        except NoDaemon:
            return False
        try:
            self._begin(connection)
            while self._step(connection, wake):
                pass
        except ConnectionLost:
            self._call.use(None)
            return True
        return False

    def _begin(self, connection: Connection) -> None:
        learn_secrets(self._call)
        more = {"own_log": True} if self._own_log is not None else {}
        self._watch_request = connection.send("watch", services=self._services, **more)
        if self._is_first:
            # Say which services were started, and which were not, before their output.
            fields = {"since": self._last_event, "services": self._services, "limit": FIRST_EVENTS}
            for event in connection.ask("events", **fields)["events"]:
                self._on_event(event)
            self._is_first = False
        self._events_request = connection.send(
            "events", follow=True, since=self._last_event, services=self._services
        )
        if self._is_stopping:
            connection.send("shutdown")
        self._logs.wake_all()
        self._check_all_ended()

    def _step(self, connection: Connection, wake: int) -> bool:
        """Handle the next frame or signal; returns False if the user leaves."""
        if not connection.has_frame:
            ready = select.select([connection.fileno(), wake], [], [])[0]
            if wake in ready:
                os.read(wake, 100)
                if not self._on_interrupt():
                    return False
            if connection.fileno() not in ready:
                return True
        frame = connection.receive()
        if frame is not None and "item" in frame:
            if frame["id"] == self._watch_request:
                self._on_output(frame["item"])
            elif frame["id"] == self._events_request:
                self._on_event(frame["item"])
        return True

    def _while_away(self, away: SupervisorAway) -> bool:
        """There is no supervisor: Holdfast goes down, or the supervisor was switched off. Returns
        whether to try again."""
        self._logs.wake_all()
        self._show_own_log()
        runs = away.facts.get("runs") or []
        kept = [run["service"] for run in runs if not run.get("hidden") and not run.get("ending")]
        if away.is_off and self._is_stopping and kept:
            self._exit_code, self._keeper = self._exit_code or 0, None
            self._call.note(f"kept running (on_supervisor_exit): {', '.join(sorted(kept))}")
            return False
        if away.is_off and not self._is_stopping and lock_is_held(self._call.places.state):
            time.sleep(0.2)
            if lock_is_held(self._call.places.state):
                self._exit_code = 0
                self._keeper = None
                self._call.note(away.message)
                return False
        time.sleep(0.02)
        return lock_is_held(self._call.places.state)

    def _on_interrupt(self) -> bool:
        """Handle Ctrl-C; returns False to leave."""
        while self._handled < self._interrupts:
            self._handled += 1
            if self._keeper is None:
                self._exit_code = 0
                self._call.note("detached; services go on (`holdfast down` stops them)")
                return False
            if self._handled == 1:
                self._call.note("stopping everything; Ctrl-C again kills at once")
                self._stop()
            else:
                self._second_connection = connect(self._call.places, any_version=True)
                self._second_connection.send("shutdown", now=True)
        return True

    def _stop(self) -> None:
        if not self._is_stopping:
            self._is_stopping = True
            self._call.connect().send("shutdown")

    def _on_output(self, item: dict[str, Any]) -> None:
        if item.get("hides") != self._secrets_number:
            self._secrets_number = item.get("hides")
            learn_secrets(self._call)
        if item.get("own_log"):
            self._show_own_log()
        elif item.get("exited"):
            self._logs.finish(item["service"])
        else:
            self._logs.wake(item["service"])

    def _show_own_log(self) -> None:
        if self._own_log is not None:
            self._own_log.show()

    def _on_event(self, event: dict[str, Any]) -> None:
        self._last_event = event["seq"]
        service = event.get("service")
        if service and event["kind"] == "exit":
            # The keeper records the last output before it reports the exit.
            self._logs.wake(service)
        ended = self._report.add(event)
        if self._call.is_json:
            self._call.emit_line({"event": event})
        elif ended is not None and self._is_stopping:
            self._printer.say(ended[0], describe_end(ended[1], PLAIN), event.get("time"))
        elif service and self._is_shown(service, event["kind"]):
            colour = "red" if event["kind"] in RED_EVENTS else "dim"
            words = describe_event(event, PLAIN)
            self._printer.say(service, words, event.get("time"), colour)
        self._printer.flush()
        if ended is not None:
            self._check_all_ended()

    def _is_shown(self, service: str, kind: str) -> bool:
        if self._is_stopping or (self._is_first and kind == "service:waiting"):
            return False  # the answer to `up` has said so already
        return kind in SHOWN_EVENTS and self._logs.follows(service)

    def _check_all_ended(self) -> None:
        """End Holdfast when all services have ended, if this `up` started it."""
        if self._keeper is None or self._is_stopping:
            return
        services = self._call.connect().ask("status")["services"].values()
        begun = [
            service
            for service in services
            if service.get("run") is not None and not _was_never_wanted(service)
        ]
        if begun and all(service["status"] in ("exited", "failed") for service in begun):
            self._call.note("all services have ended")
            self._exit_code = int(any(service["status"] == "failed" for service in begun))
            self._stop()

    def _leave(self) -> int:
        code = self._exit_code
        if self._keeper is None:
            if code is None:
                self._call.note("Holdfast is down")
            return code or 0
        ended = self._keeper.exit_code(KEEPER_END_SECONDS)
        self._show_own_log()
        if ended is None:
            raise TimedOut("the keeper has not ended yet", "`holdfast down --now` kills at once")
        self._call.note("Holdfast is down")
        if self._is_first:
            own_log = self._call.places.own_log
            self._call.note(f"it was before anything could be told: {own_log} has it")
        return ended if ended > 0 else code or 0


def _was_never_wanted(service: dict[str, Any]) -> bool:
    """Return whether its runs are of an earlier Holdfast, and it was not started in this one."""
    return (service["status"], service["desired"]) == ("pending", "stopped")
