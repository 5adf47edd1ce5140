"""Death between two steps that belong together: still one instance of a service, ever."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.test_replaced import Installed
from tests.harness import is_alive, quick, wait_for

_SPAWN = "        run, handed = keeper.children.spawn(message)\n"
_DEATH = """\
        if os.path.exists({flag!r}):
            with open({flag!r}) as file:
                who, left = file.read().split()
            with open({flag!r}, "w") as file:
                print(who, int(left) - 1, file=file)
            if left == "1":
                os.unlink({flag!r})
                if who == "both":
                    os.kill(keeper.supervisor.pid, 9)
                os.kill(os.getpid(), 9)
"""


class Doomed(Installed):
    """Its keeper dies right after it created a process, when the test asks for that: the flag
    says who dies, and at which spawn from now on."""

    def __init__(self) -> None:
        super().__init__()
        self.flag = self.folder / "die"
        self.truth = self.folder / "truth"
        words = self.site / "holdfast" / "keeper" / "protocol" / "words.py"
        text = words.read_text()
        assert text.count(_SPAWN) == 1
        words.write_text(text.replace(_SPAWN, _SPAWN + _DEATH.format(flag=str(self.flag))))

    def started(self) -> list[int]:
        return [int(line) for line in self.truth.read_text().split()] if self.truth.exists() else []

    def living(self) -> list[int]:
        return [pid for pid in self.started() if is_alive(pid)]

    def declare(self) -> None:
        # The configuration makes one dollar sign of two.
        code = f"echo $$$$ >>{self.truth}; echo begun; while :; do sleep 0.05; echo tick; done"
        self.services(web=["bash", "-c", code], other=["sleep", "300"])


@pytest.fixture
def hold() -> Iterator[Doomed]:
    with Doomed() as one:
        one.declare()
        yield one


def _die_at_restart(hold: Doomed, who: str) -> int:
    """The pid of the instance whose start nobody was told about."""
    hold.up()
    wait_for(lambda: len(hold.started()) == 1)
    hold.flag.write_text(f"{who} 1")
    hold.cli("restart", "web", expect=None)
    wait_for(lambda: len(hold.started()) == 2, what="the second instance")
    return hold.started()[1]


def test_keeper_dies_between_spawn_and_answer(hold: Doomed) -> None:
    """The instance that it had just created is found, goes on, and stays the only one."""
    hold.up("other")
    keeper = hold.keeper_pid
    pid = _die_at_restart(hold, "keeper")
    wait_for(lambda: hold.keeper_pid != keeper, what="the successor")
    web = hold.wait_status("web", "running")
    assert web["pid"] == pid
    assert hold.living() == [pid]
    assert len(hold.started()) == 2
    wait_for(lambda: b"tick" in hold.raw("web", "--run", 2))
    hold.cli("stop", "web")
    assert not is_alive(pid)
    hold.cli("start", "web")
    assert len(wait_for(hold.living)) == 1


def test_keeper_dies_in_the_middle_of_many_starts(hold: Doomed) -> None:
    """Those it had created and not told of go on with all they print; the others are started."""
    names = [f"s{number}" for number in range(40)]
    hold.up("other")
    code = f"echo $$$$ >>{hold.truth}; echo begun; exec sleep 300"
    hold.services(other=["sleep", "300"], **{name: ["bash", "-c", code] for name in names})
    keeper = hold.keeper_pid
    hold.flag.write_text("keeper 25")
    hold.cli("up", "-d", "--no-wait", expect=None)
    wait_for(lambda: hold.keeper_pid != keeper, what="the successor")
    pids = [hold.wait_status(name, "running")["pid"] for name in names]
    assert sorted(hold.living()) == sorted(pids)
    assert len(hold.started()) == len(names)
    for name in names:
        wait_for(lambda name=name: hold.raw(name) == b"begun\n", what=f"the output of {name}")


def test_both_die_between_spawn_and_answer(hold: Doomed) -> None:
    """The next `up` finds what no database knows of, adopts it, and starts no second one."""
    hold.up("other")
    keeper, supervisor = hold.keeper_pid, hold.supervisor_pid
    pid = _die_at_restart(hold, "both")
    wait_for(lambda: not is_alive(keeper) and not is_alive(supervisor))
    assert is_alive(pid)
    hold.up()
    web = hold.wait_status("web", "running")
    assert (web["pid"], web["adopted"]) == (pid, True)
    assert hold.living() == [pid]
    assert len(hold.started()) == 2
    hold.cli("stop", "web")
    assert not is_alive(pid)


def test_strays_of_others_are_left_alone(hold: Doomed) -> None:
    """Another Holdfast with a service of the same name takes nothing of ours."""
    pid = _die_at_restart(hold, "both")
    with Installed() as other:
        other.services(web=["sleep", "300"])
        other.up()
        assert other.service("web")["pid"] != pid
        assert is_alive(pid)
    assert is_alive(pid)
    hold.up()
    assert hold.wait_status("web", "running")["pid"] == pid


@pytest.mark.parametrize("who", ["keeper", "both"])
def test_a_start_between_two_deaths_is_in_the_history(hold: Doomed, who: str) -> None:
    """The keeper dies when it has started a process, which ends before anybody else knows of it:
    each start is a run of its own number, and of this one it is said that its end is unknown."""
    short = hold.folder / "short"
    code = f"echo $$$$ >>{hold.truth}; test -e {short} && rm {short} && exit 3; exec sleep 300"
    hold.services(web=quick(["bash", "-c", code]), other=["sleep", "300"])
    hold.up()
    keeper, supervisor = hold.keeper_pid, hold.supervisor_pid
    short.touch()
    pid = _die_at_restart(hold, who)
    wait_for(lambda: not is_alive(keeper) and not is_alive(pid))
    if who == "both":
        wait_for(lambda: not is_alive(supervisor))
        hold.up()
    wait_for(lambda: len(hold.started()) == 3, what="the third instance")
    hold._disconnect()
    wait_for(lambda: hold.json("status")["services"]["web"]["status"] == "running")
    runs = sorted(hold.json("runs", "web")["runs"], key=lambda it: it["number"])
    assert [(run["number"], run["pid"]) for run in runs] == [*enumerate(hold.started(), start=1)]
    assert runs[1]["ended_at"] is not None
