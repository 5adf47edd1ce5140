"""How the CLI finds somebody to speak to: the supervisor, or the keeper when it is away.

A supervisor that is being relaunched is waited for; one that cannot start is told as
`SupervisorAway`. Starts nothing and repairs nothing.
"""

from __future__ import annotations

import os
import time

from holdfast import __version__
from holdfast.client.connection import Connection, ConnectionLost
from holdfast.client.versions import check_versions
from holdfast.system import claims
from holdfast.system.places import Places, keeper_note, lock_is_held
from holdfast.vocabulary.errors import HoldfastError, NoDaemon, TimedOut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PATIENCE_SECONDS = 10.0
HUNG_SECONDS = 5.0
SETTLED_SECONDS = 10.0
POLL_SECONDS = 0.02
KEEPER_CHECK_SECONDS = 0.25
TRIES_BEFORE_AWAY = 3
NEEDED_BYTES = 1 << 20
"""What a database takes that has just begun."""


class SupervisorAway(NoDaemon):
    """The keeper holds the services, but no supervisor runs; `facts` is the keeper's hello."""

    def __init__(self, places: Places, facts: dict[str, Any]) -> None:
        supervisor = facts.get("supervisor") or {}
        self.facts = facts
        self.is_off = supervisor.get("state") == "off"
        errors = os.path.join(places.state, "supervisor.err")
        if self.is_off:
            super().__init__(
                "the supervisor is off; the keeper holds the services",
                "`holdfast up` starts the supervisor again",
            )
            return
        # The last line of a traceback says it; the whole is in the file.
        said = str(supervisor.get("last_error") or "").strip().rpartition("\n")[2]
        why = said or _ended_how(supervisor.get("last_exit")) + _no_room(places.state)
        super().__init__(
            f"the supervisor cannot start: it failed {_tries(supervisor)}: {why}",
            f"its messages are in {errors}; `status`, `logs`, `stop` and `down` still work; "
            "after a new installation, `holdfast upgrade` starts that",
            {"supervisor_err": errors},
        )


def _tries(supervisor: dict[str, Any]) -> str:
    """How often so far, and when again: «5 times in a row, and is tried again in 4 s»."""
    failures = supervisor.get("failures") or 1
    words = f"{failures} times in a row" if failures > 1 else "once"
    if (next_in := supervisor.get("next_in")) is None:
        return f"{words}, and is tried again"
    return f"{words}, and is tried again in {max(1, round(next_in))} s"


def _ended_how(last_exit: dict[str, Any] | None) -> str:
    last_exit = last_exit or {}
    if last_exit.get("signal"):
        return f"ended by signal {last_exit['signal']}"
    code = last_exit.get("code")
    return "why is unknown" if code is None else f"exit code {code}"


def _no_room(state: str) -> str:
    """Who finds the disk full cannot even write why it ends."""
    try:
        disk = os.statvfs(state)
    except OSError:
        return f"; {state} is gone"
    is_full = disk.f_bavail * disk.f_frsize < NEEDED_BYTES
    return f"; {state} has no room left, free some" if is_full else ""


class SupervisorHung(SupervisorAway):
    """A supervisor process is there, but it does not even answer a hello."""

    code = TimedOut.code
    exit_code = TimedOut.exit_code

    def __init__(self, places: Places, facts: dict[str, Any]) -> None:
        super().__init__(places, facts)
        pid = (facts.get("supervisor") or {}).get("pid")
        self.message = f"the supervisor (pid {pid}) does not answer; the keeper holds the services"
        self.hint = (
            "`status`, `logs`, `stop` and `down` work without it; "
            f"after `kill -9 {pid}` the keeper starts a new one"
        )
        self.details = {"supervisor_pid": pid}


