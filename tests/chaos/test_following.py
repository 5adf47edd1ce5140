"""Who follows goes on over every death and replacement of ours: each line once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path

from holdfast.client.connection import Connection
from holdfast.vocabulary.errors import HoldfastError, NoDaemon
from tests.harness import PYTHON, Hold, wait_for

TALK = """
import os, sys, time
n = 0
while not os.path.exists(sys.argv[1]):
    os.write(1, b"line %d\\n" % n)
    n += 1
    time.sleep(0.002)
os.write(1, b"line %d\\nthe end\\n" % n)
time.sleep(1000)
"""


def _replace(hold: Hold, how: str) -> None:
    pid, keeper = hold.supervisor_pid, hold.keeper_pid
    if how == "upgrade":
        hold.cli("upgrade")
    else:
        number = signal.SIGTERM if how == "retired" else signal.SIGKILL
        os.kill(keeper if how == "keeper" else pid, number)
    wait_for(
        lambda: hold.cli("status", expect=None).returncode == 0 and hold.supervisor_pid != pid,
        what=f"the next supervisor ({how})",
    )


def _bother(path: str, faults: list[str], is_over: threading.Event) -> None:
    """Connect again and again, at every moment of a supervisor's life."""
    while not is_over.is_set():
        try:
            connection = Connection(path)
        except (NoDaemon, FileNotFoundError):
            is_over.wait(0.002)
            continue
        try:
            connection.send("watch", services=["web"])
            connection.ask("logs", service="web", tail=1)
            connection.ask("events", limit=1)
        except NoDaemon:
            pass
        except HoldfastError as error:
            faults.append(f"{error.code}: {error.message}")
        finally:
            connection.close()


def test_following_over_replacements(hold: Hold) -> None:
    """`logs -f`, as lines and as bytes, and `events -f` outlive retired, killed and upgraded
    supervisors and a killed keeper; nothing is missing, nothing comes twice, and who comes at
    any moment is told no error of ours."""
    stop = hold.folder / "stop"
    hold.services(web=[PYTHON, "-I", "-S", "-c", TALK, str(stop)])
    hold.up()
    verbs = [
        ("logs", "-f", "web", "--no-prefix", "--since", "1h"),
        ("logs", "-f", "web", "--raw"),
        ("events", "-f", "--since", 0, "--json"),
    ]
    faults: list[str] = []
    is_over = threading.Event()
    line = str(hold.runtime / "line.sock")
    with ExitStack() as stack:
        outputs: list[Path] = []
        for number, verb in enumerate(verbs):
            outputs.append(hold.folder / f"output{number}")
            file = stack.enter_context(outputs[-1].open("wb"))
            follower = subprocess.Popen(
                hold.command(*verb),
                cwd=hold.project,
                env=hold.environ,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
            stack.callback(follower.wait)
            stack.callback(follower.kill)
        threads = [threading.Thread(target=_bother, args=(line, faults, is_over)) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for how in ("retired", "killed", "upgrade", "keeper", "retired"):
                _replace(hold, how)
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
        stop.touch()
        for output in outputs[:2]:
            wait_for(lambda it=output: b"the end" in it.read_bytes(), what="the last line")
        hold.cli("stop", "web")
        wait_for(lambda: b"stopped" in outputs[2].read_bytes(), 30, outputs[2].read_text()[-1500:])
    assert faults == []
    for output in outputs[:2]:
        lines = [it for it in output.read_text().splitlines() if it.startswith("line ")]
        assert lines == [f"line {n}" for n in range(len(lines))]
        assert "error" not in output.read_text()
    told = [json.loads(it)["seq"] for it in outputs[2].read_text().splitlines()]
    assert told == sorted(set(told))
