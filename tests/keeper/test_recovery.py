"""Kill -9 of the keeper: the one who holds the spares becomes the keeper."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.keeper import handover
from tests.keeper.conftest import (
    PACKAGE,
    KeeperProcess,
    Message,
    Peer,
    is_alive,
    kill,
    wait_for,
)
from tests.keeper.test_upgrade import Writers

pytestmark = pytest.mark.unprivileged


class Recovered(KeeperProcess):
    """A keeper made from a supervisor's copies, as the supervisor's execv would make it."""

    def __init__(self, dead: KeeperProcess, runs: list[Message], kept: Message) -> None:
        self.state, self.runtime, self.logs = dead.state, dead.runtime, dead.logs
        ours, theirs = socket.socketpair()
        self.link = Peer(ours)
        self._peers = [self.link]
        lock = os.open(self.state / "lock", os.O_RDWR)
        table = {
            "lock": lock,
            "state": str(self.state),
            "runtime": str(self.runtime),
            "kept": kept,
            "held": dead.link.held,
            "runs": [{**run, "parts": dead.link.spares[run["run_id"]]} for run in runs],
        }
        table_fd = handover.write(table)
        argv = handover.recover_argv(
            sys.executable,
            str(PACKAGE.parent),
            str(self.state),
            str(self.runtime),
            table_fd,
            str(PACKAGE.parent),
        )
        passed = [table_fd, theirs.fileno(), *handover.descriptors(table)]
        with open(self.state / "keeper.err", "ab") as err:
            self.process = subprocess.Popen(
                [*argv, "--link", str(theirs.fileno())], pass_fds=passed, stderr=err
            )
        for fd in (table_fd, lock):
            os.close(fd)
        theirs.close()
        self.pid = self.process.pid
        self.hello = self.link.do("hello", protocol=1, role="supervisor")
        self.link.notice("spares_done")


@pytest.fixture
def recover() -> Iterator[object]:
    made: list[Recovered] = []
    pids: list[int] = []

    def do(keeper: KeeperProcess, kept: Message | None = None) -> Recovered:
        keeper.link.do("hello", role="supervisor")
        keeper.link.notice("spares_done")
        runs = keeper.link.do("list")["runs"]
        pids.extend(run["pid"] for run in runs)
        keeper.process.kill()
        keeper.process.wait()
        made.append(Recovered(keeper, runs, kept or {}))
        return made[-1]

    yield do
    for keeper in made:
        keeper.end()
    for pid in pids:
        kill(pid)


def test_no_line_is_lost(keeper: KeeperProcess, recover: object) -> None:
    """Two kills under load: no line lost or doubled, and exit codes where the kernel tells."""
    assert callable(recover)
    has_codes = keeper.hello["host"]["pidfd_info"]
    writers = Writers(keeper, 5)
    second = recover(keeper)
    third = recover(second)
    for name, ended in writers.end(third).items():
        assert ended["code"] == (writers.codes[name] if has_codes else None)
        assert ended["unknown"] == (not has_codes)
    writers.assert_whole(third)


def test_stop_after_recovery(keeper: KeeperProcess, recover: object) -> None:
    """A recovered run can be written to, resized and stopped with its whole tree."""
    assert callable(recover)
    keeper.spawn("bash", "--norc", "-i", kind="terminal")
    shell = keeper.last
    keeper.write(shell, b"sleep 1000 & echo rea''dy\n")
    keeper.wait_output(shell, b"ready\r\n")
    pids = [it["pid"] for it in keeper.link.do("tree", run_id=shell)["processes"]]
    second = recover(keeper, {"k": "v"})
    assert second.hello["kept"] == {"k": "v"}
    second.link.do("resize", run_id=shell, cols=77, rows=11)
    second.write(shell, b"stty size\n")
    second.wait_output(shell, b"11 77")
    second.link.do("end", run_id=shell, grace=0.3)
    assert second.link.notice("ended")["empty"]
    wait_for(lambda: not any(is_alive(pid) for pid in pids))


def test_exit_in_the_gap(keeper: KeeperProcess, recover: object, folder: Path) -> None:
    """A run that ends while no keeper is there is announced by the next one."""
    assert callable(recover)
    gate = folder / "gate"
    os.mkfifo(gate)
    keeper.spawn("sh", "-c", f"echo before; read x <{gate}; echo after; exit 5")
    run_id = keeper.last
    keeper.wait_output(run_id, b"before")
    keeper.link.do("hello", role="supervisor")
    keeper.link.notice("spares_done")
    [run] = keeper.link.do("list")["runs"]
    keeper.process.kill()
    keeper.process.wait()
    gate.write_text("go\n")
    wait_for(lambda: not Path(f"/proc/{run['pid']}").exists(), what="its end")
    second = Recovered(keeper, [run], {})
    try:
        wait_for(lambda: second.link.do("list")["exits"], what="its exit")
        [ended] = second.link.do("list")["exits"]
        assert ended["run_id"] == run_id
        assert ended["code"] in (5, None)
        assert ended["unknown"] == (ended["code"] is None)
        assert second.output(run_id) == b"before\nafter\n"
    finally:
        second.end()


def test_waiting_for_the_code_is_no_run_time(keeper: KeeperProcess) -> None:
    """A process that is not our child has ended when it is dead, not when its parent reaps it; how
    it ended is read from the zombie."""
    began = time.monotonic()
    with subprocess.Popen(["sh", "-c", "read x; exit 3"], stdin=subprocess.PIPE) as child:
        asked: Message = {"run_id": "a", "service": "a", "number": 1, "age": 0.0}
        keeper.link.do("adopt", **asked, pid=child.pid)
        assert child.stdin is not None
        child.stdin.close()
        wait_for(lambda: not is_alive(child.pid))
        lasted, at = time.monotonic() - began, time.time()
        ended = keeper.exit_of("a")
    assert ended["code"] == (3 if sys.platform == "linux" else None), "nobody had reaped it"
    assert ended["seconds"] < lasted + 1.0
    assert ended["ended_at"] < at + 1.0


def test_what_the_dead_keeper_had_journalled_counts(keeper: KeeperProcess, folder: Path) -> None:
    """An exit that it had seen and told nobody keeps its code, whatever the kernel tells now."""
    gate = folder / "gate"
    os.mkfifo(gate)
    keeper.spawn("sh", "-c", f"read x <{gate}; echo after; exit 5")
    run_id = keeper.last
    keeper.link.do("hello", role="supervisor")
    keeper.link.notice("spares_done")
    [run] = keeper.link.do("list")["runs"]
    gate.write_text("go\n")
    wait_for(lambda: b"exit" in (keeper.state / "exits.jsonl").read_bytes(), what="the journal")
    keeper.process.kill()
    keeper.process.wait()
    keeper.link.spares[run_id].pop("pidfd", None)
    second = Recovered(keeper, [run], {})
    try:
        wait_for(lambda: not second.link.do("list")["runs"], what="the end of the run")
        [ended] = second.link.do("list")["exits"]
        assert (ended["run_id"], ended["code"], ended["unknown"]) == (run_id, 5, False)
        assert second.output(run_id) == b"after\n"
    finally:
        second.end()


def test_held_sockets_survive(keeper: KeeperProcess, recover: object) -> None:
    """A held listening socket accepts all the time."""
    assert callable(recover)
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    keeper.link.do("hold", name="http", fds=(listener.fileno(),))
    listener.close()
    second = recover(keeper)
    assert second.hello["held"] == ["line", "http"]
    socket.create_connection(("127.0.0.1", port)).close()


def test_upgrade_after_recovery(keeper: KeeperProcess, recover: object) -> None:
    """A recovered keeper can upgrade itself; its adopted runs stay adopted."""
    assert callable(recover)
    writers = Writers(keeper, 2)
    second = recover(keeper)
    second.link.do("upgrade")
    for name, ended in writers.end(second).items():
        assert ended["code"] in (writers.codes[name], None)
    writers.assert_whole(second)


def test_left_cgroups_are_swept(make_keeper: Callable[..., KeeperProcess]) -> None:
    """A keeper removes the empty cgroups of one that was killed, and only those."""
    first = make_keeper()
    root = first.hello["host"]["cgroup"]
    if not root:
        pytest.skip("no writable cgroup here")
    dead = first.spawn("sleep", "1000")["pid"]
    gone = first.last
    living = first.spawn("sleep", "1000")["pid"]
    try:
        wait_for(lambda: all(run["cgroup"] for run in first.link.do("list")["runs"]))
        first.process.kill()
        first.process.wait()
        kill(dead)
        wait_for(lambda: not is_alive(dead))
        make_keeper()
        wait_for(lambda: not Path(root, gone).exists(), what="the sweep")
        assert Path(root, first.last, "cgroup.procs").read_text().split() == [str(living)]
    finally:
        kill(living)


@pytest.mark.parametrize("how", ["recovery", "upgrade"])
def test_a_stop_goes_on_where_it_was(keeper: KeeperProcess, recover: object, how: str) -> None:
    """A keeper replaced during a stop sends no second signal and grants no second grace."""
    assert callable(recover)
    code = "trap 'echo term' TERM; echo ready; while :; do sleep 0.02; done"
    pid = keeper.spawn("sh", "-c", code)["pid"]
    run_id = keeper.last
    keeper.wait_output(run_id, b"ready")
    began = time.monotonic()
    keeper.link.do("end", run_id=run_id, grace=3.0)
    keeper.wait_output(run_id, b"term")
    time.sleep(2.0)  # a part of the grace passes
    successor = keeper
    if how == "recovery":
        successor = recover(keeper)
    else:
        keeper.link.do("upgrade")
    replaced = time.monotonic()
    wait_for(lambda: not is_alive(pid))
    now = time.monotonic()
    assert now - began > 2.9
    assert now - replaced < 3.0, "the grace did not begin anew"
    ended = successor.link.notice("ended")
    assert 2.9 < ended["seconds"] < 3.0 + (replaced - began)
    (how_it_ended,) = (it["how"] for it in ended["report"] if it["pid"] == pid)
    assert how_it_ended in ("SIGKILL", "cgroup.kill")
    assert successor.output(run_id).count(b"term") == 1


def test_a_channel_outlives_upgrade_and_death(keeper: KeeperProcess, recover: object) -> None:
    """A conversation over a channel goes on with the same process through an upgrade of the keeper
    and through its death, and no keeper records or takes a byte of it."""
    assert callable(recover)
    answer = keeper.spawn("sh", "-c", "echo ready >&2; exec cat", stdin="channel")
    run_id = keeper.last
    assert answer["parts"] == ["channel_in", "channel_out", "err", "pidfd"]
    ours, theirs = answer["spare"]["channel_in"], answer["spare"]["channel_out"]

    def converse(line: bytes) -> None:
        os.write(ours, line)
        assert os.read(theirs, 100) == line

    converse(b"one\n")
    keeper.link.do("upgrade")
    converse(b"two\n")
    second = recover(keeper)
    assert [run["pid"] for run in second.link.do("list")["runs"]] == [answer["pid"]]
    converse(b"three\n")
    wait_for(lambda: keeper.output(run_id, "err") == b"ready\n")
    assert keeper.output(run_id) == b""
    second.link.do("end", run_id=run_id, grace=0.3)
    assert second.link.notice("ended")["empty"]
