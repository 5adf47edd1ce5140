"""Writes events into Holdfast's own log, one line for each.

Trouble is logged at `warning`, at `error` what nothing is done about any more; what else a person
looks for at `info`, the steps between at `debug`. Events hold no value of an environment, so
neither does the log.
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
        EventKind.HEALTH_PASSED,  # the monitor logs it with the uptime
    )
)
_TROUBLE = frozenset(
    kind.value
    for kind in (
        EventKind.START_FAILED,
        EventKind.CONDEMNED,
        EventKind.HEALTH_FAILED,
        EventKind.LIMIT_REACHED,
        EventKind.WATCH_FAILED,
        EventKind.OUTPUT_GAP,
        EventKind.ALERT_RAISED,
        EventKind.ALERT_UNDELIVERED,
        EventKind.DATABASE_REPLACED,
        EventKind.LOCKDOWN_BEGAN,
    )
)
_ENDINGS = frozenset((EventKind.COMMAND_FINISHED.value, EventKind.WORKFLOW_FINISHED.value))


_IN_LOGS: dict[str, dict[str, str]] = {
    EventKind.EXIT.value: {"seconds": "uptime"},
    EventKind.ALERT_RAISED.value: {"message": "error"},
    **{
        kind.value: {"reason": "error"}
        for kind in (
            EventKind.START_FAILED,
            EventKind.SUPPRESSED,
            EventKind.CONDEMNED,
            EventKind.HEALTH_FAILED,
            EventKind.LIMIT_REACHED,
            EventKind.COMMAND_FINISHED,
            EventKind.WORKFLOW_FINISHED,
        )
    },
}


def write(events: list[Event]) -> None:
    """Log one line for each event whose level is enabled."""
    for event in events:
        level = level_of(event)
        if _log.isEnabledFor(level):
            _log.log(level, "%s", _words_of(event), extra=facts(**facts_of(event)))


def level_of(event: Event) -> int:
    """Return the level at which an event is logged."""
    kind, data = event.kind, event.data
    if kind in _STEPS:
        return logging.DEBUG
    is_critical = kind == EventKind.ALERT_RAISED.value and data.get("severity") == "critical"
    if is_critical or kind == EventKind.SUPPRESSED.value:
        return logging.ERROR
    is_failure = kind == EventKind.EXIT.value and data.get("error_type") is not None
    is_undone = kind in _ENDINGS and data.get("outcome") not in ("done", "cancelled")
    if kind in _TROUBLE or is_failure or is_undone:
        return logging.WARNING
    return logging.INFO


def _words_of(event: Event) -> str:
    """Return the message; for what other supervisors log too, in their words."""
    if event.kind == EventKind.HEALTH_FAILED.value:
        return "Service health check failed"
    if event.kind == EventKind.CONDEMNED.value and event.data.get("cause") == "timeout":
        return "Process timed out"
    return event.kind


def facts_of(event: Event) -> dict[str, Any]:
    """Return the simple facts of an event that fit a line, under the names that logs use."""
    names = _IN_LOGS.get(event.kind, {})
    plain = {
        names.get(key, key): value
        for key, value in event.data.items()
        if isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != ""
    }
    return {"service": event.service, **plain, "run_id": event.run_id, "seq": event.seq}