def reach(
    places: Places, *, patience: float = PATIENCE_SECONDS, any_version: bool = False
) -> Connection:
    """A greeted connection to the supervisor of these places."""
    begun = time.monotonic()
    deadline = begun + patience
    connection: Connection | None = None
    try:
        wait = min(KEEPER_CHECK_SECONDS, patience)
        next_keeper_check = 0.0
        hello = 0
        while True:
            if connection is None and (connection := _connect(places)):
                hello = connection.send("hello", version=__version__)
            if connection is not None:
                try:
                    greeting = connection.answer(hello, wait)
                except ConnectionLost:
                    connection.close()
                    connection = None
                except TimeoutError:
                    wait = KEEPER_CHECK_SECONDS
                else:
                    if not any_version:
                        check_versions(__version__, str(greeting.get("version", "")))
                    found, connection = connection, None
                    return found
            now = time.monotonic()
            if now >= next_keeper_check:
                next_keeper_check = now + KEEPER_CHECK_SECONDS
                _check_keeper(
                    places,
                    is_line_open=connection is not None,
                    waited=now - begun if connection is not None else 0.0,
                )
            if now >= deadline:
                raise _no_answer(places, patience)
            if connection is None:
                time.sleep(POLL_SECONDS)
    finally:
        if connection is not None:
            connection.close()


def _no_answer(places: Places, patience: float) -> TimedOut:
    errors = os.path.join(places.state, "supervisor.err")
    return TimedOut(
        f"the supervisor did not answer within {patience:g} s", f"its messages are in {errors}"
    )


def _check_keeper(places: Places, *, is_line_open: bool, waited: float) -> None:
    """Raise when waiting is of no use: nobody is there, or the supervisor is away."""
    facts = keeper_facts(places)
    if facts is None:
        # Between the death of a keeper and its recovery only the lock, or the line's open
        # socket, tells that somebody is still there.
        if not is_line_open and not lock_is_held(places.state) and not claims.call(places.state):
            raise nothing_runs(places)
        _ask_for_sockets(places)
        return
    if not is_line_open:
        _ask_for_sockets(places)
    supervisor = facts.get("supervisor") or {}
    state = supervisor.get("state")
    failures = supervisor.get("failures") or 0
    if state == "off" or (state == "backoff" and failures >= TRIES_BEFORE_AWAY):
        raise SupervisorAway(places, facts)
    is_settled = time.time() - (supervisor.get("since") or 0.0) > SETTLED_SECONDS
    if state == "running" and is_settled and waited >= HUNG_SECONDS:
        raise SupervisorHung(places, facts)


def _ask_for_sockets(places: Places) -> None:
    """Tell the keeper, by SIGHUP, that somebody has deleted a socket of it."""
    if os.path.exists(places.line_socket) and os.path.exists(places.keeper_socket):
        return
    from signal import SIGHUP

    from holdfast.client.survivors import start_time_of

    told = keeper_note(places.state)
    pid, born = told.get("pid"), told.get("start_time")
    if pid and born and told.get("runtime") == places.runtime and start_time_of(pid) == born:
        try:
            os.kill(pid, SIGHUP)
        except ProcessLookupError:
            pass  # it is gone since, which whoever asks next will see


def keeper_facts(places: Places) -> dict[str, Any] | None:
    """What the keeper tells of itself, or None when none answers."""
    from holdfast.client.keeper_connection import KeeperConnection

    try:
        line = KeeperConnection(places.keeper_socket)
    except HoldfastError:
        return None
    line.close()
    return line.facts


def nothing_runs(places: Places) -> NoDaemon:
    """Nobody is there; what a Holdfast that was killed has left running is named."""
    if os.path.exists(os.path.join(places.state, "keeper.json")):
        from holdfast.client.survivors import outlived

        if left := outlived(places.state):
            return Outlived(left, places)
    if places.config and not os.path.exists(places.config):
        hint = f"{places.config}: no such file; `holdfast ls` lists what runs elsewhere"
    elif places.config:
        hint = f"`holdfast up` starts the services of {places.config}"
    else:
        hint = "`holdfast init` writes a configuration, `holdfast run -- COMMAND` needs none"
    return NoDaemon(f"nothing runs here ({places.project})", hint, {"project": places.project})


class Outlived(NoDaemon):
    """Keeper and supervisor were killed; some of their services live on."""

    def __init__(self, left: dict[str, int], places: Places) -> None:
        named = ", ".join(f"{name} pid {pid}" for name, pid in left.items())
        are, them = (
            ("1 service outlived its", "it")
            if len(left) == 1
            else (f"{len(left)} services outlived their", "them")
        )
        super().__init__(
            f"{are} Holdfast ({named})",
            f"`holdfast up` takes {them} over; after that `holdfast down` stops {them}",
            {"project": places.project, "survivors": left},
        )


def _connect(places: Places) -> Connection | None:
    try:
        return Connection(places.line_socket, owner=os.stat(places.state).st_uid)
    except (NoDaemon, FileNotFoundError):
        return None
