"""Typing and reading are on record, and do not fill it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.app.audit.auditor import MOST_READS, Auditor
from holdfast.app.audit.limits import MOST_NAMES, Summaries, Summary
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.command import Command, Done, Door
from holdfast.vocabulary.errors import Failed, NotFound, UnknownService
from holdfast.vocabulary.files import ReadFile
from holdfast.vocabulary.output import Logs, SendInput
from holdfast.vocabulary.services import Outcome, Outcomes, Start, Stop
from tests.app.test_application import Records

ANN = Actor(Role.OPERATOR, "token ann", door=Door.WEBSOCKET)


class Desk:
    """An auditor of a test, with minutes and a clock of its own."""

    def __init__(self) -> None:
        self.records = Records()
        self.now = 0.0
        self.auditor = Auditor(self.records, lambda: self.now)
        self.timers: list[Callable[[], None]] = []
        self.auditor._summaries = Summaries(self.auditor._record_summary, self._later)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        assert seconds == 60.0
        self.timers.append(call)

    def done(self, command: Command, actor: Actor = ANN, end: Any = None) -> None:
        self.auditor.done(actor, command, "may", 0.0, end or Done())


def typed(service: str = "web", data: str = "YWJj") -> SendInput:
    return SendInput(service=service, data=data)


def test_the_first_at_once_the_rest_by_the_minute() -> None:
    """With how often and how many bytes; never what was typed."""
    desk = Desk()
    for _ in range(500):
        desk.done(typed())
    assert len(desk.records.all) == 1
    desk.timers[0]()
    assert len(desk.records.all) == 2
    last = desk.records.all[-1]
    assert (last["times"], last["bytes"], last["outcome"]) == (499, 499 * 3, "ok")
    assert last["arguments"]["service"] == "web"
    assert "YWJj" not in str(desk.records.all)


def test_what_is_told_later_is_not_under_way_any_more() -> None:
    """The next supervisor would say of every keystroke that the last one died at it."""
    desk, kept = Desk(), dict[str, str | None]()
    desk.auditor._keep = kept.__setitem__
    for _ in range(3):
        request = desk.auditor.begin(ANN, typed(), "may")
        desk.auditor.done(ANN, typed(), "may", 0.0, Done(), request)
    assert list(kept.values()) == [None] * 3


def test_each_actor_and_service_apart() -> None:
    """Nobody types in another's name."""
    desk = Desk()
    for actor in (ANN, Actor(Role.ADMIN, "token bob", door=Door.WEBSOCKET)):
        for service in ("web", "db"):
            desk.done(typed(service), actor)
            desk.done(typed(service), actor)
    assert len(desk.records.all) == 4
    desk.auditor.close()
    assert len(desk.records.all) == 8
    assert {(one["actor"], one["arguments"]["service"]) for one in desk.records.all[4:]} == {
        ("token ann", "web"), ("token ann", "db"), ("token bob", "web"), ("token bob", "db"),
    }  # fmt: skip


def test_failures_and_other_commands_are_told_each() -> None:
    """Only what went well, and only typing, is taken together."""
    desk = Desk()
    desk.done(typed())
    for _ in range(3):
        desk.done(typed(), end=Failed("the run is gone"))
        desk.done(Stop(services=["web"]))
    assert len(desk.records.all) == 7
    desk.timers[0]()
    assert len(desk.records.all) == 7


def test_a_minute_of_silence_is_no_record() -> None:
    """And the next keystroke is told at once again."""
    told: list[Summary] = []
    timers: list[Callable[[], None]] = []
    summaries = Summaries(told.append, lambda _, call: timers.append(call))
    assert not summaries.absorbs(ANN, typed(), "may")
    timers.pop()()
    assert not told
    assert not summaries.absorbs(ANN, typed(), "may")


def test_a_flood_of_reads_does_not_push_the_rest_off_the_record() -> None:
    """The first are told each, the rest by the minute: how often, and what was read."""
    desk = Desk()
    for number in range(MOST_READS + 5000):
        desk.done(ReadFile(path=f"secrets/{number}"))
        desk.done(Logs(service="web", tail=number))
    assert len(desk.records.all) == MOST_READS
    assert desk.records.all[-1]["more"] == "told together, for a summary"
    desk.done(ReadFile(path="x"), Actor(Role.VIEWER, "token bob", door=Door.REST))
    desk.done(Stop(services=["web"]))
    assert len(desk.records.all) == MOST_READS + 2, "others, and changes, are told each"
    for over in desk.timers:
        over()
    last = {one["command"]: one for one in desk.records.all[-2:]}
    assert (last["logs"]["among"], last["logs"]["door"]) == (["web"], "websocket")
    files = last["read_file"]["among"]
    assert (len(files), files[0]) == (MOST_NAMES, f"secrets/{MOST_READS // 2}")
    told = [one.get("times", 1) for one in desk.records.all if one["actor"] == ANN.name]
    assert sum(told) == 2 * (MOST_READS + 5000) + 1
    desk.now += 60.0
    desk.done(ReadFile(path="x"))
    assert desk.records.all[-1]["arguments"] == {"path": "x"}


