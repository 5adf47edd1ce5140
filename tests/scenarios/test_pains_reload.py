"""Pains of users about reloading a configuration, watching files and schedules."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.harness import Hold, kill_9, wait_for

SLEEP: dict[str, Any] = {"command": ["sleep", "300"], "start_seconds": 0}


def pids(hold: Hold) -> dict[str, int]:
    return {name: service["pid"] for name, service in hold.status()["services"].items()}


def environ_of(pid: int) -> list[bytes]:
    return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def test_a_reload_without_a_change_touches_nothing(hold: Hold) -> None:
    """An update that changes nothing bounces the database all the same."""
    hold.services(web=SLEEP, db=SLEEP)
    hold.up()
    before, last = pids(hold), hold.ask("events")["last"]
    assert "nothing to change" in hold.cli("reload").stdout
    assert pids(hold) == before
    assert hold.ask("events", since=last)["events"] == []


def test_one_instance_more_restarts_no_other(hold: Hold) -> None:
    """One worker more, or one fewer, restarts the whole group."""
    hold.services(web={**SLEEP, "instances": 2}, db=SLEEP)
    hold.up()
    before = pids(hold)
    hold.services(web={**SLEEP, "instances": 3}, db=SLEEP)
    plan = hold.json("plan")
    actions = {name: step["action"] for name, step in plan["services"].items()}
    assert actions == {**dict.fromkeys(before, "unchanged"), "web@3": "add"}
    hold.cli("reload")
    after = pids(hold)
    assert {name: after[name] for name in before} == before
    hold.services(web={**SLEEP, "instances": 1}, db=SLEEP)
    hold.cli("reload")
    assert pids(hold) == {"web@1": before["web@1"], "db": before["db"]}


def test_a_removed_variable_is_gone(hold: Hold) -> None:
    """Variables that were taken out of the file stay with the service forever."""
    hold.services(web={**SLEEP, "env": {"OLD": "1", "KEPT": "1"}})
    hold.up()
    assert b"OLD=1" in environ_of(pids(hold)["web"])
    hold.services(web={**SLEEP, "env": {"KEPT": "1"}})
    assert hold.json("plan")["services"]["web"]["fields"] == ["env.OLD"]
    hold.cli("reload")
    found = environ_of(pids(hold)["web"])
    assert b"KEPT=1" in found
    assert not [entry for entry in found if entry.startswith(b"OLD=")]


def test_removed_services_end_before_what_they_need(hold: Hold) -> None:
    """Everything is torn down at once, the database before its clients."""
    slow = {**SLEEP, "stop": {"grace": "2s"}}
    hold.services(db=slow, api={**slow, "depends_on": ["db"]}, web={**slow, "depends_on": ["api"]})
    hold.up()
    hold.services()
    hold.cli("reload")
    ended = [e["service"] for e in hold.ask("events")["events"] if e["kind"] == "process:ended"]
    assert ended == ["web", "api", "db"]


def test_killed_in_the_middle_of_a_reload(hold: Hold) -> None:
    """A daemon that dies while it reloads leaves half of the old and half of the new."""
    stubborn = ["sh", "-c", "trap 'sleep 0.5; exit' TERM; while :; do sleep 0.05; done"]
    keys = {"command": stubborn, "start_seconds": 0}
    hold.services(**{f"s{n}": keys for n in range(4)}, same=SLEEP)
    hold.up()
    before = pids(hold)
    hold.services(**{f"s{n}": {**keys, "env": {"X": "1"}} for n in range(4)}, same=SLEEP, new=SLEEP)
    asking = threading.Thread(target=lambda: hold.cli("reload", expect=None))
    supervisor = hold.supervisor_pid
    asking.start()
    wait_for(lambda: "new" in hold.status()["services"])
    kill_9(supervisor)
    asking.join()
    hold.cli("reload")

    def is_new() -> bool:
        # One that was being stopped when the daemon died comes up again by itself.
        now = pids(hold)
        try:
            return all(now.values()) and all(b"X=1" in environ_of(now[f"s{n}"]) for n in range(4))
        except (FileNotFoundError, ProcessLookupError):
            return False  # it ended between the two looks

    wait_for(is_new)
    assert hold.json("alerts")["alerts"] == []
    assert pids(hold)["same"] == before["same"]
    assert hold.json("plan")["changes"] is False


@contextmanager
def adding(hold: Hold) -> Iterator[None]:
    """In the middle of a reload, in which `new` has to wait until `db` was stopped."""
    code = "trap 'until [ -e go ]; do sleep 0.05; done; exit' TERM; sleep 300 & wait"
    db = {"command": ["sh", "-c", code], "start_seconds": 0, "stop": {"grace": "60s"}}
    hold.services(db=db)
    hold.up()
    hold.services(db={**db, "env": {"X": "1"}}, new={**SLEEP, "depends_on": ["db"]})
    asking = threading.Thread(target=lambda: hold.cli("reload", expect=None))
    asking.start()
    hold.wait_status("db", "stopping")
    yield
    (hold.project / "go").touch()
    asking.join()


def test_what_is_added_is_started_though_the_daemon_dies(hold: Hold) -> None:
    """A service that had to wait for another one's restart is declared, and never started."""
    with adding(hold):
        kill_9(hold.supervisor_pid)
    hold.wait_status("new", "running")
    assert b"X=1" in environ_of(pids(hold)["db"])
    assert hold.json("plan")["changes"] is False


