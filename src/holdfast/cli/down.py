"""`holdfast down`: stops everything and returns when the keeper is really gone."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from holdfast.cli.call import Call
from holdfast.cli.history import ended_how, events_in
from holdfast.cli.terminal import durations, screen
from holdfast.client.connection import Connection, ConnectionLost, error_from
from holdfast.client.discovery import Outlived, SupervisorAway, keeper_facts, reach
from holdfast.system.places import keeper_note, lock_is_held
from holdfast.vocabulary.errors import NoDaemon, TimedOut
from holdfast.vocabulary.names import OWN_NAMES

GONE_SECONDS = 30.0
LAST_STEPS_SECONDS = 2.0
ASK_SECONDS = 5.0
TRIES = 10
POLL_SECONDS = 0.02
ENDED_STATES = frozenset({"stopped", "exited", "failed"})


def down(call: Call) -> int:
    started = time.monotonic()
    keep = bool(call.options.get("keep_running"))
    now = bool(call.options.get("now"))
    told = set[str]()

    def tell(name: str, end: dict[str, Any]) -> None:
        """As it happens: a grace may be long."""
        if not call.is_json and name not in told:
            told.add(name)
            call.say(f"{name}: {describe_end(end, call.paint)}")
            sys.stdout.flush()

    ends, kept = Ends(tell), list[str]()
    try:
        kept = shut_down(call, ends, keep_running=keep, now=now)
    except SupervisorAway as away:
        if not keep:
            kept = _down_without_supervisor(call, away, ends, now=now)
        elif not away.is_off:
            _switch_off(call, away)
    except Outlived:
        raise
    except NoDaemon:
        return _nothing_was_up(call)
    except KeyboardInterrupt:
        call.note("it goes down all the same; `holdfast down --now` kills at once")
        raise
    seconds = time.monotonic() - started
    if call.is_json:
        outcome = "kept_running" if keep or kept else "down"
        fields = {"outcome": outcome, "services": ends.services, "kept": kept}
        call.emit({**fields, "stuck": ends.stuck, "seconds": round(seconds, 3)})
        return int(bool(ends.stuck))
    for name, end in ends.services.items():
        tell(name, end)
    if keep:
        call.say("the supervisor is off; services go on, `holdfast up` joins them again")
    elif kept:
        _tell_kept(call, kept, ends.stuck)
    else:
        call.say(f"Holdfast is down ({durations.show(seconds)})")
    return int(bool(ends.stuck))


def _tell_kept(call: Call, kept: list[str], stuck: list[str]) -> None:
    if wanted := [name for name in kept if name not in stuck]:
        call.say(f"kept running (on_supervisor_exit): {', '.join(wanted)}")
        call.say(f"`holdfast stop {wanted[0]}` ends it, `holdfast up` joins it again")
    if stuck:
        call.note(f"processes of {', '.join(stuck)} cannot be killed; the keeper holds them")


class Ends:
    """How each service ended, gathered from events."""

    def __init__(self, tell: Callable[[str, dict[str, Any]], None] | None = None) -> None:
        self._tell = tell
        self.services: dict[str, dict[str, Any]] = {}
        self.stuck: list[str] = []
        """Who could not be stopped."""
        self._seen: dict[str, dict[str, Any]] = {}

    def take(self, event: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """Note an event; answers the service and its end when that is now known."""
        service = event.get("service")
        if not service or service.startswith(OWN_NAMES):
            return None
        data: dict[str, Any] = event.get("data") or {}
        seen = self._seen.setdefault(service, {})
        match event["kind"]:
            case "exit":
                seen.update(
                    exit_code=data.get("code"),
                    signal=data.get("signal"),
                    unknown=bool(data.get("unknown")),
                )
            case "process:ended":
                seen["report"] = data.get("report")
            case "transition" if data.get("to") in ENDED_STATES:
                seen["status"] = data["to"]
                self.services[service] = seen
                if self._tell is not None:
                    self._tell(service, seen)
                return service, seen
        return None


def describe_end(end: dict[str, Any], paint: screen.Paint) -> str:
    text = paint.state(str(end.get("status", "stopped")))
    if "exit_code" in end:
        how = ended_how(end["exit_code"], end.get("signal"), bool(end.get("unknown")))
        text += f" ({how})"
    for words, hows in (("killed", FORCED), ("cannot be killed", ("unkillable",))):
        pids = [str(e["pid"]) for e in end.get("report") or [] if e.get("how") in hows]
        if pids:
            text += f"; {words}: {', '.join(pids)}"
    return text


FORCED = frozenset({"SIGKILL", "cgroup.kill"})


def _down_without_supervisor(
    call: Call, away: SupervisorAway, ends: Ends, *, now: bool
) -> list[str]:
    """One that is only off knows what is to be kept; else the keeper ends everything."""
    if away.is_off:
        from holdfast.client.launch import join

        try:
            join(call.places).close()
            return shut_down(call, ends, keep_running=False, now=now)
        except (SupervisorAway, TimedOut) as error:
            call.note(error.message)
    from holdfast.cli import keeper_fallback

    ends.services = keeper_fallback.down(call, away, now=now)
    return []


def shut_down(call: Call, ends: Ends, *, keep_running: bool, now: bool) -> list[str]:
    """Ask for it, and ask again if the supervisor is replaced meanwhile; answers who is kept.

    A Holdfast that somebody started since is not meant.
    """
    is_asked, began = False, None
    for _ in range(TRIES):
        if is_asked and _is_another(call.places.state, began):
            return []
        try:
            connection = reach(call.places, any_version=True)
        except SupervisorAway as away:
            if not is_asked or not away.is_off:
                raise
            return _left_by(call, away)
        except Outlived:
            raise
        except NoDaemon:
            if not is_asked:
                raise
            return []
        is_asked, began = True, began or _began(call.places.state)
        followed = connection.send("events", follow=True, limit=0)
        asked = connection.send("shutdown", keep_running=keep_running, now=now)
        try:
            kept = _follow(call, connection, ends, followed, asked)
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
    """When the Holdfast that is there began; its keeper may have had successors since."""
    return keeper_note(state).get("started_at")


def _is_another(state: str, began: float | None) -> bool:
    now = _began(state)
    return None not in (began, now) and now != began


def is_gone(state: str, seconds: float = GONE_SECONDS, began: float | None = None) -> bool:
    """Wait until nobody holds the lock, or another than that of then."""
    deadline = time.monotonic() + seconds
    while lock_is_held(state) and not _is_another(state, began):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _left_by(call: Call, away: SupervisorAway) -> list[str]:
    """The supervisor has gone without our hearing its answer: who is kept, or nobody at all."""
    runs = away.facts.get("runs") or []
    left = [run["service"] for run in runs if not run.get("hidden") and not run.get("ending")]
    if not left and not is_gone(call.places.state):
        raise away
    return left


def _switch_off(call: Call, away: SupervisorAway) -> None:
    """Let the keeper end a supervisor that does not answer, or try no longer to start one."""
    from holdfast.cli import keeper_fallback
    from holdfast.client.keeper_connection import KeeperConnection

    keeper_fallback.warn(call, away)
    line = KeeperConnection(call.places.keeper_socket)
    try:
        line.ask("supervise", on=False)
    finally:
        line.close()
    if not _supervisor_is_off(call):
        raise TimedOut("the supervisor is still there", away.hint)


def _follow(
    call: Call, connection: Connection, ends: Ends, followed: int, asked: int
) -> list[str] | None:
    """Read until the supervisor hangs up; answers who is kept, None if it died before it said."""
    kept: list[str] | None = None
    while True:
        try:
            frame = connection.receive(ASK_SECONDS if kept is None else GONE_SECONDS)
        except ConnectionLost:
            return kept
        if frame is None and kept is not None:
            return kept
        if frame is None:
            call.see_if_alive()
        elif frame.get("id") == asked:
            if not frame.get("ok"):
                raise error_from(frame.get("error") or {})
            result = frame.get("result") or {}
            kept, ends.stuck = result.get("kept") or [], result.get("stuck") or []
        elif frame.get("id") == followed:
            for event in events_in(frame):
                ends.take(event)


def _supervisor_is_off(call: Call) -> bool:
    deadline = time.monotonic() + GONE_SECONDS
    while time.monotonic() < deadline:
        facts = keeper_facts(call.places)
        if facts is None or facts["supervisor"]["state"] == "off":
            return True
        time.sleep(POLL_SECONDS)
    return False


def _nothing_was_up(call: Call) -> int:
    if call.is_json:
        call.emit({"outcome": "already_down", "services": {}, "seconds": 0.0})
    else:
        call.say("nothing runs here")
    return 0
