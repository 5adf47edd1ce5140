"""What services use, and what happens when it is too much: real processes, real numbers."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.harness import PYTHON, Hold, kill_9, program, wait_for

HUNGRY = "x = bytearray(60_000_000)\nimport time\nprint('fed', flush=True)\ntime.sleep(1000)"


def python(code: str) -> list[str]:
    return [PYTHON, "-I", "-S", "-c", code]


def declare(hold: Hold, services: dict[str, Any], **settings: Any) -> None:
    hold.write({"monitoring_interval": "1s", **settings, "services": services})


def numbers(hold: Hold, name: str) -> dict[str, Any]:
    found: dict[str, Any] = hold.ask("metrics", services=[name])["services"][name]
    return found


def events(hold: Hold, kind: str, name: str) -> list[dict[str, Any]]:
    found = hold.ask("events", services=[name], limit=1000)["events"]
    return [event for event in found if event["kind"] == kind]


def test_the_numbers_of_a_known_load(hold: Hold, tmp_path: Path) -> None:
    """CPU, memory, files, bytes and processes of a whole tree equal the system's own."""
    load = program("load.py", 0.2, 40, 25, 3_000_000, tmp_path / "data")
    declare(hold, {"load": load, "idle": ["sleep", "1000"]})
    hold.up()
    hold.cli("wait", "load", "--for", "log:loaded")
    tree = [
        psutil.Process(it["pid"]) for it in hold.ask("ps", services=["load"])["services"]["load"]
    ]
    assert len(tree) == 3, "itself, a child, and one that was forked twice"
    found = wait_for(lambda: (n := numbers(hold, "load"))["memory_bytes"] > 40_000_000 and n)
    assert found["processes"] == 3
    assert found["memory_bytes"] == pytest.approx(
        sum(one.memory_info().rss for one in tree), rel=0.02
    )
    assert found["memory_mb"] == pytest.approx(found["memory_bytes"] / 1e6, abs=0.1)
    assert found["handles"] == sum(one.num_fds() for one in tree)
    assert found["threads"] == 3
    assert found["written_bytes"] == sum(one.io_counters().write_bytes for one in tree)
    assert found["written_chars"] >= 3_000_000
    used = found["user_seconds"] + found["system_seconds"]
    assert 0.58 <= used <= 2.0, "three times 0.2 s, that of an ended child included"
    assert found["cpu_seconds_total"] == pytest.approx(used, abs=0.01)
    assert abs(found["started_at"] - tree[0].create_time()) < 2
    assert wait_for(lambda: "cpu_percent" in hold.service("load"))
    status = hold.service("load")
    assert status["memory_mb"] == pytest.approx(found["memory_mb"], rel=0.05)
    whole = hold.ask("metrics")
    rows = whole["services"].values()
    assert whole["aggregate"]["totalMemory"] == sum(row["memory_bytes"] for row in rows)
    assert whole["aggregate"]["activeProcesses"] == 2
    assert whole["aggregate"]["totalProcesses"] == 4
    extras = hold.ask("metrics", services=["load"], extras=True)["services"]["load"]
    assert 40_000_000 < extras["pss_bytes"] <= found["memory_bytes"]
    hold.cli("restart", "load", "--no-wait")
    wait_for(lambda: numbers(hold, "load")["runs"] == 2)
    assert numbers(hold, "load")["cpu_seconds_total"] >= used - 0.01, "ended runs stay in the total"