def test_what_is_added_can_be_stopped_before_its_turn(hold: Hold) -> None:
    """A reload starts what somebody has stopped while it went on."""
    with adding(hold):
        hold.cli("stop", "new")
    hold.wait_status("db", "running")
    new = hold.service("new")
    assert (new["status"], new["desired"], new["run"]) == ("stopped", "stopped", None)


def test_a_log_in_the_watched_folder_is_no_endless_restart(hold: Hold) -> None:
    """A service that writes into the folder that it watches restarts itself without end."""
    source = hold.project / "src"
    source.mkdir()
    code = "while :; do date >> src/app.log; sleep 0.05; done"
    watch = {"paths": ["src"], "ignore": ["*.log"], "debounce": "50ms"}
    hold.services(web={"command": ["sh", "-c", code], "start_seconds": 0, "watch": watch})
    hold.up()
    wait_for(lambda: (source / "app.log").stat().st_size > 200)
    assert hold.service("web")["run"] == 1
    (source / "main.py").write_text("x")
    wait_for(lambda: hold.service("web")["run"] == 2)


def test_a_job_that_takes_longer_than_its_interval(hold: Hold) -> None:
    """Cron starts the next run beside the one that still runs, until the machine is full."""
    hold.services(job={**SLEEP, "schedule": "every 1s"})
    hold.up()
    hold.wait_status("job", "running")
    begun = time.monotonic()
    skipped = wait_for(
        lambda: [e for e in hold.ask("events")["events"] if e["kind"] == "schedule:skipped"]
    )
    assert time.monotonic() - begun < 10
    assert skipped[0]["service"] == "job"
    assert hold.service("job")["run"] == 1


def test_instances_restart_one_after_the_other(hold: Hold) -> None:
    """A reload takes all workers down at once."""
    keys = {**SLEEP, "start_seconds": "50ms", "instances": 3}
    hold.services(web=keys)
    hold.up()
    last = hold.ask("events")["last"]
    hold.services(web={**keys, "env": {"X": "1"}})
    done = hold.json("reload")
    assert [it["outcome"] for it in done["services"].values()] == ["restarted"] * 3
    events = hold.ask("events", since=last, limit=1000)["events"]
    away: set[str] = set()
    for event in events:
        if event["kind"] == "transition":
            (away.discard if event["data"]["to"] == "running" else away.add)(event["service"])
            assert len(away) <= 1, "one at a time"
    assert hold.json("plan")["changes"] is False


def test_a_broken_declaration_takes_one_instance_only(hold: Hold) -> None:
    """A mistake in the new command takes every worker down."""
    keys = {**SLEEP, "start_seconds": "200ms", "start_retries": 0, "instances": 3}
    hold.services(web=keys)
    hold.up()
    before = pids(hold)
    hold.services(web={**keys, "command": ["sh", "-c", "exit 3"]})
    done = hold.json("reload", expect=1)
    outcomes = {name: it["outcome"] for name, it in done["services"].items()}
    assert outcomes == {"web@1": "failed", "web@2": "not_restarted", "web@3": "not_restarted"}
    after = pids(hold)
    assert (after["web@2"], after["web@3"]) == (before["web@2"], before["web@3"])
    assert hold.json("plan")["services"]["web@2"]["action"] == "restart"
    hold.services(web=keys)
    hold.cli("reload")
    assert pids(hold) == {**before, "web@1": pids(hold)["web@1"]}
    assert pids(hold)["web@1"] is not None


def test_with_overlap_the_old_run_stays_until_the_new_one_is_up(hold: Hold) -> None:
    """A reload without a gap is promised, and drops what is under way."""
    keys = {**SLEEP, "start_seconds": "100ms", "overlap": True}
    hold.services(web=keys)
    hold.up()
    before = pids(hold)["web"]
    last = hold.ask("events")["last"]
    hold.services(web={**keys, "env": {"X": "1"}})
    assert hold.json("reload")["services"]["web"]["outcome"] == "restarted"
    assert pids(hold)["web"] != before
    states = [
        event["data"]["to"]
        for event in hold.ask("events", since=last)["events"]
        if event["kind"] == "transition"
    ]
    assert "stopped" not in states
    assert "starting" not in states
    assert hold.json("plan")["changes"] is False


def test_a_number_set_by_hand_survives_a_reload(hold: Hold) -> None:
    """Workers that were added at run time are gone after the next reload."""
    hold.services(web={**SLEEP, "instances": 2})
    hold.up()
    hold.cli("scale", "web=3")
    before = pids(hold)
    assert len(before) == 3
    assert hold.json("reload")["changes"] is False
    assert pids(hold) == before
    hold.services(web={**SLEEP, "instances": 1})
    hold.cli("reload")
    assert pids(hold) == {"web@1": before["web@1"]}
