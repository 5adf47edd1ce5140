"""What happened to a service before, in sentences. Pure: stored events in, sentences out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.rules.explain.explanation import duration, listed
from holdfast.vocabulary.events import EventKind

MOST_HAPPENINGS = 10


def sentences_of(events: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], str]]:
    """Return decisive events in words; equal ones in a row become one."""
    told: list[tuple[dict[str, Any], str, int]] = []
    for event in events:
        text = sentence_of(event)
        if text is None:
            continue
        if told and told[-1][1] == text:
            told[-1] = (told[-1][0], text, told[-1][2] + 1)
        else:
            told.append((event, text, 1))
    return [(event, f"{text} ({n} times)" if n > 1 else text) for event, text, n in told]


def sentence_of(event: dict[str, Any]) -> str | None:
    """Return a decisive event in words; None for one that only accompanies another."""
    data: dict[str, Any] = event.get("data") or {}
    words = _HAPPENINGS.get(event["kind"])
    return None if words is None else words(data)


def _started(data: dict[str, Any]) -> str:
    again = "again " if data.get("restarted") else ""
    return f"started {again}(run {data.get('number', '?')}, pid {data.get('pid', 'unknown')})"


def _exited(data: dict[str, Any]) -> str:
    seconds = data.get("seconds")
    after = f" after {duration(float(seconds))}" if seconds is not None else ""
    return f"ended{after}: {data.get('reason') or 'how is unknown'}"


def _scheduled(data: dict[str, Any]) -> str:
    return f"another start was planned in {duration(float(data.get('delay') or 0.0))}"


def _health(data: dict[str, Any]) -> str:
    reason = f": {data['reason']}" if data.get("reason") else ""
    return f"{data.get('what') or 'health'} became {data.get('to') or 'unknown'}{reason}"


def _requested(data: dict[str, Any]) -> str:
    if data.get("because"):
        return f"{data['because']}; so it was told to {data.get('request')}"
    return f"a user asked: {data.get('request')}"


def _sentence(text: str, *names: str) -> Any:
    def words(data: dict[str, Any]) -> str:
        found = [str(data[name]) for name in names if data.get(name) not in (None, "")]
        return f"{text}: {', '.join(found)}" if found else text

    return words


_HAPPENINGS: dict[str, Any] = {
    EventKind.PROCESS_STARTED.value: _started,
    EventKind.EXIT.value: _exited,
    EventKind.START_FAILED.value: _sentence("could not be started", "reason"),
    EventKind.RESTART_SCHEDULED.value: _scheduled,
    EventKind.SUPPRESSED.value: _sentence("was given up", "reason"),
    EventKind.CONDEMNED.value: _sentence("was ended as a failure", "reason"),
    EventKind.STABLE.value: _sentence("has run stably; earlier failures are forgotten"),
    EventKind.REQUESTED.value: _requested,
    EventKind.SIGNAL_SENT.value: _sentence("a user sent a signal", "signal"),
    EventKind.SERVICE_READY.value: _sentence("became ready"),
    EventKind.HEALTH_CHANGED.value: _health,
    EventKind.HEALTH_FAILED.value: _sentence("a check failed", "probe", "reason"),
    EventKind.SERVICE_ADDED.value: _sentence("was declared"),
    EventKind.SERVICE_CHANGED.value: _sentence("its declaration changed"),
    EventKind.SERVICE_ADOPTED.value: _sentence("was adopted", "pid"),
    EventKind.OUTPUT_GAP.value: _sentence("its output could not be recorded", "why"),
    EventKind.OUTPUT_RESUMED.value: _sentence("its output is recorded again"),
    EventKind.SERVICE_WAITING.value: lambda data: (
        f"waits for {listed(data.get('waiting_for') or ())}"
    ),
    EventKind.SERVICE_FOLLOWS.value: _sentence("was restarted for what it follows", "reason"),
    EventKind.LIMIT_REACHED.value: _sentence("a limit was reached", "limit", "reason"),
    EventKind.WATCH_CHANGED.value: _sentence("watched files changed"),
    EventKind.SCHEDULE_STARTED.value: _sentence("its schedule started it"),
    EventKind.SCHEDULE_SKIPPED.value: _sentence("its schedule was passed over", "reason", "why"),
    EventKind.RECOVERY.value: _sentence("something was done about trouble", "cause", "action"),
}
DECISIVE = tuple(_HAPPENINGS)
"""Kinds of events that explain a state."""
