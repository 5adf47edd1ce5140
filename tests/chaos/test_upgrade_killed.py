"""kill -9 at every step of an upgrade: somebody takes over, and no service notices."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.client.keeper_connection import KeeperConnection
from holdfast.vocabulary.errors import HoldfastError
from tests.chaos.test_replaced import Installed
from tests.harness import is_alive, started, wait_for

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")

SERVICES = ("web", "worker")

POINTS = {
    "rehearsal": ("keeper/upgrade.py", "            pid = keeper.spawner.spawn(launch)\n"),
    "table": ("keeper/upgrade.py", "        table_fd = handover.write(table)\n"),
    "resume": ("keeper/main.py", "    table = _table(options)\n"),
    "runs": ("keeper/main.py", "    keeper.restore_runs(table)\n"),
    "connections": ("keeper/main.py", "        keeper.restore_connections(table)\n"),
    "retire": (
        "keeper/keeper.py",
        '            self.link.send({"notice": "retire", "standby": True})\n',
    ),
    "standby": ("keeper/keeper.py", "        standby.watched.clear()\n"),
    "launch": ("keeper/supervisor_launcher.py", "        self._on_link(ours)\n"),
    "hello": ("keeper/protocol/words.py", "        connection.is_greeted = True\n"),
    "spares": ("keeper/protocol/words.py", "            self.keeper.hand_spares(connection)\n"),
    "ready": (
        "keeper/protocol/words.py",
        '        """This supervisor has everything that it needs to take our place."""\n',
    ),
    "leave": ("keeper/keeper.py", '            self._standby.send({"notice": "leave"})\n'),
    "left": ("keeper/supervisor_launcher.py", "        self._standbys.discard(pid)\n"),
}
"""Steps of an upgrade in their order: the keeper may die right after each of these lines."""

DEATH = """\
{indent}if __import__("os").path.exists({flag!r}):
{indent}    with open({flag!r}) as _file:
{indent}        _wanted, *_doomed = _file.read().split()
{indent}    if _wanted == {point!r}:
{indent}        __import__("os").unlink({flag!r})
{indent}        for _pid, _signal in (map(int, word.split(":")) for word in _doomed):
{indent}            __import__("os").kill(_pid or __import__("os").getpid(), _signal)
"""


def _command_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []  # it is gone


class Mined(Installed):
    """At the step that the flag names, PID:SIGNAL is done for each; 0 is the keeper itself."""

    def __init__(self) -> None:
        super().__init__()
        self.flag = self.folder / "die"
        for point, (name, line) in POINTS.items():
            path = self.site / "holdfast" / name
            text = path.read_text()
            assert text.count(line) == 1, (point, text.count(line))
            indent = line[: len(line) - len(line.lstrip())]
            death = DEATH.format(indent=indent, flag=str(self.flag), point=point)
            path.write_text(text.replace(line, line + death))

    def begin(self) -> dict[str, int]:
        code = "n=0; while :; do n=$$((n+1)); echo line $$n; sleep 0.01; done"
        self.services(**{name: ["bash", "-c", code] for name in SERVICES})
        self.up()
        return self.pids()

    def pids(self) -> dict[str, int]:
        services = self.json("status")["services"]
        return {name: int(services[name]["pid"]) for name in SERVICES}

    def keepers(self) -> list[int]:
        """Every process that runs as a keeper of this state folder."""
        found = []
        for pid in self.marked_pids():
            words = _command_of(pid)
            is_ours = os.fsencode(self.state) in words and b"--check" not in words
            if is_ours and any(word.endswith(b"keeper/__main__.py") for word in words):
                found.append(pid)
        return found

    def numbers(self, name: str) -> list[int]:
        return [int(line.split()[1]) for line in self.raw(name).split(b"\n")[:-1]]

    def check_whole(self, pids: dict[str, int]) -> None:
        """The same processes, one keeper, one supervisor, and each line was recorded once."""
        assert self.pids() == pids
        marks = {name: self.numbers(name)[-1] for name in SERVICES}
        for name, mark in marks.items():
            wait_for(lambda name=name, mark=mark: self.numbers(name)[-1] > mark + 5)
            numbers = self.numbers(name)
            assert numbers == [*range(1, len(numbers) + 1)]
        wait_for(lambda: len(self.keepers()) == 1, what="a single keeper")
        wait_for(lambda: len(self.supervisors()) == 1, what="a single supervisor")

    def supervisors(self) -> list[int]:
        return [
            pid
            for pid in self.marked_pids()
            if any(b"supervisor_start import main" in word for word in _command_of(pid))
        ]

    def has_successor(self, dead: int) -> bool:
        try:
            with closing(KeeperConnection(str(self.runtime / "keeper.sock"))) as line:
                facts = line.facts
        except HoldfastError:
            return False  # nobody answers yet
        return bool(facts["pid"] != dead)


@pytest.fixture(scope="module")
def mined() -> Iterator[Mined]:
    with Mined() as one:
        yield one


@pytest.mark.parametrize("point", POINTS)
def test_the_keeper_dies_during_an_upgrade(mined: Mined, point: str) -> None:
    """After each step of an upgrade there is a successor that records on and answers."""
    pids = mined.pids() if mined._keepers else mined.begin()
    keeper = mined.keeper_pid
    mined.flag.write_text(f"{point} 0:9")
    with started(mined.command("upgrade"), cwd=mined.project, env=mined.environ) as upgrade:
        wait_for(lambda: not is_alive(keeper), what="the keeper to die")
        wait_for(lambda: mined.has_successor(keeper), what="a successor")
        upgrade.wait(60)
    assert not mined.flag.exists()
    mined.check_whole(pids)


@pytest.mark.parametrize("point", ["connections", "standby", "spares"])
def test_the_supervisor_dies_during_an_upgrade(mined: Mined, point: str) -> None:
    """The keeper launches another one, and the upgrade is finished."""
    pids = mined.pids() if mined._keepers else mined.begin()
    keeper, supervisor = mined.keeper_pid, mined.json("status")["supervisor"]["pid"]
    mined.flag.write_text(f"{point} {supervisor}:9")
    mined.cli("upgrade")
    assert not mined.flag.exists()
    assert mined.keeper_pid == keeper
    mined.check_whole(pids)


@pytest.mark.parametrize("point", ["retire", "launch"])
def test_both_die_during_an_upgrade(mined: Mined, point: str) -> None:
    """The services live on, and the next `up` takes them over."""
    pids = mined.pids() if mined._keepers else mined.begin()
    keeper, supervisor = mined.keeper_pid, mined.json("status")["supervisor"]["pid"]
    mined.flag.write_text(f"{point} {supervisor}:9 0:9")
    with started(mined.command("upgrade"), cwd=mined.project, env=mined.environ):
        wait_for(lambda: not is_alive(keeper) and not is_alive(supervisor))
    wait_for(lambda: not mined.supervisors(), what="the new supervisor to leave")
    assert all(map(is_alive, pids.values()))
    mined.up()
    assert mined.pids() == pids


def test_a_standby_that_wakes_late_takes_nothing(mined: Mined) -> None:
    """Stopped while the keeper died, it finds that another has taken its place, and leaves."""
    pids = mined.pids() if mined._keepers else mined.begin()
    keeper, old = mined.keeper_pid, int(mined.json("status")["supervisor"]["pid"])
    mined.flag.write_text(f"ready {old}:{signal.SIGSTOP:d} 0:9")
    with started(mined.command("upgrade"), cwd=mined.project, env=mined.environ) as upgrade:
        wait_for(lambda: not is_alive(keeper), what="the keeper to die")
        wait_for(lambda: mined.has_successor(keeper), what="a successor")
        upgrade.wait(60)
    successor = mined.keepers()
    os.kill(old, signal.SIGCONT)
    wait_for(lambda: not is_alive(old), what="the standby to leave")
    assert mined.keepers() == successor
    mined.check_whole(pids)