def test_history_outlives_the_supervisor(hold: Hold) -> None:
    """Points and totals are there after kill -9, and go with the service."""
    declare(hold, {"busy": python("while True: pass")})
    hold.up()
    ask = {"services": ["busy"], "history": 600}
    wait_for(lambda: len(hold.ask("metrics", **ask)["history"]["busy"]) >= 2)
    before = hold.ask("metrics", **ask)
    old = hold.supervisor_pid
    kill_9(old)
    wait_for(lambda: hold.supervisor_pid != old)
    after = wait_for(
        lambda: (m := hold.ask("metrics", **ask))["services"]["busy"].get("memory_bytes") and m
    )
    first = {point["time"] for point in before["history"]["busy"][:-1]}
    assert first <= {point["time"] for point in after["history"]["busy"]}
    total = before["services"]["busy"]["cpu_seconds_total"]
    assert after["services"]["busy"]["cpu_seconds_total"] >= total
    minute = hold.ask("metrics", **ask, resolution=60)
    assert minute["resolution"] == 60
    assert minute["history"]["busy"][-1]["seconds"] >= 2
    assert (hold.state / "metrics" / "busy.ring").exists()
    hold.cli("rm", "busy")
    wait_for(lambda: not (hold.state / "metrics" / "busy.ring").exists())


@pytest.mark.parametrize("action", ["restart", "kill"])
def test_memory_beyond_the_limit_ends_the_run(hold: Hold, action: str) -> None:
    """Both values are told, the run is ended as a failure, and started again."""
    limit = {"size": "30MB", "action": action}
    restart = {"delay": "100ms", "max_restarts": 1}
    declare(hold, {"big": {"command": python(HUNGRY), "memory_limit": limit, "restart": restart}})
    hold.up(expect=None)
    (reached, *_) = wait_for(lambda: events(hold, "limit:reached", "big"))
    assert reached["data"]["limit"] == "memory"
    assert "at most 28.6 MiB allowed (memory_limit)" in reached["data"]["reason"]
    wait_for(lambda: len(hold.ask("runs", service="big")["runs"]) == 2)
    ended = hold.json("runs", "big")["runs"][-1]
    assert ended["error_type"] == "RESOURCE_EXCEEDED"
    assert ended["signal"] == ("SIGTERM" if action == "restart" else "SIGKILL")
    found = hold.wait_status("big", "failed")
    assert found["error_type"] == "RESOURCE_EXCEEDED"


def test_memory_beyond_the_limit_is_told_or_stopped(hold: Hold) -> None:
    """`warn` changes nothing but what is known; `stop` leaves it stopped, and says why."""
    services = {
        action: {"command": python(HUNGRY), "memory_limit": {"size": "30MB", "action": action}}
        for action in ("warn", "stop")
    }
    declare(hold, services)
    hold.up(expect=None)
    pid = hold.service("warn")["pid"]
    stopped = hold.wait_status("stop", "stopped")
    assert stopped["desired"] == "stopped"
    assert "at most 28.6 MiB allowed" in stopped["reason"]
    assert stopped["error_type"] == "RESOURCE_EXCEEDED"
    assert len(wait_for(lambda: events(hold, "limit:reached", "warn"))) == 1
    assert hold.service("warn")["pid"] == pid
    assert hold.service("warn")["status"] == "running"


def test_too_many_processes_end_the_run(hold: Hold) -> None:
    """Where the kernel cannot hold a tree back, what forks beyond its limit is killed whole."""
    code = "import os, time\nfor _ in range(20):\n  os.fork() or time.sleep(1000)\ntime.sleep(1000)"
    declare(
        hold,
        {"many": {"command": python(code), "process_limit": 5, "restart_policy": "never"}},
    )
    hold.up(expect=None)
    found = hold.wait_status("many", "failed")
    assert found["error_type"] == "RESOURCE_EXCEEDED"
    assert "at most 5 allowed (process_limit)" in found["reason"]
    assert hold.ask("ps", services=["many"])["services"]["many"] == []


