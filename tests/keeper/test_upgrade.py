"""The keeper turns into a newer one: nothing is let go."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.keeper.options import Options, parse
from holdfast.keeper.runs.run import HeldRun
from holdfast.keeper.upgrade import UpgradeAttempt
from tests.keeper.conftest import PACKAGE, KeeperProcess, Message, is_alive, wait_for

pytestmark = pytest.mark.unprivileged

WRITER = (
    "import os, sys, time\n"
    "n = 0\n"
    "while not os.path.exists(sys.argv[1]):\n"
    "    print('%06d' % n, flush=True)\n"
    "    print('%06d' % n, file=sys.stderr, flush=True)\n"
    "    n += 1\n"
    "    time.sleep(0.0005)\n"
    "print('end %d' % n, flush=True)\n"
    "sys.exit(int(sys.argv[2]))\n"
)


class Writers:
    """Services that print numbered lines on two streams until they are told to end."""

    def __init__(self, keeper: KeeperProcess, count: int) -> None:
        self._flag = keeper.state / "enough"
        self.codes: dict[str, int] = {}
        for number in range(count):
            argv = [sys.executable, "-I", "-S", "-c", WRITER, str(self._flag), str(number)]
            keeper.spawn(*argv)
            self.codes[keeper.last] = number
        for name in self.codes:
            wait_for(lambda name=name: keeper.output(name))  # type: ignore[misc]

    def end(self, keeper: KeeperProcess) -> dict[str, Message]:
        """Tell all to end; their exits by run id."""
        self._flag.touch()
        return {name: keeper.exit_of(name, 30) for name in self.codes}

    def assert_whole(self, keeper: KeeperProcess) -> None:
        """Every line was recorded, once and in order."""
        for name in self.codes:
            *lines, last = keeper.output(name).splitlines()
            wanted = [b"%06d" % number for number in range(int(last.split()[1]))]
            assert lines == wanted
            assert keeper.output(name, "err").splitlines() == wanted


def test_upgrade_under_load(keeper: KeeperProcess) -> None:
    """Three upgrades under load: same pids, no line lost or doubled, right exit codes."""
    writers = Writers(keeper, 5)
    pids = {run["run_id"]: run["pid"] for run in keeper.link.do("list")["runs"]}
    for _ in range(3):
        answer = keeper.link.do("upgrade")
        assert answer["pid"] == keeper.pid
        assert {r["run_id"]: r["pid"] for r in keeper.link.do("list")["runs"]} == pids
    for name, ended in writers.end(keeper).items():
        assert (ended["code"], ended["pid"]) == (writers.codes[name], pids[name]), ended
    writers.assert_whole(keeper)


def test_no_time_is_lost(keeper: KeeperProcess) -> None:
    """A run lasts as long as it does, the moments between two keepers included."""
    keeper.spawn("sleep", "1000")
    began = time.monotonic()
    for _ in range(3):
        keeper.link.do("upgrade")
    lasted = time.monotonic() - began
    assert keeper.link.do("list")["runs"][0]["age"] >= lasted


def test_an_earlier_keeper_told_how_long_ago() -> None:
    """A table that has ages only, and no moments of beginning, is understood."""
    tree = cast("Any", SimpleNamespace(pid=1, is_child=True))
    run = HeldRun({"run_id": "r", "service": "web", "age": 60.0}, tree)
    assert time.monotonic() - run.began >= 60.0


def test_exits_during_an_upgrade(keeper: KeeperProcess) -> None:
    """Runs that end while the keeper changes its program keep their exit codes."""
    writers = Writers(keeper, 5)
    keeper.link.send("upgrade")
    for name, ended in writers.end(keeper).items():
        assert ended["code"] == writers.codes[name], ended
    writers.assert_whole(keeper)


def test_everything_is_carried_over(keeper: KeeperProcess) -> None:
    """Terminals, input, leases, held descriptors, kept values and pauses survive."""
    reader, writer = os.pipe()
    keeper.link.do("hold", name="pipe", fds=(reader,))
    keeper.link.do("keep", kept={"k": "v"})
    shell = _spawn(keeper, "bash", "--norc", "-i", kind="terminal", cols=90, rows=20)
    reads = _spawn(keeper, "cat", stdin="pipe")
    deaf = _spawn(keeper, "sleep", "1000", stdin="pipe")
    paused = _spawn(keeper, "sleep", "1000")
    leased = _spawn(keeper, "sleep", "1000", lease={"seconds": 1.5, "kind": "job"})
    restricted = _spawn(keeper, "sh", "-c", "read x; ulimit -n", stdin="pipe")
    keeper.link.do("pause", run_id=paused)
    for _ in range(5):
        keeper.write(deaf, b"x" * 200_000)
    if keeper.hello["host"]["cgroup"] is not None:
        wait_for(lambda: all(run["cgroup"] for run in keeper.link.do("list")["runs"]))
    before = {run["run_id"]: run for run in keeper.link.do("list")["runs"]}
    control = keeper.control()
    control.do("list")
    keeper.link.do("upgrade")
    after = {run["run_id"]: run for run in keeper.link.do("list")["runs"]}
    for run_id, run in before.items():
        same = dict(after[run_id], age=run["age"], log_bytes=run["log_bytes"])
        assert same == run
    assert control.do("list")["held"] == ["line", "pipe"]
    assert keeper.write(deaf, b"x" * 200_000)["error"]["code"] == "buffer_full"
    keeper.write(shell, b"stty size; echo do''ne\n")
    keeper.wait_output(shell, b"done\r\n")
    assert b"20 90" in keeper.output(shell)
    keeper.write(reads, b"still here\n")
    keeper.wait_output(reads, b"still here")
    assert keeper.exit_of(leased)["cause"] == "lease"
    hello = keeper.link.do("hello", role="supervisor")
    assert hello["kept"] == {"k": "v"}
    keeper.write(restricted, b"\n")
    keeper.exit_of(restricted)
    fresh = _spawn(keeper, "sh", "-c", "ulimit -n")
    keeper.exit_of(fresh)
    assert keeper.output(fresh) == keeper.output(restricted)
    os.close(reader)
    os.close(writer)


def _spawn(keeper: KeeperProcess, *argv: str, **fields: object) -> str:
    keeper.spawn(*argv, **fields)
    return keeper.last


def test_no_signal_comes_between_two_keepers(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has no handler yet would die of it; it waits. If nothing comes of the upgrade,
    all is as before."""
    blocked: list[set[int]] = []

    def refuse(*_: object) -> None:
        blocked.append(set(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
        raise OSError(2, "gone")

    monkeypatch.setattr(os, "execv", refuse)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    keeper = SimpleNamespace(table=dict, options=lambda path: [])
    keeper.children = SimpleNamespace(exits=SimpleNamespace(reap=lambda: None))
    with pytest.raises(OSError, match="gone"):
        UpgradeAttempt(*cast("Any", [keeper, ["python"], "/", [], None]))._execute()
    assert {signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP} <= blocked[0]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_broken_new_version(keeper: KeeperProcess, folder: Path) -> None:
    """A new version that cannot even start leaves everything as it was."""
    bad = folder / "bad"
    shutil.copytree(PACKAGE, bad / "holdfast", ignore=shutil.ignore_patterns("__pycache__"))
    (bad / "holdfast" / "keeper" / "main.py").write_text("raise RuntimeError('broken')\n")
    pid = keeper.spawn("sleep", "1000")["pid"]
    answer = keeper.link.ask("upgrade", package=str(bad))
    assert answer["error"]["code"] == "upgrade_failed"
    assert "broken" in answer["error"]["message"]
    answer = keeper.link.ask("upgrade", argv_prefix=["/no/such/python"])
    assert answer["error"]["code"] == "upgrade_failed"
    assert is_alive(pid)
    assert keeper.link.ask("upgrade")["ok"]


def test_other_place(keeper: KeeperProcess, folder: Path) -> None:
    """The new code may lie anywhere, and it is what runs afterwards."""
    new = folder / "new"
    shutil.copytree(PACKAGE, new / "holdfast", ignore=shutil.ignore_patterns("__pycache__"))
    (new / "holdfast" / "__init__.py").write_text('__version__ = "9.9.9"\n')
    keeper.spawn("sleep", "1000")
    assert keeper.link.do("upgrade", package=str(new))["version"] == "9.9.9"
    assert keeper.link.do("list")["version"] == "9.9.9"


def test_exits_during_the_upgrade(keeper: KeeperProcess) -> None:
    """Runs that end at any moment of an upgrade are reaped with their codes."""
    for number in range(40):
        delay = 0.01 * number
        keeper.spawn("sh", "-c", f"sleep {delay}; echo end; exit {number}", run_id=f"e{number}")
    keeper.link.do("upgrade")
    keeper.link.do("upgrade")
    for number in range(40):
        assert keeper.exit_of(f"e{number}")["code"] == number
        assert keeper.output(f"e{number}") == b"end\n"


def test_ending_goes_on(keeper: KeeperProcess) -> None:
    """A stop that was under way is finished by the new keeper."""
    keeper.spawn("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    keeper.wait_output(keeper.last, b"up")
    keeper.link.do("end", run_id=keeper.last, grace=2.0)
    keeper.link.do("upgrade")
    assert keeper.exit_of(keeper.last)["signal"] == signal.SIGKILL
    assert keeper.link.notice("ended")["run_id"] == keeper.last


def test_supervisor_is_relaunched(make_keeper: Callable[..., KeeperProcess], folder: Path) -> None:
    """After an upgrade the supervisor is retired and a new one launched."""
    script = folder / "supervisor.py"
    script.write_text(
        "import socket, sys\n"
        "link = socket.socket(fileno=int(sys.argv[sys.argv.index('--link') + 1]))\n"
        'link.sendall(b\'{"id": 1, "do": "hello"}\\n\')\n'
        "buffer = b''\n"
        "while b'retire' not in buffer:\n"
        "    buffer += link.recv(65536)\n"
    )
    argv = json.dumps([sys.executable, "-I", "-S", str(script)])
    keeper = make_keeper("--supervisor-argv", argv, link=False)
    control = keeper.control()
    wait_for(lambda: control.do("list")["supervisor"]["state"] == "running")
    first = control.do("list")["supervisor"]["pid"]
    control.do("upgrade")
    wait_for(lambda: control.do("list")["supervisor"]["pid"] not in (None, first))
    wait_for(lambda: not is_alive(first))


def test_the_next_image_understands_its_words_in_any_locale() -> None:
    """Words of the system may be of any encoding; what tells them is plain ASCII."""
    words = ["/opt/größe", "\udcff\udcfe", "日本"]
    arguments = Options("/s", "/r", [], None, words).arguments([])
    assert arguments[arguments.index("--supervisor-argv") + 1].isascii()
    assert parse(arguments).supervisor_argv == words
