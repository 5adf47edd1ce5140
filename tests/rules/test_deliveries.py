"""Who is told of which alert, how often, and how patiently."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.alerts import delivery, notices
from holdfast.rules.alerts.delivery import TargetProgress
from holdfast.rules.alerts.notices import Notice
from holdfast.vocabulary.alerts import Alert, TargetSpec


def alert(**fields: object) -> Alert:
    given = {
        "id": "alert-1", "service": "web", "cause": "crash", "severity": "warning",
        "message": "web crashed: exit code 1", "since": 10.0, "last_at": 10.0, **fields,
    }  # fmt: skip
    return msgspec.convert(given, Alert)


MEANT = [
    (TargetSpec(name="t"), alert(), True),
    (TargetSpec(name="t", severity="critical"), alert(), False),
    (TargetSpec(name="t", severity="info"), alert(severity="info"), True),
    (TargetSpec(name="t"), alert(severity="info"), False),
    (TargetSpec(name="t", causes=("unhealthy",)), alert(), False),
    (TargetSpec(name="t", causes=("crash",)), alert(), True),
    (TargetSpec(name="t", services=("db",)), alert(), False),
    (TargetSpec(name="t", services=("web",)), alert(), True),
    (TargetSpec(name="t", services=("web",)), alert(service="web@2"), True),
    (TargetSpec(name="t", tags=("prod",)), alert(service="web@2"), True),
    (TargetSpec(name="t", tags=("test",)), alert(), False),
    (TargetSpec(name="t", services=("web",)), alert(service=None), False),
    (TargetSpec(name="t"), alert(cause="delivery", service=None, subject="t"), False),
    (TargetSpec(name="u"), alert(cause="delivery", service=None, subject="t"), True),
]


@pytest.mark.parametrize(("target", "one", "wanted"), MEANT)
def test_filters(target: TargetSpec, one: Alert, wanted: bool) -> None:
    """Severity, cause, service and tag choose; nobody hears of its own silence."""
    template = "web" if one.service and "@" in one.service else None
    assert delivery.is_meant(target, one, ("prod",), template) is wanted


def test_a_cooldown_silences_the_same() -> None:
    """The same service and cause is told again only after the cooldown; and so is its end."""
    target, first = TargetSpec(name="t", cooldown=60.0), alert()
    memory = delivery.after_success(TargetProgress(), first, 5, 100.0)
    again = alert(id="alert-9")
    over = msgspec.structs.replace(again, cleared_at=130.0, cleared_because="x")
    assert not delivery.is_told(target, memory, again, 120.0)
    assert not delivery.is_told(target, memory, over, 130.0)
    assert delivery.is_told(target, memory, again, 161.0)
    assert delivery.is_told(target, memory, alert(id="alert-9", cause="unhealthy"), 120.0)


def test_the_end_is_told_to_who_heard_the_beginning() -> None:
    """And only if it wants to."""
    over = alert(cleared_at=130.0, cleared_because="x")
    memory = delivery.after_success(TargetProgress(), alert(), 5, 100.0)
    assert delivery.is_told(TargetSpec(name="t"), memory, over, 130.0)
    assert not delivery.is_told(TargetSpec(name="t", cleared=False), memory, over, 130.0)
    assert not delivery.is_told(TargetSpec(name="t"), TargetProgress(), over, 130.0)


def test_reminders() -> None:
    """An open alert that was told is told again after `repeat`."""
    target = TargetSpec(name="t", repeat=60.0)
    memory = delivery.after_success(TargetProgress(), alert(), 5, 100.0)
    assert delivery.reminder_at(target, memory, alert()) == 160.0
    assert delivery.reminder_at(target, TargetProgress(), alert()) is None
    assert delivery.reminder_at(TargetSpec(name="t"), memory, alert()) is None


def test_failing_for_long_is_reported_once() -> None:
    """After the patience, and not again before it worked."""
    memory = delivery.after_failure(TargetProgress(), "refused", 100.0)
    assert not delivery.is_failing_for_long(memory, 101.0)
    assert delivery.is_failing_for_long(memory, 100.0 + delivery.PATIENCE_SECONDS)
    reported = msgspec.structs.replace(memory, is_reported=True)
    assert not delivery.is_failing_for_long(reported, 9999.0)
    healed = delivery.after_success(reported, alert(), 5, 10_000.0)
    assert (healed.failing_since, healed.failures, healed.is_reported) == (None, 0, False)


@given(st.integers(0, 10_000), st.floats(0, 0.999))
def test_retries_slow_down_and_are_bounded(failures: int, random: float) -> None:
    """Never sooner than at first, never slower than the bound."""
    delay = delivery.retry_delay(failures, random)
    assert 0.5 <= delay <= delivery.LONGEST_DELAY_SECONDS * 1.25
    assert delivery.retry_delay(failures + 1, random) >= delay


@given(st.lists(st.integers(1, 10**6), unique=True, max_size=50))
def test_the_place_never_goes_back(seqs: list[int]) -> None:
    """Whatever is told or passed over, the place only grows; memory is bounded."""
    memory = TargetProgress()
    for number, seq in enumerate(seqs):
        before = memory.seq
        if number % 2:
            memory = delivery.passed_over(memory, seq)
        else:
            one = alert(id=f"alert-{seq}", subject=str(seq))
            memory = delivery.after_success(memory, one, seq, float(number))
        assert memory.seq == max(before, seq)
        assert len(memory.told) <= delivery.MOST_REMEMBERED


def test_what_is_remembered_is_bounded() -> None:
    """Thousands of different alerts do not fill a target's memory."""
    memory = TargetProgress()
    for number in range(delivery.MOST_REMEMBERED + 50):
        memory = delivery.after_success(memory, alert(subject=str(number)), number, 1.0)
    assert len(memory.told) == delivery.MOST_REMEMBERED


