"""Alerts with real processes: raised, cleared, delivered whatever dies in between."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.harness import Hold, kill_9, wait_for

SECRET = "s3cr3tVALUE9876"
CRASHER = ["sh", "-c", "sleep 0.15; exit 3"]
QUICK = {"start_seconds": 0.1, "restart": {"delay": "50ms", "max_restarts": 1}}


class Hook:
    """A webhook that answers as it is told, and remembers what it got."""

    def __init__(self) -> None:
        self.status = 200
        self.got: list[dict[str, Any]] = []
        self.attempts: list[dict[str, str]] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                hook.attempts.append({key.lower(): value for key, value in self.headers.items()})
                status = hook.status
                if status == 200:
                    hook.got.append(json.loads(body))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/{SECRET}?key={SECRET}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def messages(self, what: str = "raised") -> list[str]:
        return [it["alert"]["message"] for it in self.got if it["event"] == what]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def webhook() -> Iterator[Hook]:
    hook = Hook()
    try:
        yield hook
    finally:
        hook.close()


def causes(hold: Hold) -> dict[str, int]:
    return {it["cause"]: it["count"] for it in hold.ask("alerts")["alerts"]}


def test_a_crash_is_an_alert_until_it_runs_stably() -> None:
    """It is raised once, counted, shown by `status`, and cleared when the service is well."""
    with Hold() as hold:
        flag = hold.folder / "well"
        script = f"test -e {flag} || {{ sleep 0.15; exit 3; }}; exec sleep 100"
        restart = {"delay": "50ms", "reset_after": "1s", "max_restarts": 50}
        hold.services(
            web={"command": ["sh", "-c", script], "start_seconds": 0.1, "restart": restart}
        )
        hold.up()
        wait_for(lambda: causes(hold).get("crash", 0) >= 2)
        assert hold.status()["supervisor"]["alerts"] == {"warning": 1}
        assert "open alerts: 1 warning" in hold.cli("status").stdout
        flag.touch()
        wait_for(lambda: not causes(hold))
        assert "alerts" not in hold.status()["supervisor"]
        over = hold.ask("alerts", history=True)["alerts"]
        assert [it["cause"] for it in over] == ["crash"]
        assert over[0]["cleared_because"] == "it has been running stably since"
        told = hold.cli("alerts", "--all").stdout
        assert "web crashed: exit code 3" in told
        kinds = [it["kind"] for it in hold.ask("events", since=0, limit=1000)["events"]]
        assert (kinds.count("alert:raised"), kinds.count("alert:cleared")) == (1, 1)


def test_alerts_survive_the_supervisor_exactly() -> None:
    """After kill −9 the open alerts are the same, and nothing is raised again."""
    with Hold() as hold:
        hold.services(
            web={"command": CRASHER, **QUICK}, gone={"command": ["/nowhere/x"], "start_retries": 0}
        )
        hold.up(expect=None)
        # Who has failed for good raises nothing more: each alert and how often it was raised.
        counts = {
            "web crash": 2,
            "web suppressed": 1,
            "gone start_failure": 1,
            "gone suppressed": 1,
        }

        def told() -> dict[str, int]:
            alerts = hold.ask("alerts")["alerts"]
            return {f"{it['service']} {it['cause']}": it["count"] for it in alerts}

        wait_for(lambda: told() == counts)
        before = sorted(hold.ask("alerts")["alerts"], key=lambda it: it["id"])
        pid = hold.supervisor_pid
        kill_9(pid)
        wait_for(lambda: hold.supervisor_pid != pid)
        # What was stored and not yet folded in is folded in by the next supervisor.
        wait_for(lambda: sorted(hold.ask("alerts")["alerts"], key=lambda it: it["id"]) == before)
        kinds = [it["kind"] for it in hold.ask("events", since=0, limit=1000)["events"]]
        assert kinds.count("alert:raised") == len(before)
        hold.cli("stop", "web", "gone")
        wait_for(lambda: not causes(hold))


def test_a_webhook_gets_it_although_everything_fails_first() -> None:
    """The server answers 500, then the supervisor is killed: the alert still arrives."""
    with webhook() as hook, Hold() as hold:
        hook.status = 500
        target = {"webhook": hook.url, "headers": {"X-Token": SECRET}, "name": "hook"}
        config = {"services": {"web": {"command": CRASHER, **QUICK}}, "alerts": [target]}
        hold.write(config)
        hold.up(expect=None)
        wait_for(lambda: hook.attempts)
        assert hook.got == []
        targets = wait_for(lambda: [it for it in hold.ask("alerts")["targets"] if it["failures"]])
        assert targets[0]["reason"] == "it answered 500"
        assert "failing" in hold.cli("alerts", "--targets").stdout
        pid = hold.supervisor_pid
        kill_9(pid)
        hook.status = 200
        wait_for(lambda: "web crashed: exit code 3" in hook.messages())
        wait_for(lambda: any("is not started again" in it for it in hook.messages()))
        hold.cli("stop", "web")
        wait_for(lambda: len(hook.messages("cleared")) == 2)
        assert hook.attempts[0]["x-token"] == SECRET
        keys = [it["idempotency-key"] for it in hook.attempts]
        assert len(set(keys)) == 4, "the same alert has the same key at every attempt"
        told = hold.cli("alerts", "--targets").stdout
        assert " ok" in told
        _nowhere(hold, SECRET)


def test_a_command_is_told() -> None:
    """The alert is in the environment of the command, as words and as JSON."""
    with Hold() as hold:
        told = hold.folder / "told"
        script = f'echo "$HOLDFAST_SERVICE|$HOLDFAST_SEVERITY|$HOLDFAST_MESSAGE" >> {told}; ' \
                 f'echo "$HOLDFAST_ALERT" > {told}.json'  # fmt: skip
        target = {"command": ["sh", "-c", script], "causes": ["crash"], "cleared": False}
        hold.write({"services": {"web": {"command": CRASHER, **QUICK}}, "alerts": [target]})
        hold.up(expect=None)
        lines = wait_for(lambda: told.exists() and told.read_text().splitlines())
        assert lines == ["web|warning|web crashed: exit code 3"]
        fields = wait_for(lambda: _read_json(Path(f"{told}.json")))
        assert fields["alert"]["cause"] == "crash"


def test_the_desktop_is_told() -> None:
    """The program that shows it is found in the PATH of the caller, and gets plain words."""
    with Hold() as hold:
        program = hold.folder / "bin" / "notify-send"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {hold.folder}/shown\n')
        program.chmod(0o755)
        hold.environ["PATH"] = f"{program.parent}:{hold.environ['PATH']}"
        config = {"services": {"web": {"command": CRASHER, **QUICK}}, "alerts": {"desktop": True}}
        hold.write(config)
        hold.up(expect=None)
        shown = hold.folder / "shown"
        lines = wait_for(lambda: shown.exists() and shown.read_text().splitlines())
        assert lines[:4] == ["--app-name=Holdfast", "--urgency=normal", "--", "Holdfast: web"]
        assert "web crashed: exit code 3" in lines[4]


def test_a_text_for_chats_and_a_severity() -> None:
    """`format: text` sends one text; less severe alerts are not told."""
    with webhook() as hook, Hold() as hold:
        target = {"webhook": hook.url, "format": "slack", "severity": "critical"}
        hold.write({"services": {"web": {"command": CRASHER, **QUICK}}, "alerts": [target]})
        hold.up(expect=None)
        wait_for(lambda: hook.got)
        hold.cli("stop", "web")
        wait_for(lambda: len(hook.got) == 2)
        assert [sorted(it) for it in hook.got] == [["text"], ["text"]]
        assert hook.got[0]["text"].startswith("✖ critical: web is not started again")


def test_no_secret_anywhere() -> None:
    """Not of the environment, the arguments, a webhook, a probe, an override or the output."""
    with webhook() as hook, Hold(API_TOKEN=SECRET, SUPERVISOR_LOG_LEVEL="trace") as hold:
        hook.status = 500
        command = ["sh", "-c", f"echo token={SECRET}; sleep 0.15; exit 3", "--password", SECRET]
        probe = {"http": hook.url, "headers": {"Authorization": f"Bearer {SECRET}"}}
        web = {"command": command, "env": {"DB_PASSWORD": SECRET}, **QUICK, "health_check": probe}
        target = {"webhook": hook.url, "headers": {"Authorization": f"Bearer {SECRET}"}}
        bad = {"command": ["sh", "-c", f"echo Bearer {SECRET} >&2; exit 1"], "name": "bad"}
        hold.write({"services": {"web": web}, "alerts": [target, bad]})
        assert SECRET not in hold.cli("up", "-d", expect=None).stdout
        wait_for(lambda: hold.service("web")["status"] == "failed")
        hold.cli("restart", "web", "-e", f"X_TOKEN={SECRET}", "--args", "--token", SECRET,
                 expect=None)  # fmt: skip
        wait_for(lambda: all(it["failures"] for it in hold.ask("alerts")["targets"]))
        for words in (["explain", "web", "--environment"], ["explain"], ["alerts", "--targets"],
                      ["alerts", "--all"], ["status"], ["events", "-n", "1000"], ["runs", "web"],
                      ["plan"], ["ps", "web"]):  # fmt: skip
            assert SECRET not in hold.cli(*words).stdout, words
            assert SECRET not in hold.cli(*words, "--json").stdout, words
        hold.cli("down")
        _nowhere(hold, SECRET)


def _nowhere(hold: Hold, secret: str) -> None:
    """Neither in the own log nor in the database; the log of a service is its own."""
    for path in hold.state.iterdir():
        if path.is_file() and path.name != "keeper.json":
            assert secret.encode() not in path.read_bytes(), path.name


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
