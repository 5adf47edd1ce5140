"""The open alerts: folds stored events into alerts, each event exactly once.

Reads events after they are stored, from a durable position on. The consequences (alert events, open
alerts, the new position) are one transaction, so a supervisor killed at any moment neither loses
nor repeats an alert. Decides nothing: `rules.alerts.folding` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.adapters.store.state_store import StateStore
from holdfast.engine.event_bus import EventBus
from holdfast.rules.alerts import folding as rules
from holdfast.rules.alerts.folding import AlertChange, Key, applied, key_of
from holdfast.vocabulary.alerts import SEVERITIES, Alert
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.events import Event, EventKind

SAVED_AS = "alerts"
ALERT_KINDS = (EventKind.ALERT_RAISED.value, EventKind.ALERT_CLEARED.value)
_BATCH = 500
_RETRY_SECONDS = 5.0
_REPLACED = EventKind.DATABASE_REPLACED.value
_MOST_UNSAVED = 1000
"""Events without consequence may be folded again, so the position is saved only now and then."""
_log = logger("alerts")


class SavedAlerts(msgspec.Struct, frozen=True, kw_only=True):
    """The alerts that are open after event `seq`, as the database stores them."""

    seq: int
    open: list[Alert] = []


class OpenAlerts:
    """The open alerts of this Holdfast."""

    def __init__(self, store: StateStore, bus: EventBus) -> None:
        self._store = store
        self._bus = bus
        self._place = 0
        self._saved_place = 0
        self._task: asyncio.Task[None] | None = None
        self._listeners: list[Callable[[], None]] = []
        self.open: dict[Key, Alert] = {}
        self._counts: dict[str, int] | None = None

    def restore(self, saved: str | None, last_seq: int) -> None:
        """Continue where an earlier supervisor was; without its state, after the last event.

        Call it before the first event is recorded, in the same turn.
        """
        self._place, self.open = last_seq, {}
        if saved:
            try:
                found = msgspec.json.decode(saved, type=SavedAlerts)
                self._place = found.seq
                self.open = {key_of(alert): alert for alert in found.open}
            except msgspec.MsgspecError as error:
                _log.error("the open alerts of an earlier supervisor are not understood: %s", error)
        self._save()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._follow())

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call the listener when alert events are stored."""
        self._listeners.append(listener)

    @property
    def stored_seq(self) -> int:
        """Every event up to this number is stored and folded."""
        return self._place

    def counts(self) -> dict[str, int]:
        """Return how many alerts are open by severity, the most severe first, without zeros."""
        if self._counts is None:
            found = dict.fromkeys(reversed(SEVERITIES), 0)
            for alert in self.open.values():
                found[alert.severity] += 1
            self._counts = {severity: count for severity, count in found.items() if count}
        return self._counts

    def of(self, service: str) -> list[Alert]:
        return [alert for alert in self.open.values() if alert.service == service]

    def fold(self, events: list[Event]) -> None:
        """Take these events, all in one turn of the loop."""
        changes: list[AlertChange] = []
        for event in events:
            if event.seq <= self._place:
                continue
            self._place = event.seq
            found = self._changes(event)
            if found:
                self.open, self._counts = applied(self.open, found), None
            changes += found
        told = [change for change in changes if change.what != "repeated"]
        for change in told:
            self._announce(change)
        is_forgotten = any(event.kind == _REPLACED for event in events)
        if told or is_forgotten or self._place - self._saved_place >= _MOST_UNSAVED:
            self._save()
        if any(event.kind in ALERT_KINDS for event in events):
            for listener in self._listeners:
                listener()

    async def _follow(self) -> None:
        while True:
            try:
                await self._fold_next()
            except HoldfastError as error:
                # The history cannot be read just now. Nothing is lost: it is read later.
                _log.error("alerts wait for the history: %s", error.message)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _fold_next(self) -> None:
        newest = self._bus.last_seq
        batch = self._bus.after(self._place, _BATCH)
        if batch is None:
            found = await self._store.events_after(self._place, _BATCH, [])
            batch = [Event(**fields) for fields in found]
        self.fold(batch)
        if len(batch) < _BATCH:
            self._place = max(self._place, newest)
            await self._bus.newer_than(self._place)

    def _changes(self, event: Event) -> list[AlertChange]:
        try:
            return rules.fold(self.open, event)
        except Exception:  # noqa: BLE001 - one odd event must not end all alerts
            _log.exception("event %d was not understood", event.seq)
            return []

    def _announce(self, change: AlertChange) -> None:
        alert = change.alert
        kind = EventKind.ALERT_CLEARED if change.what == "cleared" else EventKind.ALERT_RAISED
        fields = msgspec.structs.asdict(alert)
        for name in ("service", "run_id"):
            del fields[name]
        self._store.event(kind, alert.service, alert.run_id, **fields)

    def _save(self) -> None:
        self._saved_place = self._place
        saved = SavedAlerts(seq=self._place, open=list(self.open.values()))
        self._store.set_meta(SAVED_AS, msgspec.json.encode(saved).decode())


def alert_of(event: dict[str, Any]) -> Alert:
    """Return the alert of an alert event."""
    fields = {"service": event["service"], "run_id": event["run_id"], **event["data"]}
    return msgspec.convert(fields, Alert)
