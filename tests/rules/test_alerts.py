"""Which events raise, repeat and clear alerts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.alerts import folding as rules
from holdfast.rules.alerts.folding import Key, applied, key_of
from holdfast.vocabulary.alerts import Alert
from holdfast.vocabulary.events import Event, EventKind

History = list[tuple[str, dict[str, Any]]]

CRASH: History = [
    ("exit", {"code": 3}),
    (
        "transition",
        {
            "from": "running",
            "to": "failed",
            "cause": "exited with a failure",
            "reason": "exit code 3",
        },
    ),
]
START_FAILURE: History = [
    ("process:start_failed", {"reason": "exit code 1 within 1 s of its start", "stage": None}),
    ("transition", {"from": "starting", "to": "failed", "cause": "exited with a failure"}),
]
RUNNING: History = [("transition", {"from": "starting", "to": "running", "cause": "stayed up"})]
STOPPED: History = [("transition", {"from": "stopping", "to": "stopped", "cause": "x"})]
SICK: History = [
    ("health:failed", {"probe": "liveness", "kind": "http", "reason": "500", "failures": 3}),
    ("health:changed", {"what": "health", "from": "healthy", "to": "unhealthy", "reason": "500"}),
]
UNREADY: History = [("health:changed", {"what": "readiness", "to": "not ready"})]
WELL: History = [("health:changed", {"what": "health", "from": "unhealthy", "to": "healthy"})]


class Story:
    """Events told one after the other, and what came of them."""

    def __init__(self) -> None:
        self.open: dict[Key, Alert] = {}
        self.told: list[tuple[str, str]] = []
        self.ids: list[str] = []
        self._seq = 0

    def tell(self, *histories: History, service: str | None = "web", run: str = "run-1") -> Story:
        for kind, data in [entry for history in histories for entry in history]:
            self._seq += 1
            event = Event(
                seq=self._seq, time=float(self._seq), kind=kind, service=service, run_id=run,
                data=data,
            )  # fmt: skip
            changes = rules.fold(self.open, event)
            self.open = applied(self.open, changes)
            for what, alert in changes:
                self.told.append((what, alert.cause))
                if what in ("raised", "told"):
                    self.ids.append(alert.id)
        return self

    @property
    def causes(self) -> dict[str, int]:
        return {alert.cause: alert.count for alert in self.open.values()}


TABLE: list[tuple[str, list[History], dict[str, int]]] = [
    ("a crash", [CRASH], {"crash": 1}),
    ("crashes are counted", [CRASH, CRASH, CRASH], {"crash": 3}),
    ("a stable run ends a crash", [CRASH, RUNNING, [("service:stable", {})]], {}),
    ("a short run does not", [CRASH, RUNNING], {"crash": 1}),
    ("a stop by request ends it", [CRASH, STOPPED], {}),
    ("a start by request ends it", [CRASH, [("process:started", {"restarted": False})]], {}),
    ("a restart by us does not", [CRASH, [("process:started", {"restarted": True})]], {"crash": 1}),
    ("a failed start is no crash", [START_FAILURE], {"start_failure": 1}),
    ("a good start ends it", [START_FAILURE, START_FAILURE, RUNNING], {}),
    (
        "a suppression",
        [CRASH, [("service:suppressed", {"reason": "x"})]],
        {"crash": 1, "suppressed": 1},
    ),
    ("ends with a good start", [[("service:suppressed", {})], RUNNING], {}),
    (
        "or when it is stopped by hand",
        [[("service:suppressed", {})], [("service:requested", {"request": "stop"})]],
        {},
    ),
    (
        "a request to start changes nothing yet",
        [[("service:suppressed", {})], [("service:requested", {"request": "start"})]],
        {"suppressed": 1},
    ),
    ("unhealthy", [SICK], {"health_check": 1, "unhealthy": 1}),
    ("healthy again", [SICK, WELL], {}),
    ("unhealthy, then stopped", [SICK, STOPPED], {}),
    (
        "a single failed check that passes",
        [SICK[:1], [("health:passed", {"probe": "liveness"})]],
        {},
    ),
    (
        "failed checks that were no events of their own are counted",
        [SICK[:1], [("health:failed", {"probe": "liveness", "failures": 20, "untold": 9})]],
        {"health_check": 11},
    ),
    ("a failed check of a run that is over", [SICK[:1], [("process:started", {})]], {}),
    ("not ready any more", [UNREADY], {"unready": 1}),
    (
        "a run on trial that was not ready is gone",
        [UNREADY, [("service:overlap", {"step": "failed", "reason": "not ready"})]],
        {},
    ),
    ("ready again", [UNREADY, [("service:ready", {"after": 3.0})]], {}),
    ("another run is another matter", [UNREADY, [("process:started", {})]], {}),
    ("not ready yet", [[("health:failed", {"probe": "startup+readiness"})]], {}),
    (
        "condemned for its health: one alert",
        [SICK, [("service:condemned", {"cause": "unhealthy", "reason": "500"})]],
        {"health_check": 1, "unhealthy": 1},
    ),
    (
        "condemned for its start: one alert",
        [
            [("service:condemned", {"cause": "start_failure", "reason": "no answer"})],
            [("process:start_failed", {"reason": "no answer"})],
        ],
        {"start_failure": 1},
    ),
    (
        "condemned for a limit: one alert",
        [
            [("limit:reached", {"limit": "memory", "reason": "9 of 8 MiB"})],
            [("service:condemned", {"cause": "memory", "reason": "9 of 8 MiB"})],
        ],
        {"limit": 1},
    ),
    (
        "a limit that is left",
        [[("limit:reached", {"limit": "memory"})], [("limit:cleared", {"limit": "memory"})]],
        {},
    ),
    (
        "another limit stays",
        [[("limit:reached", {"limit": "memory"})], [("limit:cleared", {"limit": "cpu"})]],
        {"limit": 1},
    ),
    ("condemned for its time", [[("service:condemned", {"cause": "timeout"})]], {"timeout": 1}),
    (
        "too late, and left alone",
        [[("service:recovery", {"action": "signal", "cause": "timeout"})]],
        {"timeout": 1},
    ),
    ("condemned for something new", [[("service:condemned", {"cause": "moon"})]], {"other": 1}),
    (
        "stopped by us stays an alert",
        [[("service:recovery", {"action": "stop", "cause": "memory"})], STOPPED],
        {"suppressed": 1},
    ),
    ("a gap", [[("output:gap", {"why": "disk full"})]], {"output_gap": 1}),
    ("a gap that is over", [[("output:gap", {})], [("output:resumed", {"lost": 4})]], {}),
    ("a stop does not mend a disk", [[("output:gap", {})], STOPPED], {"output_gap": 1}),
    ("a watch", [[("watch:failed", {"reason": "limit"})]], {"watch": 1}),
    ("a workflow", [[("workflow:finished", {"name": "w", "outcome": "failed"})]], {"workflow": 1}),
    (
        "a workflow that works again",
        [
            [("workflow:finished", {"name": "w", "outcome": "failed"})],
            [("workflow:finished", {"name": "w", "outcome": "done"})],
        ],
        {},
    ),
    ("a cancelled one", [[("workflow:finished", {"name": "w", "outcome": "cancelled"})]], {}),
    ("the keeper", [[("keeper:replaced", {"pid": 1})]], {}),
    ("lost history", [[("events:dropped", {"lost": 3})]], {}),
    ("removed", [CRASH, SICK, [("service:removed", {})]], {}),
    ("begun anew", [CRASH, [("holdfast:started", {})]], {}),
    (
        "processes that cannot be killed",
        [[("transition", {"to": "failed", "cause": "could not be killed"})]],
        {"unkillable": 1},
    ),
    ("ended well", [CRASH, [("transition", {"to": "exited", "cause": "x"})]], {}),
    ("facts that are missing", [[(kind.value, {})] for kind in EventKind], {}),
]


@pytest.mark.parametrize(
    ("histories", "wanted"), [it[1:] for it in TABLE], ids=[it[0] for it in TABLE]
)
def test_histories(histories: list[History], wanted: dict[str, int]) -> None:
    """What is open after a history, and how often it happened."""
    story = Story().tell(*histories)
    if wanted or len(histories) < 10:
        assert story.causes == wanted


def test_a_repeat_is_counted_not_raised() -> None:
    """A crash loop is one alert with a count, raised once."""
    story = Story().tell(*[CRASH] * 5)
    assert story.told == [("raised", "crash")] + [("repeated", "crash")] * 4
    assert len(story.ids) == 1


def test_a_notice_is_told_and_never_open() -> None:
    """What is over when it is known is told once and stays in the history only."""
    story = Story().tell([("keeper:replaced", {})], service=None)
    assert story.told == [("told", "keeper")]


def test_the_message_says_who_and_why() -> None:
    """An alert can be read without looking anything up."""
    alert = next(iter(Story().tell(CRASH).open.values()))
    assert alert.message == "web crashed: exit code 3"
    assert (alert.severity, alert.since, alert.service) == ("warning", 2.0, "web")


def test_services_do_not_mix() -> None:
    """One service's recovery clears nothing of another."""
    story = Story().tell(CRASH, service="a").tell(CRASH, service="b").tell(STOPPED, service="a")
    assert [alert.service for alert in story.open.values()] == ["b"]