def test_names_of_what_was_read_hide_secrets_too() -> None:
    """As arguments do that are told one by one."""
    told: list[Summary] = []
    summaries = Summaries(told.append, lambda _, call: None)
    summaries.add(ANN, ReadFile(path="holdfast_0a1b2c3d_" + "s" * 43), "may", "ok")
    summaries.close()
    assert "s" * 43 not in str(told[0].more)


def test_reads_that_fail_are_told_apart() -> None:
    """And those of sessions count for who opened them."""
    desk = Desk()
    for number in range(2 * MOST_READS):
        session = Actor(Role.AGENT, "agent", None, Door.MCP, session=f"s{number % 20}", behind=ANN)
        desk.done(ReadFile(path="x"), session, NotFound("no x"))
    assert len(desk.records.all) == MOST_READS
    desk.auditor.close()
    assert len(desk.records.all) == MOST_READS + 20
    assert {one["outcome"] for one in desk.records.all} == {"not_found"}
    assert {one["session"] for one in desk.records.all} == {f"s{number}" for number in range(20)}


def outcomes(**services: str) -> Outcomes:
    return Outcomes(
        services={name: Outcome(outcome=it, status="running") for name, it in services.items()}
    )


def test_what_changes_nothing_is_told_once_a_minute() -> None:
    """The first at once, the same again with how often: real changes stay on the record."""
    desk = Desk()
    start, idle = Start(services=["web"]), outcomes(web="already_running", db="already_running")
    for _ in range(1000):
        desk.done(start, end=idle)
        desk.done(Stop(services=["nothing"]), end=UnknownService("no nothing"))
    assert [one["command"] for one in desk.records.all] == ["start", "stop"]
    desk.auditor.close()
    told = [(one["command"], one["outcome"], one["times"]) for one in desk.records.all[2:]]
    assert told == [("start", "ok", 999), ("stop", "unknown_service", 999)]
    assert desk.records.all[2]["arguments"] == {"services": ["web"]}


def test_real_changes_are_told_each() -> None:
    """Also between those that change nothing, of which the next is told at once again."""
    desk, start = Desk(), Start(services=["web"])
    for _ in range(3):
        desk.done(start, end=outcomes(web="started", db="already_running"))
        desk.done(start, end=outcomes(web="already_running"))
        desk.done(start, end=outcomes(web="already_running"))
        desk.done(start, end=Failed("it may have begun"))
    told = [(one["outcome"], one.get("times", 1)) for one in desk.records.all]
    assert told == [("ok", 1), ("ok", 1), ("ok", 1), ("failed", 1)] * 3
    for over in desk.timers:
        over()
    assert len(desk.records.all) == 12


def test_other_arguments_and_actors_are_told_apart() -> None:
    """As long as they are not too many; then they are told together, and nothing grows."""
    desk = Desk()
    for name in ("a", "b"):
        for actor in (ANN, Actor(Role.ADMIN, "token bob", door=Door.WEBSOCKET)):
            desk.done(Start(services=[name]), actor, outcomes(**{name: "already_running"}))
    assert len(desk.records.all) == 4
    for number in range(2 * MOST_READS):
        desk.done(Start(services=[f"x{number}"]), end=UnknownService("no such service"))
    assert len(desk.records.all) == MOST_READS + 2
    huge = Start(services=["y" * 100] * 1000)
    desk.done(huge, Actor(Role.ADMIN, "token eve"), UnknownService("no"))
    assert not any(one.command is huge for one in desk.auditor._summaries._summaries.values())
    desk.auditor.close()
    assert desk.records.all[-1]["times"] == MOST_READS + 2


def test_what_changed_nothing_is_not_under_way_any_more() -> None:
    """Whether it is told at once or later."""
    desk, kept = Desk(), dict[str, str | None]()
    desk.auditor._keep = kept.__setitem__
    for number in range(MOST_READS + 2):
        command = Start(services=[f"x{number // 2}"])
        request = desk.auditor.begin(ANN, command, "may")
        desk.auditor.done(ANN, command, "may", 0.0, outcomes(web="already_running"), request)
    assert set(kept.values()) == {None}
