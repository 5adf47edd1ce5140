"""What users of other supervisors suffer: listeners that miss events, logs that tell secrets."""

from __future__ import annotations

import json
import logging

from tests.harness import Hold, kill_9, wait_for
from tests.scenarios.test_alerts import webhook

MANY = 40


def test_no_burst_overflows_who_listens() -> None:
    """Elsewhere a queue of ten drops the oldest before a listener is ready; here all arrive."""
    with webhook() as hook, Hold() as hold:
        hook.status = 503
        one = {"command": ["sh", "-c", "sleep 0.15; exit 4"], "start_seconds": 0.1,
               "restart_policy": "never"}  # fmt: skip
        hold.write(
            {
                "services": {f"s{number}": one for number in range(MANY)},
                "alerts": [{"webhook": hook.url, "severity": "info"}],
            }
        )
        hold.up(expect=None)
        wait_for(lambda: len(hold.ask("alerts")["alerts"]) == MANY, 30)
        kill_9(hold.supervisor_pid)
        hook.status = 200
        wait_for(lambda: len(set(hook.messages())) == MANY, 30)
        seqs = [it["seq"] for it in hook.got]
        assert seqs == sorted(seqs), "in the order in which it happened"


def test_a_listener_that_is_gone_fills_nothing() -> None:
    """Nobody answers: the target says so, services and verbs are not held up."""
    with Hold() as hold:
        target = {"webhook": "http://127.0.0.1:9/", "name": "nobody", "timeout": "1s"}
        hold.write(
            {
                "services": {"web": {"command": ["sh", "-c", "exit 1"], "start_retries": 0}},
                "alerts": [target],
            }
        )
        hold.up(expect=None)
        shown = wait_for(lambda: "failing" in (it := hold.cli("alerts", "--targets").stdout) and it)
        assert "127.0.0.1:9" in shown
        assert hold.cli("restart", "web", expect=None).returncode == 1


def test_the_own_log_is_for_programs_when_asked() -> None:
    """Every line is JSON, from the first, with service and pid as fields; also after a kill −9."""
    with Hold() as hold:
        hold.services(web=["sleep", "100"])
        hold.cli("up", "-d", "--log-format", "json", "--log-level", "engine=debug,warn")
        wait_for(lambda: "process:started" in (hold.state / "holdfast.log").read_text())
        pid = hold.supervisor_pid
        kill_9(pid)
        wait_for(lambda: hold.supervisor_pid != pid)
        hold.cli("stop", "web")
        path = hold.state / "holdfast.log"
        wait_for(lambda: "service:requested" in path.read_text())
        lines = [json.loads(it) for it in path.read_text().splitlines()]
        started = [it for it in lines if it["message"] == "process:started"]
        assert (started[0]["service"], started[0]["level"]) == ("web", "debug")
        assert isinstance(started[0]["pid"], int)
        assert all(it["module"].startswith("engine.") for it in lines if it["level"] == "debug")
        after = [it for it in lines if it["message"] == "service:requested"]
        assert after[0]["request"] == "stop"


def test_a_bad_level_is_refused_with_the_right_words() -> None:
    """A typing error in a level names the levels that there are."""
    with Hold() as hold:
        hold.services(web=["sleep", "100"])
        done = hold.cli("up", "-d", "--log-level", "engine=loud", expect=2)
        assert logging.getLevelName(logging.WARNING).lower() in done.stderr
