"""A service whose log was damaged: every verb answers, recording and history go on."""

from __future__ import annotations

import os
import signal
import struct
from pathlib import Path

import pytest

from tests.harness import Hold, is_alive, wait_for

TALK = ["sh", "-c", "echo begins; exec sleep 1000"]


def _index(hold: Hold) -> Path:
    return hold.state / "logs" / "web.000001.idx"


def _damage(path: Path, kind: str) -> None:
    data = path.read_bytes()
    if kind == "zeros":
        path.write_bytes(data + bytes(24 * 3))
    elif kind == "torn":
        path.write_bytes(data[:-7])
    else:
        position = {"2^63": (1 << 63) - 1, "2^64": (1 << 64) - 3}[kind]
        path.write_bytes(data[:-16] + struct.pack("<Q", position) + data[-8:])


@pytest.mark.parametrize("kind", ["2^63", "2^64", "zeros", "torn"])
def test_a_damaged_last_record(hold: Hold, kind: str) -> None:
    """It is set aside and told as a gap; output is recorded, exits are in the history, and
    `down` comes to an end."""
    hold.services(web=TALK)
    hold.cli("up", "-d")
    wait_for(lambda: "begins" in hold.cli("logs", "web").stdout, what="the first output")
    index = _index(hold)
    hold.cli("down")
    _damage(index, kind)
    assert "Traceback" not in hold.cli("logs", "web").stderr
    hold.cli("up", "-d")
    wait_for(
        lambda: hold.cli("logs", "web").stdout.count("begins") == 2, what="output of the next run"
    )
    if kind != "torn":
        assert "damaged" in hold.cli("logs", "web").stderr
    hold.cli("logs", "web", "--tail", "1")
    hold.cli("logs", "web", "--run", "2")
    hold.cli("logs", "web", "--since", "1h")
    assert hold.ask("search_logs", pattern="begins", services=["web"])["hits"]
    os.kill(hold.json("status")["services"]["web"]["pid"], signal.SIGTERM)
    wait_for(lambda: len(hold.json("runs", "web")["runs"]) >= 3, what="the exit in the history")
    hold.cli("explain", "web")
    ended = hold.json("runs", "web")["runs"]
    assert [run["log_bytes"] for run in ended if run["number"] == 2] == [7]
    hold.cli("down", timeout=30)


def test_the_output_of_a_run_that_ended_unseen_is_counted(hold: Hold) -> None:
    """Keeper, supervisor and service are killed: `runs` still tells how much it had printed."""
    hold.services(web=TALK)
    hold.cli("up", "-d")
    wait_for(lambda: "begins" in hold.cli("logs", "web").stdout, what="the first output")
    told = hold.json("status")
    service = told["services"]["web"]["pid"]
    for pid in (told["supervisor"]["pid"], told["supervisor"]["keeper_pid"], service):
        os.kill(pid, signal.SIGSTOP)
    for pid in (service, told["supervisor"]["keeper_pid"], told["supervisor"]["pid"]):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(service), what="its end")
    hold.cli("up", "-d")
    [ended] = [run for run in hold.json("runs", "web")["runs"] if run["number"] == 1]
    assert (ended["unknown"], ended["log_bytes"]) == (True, 7)
