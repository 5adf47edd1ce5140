"""Typing is on record, and does not fill it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.app.auditing import Auditor
from holdfast.app.keystrokes import Keystrokes, Told
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.commands import Command
from holdfast.vocabulary.commands.command import Door
from holdfast.vocabulary.commands.output import SendInput
from holdfast.vocabulary.commands.services import Stop
from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.results import Done
from tests.app.test_application import Records

ANN = Actor(Role.OPERATOR, "token ann", door=Door.WEBSOCKET)


class Typing:
    """Keystrokes of a test, with its own minutes."""

    def __init__(self) -> None:
        self.records = Records()
        self.auditor = Auditor(self.records)
        self.timers: list[Callable[[], None]] = []
        self.auditor._keystrokes = Keystrokes(self.auditor._told_typing, self._later)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        assert seconds == 60.0
        self.timers.append(call)

    def done(self, command: Command, actor: Actor = ANN, end: Any = None) -> None:
        self.auditor.done(actor, command, "may", 0.0, end or Done())


def typed(service: str = "web", data: str = "YWJj") -> SendInput:
    return SendInput(service=service, data=data)


def test_the_first_at_once_the_rest_by_the_minute() -> None:
    """With how often and how many bytes; never what was typed."""
    desk = Typing()
    for _ in range(500):
        desk.done(typed())
    assert len(desk.records.all) == 1
    desk.timers[0]()
    assert len(desk.records.all) == 2
    last = desk.records.all[-1]
    assert (last["times"], last["bytes"], last["outcome"]) == (499, 499 * 3, "ok")
    assert last["arguments"]["service"] == "web"
    assert "YWJj" not in str(desk.records.all)


def test_each_actor_and_service_apart() -> None:
    """Nobody types in another's name."""
    desk = Typing()
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
    desk = Typing()
    desk.done(typed())
    for _ in range(3):
        desk.done(typed(), end=Failed("the run is gone"))
        desk.done(Stop(services=["web"]))
    assert len(desk.records.all) == 7
    desk.timers[0]()
    assert len(desk.records.all) == 7


def test_a_minute_of_silence_is_no_record() -> None:
    """And the next keystroke is told at once again."""
    told: list[Told] = []
    timers: list[Callable[[], None]] = []
    keystrokes = Keystrokes(told.append, lambda _, call: timers.append(call))
    assert not keystrokes.absorbs(ANN, typed(), "may")
    timers.pop()()
    assert not told
    assert not keystrokes.absorbs(ANN, typed(), "may")