def test_a_limit_that_is_left_is_cleared(hold: Hold, tmp_path: Path) -> None:
    """Memory that was given back is told, once."""
    code = (
        "import mmap, os, time\nm = mmap.mmap(-1, 60_000_000)\nm.write(b'x' * 60_000_000)\n"
        f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.02)\n"
        "m.close()\ntime.sleep(1000)"
    )
    limit = {"size": "30MB", "action": "warn"}
    declare(hold, {"big": {"command": python(code), "memory_limit": limit}})
    hold.up()
    wait_for(lambda: events(hold, "limit:reached", "big"))
    (tmp_path / "go").touch()
    wait_for(lambda: events(hold, "limit:cleared", "big"))
    assert len(events(hold, "limit:reached", "big")) == 1


def test_a_run_over_its_timeout_is_ended(hold: Hold) -> None:
    """TIMEOUT in the run, the event and the status; a tree that ignores SIGTERM goes, too."""
    stubborn = "import signal,time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(1000)"
    declare(
        hold,
        {
            "slow": {
                "command": python(stubborn),
                "timeout": "1500ms",
                "restart_policy": "never",
                "stop": {"grace": "300ms"},
            }
        },
    )
    hold.up()
    found = hold.wait_status("slow", "failed")
    assert found["error_type"] == "TIMEOUT"
    assert found["reason"] == "took longer than its timeout of 1.5s"
    (run,) = hold.json("runs", "slow")["runs"]
    assert (run["error_type"], run["signal"]) == ("TIMEOUT", "SIGKILL")
    assert "killed by SIGKILL (TIMEOUT)" in hold.cli("runs", "slow").stdout
    (ended,) = events(hold, "exit", "slow")
    assert ended["data"]["error_type"] == "TIMEOUT"


def test_a_timeout_outlives_the_supervisor(hold: Hold) -> None:
    """A new supervisor goes on counting where the run began."""
    declare(hold, {"slow": {"command": "sleep 1000", "timeout": "4s", "restart_policy": "never"}})
    hold.up()
    old = hold.supervisor_pid
    kill_9(old)
    found = hold.wait_status("slow", "failed")
    assert hold.supervisor_pid != old
    assert found["error_type"] == "TIMEOUT"
    assert 3.5 <= hold.json("runs", "slow")["runs"][0]["duration"] <= 8


def test_error_types_of_starts_and_exits(hold: Hold) -> None:
    """What could not be started and what ended by itself are told apart; success is neither."""
    restart = {"delay": "50ms"}
    declare(
        hold,
        {
            "nowhere": {"command": "/does/not/exist", "start_retries": 1, "restart": restart},
            "crash": {"command": python("raise SystemExit(3)"), "restart_policy": "never"},
            "fine": {"command": "true", "restart_policy": "never"},
        },
    )
    hold.up(expect=None)
    assert hold.wait_status("nowhere", "failed")["error_type"] == "SPAWN_FAILED"
    failed = events(hold, "process:start_failed", "nowhere")
    assert [it["data"]["error_type"] for it in failed] == ["SPAWN_FAILED"] * 2, "tried again"
    assert hold.wait_status("crash", "failed")["error_type"] == "UNEXPECTED_EXIT"
    assert "error_type" not in hold.wait_status("fine", "exited")


def test_a_start_beyond_a_limit_fails_with_both_values(hold: Hold) -> None:
    """Nothing is started beyond max_processes, and the answer says how many are allowed."""
    declare(
        hold,
        {
            name: {"command": ["sleep", "1000"], "autostart": name == "one"}
            for name in ("one", "two")
        },
        limits={"max_processes": 1},
    )
    hold.up()
    answer = hold.ask("start", services=["two"])["services"]["two"]
    assert (answer["outcome"], answer["code"]) == ("failed", "resource_exceeded")
    assert answer["error_type"] == "RESOURCE_EXCEEDED"
    allowed = "at most 1 allowed (limits.max_processes)"
    assert answer["reason"] == f"Process limit exceeded: 1 service runs, {allowed}"
    assert hold.service("two")["status"] == "failed"
    assert hold.cli("start", "two", expect=1)
    hold.cli("stop", "one")
    hold.cli("start", "two")


