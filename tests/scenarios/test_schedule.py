"""Scheduled services, as people use them."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import time

import pytest

from tests.harness import Hold, kill_9, wait_for


def lines(hold: Hold, name: str) -> list[bytes]:
    return hold.raw(name).splitlines()


def test_a_schedule() -> None:
    """`up` does not start it, its times do; status tells the next; stop ends it."""
    with Hold() as hold:
        hold.services(
            job={"command": ["echo", "tick"], "schedule": "every 1s", "start_seconds": 0},
            nightly={"command": ["sleep", "1000"], "schedule": {"cron": "0 3 1 1 *"}},
        )
        started = hold.json("up", "-d")
        assert {it["outcome"] for it in started["services"].values()} == {"scheduled"}
        status = hold.status()["services"]
        assert status["nightly"]["pid"] is None
        assert status["nightly"]["next_scheduled"] > time.time()
        assert "next start" in hold.cli("status").stdout
        wait_for(lambda: len(lines(hold, "job")) >= 2)
        hold.cli("stop", "job")
        assert "next_scheduled" not in hold.service("job")
        seen = hold.service("job")["run"]
        hold.cli("start", "nightly", "--no-wait")
        assert hold.service("nightly")["pid"], "a start by hand needs no time"
        assert hold.service("job")["run"] == seen


def test_a_schedule_survives() -> None:
    """A killed supervisor's successor goes on with the times, and repeats none."""
    with Hold() as hold:
        hold.services(
            job={"command": ["date", "+%s"], "schedule": "*/1 * * * * *", "start_seconds": 0}
        )
        hold.up()
        wait_for(lambda: lines(hold, "job"))
        kill_9(hold.supervisor_pid)
        wait_for(lambda: len(lines(hold, "job")) >= 4)
        hold.cli("stop", "job")
        events = hold.ask("events", limit=1000)["events"]
        due = [e["data"]["due"] for e in events if e["kind"] == "schedule:started"]
        assert len(due) == len(set(due))
        assert all(b - a >= 1 for a, b in itertools.pairwise(due))


def test_a_new_supervisor_starts_nothing_before_its_time() -> None:
    """Neither what never ran nor what was stopped and is wanted again."""
    with Hold() as hold:
        nightly = {"command": ["sleep", "1000"], "schedule": "0 3 1 1 *", "start_seconds": 0}
        hold.services(web=["sleep", "1000"], nightly=nightly, stopped=nightly)
        hold.up()
        hold.cli("start", "stopped", "--no-wait")
        hold.cli("stop", "stopped")
        hold.cli("up", "-d")
        before = hold.supervisor_pid
        kill_9(before)
        wait_for(lambda: hold.supervisor_pid != before)
        # What is started by a new supervisor is started before it answers.
        found = hold.status()["services"]
        assert found["nightly"]["run"] is None
        assert found["nightly"]["pid"] is None
        assert found["stopped"]["run"] == 1
        assert found["stopped"]["pid"] is None
        assert found["nightly"]["next_scheduled"] > time.time()


def test_an_added_schedule_is_armed_by_reload() -> None:
    """Reload arms new schedules; changing only the schedule touches nothing that runs."""
    with Hold() as hold:
        sleep = {"command": ["sleep", "1000"], "start_seconds": 0}
        hold.services(web=sleep)
        hold.up()
        before = hold.service("web")["pid"]
        hold.services(web={**sleep, "schedule": "@daily"}, job={**sleep, "schedule": "every 1s"})
        done = hold.json("reload")
        assert done["services"]["job"]["outcome"] == "scheduled"
        assert done["plan"]["web"] == {
            **done["plan"]["web"], "action": "change", "fields": ["schedule"],
        }  # fmt: skip
        hold.wait_status("job", "running")
        assert hold.service("web")["pid"] == before
        skipped = wait_for(
            lambda: [e for e in hold.ask("events")["events"] if e["kind"] == "schedule:skipped"]
        )
        assert skipped[0]["data"]["reason"] in ("it still runs", "it is starting")


@pytest.mark.parametrize("is_killed", [False, True])
def test_armed_while_it_is_being_stopped(is_killed: bool) -> None:
    """`up` within the grace of a stop by hand starts nothing before its time, whoever dies."""
    with Hold() as hold:
        stubborn = ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"]
        nightly = {"command": stubborn, "schedule": "0 3 1 1 *", "start_seconds": 0}
        hold.services(nightly={**nightly, "stop": {"grace": "60s"}})
        hold.up()
        hold.cli("start", "nightly", "--no-wait")
        wait_for(lambda: lines(hold, "nightly"))
        stop = hold.command("stop", "nightly")
        with subprocess.Popen(stop, cwd=hold.project, env=hold.environ) as asked:
            hold.wait_status("nightly", "stopping")
            asked.kill()
        assert hold.json("up", "-d")["services"]["nightly"]["outcome"] == "scheduled"
        if is_killed:
            before = hold.supervisor_pid
            kill_9(before)
            wait_for(lambda: hold.supervisor_pid != before)
        os.kill(hold.service("nightly")["pid"], signal.SIGKILL)
        found = hold.wait_status("nightly", "stopped")
        assert found["next_scheduled"] > time.time()
        assert found["run"] == 1
