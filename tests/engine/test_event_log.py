"""Holdfast's own log tells what happened."""

from __future__ import annotations

import logging

import pytest

from holdfast.engine import event_log
from holdfast.vocabulary.events import Event, EventKind


def event(kind: EventKind, **data: object) -> Event:
    return Event(seq=1, time=0.0, kind=kind.value, service="web", data=dict(data))


def test_a_line_has_plain_facts_only() -> None:
    """Who, what, and facts that fit a line; nothing nested."""
    told = event(EventKind.EXIT, code=3, reason="exit code 3", unknown=False, rusage={"user": 1.0})
    assert event_log.facts_of(told) == {
        "service": "web", "code": 3, "reason": "exit code 3", "run_id": None, "seq": 1,
    }  # fmt: skip


def test_steps_are_for_debugging(caplog: pytest.LogCaptureFixture) -> None:
    """An exit is told at info; the steps in between only at debug."""
    events = [event(EventKind.TRANSITION, to="failed"), event(EventKind.EXIT, code=0)]
    logger = logging.getLogger("holdfast.engine.events")
    for level, wanted in ((logging.INFO, 1), (logging.DEBUG, 2)):
        caplog.clear()
        with caplog.at_level(level, logger.name):
            logging.getLogger("holdfast").propagate = True
            event_log.write(events)
        assert len(caplog.records) == wanted


def test_facts_have_the_names_of_logs() -> None:
    """How long a run lived is its uptime, and why it failed is its error."""
    ended = event_log.facts_of(event(EventKind.EXIT, code=1, seconds=1.5, pid=7))
    assert (ended["uptime"], ended["pid"]) == (1.5, 7)
    failed = event_log.facts_of(event(EventKind.START_FAILED, reason="exit code 1"))
    assert failed["error"] == "exit code 1"


@pytest.mark.parametrize(
    ("kind", "data", "level"),
    [
        (EventKind.START_FAILED, {"reason": "exit code 1"}, logging.WARNING),
        (EventKind.CONDEMNED, {"cause": "timeout", "reason": "longer than 5s"}, logging.WARNING),
        (EventKind.EXIT, {"code": 1, "error_type": "UNEXPECTED_EXIT"}, logging.WARNING),
        (EventKind.EXIT, {"code": 0}, logging.INFO),
        (EventKind.LIMIT_REACHED, {"reason": "x"}, logging.WARNING),
        (EventKind.SUPPRESSED, {"reason": "x"}, logging.ERROR),
        (EventKind.ALERT_RAISED, {"severity": "critical"}, logging.ERROR),
        (EventKind.ALERT_RAISED, {"severity": "warning"}, logging.WARNING),
        (EventKind.COMMAND_FINISHED, {"outcome": "timeout"}, logging.WARNING),
        (EventKind.WORKFLOW_FINISHED, {"outcome": "done"}, logging.INFO),
        (EventKind.HEALTH_PASSED, {}, logging.DEBUG),
    ],
)
def test_trouble_is_logged_as_trouble(kind: EventKind, data: dict[str, object], level: int) -> None:
    """Failures, time-outs, suppression and critical alerts are warnings or errors."""
    assert event_log.level_of(event(kind, **data)) == level


def test_a_failed_check_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """In the words that logs of other supervisors have for it, with service and error."""
    with caplog.at_level(logging.WARNING, "holdfast.engine.events"):
        logging.getLogger("holdfast").propagate = True
        event_log.write(
            [event(EventKind.HEALTH_FAILED, reason="answered 500"), event(EventKind.EXIT)]
        )
    [record] = caplog.records
    assert record.getMessage() == "Service health check failed"
    assert event_log.facts_of(event(EventKind.HEALTH_FAILED, reason="x"))["error"] == "x"
