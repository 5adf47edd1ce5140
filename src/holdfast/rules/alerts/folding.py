"""Which events raise an alert, repeat one, or clear one. Pure.

A fold over stored events in the order of their numbers: the open alerts and the next event give the
changes. The same events always give the same alerts with the same ids, so a supervisor that died
between two events loses and repeats nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from holdfast.vocabulary.alerts import SEVERITIES, Alert, AlertCause, Severity
from holdfast.vocabulary.events import Event, EventKind
from holdfast.vocabulary.states import State

Key = tuple[str | None, str, str]
"""Service, cause and subject: at most one alert of these is open."""
Open = Mapping[Key, Alert]
MOST_OPEN = 2000
"""More open alerts help nobody: the least severe, then the oldest, are cleared."""

_C = AlertCause

OF_A_RUN = frozenset({
    _C.HEALTH_CHECK, _C.UNREADY, _C.UNHEALTHY, _C.CRASH, _C.START_FAILURE, _C.SUPPRESSED,
    _C.LIMIT, _C.TIMEOUT, _C.UNKILLABLE, _C.OTHER,
})  # fmt: skip
"""Causes that a requested stop clears: the service need not be well any more."""
OF_A_TRIAL = frozenset({_C.HEALTH_CHECK, _C.UNREADY, _C.UNHEALTHY})
OF_A_START = frozenset({_C.START_FAILURE, _C.SUPPRESSED, _C.UNKILLABLE})
OF_AN_END = frozenset({_C.CRASH, _C.TIMEOUT, _C.OTHER})
_FAILED = State.FAILED.value
_UNWELL = ("unhealthy", "failing", "failed")
_LIMITS = ("memory", "cpu", "processes", "limit", "resources", "resource_exceeded")


class AlertChange(NamedTuple):
    """What an event does to one alert. `told` is raised and over at once."""

    what: Literal["raised", "repeated", "cleared", "told"]
    alert: Alert


def key_of(alert: Alert) -> Key:
    return (alert.service, alert.cause, alert.subject)


def applied(alerts: Open, changes: Iterable[AlertChange]) -> dict[Key, Alert]:
    """Return the alerts that are open after these changes."""
    result = dict(alerts)
    for what, alert in changes:
        if what == "cleared":
            result.pop(key_of(alert), None)
        elif what != "told":
            result[key_of(alert)] = alert
    return result


def fold(alerts: Open, event: Event) -> list[AlertChange]:
    """Return what this event changes about the open alerts."""
    rule = _RULES.get(event.kind)
    if rule is None:
        return []
    changes = rule(alerts, event)
    return changes + _too_many(alerts, changes, event) if changes else changes


# Runs


def _on_transition(alerts: Open, event: Event) -> list[AlertChange]:
    data = event.data
    to = word(data.get("to"))
    if not alerts and to != _FAILED:
        return []  # most are like this: nothing to clear, nothing wrong
    cause = word(data.get("cause"))
    match to:
        case State.RUNNING.value:
            return clear_causes(alerts, event, "it started successfully", OF_A_START)
        case State.STOPPED.value:
            # What Holdfast stopped itself stays an alert until somebody starts it.
            causes = OF_A_RUN - {_C.SUPPRESSED}
            return clear_causes(alerts, event, "it was stopped", causes)
        case State.EXITED.value:
            return clear_causes(alerts, event, "it ended successfully", OF_A_RUN)
        case State.FAILED.value if cause == "could not be killed":
            words = f"{event.service}: processes are left that could not be killed"
            return raise_(alerts, event, _C.UNKILLABLE, "critical", words)
        case State.FAILED.value if cause == "exited with a failure":
            return _on_failure(alerts, event)
        case _:
            return []


def _on_failure(alerts: Open, event: Event) -> list[AlertChange]:
    known = alerts.get((event.service, _C.START_FAILURE.value, ""))
    if known is not None and event.run_id is not None and known.run_id == event.run_id:
        return []
    reason = word(event.data.get("reason")) or "it ended as a failure"
    # That it was the last attempt is another alert.
    reason = reason.partition("; failed ")[0].rpartition("; last: ")[2]
    return raise_(alerts, event, _C.CRASH, "warning", f"{event.service} crashed: {reason}")


def _on_started(alerts: Open, event: Event) -> list[AlertChange]:
    causes = (_C.HEALTH_CHECK, _C.UNREADY)
    changes = clear_causes(alerts, event, "another run began", causes)
    if not event.data.get("restarted", True):
        changes += clear_causes(alerts, event, "it was started anew", OF_AN_END)
    return changes


def _on_overlap(alerts: Open, event: Event) -> list[AlertChange]:
    """Clear what was wrong with a candidate when it is gone: the other run goes on."""
    if event.data.get("step") != "failed":
        return []
    because, run_id = "the run on trial is gone", event.run_id
    return clear(
        alerts, event, because, lambda alert: alert.cause in OF_A_TRIAL and alert.run_id == run_id
    )


def _on_stable(alerts: Open, event: Event) -> list[AlertChange]:
    causes = OF_AN_END | OF_A_START | {_C.LIMIT}
    return clear_causes(alerts, event, "it has been running stably since", causes)


def _on_requested(alerts: Open, event: Event) -> list[AlertChange]:
    if event.data.get("request") != "stop":
        return []
    return clear_causes(alerts, event, "it was stopped by request", OF_A_RUN)


def _on_start_failed(alerts: Open, event: Event) -> list[AlertChange]:
    reason = word(event.data.get("reason")) or "no reason is known"
    words = f"{event.service} failed to start: {reason}"
    return raise_(alerts, event, _C.START_FAILURE, "warning", words)


def _on_suppressed(alerts: Open, event: Event) -> list[AlertChange]:
    reason = word(event.data.get("reason")) or "it failed too often in a row"
    words = f"{event.service} is not started again: {reason}"
    return raise_(alerts, event, _C.SUPPRESSED, "critical", words)


def _on_condemned(alerts: Open, event: Event) -> list[AlertChange]:
    """A run is ended as a failure: raise an alert unless its monitor raises its own."""
    cause = word(event.data.get("cause")).lower()
    reason = word(event.data.get("reason")) or cause or "no reason is known"
    words = f"{event.service} was ended: {reason}"
    if cause in ("unhealthy", "liveness", "health", "watchdog"):
        return raise_(alerts, event, _C.UNHEALTHY, "critical", words, counts=False)
    if cause in _LIMITS:
        limit = cause if cause in ("memory", "cpu", "processes") else ""
        if any(
            alert.service == event.service and alert.cause == _C.LIMIT for alert in alerts.values()
        ):
            return []
        return raise_(alerts, event, _C.LIMIT, "warning", words, subject=limit)
    if cause == "start_failure":
        return []  # its end has an alert of its own
    if cause == "timeout":
        return raise_(alerts, event, _C.TIMEOUT, "warning", words, counts=False)
    return raise_(alerts, event, _C.OTHER, "warning", words, subject=cause)


def _on_recovery(alerts: Open, event: Event) -> list[AlertChange]:
    """A service that is stopped because of trouble should not stay down: somebody has to look."""
    cause = word(event.data.get("cause"))
    reason = word(event.data.get("reason")) or cause or "why is unknown"
    if event.data.get("action") != "stop":
        words = f"{event.service} {reason}"
        is_late = cause == "timeout"  # no other event says that
        return raise_(alerts, event, _C.TIMEOUT, "warning", words) if is_late else []
    words = f"{event.service} was stopped: {reason}"
    return raise_(alerts, event, _C.SUPPRESSED, "critical", words)


def _on_changed(alerts: Open, event: Event) -> list[AlertChange]:
    causes = (_C.HEALTH_CHECK, _C.WATCH)
    return clear_causes(alerts, event, "its declaration changed", causes)


def _on_removed(alerts: Open, event: Event) -> list[AlertChange]:
    because = "the service was removed"
    return clear(alerts, event, because, lambda alert: alert.service == event.service)


# Health


def _on_health_failed(alerts: Open, event: Event) -> list[AlertChange]:
    probe = _probe(event)
    if set(probe.split("+")) <= {"startup", "readiness"}:
        return []  # before a service is ready this is normal; afterwards it is reported
    reason = word(event.data.get("reason")) or "no reason is known"
    words = f"{event.service}: the {probe} check failed: {reason}".replace("  ", " ")
    times = 1 + _untold(event)
    return raise_(alerts, event, _C.HEALTH_CHECK, "info", words, subject=probe, times=times)


def _on_health_passed(alerts: Open, event: Event) -> list[AlertChange]:
    probe = _probe(event)
    return clear(
        alerts,
        event,
        "the check passed",
        lambda alert: (
            (alert.service, alert.cause) == (event.service, _C.HEALTH_CHECK.value)
            and alert.subject in (probe, "")
        ),
        times=_untold(event),
    )


def _untold(event: Event) -> int:
    """Return how many failed checks were no events: the next event says how many."""
    untold = event.data.get("untold")
    return untold if isinstance(untold, int) else 0


def _on_health_changed(alerts: Open, event: Event) -> list[AlertChange]:
    data = event.data
    if data.get("what") == "readiness" and data.get("to") == "not ready":
        lost = " any more" if data.get("from") == "ready" else ""
        reason = word(data.get("reason")) or "why is unknown"
        words = f"{event.service} is not ready{lost}: {reason}"
        return raise_(alerts, event, _C.UNREADY, "warning", words)
    if word(data.get("what") or "health") not in ("health", "liveness"):
        return []
    to = word(data.get("to") or data.get("health"))
    if to in _UNWELL:
        reason = word(data.get("reason")) or "its checks fail"
        words = f"{event.service} is unhealthy: {reason}"
        return raise_(alerts, event, _C.UNHEALTHY, "critical", words)
    if to == "healthy":
        causes = (_C.UNHEALTHY, _C.HEALTH_CHECK)
        return clear_causes(alerts, event, "it is healthy again", causes)
    return []


def _on_ready(alerts: Open, event: Event) -> list[AlertChange]:
    return clear_causes(alerts, event, "it is ready", (_C.UNREADY,))


def _probe(event: Event) -> str:
    return word(event.data.get("probe") or event.data.get("kind") or "health")


# Limits, output, files, workflows, Holdfast itself


def _on_limit(alerts: Open, event: Event) -> list[AlertChange]:
    data = event.data
    limit = word(data.get("limit") or data.get("what") or data.get("resource"))
    reason = word(data.get("reason") or data.get("message"))
    if not reason:
        figures = [word(data.get(name)) for name in ("measured", "allowed")]
        reason = f"{limit or 'a limit'} is reached"
        if all(figures):
            reason += f": {figures[0]}, allowed are {figures[1]}"
    words = f"{event.service}: {reason}" if event.service else reason
    if limit == "timeout":
        return raise_(alerts, event, _C.TIMEOUT, "warning", words)
    return raise_(alerts, event, _C.LIMIT, "warning", words, subject=limit)


def _on_limit_cleared(alerts: Open, event: Event) -> list[AlertChange]:
    data = event.data
    limit = word(data.get("limit") or data.get("what") or data.get("resource"))
    return clear(
        alerts,
        event,
        "it is below the limit again",
        lambda alert: (
            (alert.service, alert.cause) == (event.service, _C.LIMIT.value)
            and limit in ("", alert.subject)
        ),
    )


def _on_gap(alerts: Open, event: Event) -> list[AlertChange]:
    why = word(event.data.get("why")) or "the disk may be full"
    words = f"{event.service}: output is not recorded: {why}"
    return raise_(alerts, event, _C.OUTPUT_GAP, "critical", words)


def _on_gap_over(alerts: Open, event: Event) -> list[AlertChange]:
    return clear_causes(alerts, event, "output is recorded again", (_C.OUTPUT_GAP,))


def _on_watch_failed(alerts: Open, event: Event) -> list[AlertChange]:
    reason = word(event.data.get("reason") or event.data.get("why")) or "the host refuses"
    words = f"{event.service or 'Holdfast'}: files cannot be watched: {reason}"
    return raise_(alerts, event, _C.WATCH, "warning", words)


def _on_watch_again(alerts: Open, event: Event) -> list[AlertChange]:
    return clear_causes(alerts, event, "files are watched again", (_C.WATCH,))


def _on_workflow(alerts: Open, event: Event) -> list[AlertChange]:
    data = event.data
    name = word(data.get("workflow") or data.get("name"))
    outcome = word(data.get("outcome")).lower()
    if outcome == "done":
        key = _C.WORKFLOW.value
        return clear(
            alerts, event, "it succeeded", lambda alert: (alert.cause, alert.subject) == (key, name)
        )
    if outcome not in ("failed", "interrupted"):
        return []
    reason = word(data.get("reason") or data.get("message") or data.get("step"))
    words = f"{name} {'failed' if outcome == 'failed' else 'was interrupted'}"
    words += f": {reason}" if reason else ""
    return raise_(alerts, event, _C.WORKFLOW, "warning", words, subject=name)


def _on_door_failed(alerts: Open, event: Event) -> list[AlertChange]:
    door = word(event.data.get("door"))
    reason = word(event.data.get("reason") or event.data.get("why")) or "why is unknown"
    words = f"the door {door} cannot be opened: {reason}"
    return raise_(alerts, event, _C.DOOR, "warning", words, subject=door)


def _on_door_opened(alerts: Open, event: Event) -> list[AlertChange]:
    key, door = _C.DOOR.value, word(event.data.get("door"))
    return clear(
        alerts, event, "it is open", lambda alert: (alert.cause, alert.subject) == (key, door)
    )


def _on_undelivered(alerts: Open, event: Event) -> list[AlertChange]:
    target = word(event.data.get("target"))
    reason = word(event.data.get("reason")) or "no reason is known"
    words = f"alerts do not reach {target}: {reason}"
    return raise_(alerts, event, _C.DELIVERY, "warning", words, subject=target)


def _on_delivered(alerts: Open, event: Event) -> list[AlertChange]:
    key, target = _C.DELIVERY.value, word(event.data.get("target"))
    because = word(event.data.get("reason")) or "alerts reach it again"
    return clear(
        alerts, event, because, lambda alert: (alert.cause, alert.subject) == (key, target)
    )


def _on_keeper_replaced(alerts: Open, event: Event) -> list[AlertChange]:
    words = "the keeper died and was replaced; services went on, some exit codes may be unknown"
    return raise_(alerts, event, _C.KEEPER, "info", words, told=True)


def _on_history_lost(alerts: Open, event: Event) -> list[AlertChange]:
    if event.kind == EventKind.EVENTS_DROPPED.value and not event.data.get("lost"):
        return []  # too old to keep: that is normal
    words = "a part of the history was lost: "
    if event.kind == EventKind.DATABASE_REPLACED.value and not event.data.get("moved_to"):
        words += "its file was deleted or exchanged, and was begun anew"
    elif event.kind == EventKind.DATABASE_REPLACED.value:
        words += "its file was unreadable and was moved aside"
    else:
        words += f"{event.data['lost']} entries could not be written"
    return raise_(alerts, event, _C.HISTORY, "warning", words, told=True)


def _on_holdfast_started(alerts: Open, event: Event) -> list[AlertChange]:
    return clear(alerts, event, "Holdfast was started anew", lambda alert: True)


def _too_many(alerts: Open, changes: list[AlertChange], event: Event) -> list[AlertChange]:
    if len(alerts) < MOST_OPEN or not any(change.what == "raised" for change in changes):
        return []
    after = applied(alerts, changes)
    excess = sorted(
        after.values(), key=lambda alert: (SEVERITIES.index(alert.severity), alert.since)
    )
    gone = {alert.id for alert in excess[: len(after) - MOST_OPEN]}
    return clear(after, event, "too many alerts are open", lambda alert: alert.id in gone)


# What an event does to alerts


def raise_(
    alerts: Open,
    event: Event,
    cause: AlertCause,
    severity: Severity,
    message: str,
    *,
    subject: str = "",
    told: bool = False,
    counts: bool = True,
    times: int = 1,
) -> list[AlertChange]:
    known = alerts.get((event.service, cause.value, subject))
    if known is None:
        alert = Alert(
            id=f"alert-{event.seq}",
            service=event.service,
            cause=cause.value,
            severity=severity,
            message=message,
            since=event.time,
            last_at=event.time,
            subject=subject,
            run_id=event.run_id,
            count=times,
            cleared_at=event.time if told else None,
        )
        return [AlertChange("told" if told else "raised", alert)]
    again = msgspec.structs.replace(
        known,
        message=message,
        last_at=event.time,
        count=known.count + times if counts else known.count,
        run_id=event.run_id or known.run_id,
    )
    return [AlertChange("repeated", again)] if again != known else []


def clear(
    alerts: Open,
    event: Event,
    because: str,
    is_meant: Callable[[Alert], bool],
    *,
    times: int = 0,
) -> list[AlertChange]:
    """Clear alerts; `times` adds the repetitions until now."""
    return [
        AlertChange(
            "cleared",
            msgspec.structs.replace(
                alert,
                count=alert.count + times,
                cleared_at=event.time,
                cleared_because=because,
            ),
        )
        for alert in alerts.values()
        if is_meant(alert)
    ]


def clear_causes(
    alerts: Open, event: Event, because: str, causes: Iterable[AlertCause]
) -> list[AlertChange]:
    if not alerts:
        return []
    names = {cause.value for cause in causes}
    return clear(
        alerts,
        event,
        because,
        lambda alert: alert.service == event.service and alert.cause in names,
    )


def word(value: Any) -> str:
    """Return a fact of an event as text; a missing one is empty."""
    return "" if value is None or isinstance(value, bool) else str(value)


_RULES: dict[str, Callable[[Open, Event], list[AlertChange]]] = {
    EventKind.TRANSITION.value: _on_transition,
    EventKind.PROCESS_STARTED.value: _on_started,
    EventKind.OVERLAP.value: _on_overlap,
    EventKind.STABLE.value: _on_stable,
    EventKind.REQUESTED.value: _on_requested,
    EventKind.START_FAILED.value: _on_start_failed,
    EventKind.SUPPRESSED.value: _on_suppressed,
    EventKind.CONDEMNED.value: _on_condemned,
    EventKind.SERVICE_REMOVED.value: _on_removed,
    EventKind.HEALTH_FAILED.value: _on_health_failed,
    EventKind.HEALTH_PASSED.value: _on_health_passed,
    EventKind.HEALTH_CHANGED.value: _on_health_changed,
    EventKind.SERVICE_READY.value: _on_ready,
    EventKind.SERVICE_CHANGED.value: _on_changed,
    EventKind.RECOVERY.value: _on_recovery,
    EventKind.LIMIT_REACHED.value: _on_limit,
    EventKind.LIMIT_CLEARED.value: _on_limit_cleared,
    EventKind.OUTPUT_GAP.value: _on_gap,
    EventKind.OUTPUT_RESUMED.value: _on_gap_over,
    EventKind.WATCH_FAILED.value: _on_watch_failed,
    EventKind.WATCH_CHANGED.value: _on_watch_again,
    EventKind.WORKFLOW_FINISHED.value: _on_workflow,
    EventKind.DOOR_FAILED.value: _on_door_failed,
    EventKind.DOOR_OPENED.value: _on_door_opened,
    EventKind.ALERT_UNDELIVERED.value: _on_undelivered,
    EventKind.ALERT_DELIVERED.value: _on_delivered,
    EventKind.KEEPER_REPLACED.value: _on_keeper_replaced,
    EventKind.EVENTS_DROPPED.value: _on_history_lost,
    EventKind.DATABASE_REPLACED.value: _on_history_lost,
    EventKind.HOLDFAST_STARTED.value: _on_holdfast_started,
}
