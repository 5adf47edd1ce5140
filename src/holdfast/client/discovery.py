"""Finds the running Holdfast of a project: its supervisor, or else its keeper.

`connect` waits for a supervisor that is being relaunched. If none can start it raises
`SupervisorAway`, with the facts of the keeper; if nothing runs, `NoDaemon`. Starts nothing and
repairs nothing.
"""

from __future__ import annotations

import os
import time

from holdfast import __version__
from holdfast.client.connection import Connection, ConnectionLost
from holdfast.system import claims
from holdfast.system.places import Places, keeper_note, lock_is_held
from holdfast.vocabulary.errors import HoldfastError, NoDaemon, Refused, TimedOut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.keeper.protocol.messages import KeeperFacts, SupervisorExit, SupervisorFacts

CONNECT_SECONDS = 10.0
HUNG_SECONDS = 5.0
SETTLED_SECONDS = 10.0
POLL_SECONDS = 0.02
SHORTEST_WAIT_SECONDS = 0.1
KEEPER_CHECK_SECONDS = 0.25
TRIES_BEFORE_AWAY = 3
NEEDED_BYTES = 1 << 20
"""The space that a new database needs."""


class SupervisorAway(NoDaemon):
    """The keeper holds the services, but no supervisor runs. `facts` is the keeper's hello."""

    def __init__(self, places: Places, facts: KeeperFacts) -> None:
        supervisor = facts["supervisor"]
        self.facts = facts
        self.is_off = supervisor["state"] == "off"
        errors = os.path.join(places.state, "supervisor.err")
        if self.is_off:
            super().__init__(
                "the supervisor is off; the keeper holds the services",
                "`holdfast up` starts the supervisor again",
            )
            return
        # The last line of a traceback is enough; the rest is in the file.
        last_line = str(supervisor.get("last_error") or "").strip().rpartition("\n")[2]
        why = last_line or _ended_how(supervisor.get("last_exit")) + _no_room(places.state)
        super().__init__(
            f"the supervisor cannot start: it failed {_tries(supervisor)}: {why}",
            f"its messages are in {errors}; `status`, `logs`, `stop` and `down` still work; "
            "after a new installation, `holdfast upgrade` starts that",
            {"supervisor_err": errors},
        )


def _tries(supervisor: SupervisorFacts) -> str:
    """How often it failed and when it is tried again: «5 times in a row, and is tried again in
    4 s»."""
    failures = supervisor.get("failures") or 1
    words = f"{failures} times in a row" if failures > 1 else "once"
    if (next_in := supervisor.get("next_in")) is None:
        return f"{words}, and is tried again"
    return f"{words}, and is tried again in {max(1, round(next_in))} s"


def _ended_how(last_exit: SupervisorExit | None) -> str:
    if last_exit is not None and last_exit.get("signal"):
        return f"ended by signal {last_exit['signal']}"
    code = None if last_exit is None else last_exit.get("code")
    return "why is unknown" if code is None else f"exit code {code}"


def _no_room(state: str) -> str:
    """Say that the disk is full, because then the supervisor cannot write why it ended."""
    try:
        disk = os.statvfs(state)
    except OSError:
        return f"; {state} is gone"
    is_full = disk.f_bavail * disk.f_frsize < NEEDED_BYTES
    return f"; {state} has no room left, free some" if is_full else ""


class SupervisorHung(SupervisorAway):
    """The supervisor's process exists, but does not answer a hello."""

    code = TimedOut.code
    exit_code = TimedOut.exit_code

    def __init__(self, places: Places, facts: KeeperFacts) -> None:
        super().__init__(places, facts)
        pid = facts["supervisor"].get("pid")
        self.message = f"the supervisor (pid {pid}) does not answer; the keeper holds the services"
        self.hint = (
            "`status`, `logs`, `stop` and `down` work without it; "
            f"after `kill -9 {pid}` the keeper starts a new one"
        )
        self.details = {"supervisor_pid": pid}


def connect(
    places: Places, *, timeout_seconds: float = CONNECT_SECONDS, any_version: bool = False
) -> Connection:
    """A connection to the supervisor of these places, which has answered a hello."""
    begun = time.monotonic()
    deadline = begun + timeout_seconds
    connection: Connection | None = None
    try:
        wait = min(KEEPER_CHECK_SECONDS, timeout_seconds)
        next_keeper_check = 0.0
        hello = 0
        while True:
            if connection is None and (connection := _open_connection(places)):
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
                raise _no_answer(places, timeout_seconds)
            if connection is None:
                time.sleep(POLL_SECONDS)
    finally:
        if connection is not None:
            connection.close()


