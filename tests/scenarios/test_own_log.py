"""Holdfast's own log on standard error of the `up` that started it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness import Hold, kill_9, quick, wait_for


class Front:
    """An `up` with standard output and standard error apart."""

    def __init__(self, hold: Hold, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._hold = hold

    @property
    def out(self) -> str:
        return (self._hold.folder / "front.out").read_text()

    @property
    def err(self) -> str:
        return (self._hold.folder / "front.err").read_text()

    @property
    def own(self) -> list[str]:
        """What is on standard error, but for the words of the command line itself."""
        return [line for line in self.err.splitlines() if not line.startswith("holdfast: ")]

    def see(self, wanted: str) -> None:
        wait_for(lambda: wanted in self.err, 60, f"{wanted!r} in standard error")

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(30)


@contextmanager
def front(hold: Hold, *words: str, **environ: str) -> Iterator[Front]:
    with (
        (hold.folder / "front.out").open("wb") as out,
        (hold.folder / "front.err").open("wb") as err,
        subprocess.Popen(
            hold.command("up", *words), cwd=hold.project, env={**hold.environ, **environ},
            stdin=subprocess.DEVNULL, stdout=out, stderr=err,
        ) as process,
    ):  # fmt: skip
        try:
            yield Front(hold, process)
        finally:
            process.kill()


def log_of(hold: Hold) -> list[str]:
    return (hold.state / "holdfast.log").read_text().splitlines()


@pytest.mark.parametrize("place", ["option", "environment", "file"])
def test_with_a_level_all_of_it_is_shown(hold: Hold, place: str) -> None:
    """As it is in the file, from the first line to the last; standard output is the services'."""
    level = {"log_level": "debug"} if place == "file" else {}
    web = quick(["sh", "-c", "echo hi; exec sleep 300"])
    hold.write({**level, "services": {"web": web}})
    words = ["--log-level", "debug"] if place == "option" else []
    environ = {"SUPERVISOR_LOG_LEVEL": "debug"} if place == "environment" else {}
    with front(hold, *words, **environ) as up:
        up.see("process:started")
        up.see(" is up, pid ")
        wait_for(lambda: "web | hi" in up.out)
        hold.cli("restart", "web")
        wait_for(lambda: up.err.count("process:started") == 2, what="the second start, as it comes")
        assert up.end() == 0, up.err
        assert up.own == log_of(hold)
        assert all(line.startswith("web | ") for line in up.out.splitlines()), up.out


def test_without_a_level_it_is_trouble(hold: Hold) -> None:
    """An essential service that failed is a warning; what else happens is on the screen."""
    hold.services(
        main=quick(["sh", "-c", "exit 9"], essential=True, restart_policy="never"),
        web=quick(),
    )
    with front(hold) as up:
        assert up.process.wait(30) == 9, up.err
        assert "main is essential and failed" in "".join(up.own)
        assert up.own == [line for line in log_of(hold) if " WARNING " in line]
        assert any(" INFO " in line for line in log_of(hold))


def test_in_json_each_line_is_an_object(hold: Hold) -> None:
    """For programs that take standard error for a log."""
    hold.services(web=quick())
    with front(hold, "--log-format", "json", "--log-level", "info") as up:
        up.see("is up, pid")
        assert up.end() == 0, up.err
        lines = [json.loads(line) for line in up.own]
        assert lines == [json.loads(line) for line in log_of(hold)]
        assert {"time", "level", "module", "message"} <= lines[0].keys()


def test_a_killed_supervisor_loses_none(hold: Hold) -> None:
    """The file is the truth: what was written before, and by the next one, is shown once."""
    hold.services(web=quick())
    with front(hold, "--log-level", "debug") as up:
        up.see("process:started")
        for round_ in (2, 3):
            kill_9(hold.supervisor_pid)
            wait_for(lambda wanted=round_: up.err.count(" is up, pid ") == wanted, what="the next")
            hold.cli("restart", "web")
        assert up.end() == 0, up.err
        assert up.own == log_of(hold)