def test_open_alerts_are_bounded() -> None:
    """Beyond the bound the least severe and oldest are closed."""
    story = Story()
    for number in range(rules.MOST_OPEN + 3):
        story.tell([("service:condemned", {"cause": f"cause {number}"})])
    story.tell([("service:suppressed", {})])
    assert len(story.open) == rules.MOST_OPEN
    assert "suppressed" in story.causes


EVENTS = st.builds(
    lambda kind, service, run, data: (kind, service, run, data),
    st.sampled_from([kind.value for kind in EventKind] + ["of:another_version"]),
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([None, "run-1", "run-2"]),
    st.fixed_dictionaries(
        {},
        optional={
            "to": st.sampled_from(
                ["running", "failed", "stopped", "exited", "unhealthy", "healthy"]
            ),
            "cause": st.sampled_from(
                ["exited with a failure", "could not be killed", "unhealthy", "memory", "timeout"]
            ),
            "what": st.sampled_from(["health", "readiness"]),
            "limit": st.sampled_from(["memory", "cpu", ""]),
            "reason": st.one_of(st.none(), st.text(max_size=5)),
            "probe": st.sampled_from(["liveness", "readiness"]),
            "restarted": st.booleans(),
            "request": st.sampled_from(["stop", "start", 3]),
            "outcome": st.sampled_from(["done", "failed", None]),
            "target": st.sampled_from(["x", "y"]),
            "lost": st.integers(0, 3),
        },
    ),
)


