"""The end of a whole Holdfast: who is stopped, who is kept, and with which exit code."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.harness import PYTHON, Hold, is_alive, read_until, started, wait_for

KEPT = {"command": ["sh", "-c", "echo here; exec sleep 1000"], "on_supervisor_exit": "keep"}


@pytest.fixture
def keeping(hold: Hold) -> Iterator[Hold]:
    """A project with one service that outlives `down`, and one that does not."""
    hold.services(web=["sleep", "1000"], kept=KEPT)
    yield hold
    hold.cli("stop", expect=None)
    hold.cli("down", expect=None)


def test_down_leaves_what_is_to_be_kept(keeping: Hold) -> None:
    """As often as it is asked; `up` joins it again, and stopped it is down for good."""
    keeping.up()
    pids = {name: service["pid"] for name, service in keeping.status()["services"].items()}
    keeper = keeping.keeper_pid
    for _ in range(2):
        done = keeping.json("down", timeout=60)
        assert (done["outcome"], done["kept"]) == ("kept_running", ["kept"])
        assert is_alive(pids["kept"])
        assert not is_alive(pids["web"])
    assert keeping.json("status")["services"]["kept"]["pid"] == pids["kept"]
    keeping.up()
    assert keeping.service("kept")["pid"] == pids["kept"]
    keeping.cli("stop", "kept")
    assert keeping.json("down")["outcome"] == "down"
    wait_for(lambda: not is_alive(keeper))


def test_ctrl_c_leaves_what_is_to_be_kept(keeping: Hold) -> None:
    """The foreground ends, with success, and says who goes on."""
    command = keeping.command("up")
    with started(command, cwd=keeping.project, env=keeping.environ) as process:
        read_until(process, b"here")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    services = keeping.json("status")["services"]
    assert services["kept"]["pid"] is not None
    assert services.get("web", {}).get("pid") is None


DROWSY = """
from holdfast.cli import down
down.POLL_SECONDS = 1.5
from holdfast.cli.main import main
raise SystemExit(main())
"""
"""Does not see that nobody is there for a moment."""


@pytest.mark.parametrize("words", [("up", "-d"), ("run", "--name", "job", "--", "sleep", "1001")])
def test_up_waits_for_a_down_that_is_under_way(hold: Hold, words: tuple[str, ...]) -> None:
    """What is asked for while everything ends is done afterwards, by another Holdfast."""
    go = hold.folder / "go"
    nap = "do sleep 0.01; done"
    slow = f"trap 'until [ -e {go} ]; {nap}; exit 0' TERM; echo up; while :; {nap}"
    hold.services(web={"command": ["sh", "-c", slow], "stop": {"grace": "30s"}})
    hold.up()
    hold.cli("wait", "web", "--for", "log:up")
    keeper = hold.keeper_pid
    command = [PYTHON, "-c", DROWSY, "down"]
    with started(command, cwd=hold.project, env=hold.environ) as down:
        hold.wait_status("web", "stopping")
        with started(
            hold.command(*words), cwd=hold.project, env=hold.environ, stderr=subprocess.STDOUT
        ) as late:
            read_until(late, b"being shut down")
            go.touch()
            assert down.wait(60) == 0
            assert late.wait(60) == 0
    assert hold.keeper_pid != keeper
    assert hold.service("job" if words[0] == "run" else "web")["status"] == "running"


def test_a_run_that_cannot_be_leaves_nothing(hold: Hold) -> None:
    """A Holdfast that was started for a mistaken `run` is ended again."""
    hold.cli("run", "--name", "No Name", "--", "true", expect=2)
    hold.cli("status", expect=4)


def test_down_after_down_keep_running_stops_in_order(hold: Hold) -> None:
    """A supervisor that is off is switched on to end things properly."""
    hold.services(web={"command": ["sleep", "1000"], "depends_on": ["db"]}, db=["sleep", "1000"])
    hold.up()
    keeper = hold.keeper_pid
    hold.cli("down", "--keep-running")
    done = hold.json("down")
    assert list(done["services"]) == ["web", "db"]
    wait_for(lambda: not is_alive(keeper))
