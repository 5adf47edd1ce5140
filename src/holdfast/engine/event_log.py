"""Writes events into Holdfast's own log, one line for each.

What a person looks for when something went wrong is logged at `info`, the steps between at `debug`.
Events hold no value of an environment, so neither does the log.
"""

from __future__ import annotations

import logging
from typing import Any

from holdfast.adapters.own_log import facts, logger
from holdfast.vocabulary.events import Event, EventKind

_log = logger("events")
_STEPS = frozenset(
    kind.value
    for kind in (
        EventKind.TRANSITION,
        EventKind.PROCESS_STARTED,
        EventKind.TREE_ENDED,
        EventKind.SERVICE_ADDED,
    )
)


_IN_LOGS: dict[str, dict[str, str]] = {
    EventKind.EXIT.value: {"seconds": "uptime"},
    EventKind.START_FAILED.value: {"reason": "error"},
    EventKind.SUPPRESSED.value: {"reason": "error"},
    EventKind.CONDEMNED.value: {"reason": "error"},
    EventKind.HEALTH_FAILED.value: {"reason": "error"},
}
_WORDS = {EventKind.HEALTH_FAILED.value: "Service health check failed"}


def write(events: list[Event]) -> None:
    """Log one line for each event whose level is enabled."""
    for event in events:
        level = logging.DEBUG if event.kind in _STEPS else logging.INFO
        if event.kind in _WORDS:
            level = logging.WARNING
        if _log.isEnabledFor(level):
            words = _WORDS.get(event.kind, event.kind)
            _log.log(level, "%s", words, extra=facts(**facts_of(event)))


def facts_of(event: Event) -> dict[str, Any]:
    """Return the simple facts of an event that fit a line, under the names that logs use."""
    names = _IN_LOGS.get(event.kind, {})
    plain = {
        names.get(key, key): value
        for key, value in event.data.items()
        if isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != ""
    }
    return {"service": event.service, **plain, "run_id": event.run_id, "seq": event.seq}
