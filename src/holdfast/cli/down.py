"""`holdfast down`: stops everything and returns when the keeper is really gone.

Also `shut_down`, for verbs that end a Holdfast which they started themselves.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from holdfast.cli.call import Call
from holdfast.cli.history import ended_how, events_in
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.cli.terminal import durations, screen
from holdfast.client.connection import Connection, ConnectionLost, error_from
from holdfast.client.discovery import OrphanedServices, SupervisorAway, connect, keeper_facts
from holdfast.system.places import keeper_note, lock_is_held
from holdfast.vocabulary.errors import NoDaemon, TimedOut
from holdfast.vocabulary.names import OWN_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GONE_SECONDS = 30.0
LAST_STEPS_SECONDS = 2.0
ASK_SECONDS = 5.0
TRIES = 10
POLL_SECONDS = 0.02
ENDED_STATES = frozenset({"stopped", "exited", "failed"})


@Verb(
    "down",
    "Stop all services, then Holdfast itself",
    options=(
        Option("--keep-running", "end only the supervisor; keeper and services stay"),
        Option("--now", "kill at once, without grace"),
    ),
    commands=("shutdown", "events"),
    about=(
        "If processes cannot be killed, the keeper stays and holds them: they are named, and\n"
        "the exit code is 1."
    ),
    examples=(
        ("holdfast down", "stop everything, in reverse order of dependency"),
        ("holdfast down --keep-running", "services go on; `holdfast up` joins them again"),
    ),
)
def down(call: Call) -> int:
    started = time.monotonic()
    keep = bool(call.options.get("keep_running"))
    now = bool(call.options.get("now"))
    reported = set[str]()

    def report_end(name: str, end: dict[str, Any]) -> None:
        """Report each end when it happens, because a grace may be long."""
        if not call.is_json and name not in reported:
            reported.add(name)
            call.say(f"{name}: {describe_end(end, call.paint)}")
            sys.stdout.flush()

    report, kept = ShutdownReport(report_end), list[str]()
    try:
        kept = shut_down(call, report, keep_running=keep, now=now)
    except SupervisorAway as away:
        if not keep:
            kept = _down_without_supervisor(call, away, report, now=now)
        elif not away.is_off:
            _switch_off(call, away)
    except OrphanedServices:
        raise
    except NoDaemon:
        return _report_already_down(call)
    except KeyboardInterrupt:
        call.note("it goes down all the same; `holdfast down --now` kills at once")
        raise
    seconds = time.monotonic() - started
    if call.is_json:
        outcome = "kept_running" if keep or kept else "down"
        fields = {"outcome": outcome, "services": report.services, "kept": kept}
        call.emit({**fields, "stuck": report.stuck, "seconds": round(seconds, 3)})
        return int(bool(report.stuck))
    for name, end in report.services.items():
        report_end(name, end)
    if keep:
        call.say("the supervisor is off; services go on, `holdfast up` joins them again")
    elif kept:
        _report_kept(call, kept, report.stuck)
    else:
        call.say(f"Holdfast is down ({durations.show(seconds)})")
    return int(bool(report.stuck))


def _report_kept(call: Call, kept: list[str], stuck: list[str]) -> None:
    if wanted := [name for name in kept if name not in stuck]:
        call.say(f"kept running (on_supervisor_exit): {', '.join(wanted)}")
        call.say(f"`holdfast stop {wanted[0]}` ends it, `holdfast up` joins it again")
    if stuck:
        call.note(f"processes of {', '.join(stuck)} cannot be killed; the keeper holds them")


class ShutdownReport:
    """How each service ended, collected from events."""

    def __init__(self, on_end: Callable[[str, dict[str, Any]], None] | None = None) -> None:
        self._on_end = on_end
        self.services: dict[str, dict[str, Any]] = {}
        self.stuck: list[str] = []
        """Services that could not be stopped."""
        self._facts: dict[str, dict[str, Any]] = {}

    def add(self, event: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """Add an event; returns the service and its end if that is complete now."""
        service = event.get("service")
        if not service or service.startswith(OWN_NAMES):
            return None
        data: dict[str, Any] = event.get("data") or {}
        facts = self._facts.setdefault(service, {})
        match event["kind"]:
            case "exit":
                facts.update(
                    exit_code=data.get("code"),
                    signal=data.get("signal"),
                    unknown=bool(data.get("unknown")),
                )
            case "process:ended":
                facts["report"] = data.get("report")
            case "transition" if data.get("to") in ENDED_STATES:
                facts["status"] = data["to"]
                self.services[service] = facts
                if self._on_end is not None:
                    self._on_end(service, facts)
                return service, facts
        return None


def describe_end(end: dict[str, Any], paint: screen.Paint) -> str:
    text = paint.state(str(end.get("status", "stopped")))
    if "exit_code" in end:
        how = ended_how(end["exit_code"], end.get("signal"), bool(end.get("unknown")))
        text += f" ({how})"
    for words, hows in (("killed", FORCED), ("cannot be killed", ("unkillable",))):
        pids = [str(entry["pid"]) for entry in end.get("report") or [] if entry.get("how") in hows]
        if pids:
            text += f"; {words}: {', '.join(pids)}"
    return text


FORCED = frozenset({"SIGKILL", "cgroup.kill"})


def _down_without_supervisor(
    call: Call, away: SupervisorAway, report: ShutdownReport, *, now: bool
) -> list[str]:
    """Start a supervisor that is only off, because it knows which services to keep. If none can be
    started, the keeper ends everything."""
    if away.is_off:
        from holdfast.client.launch import join

        try:
            join(call.places).close()
            return shut_down(call, report, keep_running=False, now=now)
        except (SupervisorAway, TimedOut) as error:
            call.note(error.message)
    from holdfast.cli import keeper_fallback

    report.services = keeper_fallback.down(call, away, now=now)
    return []


def shut_down(call: Call, report: ShutdownReport, *, keep_running: bool, now: bool) -> list[str]:
    """Shut Holdfast down; returns the services that are kept running.

    If the supervisor is replaced meanwhile, its successor is asked again. A Holdfast that was
    started after the first request is left alone.
    """
    is_asked, began = False, None
    for _ in range(TRIES):
        if is_asked and _is_new_holdfast(call.places.state, began):
            return []
        try:
            connection = connect(call.places, any_version=True)
        except SupervisorAway as away:
            if not is_asked or not away.is_off:
                raise
            return _kept_services(call, away)
        except OrphanedServices:
            raise
        except NoDaemon:
            if not is_asked:
                raise
            return []
        is_asked, began = True, began or _began(call.places.state)
        events = connection.send("events", follow=True, limit=0)
        shutdown = connection.send("shutdown", keep_running=keep_running, now=now)
        try:
            kept = _follow(call, connection, report, events, shutdown)
        finally:
            connection.close()
        if kept is None:
            continue
        if keep_running or kept:
            if _supervisor_is_off(call):
                return kept
        elif is_gone(call.places.state, LAST_STEPS_SECONDS, began):
            return []
    raise TimedOut("Holdfast is still there", "`holdfast down --now` kills at once")


def _began(state: str) -> float | None:
    """When the current Holdfast was started; a successor of its keeper keeps this time."""
    return keeper_note(state).get("started_at")


def _is_new_holdfast(state: str, began: float | None) -> bool:
    now = _began(state)
    return None not in (began, now) and now != began


def is_gone(state: str, seconds: float = GONE_SECONDS, began: float | None = None) -> bool:
    """Wait until the lock is free or a new Holdfast holds it; returns False after `seconds`."""
    deadline = time.monotonic() + seconds
    while lock_is_held(state) and not _is_new_holdfast(state, began):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _kept_services(call: Call, away: SupervisorAway) -> list[str]:
    """The services that are kept, if the supervisor ended before its answer was read."""
    runs = away.facts.get("runs") or []
    left = [run["service"] for run in runs if not run.get("hidden") and not run.get("ending")]
    if not left and not is_gone(call.places.state):
        raise away
    return left


def _switch_off(call: Call, away: SupervisorAway) -> None:
    """Let the keeper end a supervisor that does not answer, or stop trying to start one."""
    from holdfast.cli import keeper_fallback
    from holdfast.client.keeper_connection import KeeperConnection

    keeper_fallback.warn(call, away)
    keeper = KeeperConnection(call.places.keeper_socket)
    try:
        keeper.ask("supervise", on=False)
    finally:
        keeper.close()
    if not _supervisor_is_off(call):
        raise TimedOut("the supervisor is still there", away.hint)


def _follow(
    call: Call, connection: Connection, report: ShutdownReport, events: int, shutdown: int
) -> list[str] | None:
    """Read the answers to these two requests until the supervisor closes the connection; returns
    the services that are kept, None if it died before it answered."""
    kept: list[str] | None = None
    while True:
        try:
            frame = connection.receive(ASK_SECONDS if kept is None else GONE_SECONDS)
        except ConnectionLost:
            return kept
        if frame is None and kept is not None:
            return kept
        if frame is None:
            call.check_supervisor()
        elif frame.get("id") == shutdown:
            if not frame.get("ok"):
                raise error_from(frame.get("error") or {})
            result = frame.get("result") or {}
            kept, report.stuck = result.get("kept") or [], result.get("stuck") or []
        elif frame.get("id") == events:
            for event in events_in(frame):
                report.add(event)


def _supervisor_is_off(call: Call) -> bool:
    deadline = time.monotonic() + GONE_SECONDS
    while time.monotonic() < deadline:
        facts = keeper_facts(call.places)
        if facts is None or facts["supervisor"]["state"] == "off":
            return True
        time.sleep(POLL_SECONDS)
    return False


def _report_already_down(call: Call) -> int:
    if call.is_json:
        call.emit({"outcome": "already_down", "services": {}, "seconds": 0.0})
    else:
        call.say("nothing runs here")
    return 0