def test_far_behind_only_the_newest_are_told() -> None:
    """A target that was away for a long time is not flooded."""
    seqs = list(range(1, delivery.MOST_BEHIND + 501))
    assert delivery.first_seq(seqs) == 501
    assert delivery.first_seq([7, 9]) == 7


def test_words_of_a_notice() -> None:
    """A line for people, fields for programs, variables for commands; no secret in any."""
    one = alert(message="web crashed: token=abcdefgh12", count=3)
    notice = Notice(one, 7, "raised", "/srv/p", "host1")
    assert notices.text(notice) == ("⚠ warning: web crashed: token=[hidden], 3 times (host1)")
    body = json.loads(notices.body(notice, "json"))
    assert body["event"] == "raised"
    assert body["alert"]["id"] == "alert-1"
    assert json.loads(notices.body(notice, "text")) == {"text": notices.text(notice)}
    variables = notices.variables(notice)
    assert variables["HOLDFAST_SERVICE"] == "web"
    assert "abcdefgh12" not in json.dumps([body, variables])


def test_a_cleared_alert_says_why() -> None:
    """The end of an alert is a line of its own."""
    one = alert(cleared_at=20.0, cleared_because="it was stopped")
    assert notices.what_of(one) == "cleared"
    text = notices.text(Notice(one, 7, "cleared", "", ""))
    assert text == "✔ cleared: web crashed: exit code 1; it was stopped"


def test_a_desktop_command_has_no_script_of_ours_in_its_words() -> None:
    """What a service says is an argument, never code."""
    one = alert(message='x" & do shell script "evil')
    for platform in ("linux", "darwin"):
        argv = notices.desktop_argv(Notice(one, 1, "raised", "", ""), platform)
        assert sum("evil" in word for word in argv) == 1
        assert all("evil" not in word for word in argv if word.startswith("display"))


def test_the_command_lines_that_show_it(tmp_path: Path) -> None:
    """As stand-ins for the programs of both desktops get them: every word in one piece."""
    for name in ("notify-send", "osascript"):
        (tmp_path / name).write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        (tmp_path / name).chmod(0o755)
    one = Notice(alert(message='a < b & "c" \\n $(id)'), 1, "raised", "", "")
    got = {}
    for platform in ("linux", "darwin"):
        argv = notices.desktop_argv(one, platform)
        env = {"PATH": f"{tmp_path}:{os.defpath}"}
        shown = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
        got[platform] = shown.stdout.splitlines()
    words = notices.text(one)
    assert words.endswith('a < b & "c" \\n $(id)')
    assert got["linux"][:4] == [
        "--app-name=Holdfast", "--urgency=normal", "--", "Holdfast: web",
    ]  # fmt: skip
    assert got["linux"][4:] == [words.partition("a <")[0] + 'a &lt; b &amp; "c" \\\\n $(id)']
    assert got["darwin"] == [
        "-e", "on run words",
        "-e", "display notification (item 1 of words) with title (item 2 of words)",
        "-e", "end run", words, "Holdfast: web",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("due", "now", "left"), [(110.0, 100.0, 10.0), (100.0, 100.0, 0.0), (90.0, 100.0, 0.0),
                             (4000.0, 100.0, 0.0)],
)  # fmt: skip
def test_a_reminder_does_not_wait_for_a_clock_that_was_set_back(
    due: float, now: float, left: float
) -> None:
    """What is due further ahead than the interval is due now."""
    assert delivery.seconds_until(due, now, 60.0) == left
