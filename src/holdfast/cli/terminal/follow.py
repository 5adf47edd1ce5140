"""Waiting for more output: who has printed, told by the supervisor, or by the keeper.

A supervisor that is replaced is only a pause: readers keep their place in the log, so
nothing is missed and nothing is seen twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from holdfast.cli.call import Call
from holdfast.cli.terminal.signals import patience
from holdfast.client.connection import Connection, ConnectionLost, error_from
from holdfast.client.discovery import Outlived, SupervisorAway
from holdfast.client.keeper_connection import KeeperConnection
from holdfast.secrets.redaction import set_values
from holdfast.vocabulary.errors import HoldfastError, KeeperGone, NoDaemon, TimedOut, UsageError

KEEPER_SECONDS = 2.0
LEAST_SECONDS = 0.1

Wake = tuple[str | None, bool]
"""(service, its run is over); no service: look at all."""


def learn_secrets(call: Call) -> None:
    """Know which values are not to be shown. Without a supervisor, what has the shape of a secret
    is hidden all the same."""
    try:
        connection = call.connect()
        _learn(connection)
    except HoldfastError:
        return


def _learn(connection: Connection) -> int:
    """Under which number the supervisor has them now."""
    try:
        hidden = connection.ask("hello", secrets=True).get("hidden") or {}
    except UsageError:
        return 0  # an older one does not know the question
    set_values(hidden.get("values") or ())
    return int(hidden.get("number") or 0)


def say_it_is_down(call: Call) -> None:
    """Why following has come to its end."""
    if not call.is_json:
        call.note("Holdfast is down; nothing more will come")


def connect_again(call: Call, on_wait: Callable[[str], None] | None = None) -> Connection:
    """A connection to the next supervisor, after one was lost. One that takes long to come, or
    that failed and is tried again, is waited for: who follows something has time. `on_wait` is
    told once what is waited for."""
    call.use(None)
    while True:
        try:
            return call.connect()
        except TimedOut:
            pass
        except SupervisorAway as away:
            next_in = (away.facts.get("supervisor") or {}).get("next_in")
            if next_in is None:
                raise  # it is off, or hangs: nobody will start another
            if on_wait is not None:
                on_wait(away.message)
                on_wait = None
            time.sleep(max(LEAST_SECONDS, next_in))
        call.use(None)


def is_there_again(call: Call) -> bool:
    """Connect to the next supervisor, after one was lost; when Holdfast is down, that is said."""
    try:
        connect_again(call, None if call.is_json else call.note)
    except (SupervisorAway, Outlived):
        raise
    except NoDaemon:
        say_it_is_down(call)
        return False
    return True


def wakes(call: Call, names: list[str]) -> Iterator[Wake]:
    """Yields whenever there is something to read; ends when Holdfast is gone."""
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
    with patience() as patient:
        while True:
            frame = patient.receive(connection)
            if frame is None or frame.get("id") != request:
                continue
            if "item" not in frame:
                if not frame.get("ok"):
                    raise error_from(frame.get("error") or {})
                return
            if frame["item"].get("hides", known) != known:
                known = _learn(connection)
            yield wake_of(frame["item"])


def wake_of(item: dict[str, Any]) -> Wake:
    return item["service"], bool(item.get("exited"))


def _keeper_wakes(call: Call, away: SupervisorAway) -> Iterator[Wake]:
    """With no supervisor, the keeper tells; after a while the supervisor is tried again."""
    try:
        line = KeeperConnection(call.places.keeper_socket)
    except KeeperGone:
        return
    try:
        for run in away.facts.get("runs", []):
            line.ask("watch", service=run["service"], on=True)
        yield None, False
        while (notice := line.notice(KEEPER_SECONDS)) is not None:
            if notice.get("notice") == "grew":
                yield notice["service"], False
            elif notice.get("notice") == "exit":
                yield notice["service"], True
    except KeeperGone:
        pass
    finally:
        line.close()