def _fold(
    state: dict[Key, Alert], history: list[Event]
) -> tuple[dict[Key, Alert], list[tuple[str, Alert]]]:
    seen: list[tuple[str, Alert]] = []
    for event in history:
        changes = rules.fold(state, event)
        state = applied(state, changes)
        seen += [(it.what, it.alert) for it in changes]
    return state, seen


def _events(raw: list[Any]) -> list[Event]:
    return [
        Event(seq=n, time=float(n), kind=kind, service=service, run_id=run, data=data)
        for n, (kind, service, run, data) in enumerate(raw, 1)
    ]


@pytest.mark.parametrize(
    ("moved_to", "words"), [(None, "deleted or exchanged"), ("x.corrupt-1", "moved aside")]
)
def test_how_history_was_lost(moved_to: str | None, words: str) -> None:
    """A file that is gone is not said to be unreadable."""
    event = Event(
        seq=1, time=1.0, kind="database:replaced", service=None, run_id=None,
        data={"moved_to": moved_to},
    )  # fmt: skip
    said = [change.alert.message for change in rules.fold({}, event)]
    assert said
    assert all(words in it for it in said)


@given(st.lists(EVENTS, max_size=60))
def test_any_history(raw: list[Any]) -> None:
    """Every alert is raised once, cleared at most once, and keys are right."""
    state, seen = _fold({}, _events(raw))
    raised = [alert.id for what, alert in seen if what in ("raised", "told")]
    cleared = [alert.id for what, alert in seen if what == "cleared"]
    assert len(raised) == len(set(raised))
    assert len(cleared) == len(set(cleared))
    told = {alert.id for what, alert in seen if what == "told"}
    still = {alert.id for alert in state.values()}
    assert set(raised) == set(cleared) | still | told
    assert all(key == key_of(alert) for key, alert in state.items())
    assert all(alert.cleared_at is None and alert.count >= 1 for alert in state.values())


@given(st.lists(EVENTS, max_size=60), st.integers(0, 60))
def test_a_cut_anywhere_changes_nothing(raw: list[Any], cut: int) -> None:
    """Folding on from a saved state gives what folding at once gives."""
    events = _events(raw)
    whole, seen = _fold({}, events)
    before, first = _fold({}, events[:cut])
    after, rest = _fold(dict(before), events[cut:])
    assert (after, first + rest) == (whole, seen)


def test_what_was_not_told_is_counted_at_the_end() -> None:
    """A check that passes after failures which were no events: the alert ends with all of them."""
    story = Story().tell(SICK[:1])
    passed = Event(
        seq=9,
        time=9.0,
        kind="health:passed",
        service="web",
        data={"probe": "liveness", "untold": 4},
    )
    [change] = rules.fold(story.open, passed)
    assert (change.what, change.alert.count) == ("cleared", 5)
