"""Dependencies between real processes: each condition, losses, restarts, order."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Hold, kill_9, program, quick, wait_for

SLEEP = ["sleep", "1000"]


def needs(command: Any = None, **edges: Any) -> dict[str, Any]:
    return quick(command, depends_on=edges)


def gate(hold: Hold, name: str) -> Path:
    return hold.project / name


def order(hold: Hold) -> list[str]:
    """Services in the order in which their processes began."""
    events = hold.ask("events", limit=10_000)["events"]
    return [it["service"] for it in events if it["kind"] == "process:started"]


def pid(hold: Hold, name: str) -> int:
    found: int = hold.service(name)["pid"]
    return found


def test_each_condition(hold: Hold) -> None:
    """Started, ready, healthy, completed, log: each dependent starts at its moment, not before."""
    hold.services(
        db=quick(
            program("gated.py", "line"),
            readiness={"exec": ["test", "-e", "ready"], "interval": "100ms"},
            liveness={"exec": ["test", "-e", "healthy"], "interval": "100ms", "retries": 1000},
        ),
        job=quick(program("gated.py", "done")),
        on_started=needs(db="started"),
        on_ready=needs(db="service_ready"),
        on_healthy=needs(db={"condition": "service_healthy"}),
        on_line=needs(db={"condition": "log", "pattern": "^ready [a-z]+"}),
        on_completed=needs(job="service_completed_successfully"),
    )
    hold.up("--no-wait")
    hold.wait_status("on-started", "running")
    waiting = {"on-ready", "on-healthy", "on-line", "on-completed"}
    assert {name for name in waiting if hold.service(name)["status"] == "pending"} == waiting
    assert hold.service("on-line")["waiting_for"] == ['db to print "^ready [a-z]+" (running)']
    assert "waits for job to complete (running)" in hold.cli("status").stdout
    for name, file in (
        ("on-line", "line"),
        ("on-ready", "ready"),
        ("on-healthy", "healthy"),
        ("on-completed", "done"),
    ):
        gate(hold, file).write_text("0" if file == "done" else "now")
        hold.wait_status(name, "running")
        waiting.discard(name)
        assert {it for it in waiting if hold.service(it)["status"] == "pending"} == waiting
    assert hold.service("job")["status"] == "exited"


def test_a_dependent_waits_through_a_crash(hold: Hold) -> None:
    """It is told truthfully that it waits, and comes up by itself; also under a new supervisor."""
    script = "test -e ok || { echo no >&2; exit 3; }; exec sleep 1000"
    hold.services(
        db=quick(["sh", "-c", script], max_restarts="unlimited", start_retries=1000),
        api=needs(db="ready"),
        web=needs(api="started"),
    )
    done = hold.cli("up", "-d", expect=1)
    assert "api: waiting for db to become ready (failed and is tried again)" in done.stdout
    assert "web: waiting for api to be started (waiting itself)" in done.stdout
    assert hold.service("api")["desired"] == "running"
    kill_9(hold.supervisor_pid)
    wait_for(lambda: hold.service("api").get("waiting_for"))
    gate(hold, "ok").write_text("")
    hold.wait_status("web", "running")
    assert order(hold)[-3:] == ["db", "api", "web"]


def test_a_failed_dependency_is_answered_and_waited_for(hold: Hold) -> None:
    """No hang when it failed for good or is stopped, and the dependent starts when it comes."""
    hold.services(
        db=quick(["sh", "-c", "test -e ok || exit 3; exec sleep 1000"], start_retries=0),
        api=needs(db="ready"),
    )
    done = hold.cli("up", "-d", expect=1)
    assert "api: failed: waiting for db to become ready (failed: exit code 3" in done.stdout
    hold.wait_status("db", "failed")
    assert hold.service("api")["waiting_for"]
    gate(hold, "ok").write_text("")
    hold.cli("start", "db")
    hold.wait_status("api", "running")
    hold.cli("stop", "api", "db")
    answer = hold.ask("restart", services=["api"])["services"]["api"]
    assert answer["outcome"] == "failed"
    assert "db to become ready (stopped)" in answer["reason"]
    hold.cli("stop", "api")
    hold.cli("start", "db")
    assert hold.service("api")["status"] == "stopped", "who was stopped does not come back"


@pytest.mark.parametrize("follows", [True, False])
def test_a_restart_edge(hold: Hold, follows: bool) -> None:
    """A dependency that crashed and came back restarts those that want it, and no others."""
    hold.services(db=quick(), api=needs(db={"condition": "ready", "restart": follows}))
    hold.up()
    before = pid(hold, "api")
    kill_9(pid(hold, "db"))
    wait_for(lambda: order(hold).count("db") == 2)
    hold.wait_status("db", "running")
    if follows:
        wait_for(lambda: order(hold).count("api") == 2)
        hold.wait_status("api", "running")
        kinds = [it["kind"] for it in hold.ask("events", services=["api"])["events"]]
        assert "service:follows" in kinds
    else:
        hold.cli("restart", "db")
        assert pid(hold, "api") == before


def test_health_that_flaps_moves_no_dependent(hold: Hold) -> None:
    """Losing and regaining health in one run is not a reason to restart anybody."""
    hold.services(
        db=quick(
            liveness={
                "exec": ["test", "-e", "healthy"],
                "interval": "50ms",
                "retries": 1,
                "action": "report",
            }
        ),
        api=needs(db={"condition": "healthy", "restart": True}),
    )
    gate(hold, "healthy").write_text("")
    hold.up()
    before = pid(hold, "api")
    for _ in range(3):
        gate(hold, "healthy").unlink()
        wait_for(lambda: hold.service("db")["health"] == "unhealthy")
        gate(hold, "healthy").write_text("")
        wait_for(lambda: hold.service("db")["health"] == "healthy")
    assert pid(hold, "api") == before
    assert order(hold) == ["db", "api"]


def test_a_cycle_is_told_as_a_whole(hold: Hold) -> None:
    """Services that wait for each other are refused by name, in their order."""
    hold.services(web=needs(api="started"), api=needs(db="ready"), db=needs(web="started"))
    done = hold.cli("up", "-d", expect=7)
    assert "services wait for each other: web → api → db → web" in done.stderr


@pytest.mark.parametrize("count", [40, 1000])
def test_a_graph_of_real_processes_starts_and_stops_in_order(hold: Hold, count: int) -> None:
    """Everybody after what it needs, without a stall, and down in the reverse order."""
    choose = random.Random(1)
    names = [f"s{number}" for number in range(count)]
    graph = {
        name: choose.sample(names[:number], min(number, choose.randrange(4)))
        for number, name in enumerate(names)
    }
    hold.services(
        **{
            name: {
                **needs(**{it: choose.choice(["started", "ready"]) for it in needed}),
                "start_seconds": 0,
            }
            for name, needed in graph.items()
        }
    )
    began = time.monotonic()
    hold.up("--timeout", "60s")
    assert time.monotonic() - began < 60, "nobody was left waiting"
    begun = {name: place for place, name in enumerate(order(hold))}
    assert len(begun) == count
    for name, needed in graph.items():
        assert all(begun[it] < begun[name] for it in needed)
    place = hold.state / "holdfast.db"
    hold.cli("down")
    with closing(sqlite3.connect(place)) as database:
        rows = database.execute("select service from events where kind='exit' order by seq")
        ended = {name: place for place, (name,) in enumerate(rows)}
    for name, needed in graph.items():
        assert all(ended[name] < ended[it] for it in needed)


def test_a_chain_starts_without_a_stall(hold: Hold) -> None:
    """A hundred in a row, each when the one before it has begun."""
    chain = {f"s{number}": needs(**{f"s{number - 1}": "started"}) for number in range(1, 100)}
    hold.services(s0=quick(), **chain)
    began = time.monotonic()
    hold.up("--no-wait")
    wait_for(lambda: len(order(hold)) == 100)
    assert order(hold) == [f"s{number}" for number in range(100)]
    assert time.monotonic() - began < 30


def test_groups_and_tags_in_every_verb(hold: Hold) -> None:
    """A group, a tag and the name of instances stand wherever a service may."""
    hold.write(
        {
            "groups": {"backend": ["db", "api"]},
            "services": {
                "db": quick(),
                "api": quick(["sh", "-c", "echo api; sleep 1000"], tags=["dev"], instances=2),
                "web": quick(["sh", "-c", "echo web; sleep 1000"], tags=["dev", "edge"]),
            },
        }
    )

    def of(*args: object) -> list[str]:
        return sorted(hold.json(*args)["services"])

    backend, dev = ["api@1", "api@2", "db"], ["api@1", "api@2", "web"]
    hold.up("backend")
    assert of("status", "group:backend") == of("status", "backend") == backend
    assert hold.service("web")["status"] == "pending"
    assert of("start", "tag:dev") == dev
    assert of("status", "api", "tag:edge") == dev
    assert of("ps", "api") == of("pause", "api") == of("resume", "api") == ["api@1", "api@2"]
    assert of("signal", "CONT", "tag:dev") == of("restart", "tag:dev") == dev
    assert of("stop", "tag:edge") == ["web"]
    wait_for(lambda: hold.raw("api@2").count(b"api") == 2)
    lines = [json.loads(line) for line in hold.cli("logs", "tag:dev", "--json").stdout.splitlines()]
    assert {line["service"] for line in lines if line["text"]} == set(dev)
    assert hold.cli("wait", "backend").returncode == 0
    told = hold.ask("events", services=["tag:edge"])["events"]
    assert {event["service"] for event in told} == {"web"}
    assert hold.cli("runs", "api").stdout.startswith("SERVICE  RUN")
    assert {run["service"] for run in hold.json("runs", "api")["runs"]} == {"api@1", "api@2"}
    done = hold.cli("stop", "tag:devv", expect=3)
    assert 'did you mean "tag:dev"?' in done.stderr
    done = hold.cli("__complete", "stop", "")
    assert {"api", "group:backend", "tag:edge", "web"} <= set(
        done.stdout.replace("\t", "\n").split()
    )
    assert of("rm", "tag:edge") == ["web"]
    assert sorted(hold.status()["services"]) == backend


def test_a_waiting_service_stops_with_everything(hold: Hold) -> None:
    """`down` does not wait for one that waits, nor does it start it."""
    hold.services(db=quick(program("gated.py", "never")), api=needs(db={"pattern": "^ready"}))
    hold.up("--no-wait")
    wait_for(lambda: hold.service("api").get("waiting_for"))
    os.kill(hold.keeper_pid, signal.SIGTERM)
    wait_for(lambda: not hold.marked_pids(), what="everything to end")


def test_a_group_runs_again_in_its_order(hold: Hold) -> None:
    """A task of the group that completed before is run anew, and who needs it waits for that;
    what cannot be done to one member keeps no other from it."""
    services = {
        "db": quick(["sh", "-c", "echo up; exec sleep 1000"]),
        "job": needs(["sh", "-c", "sleep 0.2"], db={"condition": "log", "pattern": "up"}),
        "api": needs(job="completed"),
    }
    hold.write({"groups": {"all": list(services)}, "services": services})
    hold.up()
    hold.wait_status("job", "exited")
    hold.ask("restart", services=["all"])
    hold.ask("stop", services=["all"])
    hold.ask("start", services=["all"])
    runs = hold.ask("runs", service="all")["runs"]
    by_start = sorted(runs, key=lambda run: run["started_at"])
    assert [run["service"] for run in by_start] == ["db", "job", "api"] * 3
    ends = [run["ended_at"] for run in by_start if run["service"] == "job"]
    starts = [run["started_at"] for run in by_start if run["service"] == "api"]
    assert all(end <= start for end, start in zip(ends, starts, strict=True))
    paused = hold.ask("pause", services=["all"])["services"]
    assert {name: it["outcome"] for name, it in paused.items()} == {
        "db": "paused", "job": "failed", "api": "paused",
    }  # fmt: skip
    hold.cli("resume", "all", expect=1)
    assert hold.service("db")["status"] == "running"
