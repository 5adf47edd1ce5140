"""`holdfast explain` after what really happens to services."""

from __future__ import annotations

import socket
from typing import Any

from tests.harness import PYTHON, Hold, kill_9, wait_for


def explained(hold: Hold, name: str) -> dict[str, Any]:
    found: dict[str, Any] = hold.ask("explain", service=name)["explanations"][0]
    return found


def told(hold: Hold, name: str) -> str:
    return hold.cli("explain", name).stdout


def texts(one: dict[str, Any]) -> list[str]:
    return [it["text"] for it in one["happened"]]


def test_a_crash_loop() -> None:
    """It says how the run ended, what that means, what it printed, and when it starts again."""
    with Hold() as hold:
        script = "echo ready; echo 'ModuleNotFoundError: No module named flask' >&2; sleep 0.2"
        hold.services(
            web={"command": ["sh", "-c", f"{script}; kill -9 $$$$"], "start_seconds": 0.1,
                 "restart": {"delay": "30s", "jitter": 0}}
        )  # fmt: skip
        hold.up()
        hold.wait_status("web", "backoff")
        one = explained(hold, "web")
        assert (one["status"], one["is_fine"]) == ("backoff", False)
        assert "failed" in one["summary"]
        assert "SIGKILL" in one["summary"]
        assert "attempt 1 of 10" in one["next"]
        assert 25 < one["next_start_in"] <= 30
        assert one["ending"]["signal"] == "SIGKILL"
        assert "memory" in one["ending"]["meaning"]
        assert (one["last_out"], len(one["last_err"])) == (["ready"], 1)
        assert "flask is missing" in " ".join(one["hints"])
        assert texts(one)[-1].startswith("another start was planned in 30 s")
        shown = told(hold, "web")
        for words in ("web is in backoff", "next: restart in", "| ready", "before"):
            assert words in shown


def test_suppression_and_a_stop_by_hand() -> None:
    """A service that was given up says why nothing comes next; so does one that was stopped."""
    with Hold() as hold:
        hold.services(
            web={"command": ["sh", "-c", "exit 127"], "start_retries": 0}, ok=["sleep", "100"]
        )
        hold.up(expect=None)
        hold.wait_status("web", "failed")
        one = wait_for(lambda: (it := explained(hold, "web")) and it["alerts"] and it)
        assert "an immediate exit (within start_seconds, 1 s) is a failed start" in one["next"]
        assert "did not find the command" in one["ending"]["meaning"]
        hold.cli("stop", "ok")
        stopped = explained(hold, "ok")
        assert stopped["summary"].startswith("it was stopped by request")
        assert "it was stopped" in stopped["next"]
        assert "a user asked: stop" in texts(stopped)
        everything = hold.ask("explain")
        assert [it["service"] for it in everything["explanations"]] == ["web"]
        assert everything["fine"] == ["ok"]
        assert hold.cli("explain").stdout.startswith("web is failed: it failed")
        hold.cli("stop", "web")
        assert "since then it was stopped by request" in explained(hold, "web")["summary"]


def test_starts_that_fail() -> None:
    """A missing program and a missing folder are named, with what to look at."""
    with Hold() as hold:
        hold.services(
            program={"command": ["no-such-program"], "start_retries": 0},
            folder={"command": ["true"], "working_dir": "nowhere", "start_retries": 0},
            plain={"command": ["./file"], "start_retries": 0},
        )
        (hold.project / "file").write_text("#!/bin/sh\n")
        hold.up(expect=None)
        for name, stage, hint in (
            ("program", "exec", "is no-such-program installed, and in the PATH"),
            ("folder", "directory", "does the folder exist"),
            ("plain", "exec", "chmod +x"),
        ):
            one = explained(hold, name)
            assert one["ending"]["stage"] == stage
            assert hint in " ".join(one["hints"])
            assert f"the step «{stage}» failed" in told(hold, name)


def test_a_port_that_is_taken() -> None:
    """Who holds the port is named, and left alone."""
    with Hold() as hold, socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        line = f"Error: listen EADDRINUSE: address already in use 127.0.0.1:{port}"
        hold.services(web={"command": ["sh", "-c", f"echo '{line}' >&2; exit 1"],
                           "start_retries": 0})  # fmt: skip
        hold.up(expect=None)
        hold.wait_status("web", "failed")
        one = explained(hold, "web")
        import os

        assert one["holders"][0]["pid"] == os.getpid()
        assert f"port {port} is used by pid {os.getpid()}" in one["hints"][0]


