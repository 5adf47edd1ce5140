"""A PID namespace whose first process reaps nothing, as in many containers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]

STORY = """\
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
from tests.harness import Hold, is_alive, kill_9, quick, wait_for

assert os.getpid() == 1
with Hold() as hold:
    go = hold.folder / "go"
    wait = f"while ! test -e {go}; do sleep 0.02; done; "
    endings = {"three": "exit 3", "well": "exit 0", "killed": "kill -SEGV $$$$"}
    hold.services(**{
        name: quick(["sh", "-c", wait + code], restart_policy="never")
        for name, code in endings.items()
    })
    hold.up()
    keeper = hold.keeper_pid
    kill_9(keeper)
    wait_for(lambda: hold.keeper_pid != keeper, what="a successor")
    hold._disconnect()
    pids = [it["pid"] for it in hold.json("status")["services"].values()]
    go.touch()
    wait_for(lambda: not any(map(is_alive, pids)))
    began = time.monotonic()
    told = {}
    for name in endings:
        found = hold.wait_status(name, "stopped", "exited", "failed", "crashed", "backoff", "done")
        told[name] = [found["exit_code"], found["signal"]]
    told["seconds"] = time.monotonic() - began
    for own in pids:
        assert os.path.exists(f"/proc/{own}"), "somebody reaps here"
    print(json.dumps(told))
"""


def _can_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(sys.platform != "linux" or not _can_unshare(), reason="needs a PID namespace")
def test_exit_codes_are_read_from_zombies() -> None:
    """After a death of the keeper, nobody reaps its services: how they ended is known, at once."""
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-c", STORY, root],
        capture_output=True, text=True, timeout=120, env={**os.environ}, cwd=root, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told.pop("seconds") < 1.5
    assert told == {"three": [3, None], "well": [0, None], "killed": [None, "SIGSEGV"]}