def test_a_host_that_is_too_busy_refuses(hold: Hold) -> None:
    """Memory of the host is measured, and told beside what is allowed."""
    declare(hold, {"one": ["sleep", "1000"]}, limits={"max_memory": "0.1%"})
    hold.up(expect=None)
    found = hold.service("one")
    assert found["status"] == "failed"
    assert "at most 0.1 % allowed (limits.max_memory)" in found["reason"]
    assert hold.json("runs", "one")["runs"] == []


def test_a_start_waits_for_room(hold: Hold) -> None:
    """With queue_when_busy starts wait in order, say what for, and begin when they can."""
    names = ("one", "two", "three")
    declare(
        hold,
        {name: ["sleep", "1000"] for name in names},
        limits={"max_processes": 1, "queue_when_busy": True},
    )
    hold.up(expect=None, timeout=30)
    assert hold.wait_status("one", "running")
    assert hold.service("two")["pid"] is None
    old = hold.supervisor_pid
    hold.cli("stop", "one")
    hold.wait_status("two", "running")
    assert hold.service("three")["pid"] is None
    kill_9(old)
    wait_for(lambda: hold.supervisor_pid != old)
    hold.cli("stop", "two")
    hold.wait_status("three", "running")


def test_the_verbs_show_it(hold: Hold) -> None:
    """A table for people, JSON and Prometheus for programs, and top without a terminal."""
    declare(hold, {"web": ["sleep", "1000"], "db": ["sleep", "1000"]})
    hold.up()
    wait_for(lambda: numbers(hold, "db").get("memory_bytes"))
    table = hold.cli("metrics").stdout
    assert table.splitlines()[0].split()[:4] == ["SERVICE", "STATE", "CPU", "MEMORY"]
    assert table.splitlines()[-1].startswith("total")
    assert hold.json("metrics", "web")["services"].keys() == {"web"}
    from prometheus_client.parser import text_string_to_metric_families

    text = hold.cli("metrics", "--format", "prometheus").stdout
    up = next(it for it in text_string_to_metric_families(text) if it.name == "holdfast_service_up")
    assert {sample.labels["service"]: sample.value for sample in up.samples} == {"web": 1, "db": 1}
    shown = hold.cli("top", "--count", "2", "--interval", "500ms").stdout
    assert shown.count("SERVICE") == 2
    assert "\x1b" not in shown
    assert "web" in hold.cli("metrics", "web", "--history", "10m").stdout
    own = hold.ask("metrics")["supervisor"]
    assert own["commands"]["metrics"] >= 4
    assert own["spawns"] == 2
    assert own["events"] > 0
    assert own["memory_bytes"] > 0


def test_a_service_that_says_numbers_of_itself(hold: Hold) -> None:
    """X_METRIC_name=value on the notify socket becomes a custom metric."""
    code = (
        "import os, socket, time\ns = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        "where = os.environ['NOTIFY_SOCKET']\n"
        "s.connect('\\0' + where[1:] if where[0] == '@' else where)\n"
        "s.send(b'READY=1\\nX_METRIC_queue_length=17')\ntime.sleep(1000)"
    )
    declare(hold, {"web": {"command": python(code), "notify": True}})
    hold.up()
    found = wait_for(lambda: numbers(hold, "web")["custom"])
    assert found == {"queue_length": 17.0}


def test_idle_services_cost_next_to_nothing(hold: Hold) -> None:
    """Nothing is written for what does nothing: its history is one record a minute."""
    declare(hold, {"idle": ["sleep", "1000"]})
    hold.up()
    wait_for(lambda: numbers(hold, "idle").get("cpu_percent") == 0.0)
    ring = hold.state / "metrics" / "idle.ring"
    wait_for(ring.exists)
    wait_for(lambda: time.time() - ring.stat().st_mtime > 2.5)
    assert hold.ask("metrics")["age"] < 2, "it is looked at all the same"
    assert os.path.getsize(ring) < 150_000
