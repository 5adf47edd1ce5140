"""When a supervisor is launched again, and how one that does not go is made to."""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.keeper.options import Options
from holdfast.keeper.supervisor_launcher import (
    MAX_BACKOFF_SECONDS,
    SERVED_SECONDS,
    STABLE_SECONDS,
    Launcher,
    SupervisorChild,
)
from holdfast.system import own_process
from tests.keeper.conftest import KeeperProcess, Message, wait_for

KILLED = 9


class World:
    """A loop whose time passes by hand, and a launcher that creates nothing."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.timers: list[Any] = []
        self.launched = 0
        self.trouble: OSError | None = None
        loop = SimpleNamespace(now=lambda: self.clock, call_later=self._call_later)
        launcher = SimpleNamespace(start=self._start, read_err=lambda: "its last words")
        self.others: dict[int, Any] = {}
        children = SimpleNamespace(others=self.others)
        self.supervisor = SupervisorChild(*cast("Any", [loop, launcher, children, lambda fd: None]))

    def _start(self) -> tuple[int, int]:
        if self.trouble is not None:
            raise self.trouble
        self.launched += 1
        return self.launched, -1

    def _call_later(self, seconds: float, call: Any) -> Any:
        timer = SimpleNamespace(due=self.clock + seconds, call=call)
        timer.cancel = lambda: self.timers.remove(timer) if timer in self.timers else None
        self.timers.append(timer)
        return timer

    def die(self, after: float = 0.0) -> None:
        self.clock += after
        pid = self.supervisor.pid
        assert pid is not None
        self.others.pop(pid)(KILLED)

    def wait(self) -> float:
        """Let the one timer fire; how long it took."""
        (timer,) = self.timers
        self.timers.clear()
        seconds, self.clock = timer.due - self.clock, timer.due
        timer.call()
        return float(seconds)


@pytest.fixture
def world() -> World:
    made = World()
    made.supervisor.launch()
    return made


def test_ever_more_slowly(world: World) -> None:
    """One that dies at once is launched again after twice as long each time, up to a limit."""
    waits = []
    for _ in range(12):
        world.die()
        assert world.supervisor.state == "backoff"
        waits.append(world.wait())
    assert waits[:5] == [0.25, 0.5, 1.0, 2.0, 4.0]
    assert waits[-1] == MAX_BACKOFF_SECONDS
    assert world.launched == 13
    assert world.supervisor.facts()["last_error"] == "its last words"


def test_at_once_after_a_good_time(world: World) -> None:
    """One that had worked for a while is replaced at once, and earlier deaths are forgotten."""
    for _ in range(3):
        world.die()
        world.wait()
    world.die(after=STABLE_SECONDS)
    assert (world.supervisor.state, world.launched, world.timers) == ("running", 5, [])
    world.die()
    assert world.wait() == 0.25


def test_one_that_served_is_no_failure_among_failures(world: World) -> None:
    """Who was greeted and lived for a little is replaced soon, however many failed before it; who
    does so again and again waits ever longer, and so does who dies as soon as it is greeted."""
    for _ in range(6):
        world.die()
        world.wait()
    waits = []
    for _ in range(3):
        world.supervisor.greeted()
        world.die(after=SERVED_SECONDS)
        waits.append(world.wait())
    assert waits == [0.25, 0.5, 1.0]
    world.supervisor.greeted()
    world.die()
    assert world.wait() == 2.0
    world.die(after=SERVED_SECONDS)
    assert world.wait() == 4.0, "it was never greeted"


def test_failures_are_forgotten_on_purpose(world: World) -> None:
    """An upgrade, or who asks for a supervisor, starts with a new one: what failed was another."""
    for _ in range(6):
        world.die()
        world.wait()
    world.die()
    after = World()
    after.supervisor.resume(world.supervisor.facts())
    after.supervisor.launch()
    world.supervisor.forget_failures()
    world.supervisor.launch()
    for one in (world, after):
        assert (one.supervisor.failures, one.supervisor.last_error) == (0, None)
        one.die()
        assert one.wait() == 0.25


_SERVES_SHORTLY = """
import os, socket, sys, time
if not os.path.exists(sys.argv[1]):
    sys.exit("RuntimeError: bad install")
link = socket.socket(fileno=int(sys.argv[sys.argv.index("--link") + 1]))
link.sendall(b'{"id": 1, "do": "hello"}\\n')
heard = b""
while b"spares_done" not in heard:
    heard += link.recv(65536)
time.sleep(float(sys.argv[2]))
os._exit(7)
"""


def test_a_keeper_knows_who_served(make_keeper: Callable[..., KeeperProcess], folder: Path) -> None:
    """Of one that served after others had failed, the failure is the first, and without a reason
    of theirs; who asks for a supervisor has this forgotten, too."""
    flag, lives = folder / "mended", str(SERVED_SECONDS + 0.1)
    argv = [sys.executable, "-I", "-S", "-c", _SERVES_SHORTLY, str(flag), lives]
    control = make_keeper("--supervisor-argv", json.dumps(argv), link=False).control()

    def facts() -> Message:
        told: Message = control.do("list")["supervisor"]
        return told

    wait_for(lambda: facts()["failures"] >= 2)
    assert facts()["last_error"] == "RuntimeError: bad install"
    flag.touch()
    wait_for(lambda: (facts()["last_exit"] or {}).get("code") == 7)
    assert (facts()["failures"], facts()["last_error"]) == (1, None)
    assert control.do("supervise", on=True)["supervisor"]["failures"] == 0


def test_what_an_earlier_one_wrote_is_no_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last words are those of this launch."""
    monkeypatch.setattr(
        own_process, "raise_descriptor_limit", lambda: resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    (tmp_path / "supervisor.err").write_text("RuntimeError: bad install\n")
    argv = ["sh", "-c", "test ! -e $0/words || cat $0/words >&2", str(tmp_path)]
    options = Options(str(tmp_path), str(tmp_path), [], None, argv)
    lock = os.open(tmp_path, os.O_RDONLY)
    launcher = Launcher(options, {"lock": lock}, {"oom_score": None}, 0o022)

    def words() -> str | None:
        pid, link = launcher.start()
        os.waitpid(pid, 0)
        os.close(link)
        return launcher.read_err()

    assert words() is None
    (tmp_path / "words").write_text("why\n")
    assert words() == "why"
    assert words() == "why"
    os.close(lock)
    os.close(launcher.spawner.null)


def test_one_that_cannot_be_launched_is_tried_again(world: World) -> None:
    """Without a descriptor for its link the launch is put off, not forgotten."""
    world.die(after=STABLE_SECONDS)
    world.trouble = OSError(24, "Too many open files")
    world.die()
    world.wait()
    assert (world.supervisor.state, world.supervisor.failures) == ("backoff", 2)
    assert "Too many" in (world.supervisor.last_error or "")
    world.trouble = None
    assert world.wait() == 0.5
    assert world.supervisor.state == "running"


@pytest.mark.parametrize("way", ["it hung up", "it was retired"])
def test_one_that_does_not_go_is_made_to(
    world: World, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Without a link it is of no use: asked to go, then killed; then the next one comes."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    if way == "it hung up":
        world.supervisor.hung_up()
    else:
        world.supervisor.retire(lambda: None, world.supervisor.launch)
    assert sent == []
    for number in (15, 9):
        assert world.wait() == 10.0
        assert sent[-1] == (1, number)
    world.die()
    if way == "it hung up":
        assert world.timers == []
    assert (world.supervisor.state, world.supervisor.pid) == ("running", 2)
