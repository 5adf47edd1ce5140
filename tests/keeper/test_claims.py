"""The name by which a keeper is found whose files were deleted."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.system import claims
from tests.keeper.conftest import KeeperProcess, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these names are Linux's")


def test_short_of_descriptors_it_waits(make_keeper: Callable[..., KeeperProcess]) -> None:
    """Who calls a keeper that can open nothing more does not keep it busy."""
    keeper = make_keeper()
    used = {int(name) for name in os.listdir(f"/proc/{keeper.pid}/fd")}
    before = resource.prlimit(keeper.pid, resource.RLIMIT_NOFILE)
    full = min({*range(max(used) + 2)} - used), before[1]
    resource.prlimit(keeper.pid, resource.RLIMIT_NOFILE, full)
    assert claims.call(str(keeper.state))

    def rests() -> int:
        status = Path(f"/proc/{keeper.pid}/status").read_text()
        return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])

    rested = rests()
    wait_for(lambda: rests() > rested + 5)
    (keeper.runtime / "keeper.sock").unlink()
    resource.prlimit(keeper.pid, resource.RLIMIT_NOFILE, before)
    wait_for((keeper.runtime / "keeper.sock").exists)


def test_what_is_made_anew_is_written_to(keeper: KeeperProcess) -> None:
    """Exits from before and after the deletion are in the new journal; the note of a keeper that
    lost nothing else is made anew, too."""
    journal, note = keeper.state / "exits.jsonl", keeper.state / "keeper.json"
    runs = [keeper.spawn("sleep", "1000", run_id=f"run-{number}") for number in range(2)]
    os.kill(runs[0]["pid"], signal.SIGKILL)
    keeper.exit_of("run-0")
    for path in (keeper.runtime, keeper.state):
        shutil.rmtree(path)
    assert claims.call(str(keeper.state))
    wait_for(note.exists)
    os.kill(runs[1]["pid"], signal.SIGKILL)
    keeper.exit_of("run-1")
    ends = [json.loads(line)["exit"] for line in journal.read_text().splitlines()]
    assert [end["run_id"] for end in ends] == ["run-0", "run-1"]
    note.unlink()
    assert claims.call(str(keeper.state))
    wait_for(note.exists)
    assert len(journal.read_text().splitlines()) == 2


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_only_its_user_is_heard(keeper: KeeperProcess) -> None:
    """What another user calls has no effect."""
    path = keeper.runtime / "keeper.sock"
    path.unlink()
    name = claims._name(str(keeper.state))
    if (child := os.fork()) == 0:
        os.setuid(65534)
        socket.socket(socket.AF_UNIX).connect(name)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    for _ in range(3):
        keeper.link.do("list")
    assert not path.exists()
    assert claims.call(str(keeper.state))
    wait_for(path.exists)


def test_one_that_is_ending_makes_room(make_keeper: Callable[..., KeeperProcess]) -> None:
    """Who comes while a keeper without files ends its runs is the next one, and is told nothing of
    a keeper that lives on."""
    elder = make_keeper()
    until_next = f"until [ -e {elder.state}/lock ]; do sleep 0.02; done; sleep 0.3; exit"
    elder.spawn("sh", "-c", f"trap '{until_next}' TERM; echo up; while :; do sleep 0.02; done")
    elder.wait_output(elder.last, b"up")
    for path in (elder.runtime, elder.state):
        shutil.rmtree(path)
    elder.link.do("shutdown", grace=60)
    assert make_keeper().ready == {"ready": True}
    assert elder.process.wait() == 0
