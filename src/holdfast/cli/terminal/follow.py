"""Follows a Holdfast over time: which services printed something, and reconnecting.

The supervisor says which service printed; the keeper does while there is no supervisor. The
replacement of a supervisor is only a pause: readers keep their cursor in the log, so nothing is
missed and nothing is shown twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.cli.call import Call
from holdfast.cli.terminal.signals import interruptible
from holdfast.client import discovery
from holdfast.client.connection import Connection, ConnectionLost, error_from
from holdfast.client.discovery import SupervisorAway, connect_unless_down
from holdfast.client.keeper_connection import KeeperConnection
from holdfast.secrets.redaction import set_values
from holdfast.vocabulary.errors import HoldfastError, KeeperGone, NoDaemon, TimedOut, UsageError

RETRY_SUPERVISOR_SECONDS = 2.0

Wake = tuple[str | None, bool]
"""A service that printed something, and whether its run is over; None means any service."""


def learn_secrets(call: Call) -> None:
    """Learn from the supervisor which values to hide. Without one, only what looks like a secret
    is hidden."""
    try:
        connection = call.connect()
        _learn(connection)
    except HoldfastError:
        return


def _learn(connection: Connection) -> int:
    """Learn the values to hide; returns the number of the supervisor's list."""
    try:
        hidden = connection.ask("hello", secrets=True).get("hidden") or {}
    except UsageError:
        return 0  # an older supervisor does not know this field
    set_values(hidden.get("values") or ())
    return int(hidden.get("number") or 0)


def note_down(call: Call) -> None:
    """Say that following ends because Holdfast is down."""
    if not call.is_json:
        call.note("Holdfast is down; nothing more will come")


def connect_again(call: Call) -> Connection:
    """Connect to the next supervisor after a connection was lost."""
    call.use(None)
    connection = discovery.connect_again(call.places)
    call.use(connection)
    return connection


def is_reconnected(call: Call) -> bool:
    """Connect to the next supervisor after a connection was lost; if Holdfast is down, say so and
    return False."""
    call.use(None)
    connection = connect_unless_down(call.places, None if call.is_json else call.note)
    if connection is None:
        note_down(call)
        return False
    call.use(connection)
    return True


def wakes(call: Call, names: list[str]) -> Iterator[Wake]:
    """Yield whenever there is something to read; ends when Holdfast is gone."""
    while True:
        try:
            connection = call.connect()
        except SupervisorAway as away:
            yield from _keeper_wakes(call, away)
            continue
        except TimedOut:
            yield None, False
            call.use(None)
            continue
        except NoDaemon:
            yield None, False
            return
        try:
            yield from _supervisor_wakes(connection, names)
        except ConnectionLost:
            pass
        call.use(None)


def _supervisor_wakes(connection: Connection, names: list[str]) -> Iterator[Wake]:
    known = _learn(connection)
    request = connection.send("watch", services=names)
    yield None, False
    with interruptible() as wait:
        while True:
            frame = wait.receive(connection)
            if frame is None or frame.get("id") != request:
                continue
            if "item" not in frame:
                if not frame.get("ok"):
                    raise error_from(frame.get("error") or {})
                return
            if frame["item"].get("hides", known) != known:
                known = _learn(connection)
            item: dict[str, Any] = frame["item"]
            yield item["service"], bool(item.get("exited"))


def _keeper_wakes(call: Call, away: SupervisorAway) -> Iterator[Wake]:
    """Ask the keeper while there is no supervisor; returns after a while, so that the caller tries
    the supervisor again."""
    try:
        keeper = KeeperConnection(call.places.keeper_socket)
    except KeeperGone:
        return
    try:
        for run in away.facts.get("runs", []):
            keeper.ask("watch", service=run["service"], on=True)
        yield None, False
        while (notice := keeper.notice(RETRY_SUPERVISOR_SECONDS)) is not None:
            if notice["notice"] == "grew":
                yield notice["service"], False
            elif notice["notice"] == "exit":
                yield notice["service"], True
    except KeeperGone:
        pass
    finally:
        keeper.close()
