"""Which banners are shown, in which words and order."""

from __future__ import annotations

from typing import Any

from holdfast.rules.banners import BannerFacts, RollingProgress, banners
from holdfast.vocabulary.alerts import Alert
from holdfast.vocabulary.authority import LockdownInfo
from holdfast.vocabulary.banners import Banner
from holdfast.vocabulary.workflows import UnderWay


def alert(name: str, cause: str = "crash", severity: Any = "warning", **fields: Any) -> Alert:
    given = {"message": f"{name}: exited with code 1", "since": 100.0, "last_at": 100.0, **fields}
    return Alert(id=f"{name}-{cause}", service=name, cause=cause, severity=severity, **given)


def under_way() -> UnderWay:
    facts: dict[str, Any] = {"step": 2, "steps": 5, "what": "draining payments", "seconds": 14.0}
    return UnderWay(id="workflow-1", name="release", service=None, by="uid 0", **facts)


def kinds(found: list[Banner]) -> list[str]:
    return [one.kind for one in found]


def test_nothing_to_say() -> None:
    """A calm Holdfast has no banner."""
    assert banners(BannerFacts(now=200.0)) == []


def test_an_edited_file_is_named() -> None:
    """It stays until a reload: nobody puts it away."""
    (found,) = banners(BannerFacts(now=200.0, edited=["holdfast.yaml", ".env"]))
    assert found.title == "holdfast.yaml, .env were edited after loading"
    assert "holdfast reload" in found.hint
    assert not found.is_dismissible


def test_the_most_urgent_comes_first() -> None:
    """A lockdown, then what waits for a person, then failures, then what is under way."""
    facts = BannerFacts(
        now=200.0,
        lockdown=LockdownInfo(reason="a token leaked", by="uid 0", since=150.0),
        approvals=2,
        alerts=[alert("web", "suppressed", "critical")],
        under_way=[under_way()],
        rolling=RollingProgress("pool@1", 1, 3, 190.0),
        outdated=["db"],
    )
    found = banners(facts)
    assert kinds(found) == [
        *("lockdown", "approval", "failure", "rolling", "workflow", "configuration")
    ]
    assert (found[0].title, found[0].detail) == ("LOCKED DOWN", "a token leaked, by uid 0")
    assert found[1].title == "2 commands wait for approval"


def test_one_crash_is_no_loop() -> None:
    """A service that crashed once restarts in silence; the third crash is a banner."""
    assert banners(BannerFacts(now=200.0, alerts=[alert("web", count=2)])) == []
    (found,) = banners(BannerFacts(now=200.0, alerts=[alert("web", count=3)]))
    assert found.title == "web keeps crashing"
    assert found.detail == "exited with code 1, 3 times"
    assert found.service == "web"
    assert found.hint == "holdfast explain web"


def test_many_failures_are_counted() -> None:
    """Five have banners of their own, the critical first; one more counts the rest."""
    alerts = [alert(f"web-{number}", count=9) for number in range(9)]
    alerts.append(alert("db", "suppressed", "critical"))
    found = banners(BannerFacts(now=200.0, alerts=alerts))
    assert len(found) == 6
    assert found[0].service == "db"
    assert found[-1].title == "5 more open alerts"


def test_what_is_under_way_says_how_far() -> None:
    """Which step of how many, since when, and how it is cancelled."""
    (found,) = banners(BannerFacts(now=200.0, under_way=[under_way()]))
    assert found.progress is not None
    assert (found.progress.step, found.progress.steps) == (2, 5)
    assert found.since == 186.0
    assert found.actions[0].command == "cancel_workflow"
    assert found.actions[0].arguments == {"workflow": "workflow-1"}


def test_what_was_put_away_stays_away() -> None:
    """A failure leaves the list and is not counted either; a lockdown cannot be put away."""
    facts = BannerFacts(
        now=200.0,
        lockdown=LockdownInfo(reason="leak", by="uid 0"),
        alerts=[alert("web", count=3)],
        dismissed=frozenset({"alert:web-crash", "lockdown"}),
    )
    assert kinds(banners(facts)) == ["lockdown"]


def test_old_declarations_are_named() -> None:
    """Up to three names, then a number; the action restarts all of them."""
    names = ["a", "b", "c", "d", "e"]
    (found,) = banners(BannerFacts(now=200.0, outdated=names))
    assert found.title == "a, b, c and 2 more still run with the old configuration"
    assert found.actions[0].arguments == {"services": names}
