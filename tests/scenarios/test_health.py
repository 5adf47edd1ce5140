"""Readiness and health as a user meets them: real services, real probes."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from tests.harness import PYTHON, Hold, is_alive, kill_9, program, wait_for


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def web(hold: Hold, *statuses: object, name: str = "web", **probe: Any) -> dict[str, Any]:
    """A web server that answers these, with a health check."""
    folder = hold.folder / name
    folder.mkdir(exist_ok=True)
    port = free_port()
    check = {"http": f"http://127.0.0.1:{port}/", "interval": "100ms", **probe}
    return {
        "command": program("answers.py", port, folder, *statuses),
        "health_check": check,
        "restart": {"delay": "100ms", "max_restarts": "unlimited"},
        "start_seconds": 0,
    }


def once_it_listens(hold: Hold, service: dict[str, Any]) -> dict[str, Any]:
    """However long the server takes to listen, that is no failed check of its health."""
    listens = {"exec": ["test", "-e", str(hold.folder / "web" / "port")], "interval": "50ms"}
    return {**service, "startup": {**listens, "retries": 1000}}


def events(hold: Hold, name: str, kind: str) -> list[dict[str, Any]]:
    found = hold.ask("events", since=0, limit=10_000, services=[name])["events"]
    return [event["data"] for event in found if event["kind"] == kind]


def condemned(hold: Hold, name: str, seconds: float = 30.0) -> dict[str, Any]:
    found: list[dict[str, Any]] = wait_for(
        lambda: events(hold, name, "service:condemned"), seconds, f"{name} to be condemned"
    )
    return found[0]


def test_a_500_is_unhealthy_whatever_the_port_says(hold: Hold) -> None:
    """Three failed checks, and it is restarted, although the port takes connections."""
    hold.services(web=once_it_listens(hold, web(hold, 500)))
    done = hold.cli("up", "-d", expect=1)
    assert "not ready: answered 500 Internal Server Error" in done.stdout + done.stderr
    why = condemned(hold, "web")
    assert why["cause"] == "unhealthy"
    assert why["reason"].endswith(
        "3 checks in a row failed; last: answered 500 Internal Server Error"
    )
    failed = [data for data in events(hold, "web", "health:failed") if data["check"] == "http"]
    assert [data["failures"] for data in failed][:3] == [1, 2, 3]
    wait_for(lambda: hold.service("web")["run"] >= 2, what="a restart")
    changed = next(it for it in events(hold, "web", "health:changed") if it["check"] == "http")
    assert (changed["from"], changed["to"], changed["check"]) == ("unknown", "unhealthy", "http")


def test_health_is_told(hold: Hold) -> None:
    """In status, by `health`, by `wait`; a healthy service leaves one event."""
    # Not given up, however long it takes to listen, nor restarted, however long we take to ask.
    web_service = web(hold, 200, action="report", retries=600)
    hold.services(web=web_service, plain=[PYTHON, "-c", "import signal; signal.pause()"])
    hold.up()
    told = hold.service("web")
    assert (told["ready"], told["health"], told["consecutive_failures"]) == (True, "healthy", 0)
    assert "health" not in hold.service("plain")
    assert "healthy" in hold.cli("status").stdout
    found = hold.json("health")["services"]
    [check] = found["web"]["checks"]
    assert (check["probe"], check["check"], check["passed"]) == ("health_check", "http", True)
    assert check["reason"] == "answered 200 OK"
    assert check["duration"] > 0
    assert found["plain"]["checks"][0]["check"] == "process"
    hold.cli("wait", "web", "--for", "ready")
    hold.cli("wait", "web", "--for", "healthy")
    hold.cli("wait", "plain", "--for", "ready")
    asked = hold.folder / "web" / "asked"
    before = asked.stat().st_size
    wait_for(lambda: asked.stat().st_size > before + 3, what="more checks")
    assert len(events(hold, "web", "health:changed")) == 1
    (hold.folder / "web" / "status").write_text("503")
    shown = hold.cli("health", "web", expect=1).stdout
    assert "failed" in shown
    assert "answered 503 Service Unavailable" in shown


def test_report_only_never_restarts(hold: Hold) -> None:
    """Unhealthy is told, and the process stays."""
    hold.services(web=once_it_listens(hold, web(hold, 200, action="report")))
    hold.up()
    pid = hold.service("web")["pid"]
    (hold.folder / "web" / "status").write_text("500")
    wait_for(lambda: hold.service("web").get("consecutive_failures", 0) >= 6, what="failures")
    told = hold.service("web")
    assert (told["pid"], told["health"], told["ready"]) == (pid, "unhealthy", False)
    assert "unhealthy" in hold.cli("status").stdout
    (hold.folder / "web" / "status").write_text("200")
    wait_for(lambda: hold.service("web")["health"] == "healthy", what="health to come back")
    assert hold.service("web")["pid"] == pid


def test_who_takes_connections_and_never_answers_is_unhealthy(hold: Hold) -> None:
    """A hung server is a timeout, and is restarted."""
    hold.services(web=once_it_listens(hold, web(hold, 0, timeout="200ms", retries=2)))
    hold.cli("up", "-d", expect=1)
    assert "0.2 s" in condemned(hold, "web")["reason"]


def test_flapping_health_does_not_flap(hold: Hold) -> None:
    """Every other answer is a 500: no restart, no loss of readiness, no event but the failures."""
    hold.services(web=once_it_listens(hold, web(hold, 200, 500)))
    hold.up()
    pid = hold.service("web")["pid"]

    def about_http(kind: str) -> int:
        return sum(data["check"] == "http" for data in events(hold, "web", kind))

    wait_for(lambda: about_http("health:failed") >= 5, what="failures")
    told = hold.service("web")
    assert (told["pid"], told["ready"], told["health"]) == (pid, True, "healthy")
    assert about_http("health:changed") == 1


def test_a_start_waits_until_it_is_ready(hold: Hold) -> None:
    """The port opens late; `up` answers then, not before and not an interval later."""
    port = free_port()
    server = (
        "import socket, time; time.sleep(0.7); s = socket.socket(); "
        f"s.bind(('127.0.0.1', {port})); s.listen(); time.sleep(1000)"
    )
    hold.services(web={"command": [PYTHON, "-I", "-S", "-c", server], "readiness": {"tcp": port}})
    hold.up()
    told = hold.service("web")
    assert told["ready"] is True
    assert 0.7 <= events(hold, "web", "service:ready")[0]["after"] < 10


def test_startup_holds_back_everything(hold: Hold) -> None:
    """Until it has passed the service is starting, and its liveness is not asked."""
    flag = hold.folder / "started"
    hold.services(
        web={
            "command": [PYTHON, "-I", "-S", "-c", "import time; time.sleep(1000)"],
            "start_seconds": 0.1,
            "startup": {"exec": ["test", "-e", str(flag)], "interval": "100ms", "retries": 1000},
            "liveness": {"exec": ["false"], "interval": "100ms", "action": "report"},
        }
    )
    hold.cli("up", "-d", "--no-wait")
    wait_for(lambda: hold.service("web").get("consecutive_failures", 0) >= 3, what="checks")
    assert hold.service("web")["status"] == "starting"
    assert hold.service("web")["health"] == "unknown"
    flag.touch()
    hold.cli("wait", "web", "--for", "running")
    wait_for(lambda: hold.service("web")["health"] == "unhealthy", what="liveness to be asked")


def test_a_startup_that_fails_is_a_start_failure(hold: Hold) -> None:
    """The reason says which probe, how often, and what it found last."""
    hold.services(
        web={
            "command": [PYTHON, "-I", "-S", "-c", "import time; time.sleep(1000)"],
            "start_retries": 0,
            "startup": {"exec": ["false"], "interval": "50ms", "retries": 2},
        }
    )
    hold.cli("up", "-d", expect=1)
    told = hold.wait_status("web", "failed")
    assert "startup (exec): 2 checks in a row failed; last: exit code 1" in told["reason"]


def test_a_command_that_hangs_is_dead_afterwards(hold: Hold) -> None:
    """A probe over its time is killed with everything that it started."""
    pids = hold.folder / "pids"
    # In a configuration, $$ is a plain $.
    inner = f"echo $$$$ >> {pids}; exec sleep 1000"
    script = f"(sh -c '{inner}' &); {inner}"
    hold.services(
        web={
            "command": [PYTHON, "-I", "-S", "-c", "import time; time.sleep(1000)"],
            "liveness": {
                "exec": script,
                "shell": True,
                "interval": "1h",
                "timeout": "300ms",
                "action": "report",
            },
        }
    )
    hold.up()
    [check] = hold.json("health", "web", expect=1)["services"]["web"]["checks"]
    assert "took longer than its timeout and was killed" in check["reason"]
    started = [int(pid) for pid in pids.read_text().split()]
    assert len(started) >= 2
    assert not [pid for pid in started if is_alive(pid)]


def test_commands_run_as_the_service_does(hold: Hold) -> None:
    """In its folder, with its environment."""
    (hold.project / "sub").mkdir()
    seen = hold.folder / "seen"
    hold.services(
        web={
            "command": [PYTHON, "-I", "-S", "-c", "import time; time.sleep(1000)"],
            "working_dir": "sub",
            "env": {"COLOUR": "blue"},
            "readiness": {"exec": f"echo $PWD $COLOUR $HOME > {seen}", "shell": True},
        }
    )
    hold.up()
    assert seen.read_text().split() == [str(hold.project / "sub"), "blue", str(hold.folder)]


def test_a_line_makes_it_ready(hold: Hold) -> None:
    """Once in the run, also at the end of a line of a megabyte; the loop is not held up."""
    code = (
        "import time; print('starting'); print('x' * 1_000_000 + ' ready in 12 ms', flush=True); "
        "time.sleep(1000)"
    )
    pattern = r"(x+x+)+y|ready in \d+ ms"
    hold.services(
        web={
            "command": [PYTHON, "-I", "-S", "-c", code],
            "readiness": {"log": r"ready in \d+ ms$", "interval": "5s"},
        },
        slow={
            "command": [PYTHON, "-I", "-S", "-c", code],
            "readiness": {"log": pattern, "interval": "300ms", "retries": 2},
        },
    )
    hold.cli("up", "-d", "--no-wait")
    hold.cli("wait", "web", "--for", "ready")

    def why() -> str:
        [check] = hold.ask("health_check", services=["slow"])["services"]["slow"]["checks"]
        return str(check["reason"])

    wait_for(lambda: "takes too long" in why(), what="the reason")
    assert hold.service("web")["ready"] is True


def test_liveness_by_lines(hold: Hold) -> None:
    """At least one in every interval; who falls silent is restarted."""
    code = (
        "import time\nfor _ in range(8): print('tick', flush=True); time.sleep(0.1)\ntime.sleep(99)"
    )
    hold.services(
        web={
            "command": [PYTHON, "-I", "-S", "-c", code],
            "start_seconds": 0,
            "liveness": {"log": "^tick$", "interval": "400ms", "retries": 2},
        }
    )
    hold.up()
    wait_for(lambda: hold.service("web").get("health") == "healthy", what="health")
    assert 'no line matches "^tick$" for 0.4 s' in condemned(hold, "web")["reason"]


def test_probes_of_a_paused_service_wait(hold: Hold) -> None:
    """A frozen service cannot answer, so it is not asked and not restarted."""
    hold.services(web=web(hold, 200, timeout="10s", retries=600))
    hold.up()
    failed = events(hold, "web", "health:failed")
    hold.cli("pause", "web")
    asked = hold.folder / "web" / "asked"
    before = asked.stat().st_size
    [check] = hold.json("health", "web", expect=1)["services"]["web"]["checks"]
    assert check["reason"] == "the service is paused"
    hold.cli("resume", "web")
    wait_for(lambda: asked.stat().st_size >= before + 3, what="checks to go on")
    assert hold.service("web")["run"] == 1
    assert events(hold, "web", "health:failed") == failed, "none but while it came up"


def test_health_survives_the_supervisor(hold: Hold) -> None:
    """Ready and healthy before, ready and healthy after a kill -9; and still asked."""
    hold.services(web=once_it_listens(hold, web(hold, 200)))
    hold.up()
    before = hold.service("web")
    kill_9(hold.supervisor_pid)
    told = hold.service("web")
    assert (told["pid"], told["ready"], told["health"]) == (before["pid"], True, "healthy")
    (hold.folder / "web" / "status").write_text("500")
    condemned(hold, "web")


def test_five_hundred_expressions_cost_one_process(hold: Hold) -> None:
    """Log probes share a matcher; here forty stand for them."""
    one = {"command": ["sh", "-c", "echo up 42; exec sleep 1000"], "readiness": {"log": r"up \d+"}}
    hold.services(**{f"s{number}": one for number in range(40)})
    hold.up()
    assert all(it["ready"] for it in hold.status()["services"].values())
    matchers = [pid for pid in hold.marked_pids() if b"SIGVTALRM" in _command(pid)]
    assert len(matchers) <= 1
    left = [p for p in _children(hold.keeper_pid) if b"SIGVTALRM" in _command(p)]
    assert len(left) <= 1


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _children(pid: int) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append(int(entry))
    return found