def test_one_that_joined_does_not_show_it(hold: Hold) -> None:
    """It is told to who started Holdfast."""
    hold.services(web=quick(["sh", "-c", "while :; do echo tick; sleep 0.1; done"]))
    hold.up()
    with front(hold, "--log-level", "debug") as up:
        wait_for(lambda: "web | tick" in up.out, what="that it follows")
        hold.cli("restart", "web")
        wait_for(lambda: "-- started" in up.out, what="the restart")
        assert up.end() == 0, up.err
        assert up.own == []


def test_an_idle_foreground_sleeps(hold: Hold) -> None:
    """It is woken, and looks for nothing by itself; nor is a wake-up a line that wakes."""
    if not os.path.isdir("/proc/self"):
        pytest.skip("asks Linux how often a process slept")
    hold.services(web=quick())
    with front(hold, "--log-level", "trace") as up:
        up.see("process:started")
        status = Path(f"/proc/{up.process.pid}/status")

        def wakes() -> int:
            return int(status.read_text().split("voluntary_ctxt_switches:")[1].split()[0])

        def is_asleep() -> bool:
            before = wakes()
            subprocess.run(["sleep", "0.5"], check=True)
            return wakes() == before

        wait_for(is_asleep, what="half a second without a wake-up")
        assert up.end() == 0, up.err


def test_levels_are_those_of_the_matter(hold: Hold) -> None:
    """A service that fails, one that is given up, one that is over its time, one whose check passes
    and fails: at warning or error with service, pid and error; a pass at info where it is new, else
    at debug; a request at trace."""
    sick = quick(
        health_check={
            "exec": "test -e well", "interval": 0.1, "retries": 2, "action": "report",
        }
    )  # fmt: skip
    (hold.project / "well").touch()
    hold.write(
        {
            "log_level": "trace",
            "log_format": "json",
            "services": {
                "sick": sick,
                "broken": quick(["sh", "-c", "exit 3"], start_retries=0, restart_policy="never"),
                "crashing": quick(
                    ["sh", "-c", "exit 4"], start_seconds=0, restart={"delay": 0, "max_restarts": 1}
                ),
                "slow": quick(timeout="200ms", restart_policy="never"),
            },
        }
    )
    hold.cli("up", "-d", expect=None)

    def logged(level: str, message: str, **facts: object) -> list[dict[str, object]]:
        lines = [json.loads(line) for line in log_of(hold)]
        return [
            line
            for line in lines
            if line["level"] == level
            and line["message"].startswith(message)
            and facts.items() <= line.items()
        ]

    (first,) = wait_for(lambda: logged("info", "Service health check passed", service="sick"))
    assert first["pid"] == hold.service("sick")["pid"]
    assert "uptime" in first
    wait_for(lambda: logged("debug", "Service health check passed", service="sick"))
    (hold.project / "well").unlink()
    failed = wait_for(lambda: logged("warning", "Service health check failed", service="sick"))
    assert (failed[0]["pid"], failed[0]["error"]) == (first["pid"], "exit code 1")
    (hold.project / "well").touch()
    wait_for(lambda: len(logged("info", "Service health check passed", service="sick")) == 2)
    wait_for(lambda: logged("warning", "exit", service="broken", code=3))
    wait_for(lambda: logged("warning", "process:start_failed", service="broken"))
    (given_up,) = wait_for(lambda: logged("error", "service:suppressed", service="crashing"))
    assert given_up["error"]
    (late,) = wait_for(lambda: logged("warning", "Process timed out", service="slow"))
    assert late["pid"]
    assert "200ms" in str(late["error"])
    (asked, *_) = wait_for(lambda: logged("trace", "request status"))
    assert {"actor", "door", "took_ms"} <= asked.keys()
    wait_for(lambda: logged("error", "alert:raised", severity="critical"))
