"""Whoever floods the audit, an admin's change of before stays on record."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from holdfast.adapters import audit_log
from holdfast.adapters.audit_log import AuditLog
from holdfast.app.audit import limits
from holdfast.app.audit.auditor import Auditor
from holdfast.app.audit.limits import DAY
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.command import Done, Door
from holdfast.vocabulary.files import ReadFile
from holdfast.vocabulary.security import CreateToken
from holdfast.vocabulary.services import Outcome, Outcomes, Restart, Start
from holdfast.vocabulary.sessions import CloseSession, OpenSession

ADMIN = Actor(Role.ADMIN, "token boss", door=Door.REST, token="1")
ACTORS = (
    Actor(Role.VIEWER, "token eyes", door=Door.REST, token="2"),
    Actor(Role.AGENT, "claude", door=Door.MCP, token="3"),
    Actor(Role.OPERATOR, "token hands", door=Door.TCP, token="4"),
    Actor(Role.AGENT, "a run", run_id="5"),
)
FLOODS = ("sessions", "refusals", "reads", "idle", "changes", "strangers", "keystrokes")
REQUESTS = 3000
_numbers = itertools.count()


class Stage:
    """An auditor with a real log of a few files, on a clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.log = AuditLog(str(folder), lambda head: None)
        self.log.open(None)
        self.auditor = Auditor(self.log, lambda: self.now, call_later=self._later)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self.timers.append((self.now + seconds, call))

    def move(self, seconds: float) -> None:
        self.now += seconds
        due = [one for one in self.timers if one[0] <= self.now]
        self.timers = [one for one in self.timers if one[0] > self.now]
        for _, call in due:
            call()

    def flood(self, kind: str, actor: Actor, number: int) -> None:
        done, may = self.auditor.done, "may"
        match kind:
            case "sessions":
                done(actor, OpenSession(client="x" * 90), may, self.now, Done())
                done(actor, CloseSession(session=f"session-{number}"), may, self.now, Done())
            case "refusals":
                long = [f"{number}-{n}" + "x" * 300 for n in range(6)]
                self.auditor.refused(actor, Restart(services=long), "no")
            case "reads":
                done(actor, ReadFile(path=f"{number}" + "y" * 400), may, self.now, Done())
            case "idle":
                end = Outcomes(
                    services={"web": Outcome(outcome="already_running", status="running")}
                )
                done(actor, Start(services=[f"web{number}"]), may, self.now, end)
            case "changes":
                end = Outcomes(services={"web": Outcome(outcome="started", status="running")})
                done(actor, Restart(services=[f"web{number}"]), may, self.now, end)
            case _:
                self.auditor.turned_away(Door.TCP, "hello" * 50, "no" * (number % 2))


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of 1 MiB; the shares are parts of it, and what is counted is told less often."""
    monkeypatch.setattr(limits, "OVERFLOW_SECONDS", 6 * 3600.0)
    monkeypatch.setattr(audit_log, "FILE_BYTES", 32 * 1024)
    monkeypatch.setattr(audit_log, "MOST_FILES", 32)


@settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    kinds=st.lists(st.sampled_from(FLOODS), min_size=1, max_size=4),
    actors=st.lists(st.sampled_from(ACTORS), min_size=1, max_size=4, unique=True),
)
def test_an_admins_change_outlives_every_flood(
    tmp_path: Path, kinds: list[str], actors: list[Actor]
) -> None:
    """Five days of floods by every other role, in any mixture, do not push it off the record."""
    stage = Stage(tmp_path / f"audit{next(_numbers)}")
    stage.auditor.done(ADMIN, CreateToken(token_name="kept"), "may", 0.0, Done())
    for number in range(REQUESTS):
        kind, actor = kinds[number % len(kinds)], actors[number // 7 % len(actors)]
        stage.flood(kind, actor, number)
        stage.move(5 * DAY / REQUESTS)
    stage.auditor.close()
    assert "kept" in json.dumps(next(stage.log.entries()))
    assert stage.log.verify().is_whole


def test_what_goes_beyond_a_share_is_counted(tmp_path: Path) -> None:
    """Exactly, by command and outcome; and others are recorded one by one all the time."""
    stage = Stage(tmp_path / "audit")
    eyes, hands = ACTORS[0], ACTORS[2]
    for number in range(2000):
        stage.flood("sessions", eyes, number)
    stage.flood("changes", hands, 1)
    stage.move(6 * 3600 + 1)
    entries: list[dict[str, Any]] = list(stage.log.entries())
    single = [one for one in entries if one["actor"] == eyes.name and one["decision"] == "allowed"]
    (folded,) = [one for one in entries if one["decision"] == "folded"]
    assert len(single) < 100
    assert len(single) + folded["times"] == 4000
    assert folded["commands"].keys() == {"open_session", "close_session"}
    assert [one["command"] for one in entries if one["actor"] == hands.name] == ["restart"]
    stage.move(DAY)
    stage.flood("sessions", eyes, 1)
    assert list(stage.log.entries())[-1]["command"] == "close_session"