def service_environment(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """A caller's environment as services get it, and the names of variables that are left out
    because they are not text, which JSON cannot carry."""
    environment: dict[str, str] = {}
    left_out: list[str] = []
    for name, value in environ.items():
        if name == "HOLDFAST_STATE_DIR":
            # Not for services: a Holdfast that a service starts must have its own state folder.
            continue
        try:
            (name + value).encode()
        except UnicodeEncodeError:
            left_out.append(name)
            continue
        environment[name] = value
    return environment, left_out


def connect_again(places: Places, on_wait: Callable[[str], None] | None = None) -> Connection:
    """A connection to the next supervisor after one was lost. Waits for one that starts slowly, or
    that failed and will be tried again. `on_wait` is called once with the reason."""
    while True:
        try:
            return connect(places)
        except TimedOut:
            pass
        except SupervisorAway as away:
            next_in = away.facts["supervisor"].get("next_in")
            if next_in is None:
                raise  # it is off or hangs, so no other will be started
            if on_wait is not None:
                on_wait(away.message)
                on_wait = None
            time.sleep(max(SHORTEST_WAIT_SECONDS, next_in))


def connect_unless_down(
    places: Places, on_wait: Callable[[str], None] | None = None
) -> Connection | None:
    """As `connect_again`; None if Holdfast is down."""
    try:
        return connect_again(places, on_wait)
    except (SupervisorAway, OrphanedServices):
        raise
    except NoDaemon:
        return None


def _no_answer(places: Places, timeout_seconds: float) -> TimedOut:
    errors = os.path.join(places.state, "supervisor.err")
    return TimedOut(
        f"the supervisor did not answer within {timeout_seconds:g} s",
        f"its messages are in {errors}",
    )


def _check_keeper(places: Places, *, is_line_open: bool, waited: float) -> None:
    """Raise if waiting is useless, because nothing runs or no supervisor can start."""
    facts = keeper_facts(places)
    if facts is None:
        # Between the death of a keeper and its recovery, only the lock or the open connection
        # shows that Holdfast still runs.
        if not is_line_open and not lock_is_held(places.state) and not claims.call(places.state):
            raise nothing_runs(places)
        _ask_for_sockets(places)
        return
    if not is_line_open:
        _ask_for_sockets(places)
    supervisor = facts["supervisor"]
    state = supervisor["state"]
    failures = supervisor.get("failures") or 0
    if state == "off" or (state == "backoff" and failures >= TRIES_BEFORE_AWAY):
        raise SupervisorAway(places, facts)
    is_settled = time.time() - (supervisor.get("since") or 0.0) > SETTLED_SECONDS
    if state == "running" and is_settled and waited >= HUNG_SECONDS:
        raise SupervisorHung(places, facts)


def _ask_for_sockets(places: Places) -> None:
    """Ask the keeper, by SIGHUP, to create a deleted socket again."""
    if os.path.exists(places.line_socket) and os.path.exists(places.keeper_socket):
        return
    from signal import SIGHUP

    from holdfast.client.survivors import is_running

    note = keeper_note(places.state)
    pid, start_time = note.get("pid"), note.get("start_time")
    if not pid or not start_time or note.get("runtime") != places.runtime:
        return
    if is_running(pid, start_time):
        try:
            os.kill(pid, SIGHUP)
        except ProcessLookupError:
            pass  # it has ended since; the next check notices


def check_versions(ours: str, theirs: str) -> None:
    """Raise Refused unless the daemon is at most one minor version away from this CLI."""
    mine, other = _numbers(ours), _numbers(theirs)
    if mine is None or other is None or mine == other:
        return
    if mine[0] == other[0] and abs(mine[1] - other[1]) <= 1:
        return
    if other > mine:
        hint = (
            "install that version of holdfast, "
            f"or run `holdfast upgrade` to go back to {ours}; no service notices"
        )
    else:
        hint = f"`holdfast upgrade` swaps the daemon for {ours}; no service notices"
    raise Refused(
        f"this is holdfast {ours}, the daemon is {theirs}: too far apart to understand each other",
        hint,
        {"version": ours, "daemon_version": theirs},
    )


def _numbers(version: str) -> tuple[int, int] | None:
    parts = version.split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (IndexError, ValueError):
        return None


def keeper_facts(places: Places) -> KeeperFacts | None:
    """The keeper's hello, or None if no keeper answers."""
    from holdfast.client.keeper_connection import KeeperConnection

    try:
        keeper = KeeperConnection(places.keeper_socket)
    except HoldfastError:
        return None
    keeper.close()
    return keeper.facts


def nothing_runs(places: Places) -> NoDaemon:
    """The error that nothing runs; names services that a killed Holdfast has left running."""
    if os.path.exists(os.path.join(places.state, "keeper.json")):
        from holdfast.client.survivors import surviving_services

        if survivors := surviving_services(places.state):
            return OrphanedServices(survivors, places)
    if places.config and not os.path.exists(places.config):
        hint = f"{places.config}: no such file; `holdfast ls` lists what runs elsewhere"
    elif places.config:
        hint = f"`holdfast up` starts the services of {places.config}"
    else:
        hint = "`holdfast init` writes a configuration, `holdfast run -- COMMAND` needs none"
    return NoDaemon(f"nothing runs here ({places.project})", hint, {"project": places.project})


class OrphanedServices(NoDaemon):
    """Keeper and supervisor were killed, and some of their services still run."""

    def __init__(self, survivors: dict[str, int], places: Places) -> None:
        named = ", ".join(f"{name} pid {pid}" for name, pid in survivors.items())
        are, them = (
            ("1 service outlived its", "it")
            if len(survivors) == 1
            else (f"{len(survivors)} services outlived their", "them")
        )
        super().__init__(
            f"{are} Holdfast ({named})",
            f"`holdfast up` takes {them} over; after that `holdfast down` stops {them}",
            {"project": places.project, "survivors": survivors},
        )


def _open_connection(places: Places) -> Connection | None:
    try:
        return Connection(places.line_socket, owner=os.stat(places.state).st_uid)
    except (NoDaemon, FileNotFoundError):
        return None