def test_what_changed_since_the_last_good_run() -> None:
    """The fields that differ are told, also by a later supervisor; values of variables never."""
    with Hold() as hold:
        web: dict[str, Any] = {"command": ["sleep", "100"], "env": {"PORT": "80", "KEY": "old-1"}}
        hold.services(web={**web, "start_seconds": 0.1, "start_retries": 0})
        hold.up()
        hold.cli("stop", "web")
        bad = {"command": ["sh", "-c", "exit 1"], "env": {"PORT": "80", "KEY": "new-2"}}
        hold.services(web={**bad, "start_seconds": 0.1, "start_retries": 0})
        hold.up(expect=None)
        hold.wait_status("web", "failed")
        for _ in range(2):
            one = explained(hold, "web")
            assert one["changes"]["run"] == 1
            fields = {it["field"]: (it["before"], it["after"]) for it in one["changes"]["fields"]}
            assert fields["command"] == ("sleep 100", "sh -c exit 1")
            assert fields["env.KEY"] == (None, None)
            assert "env.PORT" not in fields
            shown = told(hold, "web")
            assert "command: sleep 100 → sh -c exit 1" in shown
            assert "old-1" not in shown
            assert "new-2" not in shown
            pid = hold.supervisor_pid
            kill_9(pid)
            wait_for(lambda before=pid: hold.supervisor_pid != before)


def test_a_dependency_that_is_awaited() -> None:
    """Who waits says for what."""
    with Hold() as hold:
        hold.services(
            db={"command": ["sleep", "100"], "start_seconds": 0.1,
                "readiness": {"exec": ["false"], "interval": "100ms"}},
            web={"command": ["sleep", "100"], "depends_on": {"db": "ready"}},
        )  # fmt: skip
        hold.cli("up", "-d", "--no-wait", expect=None)
        one = wait_for(lambda: (it := explained(hold, "web"))["waiting_for"] and it)
        assert "waits for" in one["summary"]
        assert "db" in one["summary"]
        assert one["is_fine"] is False
        assert "as soon as" in one["next"]
        db = explained(hold, "db")
        assert "not ready" in db["summary"] or db["status"] == "starting"


def test_an_unhealthy_service() -> None:
    """A restart for its health is told with the check that failed; the alert is cleared."""
    with Hold() as hold:
        flag = hold.folder / "sick"
        probe = {"exec": ["test", "!", "-e", str(flag)], "interval": "100ms", "retries": 2,
                 "timeout": "5s"}  # fmt: skip
        hold.services(
            web={"command": ["sleep", "100"], "start_seconds": 0.1, "health_check": probe,
                 "restart": {"delay": "100ms"}}
        )  # fmt: skip
        hold.up()
        first = hold.service("web")["pid"]
        flag.touch()
        found = wait_for(
            lambda: [it for it in hold.ask("alerts")["alerts"] if it["cause"] == "unhealthy"]
        )
        assert found[0]["severity"] == "critical"
        wait_for(lambda: hold.service("web")["pid"] not in (None, first))
        flag.unlink()
        one = explained(hold, "web")
        assert any("ended as a failure" in text for text in texts(one))
        assert any("health" in text for text in texts(one))
        wait_for(lambda: not [it for it in hold.ask("alerts")["alerts"]
                              if it["cause"] == "unhealthy"])  # fmt: skip


def test_one_that_runs_and_one_that_never_did() -> None:
    """The quiet states are explained, too, and what is not known is called unknown."""
    with Hold() as hold:
        hold.services(
            web={"command": [PYTHON, "-c", "import time; time.sleep(100)"], "start_seconds": 0.1},
            later={"command": ["true"], "autostart": False},
            job={"command": ["true"]},
        )
        hold.up()
        assert "has been running for" in explained(hold, "web")["summary"]
        assert "autostart: false" in explained(hold, "later")["summary"]
        assert "successfully" in explained(hold, "job")["summary"]
        hold.cli("pause", "web")
        assert "frozen" in explained(hold, "web")["summary"]
        names = explained(hold, "web")["environment"]
        assert names["PATH"]
        assert names["XDG_STATE_HOME"]
        assert hold.cli("explain", "wbe", expect=3).stderr.count("did you mean") == 1


def test_runs_before_a_down_are_not_forgotten() -> None:
    """After `down` and `up` nobody says that it never ran, or that its ending is unknown."""
    with Hold() as hold:
        hold.services(web={"command": ["sleep", "100"], "autostart": False, "start_seconds": 0})
        hold.up()
        hold.cli("start", "web")
        hold.cli("down")
        hold.up()
        told = explained(hold, "web")
        assert "run 1 was its last" in told["summary"]
        assert told["ending"]["signal"] == "SIGTERM"
        assert told["unknown"] == []
        hold.cli("start", "web")
        told = explained(hold, "web")
        assert (told["run"], told["ending"]["signal"], told["unknown"]) == (2, "SIGTERM", [])
