"""A keeper that takes over lives, whatever the file system refuses it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.keeper import stderr
from holdfast.keeper.descriptors import Descriptors
from holdfast.keeper.keeper import Keeper
from holdfast.keeper.loop import Loop
from holdfast.keeper.protocol.connections import PeerConnection
from tests.disk import fill, small_disk
from tests.keeper.conftest import KeeperProcess, Message, is_alive, kill, wait_for
from tests.keeper.test_recovery import Recovered


@pytest.fixture
def disk(folder: Path) -> Iterator[Path]:
    """A file system of 1 MB that will hold the state."""
    with small_disk(folder / "state", "1m") as disk:
        yield disk


@pytest.fixture
def recover() -> Iterator[Callable[..., Recovered]]:
    """Kill a keeper and recover from the copies of its peer, some facts spoiled."""
    made: list[Recovered] = []
    pids: list[int] = []

    def do(keeper: KeeperProcess, spoil: Callable[[Message], Any] | None = None) -> Recovered:
        keeper.link.do("hello", role="supervisor")
        keeper.link.notice("spares_done")
        runs = keeper.link.do("list")["runs"]
        pids.extend(run["pid"] for run in runs)
        keeper.process.kill()
        keeper.process.wait()
        for run in runs:
            if spoil is not None:
                spoil(run)
        made.append(Recovered(keeper, runs, {}))
        return made[-1]

    yield do
    for keeper in made:
        keeper.end()
    for pid in pids:
        kill(pid)


def test_exits_on_a_full_disk_outlive_upgrades(
    disk: Path, make_keeper: Callable[..., KeeperProcess]
) -> None:
    """An exit that the full disk did not take goes on in memory, and into the file in the end."""
    keeper = make_keeper()
    keeper.spawn("sleep", "1000")
    fill(disk)
    keeper.spawn("sh", "-c", "exit 7")
    name = keeper.last
    keeper.exit_of(name)
    for _ in range(2):
        assert keeper.link.do("upgrade")["pid"] == keeper.pid
        [ended] = keeper.link.do("list")["exits"]
        assert (ended["run_id"], ended["code"]) == (name, 7)
    assert name.encode() not in (disk / "exits.jsonl").read_bytes()
    (disk / "ballast").unlink()
    wait_for(lambda: name.encode() in (disk / "exits.jsonl").read_bytes(), what="the exit")
    assert len(keeper.link.do("list")["runs"]) == 1


def test_nothing_in_the_state_folder_can_be_written(
    keeper: KeeperProcess, recover: Callable[..., Recovered]
) -> None:
    """Neither journal, description nor logs can be opened: runs go on, and all is mended."""
    keeper.spawn("sh", "-c", "while :; do echo tick; sleep 0.02; done")
    pid = keeper.link.do("list")["runs"][0]["pid"]
    # Meanwhile it would make the folder of logs again.
    os.kill(keeper.pid, signal.SIGSTOP)
    for name in ("exits.jsonl", "keeper.json", "logs"):
        path = keeper.state / name
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        if name == "logs":
            path.touch()
        else:
            path.mkdir()
    os.kill(keeper.pid, signal.SIGCONT)
    keeper.link.do("upgrade")
    second = recover(keeper)
    assert second.link.do("list")["runs"][0]["pid"] == pid
    second.spawn("sh", "-c", "exit 3")
    ended = second.last
    assert second.exit_of(ended)["code"] == 3
    for name in ("exits.jsonl", "keeper.json"):
        (keeper.state / name).rmdir()
    keeper.logs.unlink()
    wait_for(lambda: (keeper.state / "exits.jsonl").is_file(), what="the journal")
    wait_for(lambda: ended.encode() in (keeper.state / "exits.jsonl").read_bytes())
    description = keeper.state / "keeper.json"
    wait_for(lambda: description.is_file(), what="the keeper's description")
    wait_for(lambda: json.loads(description.read_text())["pid"] == second.pid)
    wait_for(lambda: keeper.logs.is_dir() and list(keeper.logs.iterdir()), what="the logs")
    assert "keeper.json" in (keeper.state / "keeper.err").read_text()


def test_a_socket_that_cannot_be_bound(
    keeper: KeeperProcess, recover: Callable[..., Recovered]
) -> None:
    """A recovered keeper opens its door as soon as its name is free."""
    keeper.spawn("sleep", "1000")
    door = keeper.runtime / "keeper.sock"
    door.unlink()
    door.mkdir()
    second = recover(keeper)
    assert len(second.link.do("list")["runs"]) == 1
    door.rmdir()
    wait_for(door.is_socket, what="the door")
    assert second.control().do("hello", role="control")["pid"] == second.pid


def test_one_run_that_cannot_be_restored(
    keeper: KeeperProcess, recover: Callable[..., Recovered]
) -> None:
    """The other runs go on, its process lives, and keeper.err names it."""
    for number in range(3):
        keeper.spawn("sleep", "1000", run_id=f"run-{number}")
    pids = {run["run_id"]: run["pid"] for run in keeper.link.do("list")["runs"]}

    def spoil(run: Message) -> None:
        if run["run_id"] == "run-1":
            run["stop"] = "spoiled"

    second = recover(keeper, spoil)
    found = {run["run_id"]: run["pid"] for run in second.link.do("list")["runs"]}
    assert found == {name: pid for name, pid in pids.items() if name != "run-1"}
    assert all(is_alive(pid) for pid in pids.values())
    assert f"process {pids['run-1']}, run run-1" in (keeper.state / "keeper.err").read_text()
    second.link.do("upgrade")
    assert is_alive(pids["run-1"])


def test_a_first_start_says_what_is_wrong(
    folder: Path, make_keeper: Callable[..., KeeperProcess]
) -> None:
    """A keeper with nothing to lose does not start half-way."""
    (folder / "state" / "exits.jsonl").mkdir(parents=True)
    keeper = make_keeper("--no-supervisor", link=False)
    assert "exits.jsonl" in keeper.ready["error"]["message"]
    assert keeper.process.wait(30) == 1


def test_deleted_logs(keeper: KeeperProcess) -> None:
    """The folder of logs comes back while the services run, without a gap being told."""
    keeper.spawn("sh", "-c", "while :; do echo tick; sleep 0.02; done")
    name = keeper.last
    keeper.wait_output(name, b"tick")
    shutil.rmtree(keeper.logs)
    keeper.wait_output(name, b"tick\ntick\n")


def test_an_upgrade_yields_to_a_shutdown(keeper: KeeperProcess) -> None:
    """A shutdown that begins during the rehearsal wins; the upgrade is answered busy."""
    keeper.spawn("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
    keeper.wait_output(keeper.last, b"ready")
    asked = keeper.link.send("upgrade")
    keeper.link.do("shutdown", grace=60)
    assert keeper.link.wait(asked)["error"]["code"] == "busy"


@pytest.mark.parametrize("wrong", [{"grace": "soon"}, {"grace": -1}, {"exit_code": "x"}])
def test_a_shutdown_that_makes_no_sense(keeper: KeeperProcess, wrong: Message) -> None:
    """It is refused and changes nothing: an upgrade is possible afterwards."""
    assert keeper.link.ask("shutdown", **wrong)["error"]["code"] == "bad_request"
    assert keeper.link.do("upgrade")["pid"] == keeper.pid


def test_a_slow_follower_is_told_after_an_upgrade() -> None:
    """What grew while a peer did not read is carried to the next program image."""
    loop = Loop()
    ours, theirs = socket.socketpair()
    first = _connection(ours, loop)
    while first.state()["outbox"] == []:
        first.send({"notice": "x" * 65536})
    first.grew("web", 5)
    first.grew("web", 9)
    state = json.loads(json.dumps(first.state()))
    second = _connection(ours.dup(), loop)
    second.restore(state)
    _read_until(loop, theirs, b'"position":9')
    _close(loop, first, second, theirs)


def test_a_follower_is_told_beside_many_answers() -> None:
    """What grew in the turn in which the answers to many starts went out is told after them."""
    loop = Loop()
    ours, theirs = socket.socketpair()
    connection = _connection(ours, loop)
    run: Any = SimpleNamespace(parts={}, is_child=False, start_time="1", beginning=dict)

    def turn() -> None:
        connection.send({"notice": "first"})
        connection.send({"notice": "second"})
        connection.grew("web", 5)
        for number in range(32):
            connection.reply_later(number, run)
        connection.state()

    loop.call_later(0, turn)
    _read_until(loop, theirs, b'"position":5')
    _close(loop, connection, theirs)


def _connection(sock: socket.socket, loop: Loop) -> PeerConnection:
    return PeerConnection(sock, "supervisor", loop, lambda *_: None, lambda _: None)


def _read_until(loop: Loop, sock: socket.socket, wanted: bytes) -> None:
    """Let the loop run until these bytes have come."""
    received = b""
    sock.settimeout(0.05)

    def read() -> None:
        nonlocal received
        try:
            received += sock.recv(1 << 20)
        except TimeoutError:
            pass
        if wanted in received.replace(b" ", b""):
            loop.stop()
        else:
            loop.call_later(0, read)

    loop.call_later(10, loop.stop)
    loop.call_later(0, read)
    loop.run()
    assert wanted in received.replace(b" ", b"")


def _close(loop: Loop, *others: PeerConnection | socket.socket) -> None:
    signal.set_wakeup_fd(-1)
    for it in (*others, loop._wake, loop._waker, loop._selector):
        it.close()


def test_gaps_are_told_to_the_next_supervisor() -> None:
    """What began or ended while none was there: the newest of each, in order, and once."""
    told: list[Message] = []
    link: Any = SimpleNamespace(is_greeted=False, send=told.append)
    keeper = Keeper.__new__(Keeper)
    keeper.link, keeper.peers, keeper.held = None, [], Descriptors({})
    keeper.children, keeper._untold_gaps = SimpleNamespace(runs={}), {}  # type: ignore[assignment]
    keeper.supervisor = cast("Any", SimpleNamespace(greeted=lambda: None))
    keeper._on_gap("web", "begin", 0, "first")
    keeper._on_gap("web", "end", 7, "first")
    keeper._on_gap("db", "begin", 0, "full")
    keeper.link = link
    keeper._on_gap("web", "begin", 0, "second")
    link.is_greeted = True
    keeper.hand_spares(link)
    gaps = [(it["service"], it["state"], it["why"]) for it in told if it["notice"] == "gap"]
    assert gaps == [
        ("web", "end", "first"),
        ("db", "begin", "full"),
        ("web", "begin", "second"),
    ]
    keeper._on_gap("web", "end", 9, "second")
    keeper.hand_spares(link)
    assert [it["lost"] for it in told if it["notice"] == "gap"] == [7, 0, 0, 9]


@pytest.mark.parametrize(("counts", "told_as"), [([7, 5], 12), ([7, None, 5], None)])
def test_gaps_that_are_told_as_one_are_counted_together(
    counts: list[int | None], told_as: int | None
) -> None:
    """Several may end while there is no supervisor; an unknown number makes the sum unknown."""
    told: list[Message] = []
    keeper = Keeper.__new__(Keeper)
    keeper.link, keeper.peers, keeper.held = None, [], Descriptors({})
    keeper.children, keeper._untold_gaps = SimpleNamespace(runs={}), {}  # type: ignore[assignment]
    keeper.supervisor = cast("Any", SimpleNamespace(greeted=lambda: None))
    for count in counts:
        keeper._on_gap("web", "end", count, "full")
    keeper.hand_spares(cast("Any", SimpleNamespace(send=told.append)))
    assert [it["lost"] for it in told if it["notice"] == "gap"] == [told_as]


def test_a_new_supervisor_is_not_crossed_by_the_words_of_the_last() -> None:
    """They are heard first: of a run that they ask for, it must know, or it starts another."""
    heard: list[str] = []
    loop = Loop()
    keeper = Keeper.__new__(Keeper)
    keeper.loop, keeper.link, keeper._late, keeper.peers = loop, None, None, []
    keeper._words = SimpleNamespace(handle=lambda _, it, __: heard.append(it["do"]))  # type: ignore[assignment]
    keeper.logs = cast("Any", SimpleNamespace(watch=lambda _: None))
    keeper.notify_sockets = cast("Any", SimpleNamespace(listen=lambda: heard.append("listening")))
    absent = SimpleNamespace(supervisor_present=lambda it: heard.append(f"present: {it}"))
    keeper.children = cast("Any", absent)
    keeper.supervisor = cast("Any", SimpleNamespace(hung_up=lambda: heard.append("hung up")))
    pairs = [socket.socketpair() for _ in range(2)]
    for (_, theirs), word in zip(pairs, ("spawn", "hello"), strict=True):
        theirs.sendall(json.dumps({"do": word}).encode() + b"\n")
    for ours, _ in pairs:
        keeper._on_link(ours.detach())
    loop.call_later(0.05, pairs[0][1].close)
    loop.call_later(0.1, loop.stop)
    loop.run()
    assert heard == ["present: False", "listening", "spawn", "hello"]
    link = cast("Any", keeper.link)
    assert link.is_open
    link._on_closed = lambda _: None
    link.close()
    signal.set_wakeup_fd(-1)
    for it in (pairs[1][1], loop._wake, loop._waker, loop._selector):
        it.close()


def test_complaints_are_bounded(tmp_path: Path) -> None:
    """A fault that repeats for ever is told ever less, and the file has a limit."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from holdfast.keeper import stderr as complaints\n"
        "complaints.install()\n"
        "for n in range(1000): complaints.say('the same')\n"
        "try: 1 / 0\n"
        "except ZeroDivisionError: sys.excepthook(*sys.exc_info())\n"
        "if len(sys.argv) > 2:\n"
        "    for n in range(3000): complaints.say('x' * 1000 + str(n))\n"
    )
    source = str(Path(stderr.__file__).parents[2])
    err = tmp_path / "keeper.err"
    command = [sys.executable, "-I", "-S", "-c", code, source]
    with err.open("wb") as file:
        subprocess.run(command, stderr=file, check=True)
    assert err.read_text().count("the same") == 10
    assert "ZeroDivisionError" in err.read_text()
    with err.open("wb") as file:
        subprocess.run([*command, "more"], stderr=file, check=True)
    assert err.stat().st_size < stderr.FILE_LIMIT + 4096
