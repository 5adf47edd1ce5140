"""Processes that leave their service at once: new session, empty environment, no output."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.system import run_marks
from tests.harness import Hold, is_alive, kill_9, quick, wait_for
from tests.keeper.stage import has_cgroups

LEAVE = "setsid -f env -i sleep {} </dev/null >/dev/null 2>&1; {}"
STAY = "exec sleep 600"
NAMELESS = f"""
import os, resource, sys, time
if os.fork():
    time.sleep(600)
os.setsid()
if os.fork():
    os._exit(0)
soft, hard = resource.getrlimit({run_marks.RLIMIT})
resource.setrlimit({run_marks.RLIMIT}, (12345678, hard))
null = os.open("/dev/null", os.O_RDWR)
for fd in (0, 1, 2):
    os.dup2(null, fd)
os.execve("/bin/sleep", ["sleep", sys.argv[1]], {{}})
"""
"""The same in Python, and the mark of its run removed on purpose."""


class Leavers:
    """Finds the processes of one test by a number that only they sleep for."""

    def __init__(self) -> None:
        self.seconds = f"6{os.getpid()}.{int.from_bytes(os.urandom(3), 'big')}"

    def command(self, then: str = STAY) -> list[str]:
        return ["sh", "-c", LEAVE.format(self.seconds, then)]

    def nameless(self) -> list[str]:
        return [sys.executable, "-I", "-S", "-c", NAMELESS, self.seconds]

    def pids(self) -> list[int]:
        wanted = f"sleep\0{self.seconds}\0".encode()
        found = []
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and Path(f"/proc/{entry}/cmdline").read_bytes() == wanted:
                    found.append(int(entry))
            except OSError:
                continue
        return [pid for pid in found if is_alive(pid)]

    def await_one(self) -> int:
        pids: list[int] = wait_for(self.pids, what="the process that leaves")
        return pids[0]


@pytest.fixture
def leavers() -> Iterator[Leavers]:
    found = Leavers()
    yield found
    for pid in found.pids():
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(params=["", "off"], ids=["cgroup", "no-cgroup"])
def hold(request: pytest.FixtureRequest) -> Iterator[Hold]:
    with Hold(HOLDFAST_CGROUP=request.param) as one:
        yield one


def start(hold: Hold, leavers: Leavers, command: list[str] | None = None, **fields: Any) -> int:
    """Bring up a service that is left at once, beside two others; the pid of the leaver."""
    web = quick(command or leavers.command(), **fields)
    hold.services(web=web, other=quick(), another=quick())
    hold.up()
    return leavers.await_one()


def kill_keeper(hold: Hold) -> None:
    """kill -9, and wait for the successor."""
    old = hold.keeper_pid
    kill_9(old)
    wait_for(lambda: hold.status()["supervisor"]["keeper_pid"] != old, what="a successor")


def kill_both(hold: Hold) -> None:
    """kill -9 of keeper and supervisor, neither of which sees the other's end."""
    both = [hold.supervisor_pid, hold.keeper_pid]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in both:
            os.kill(pid, number)


def test_a_stop_ends_what_left_at_once(hold: Hold, leavers: Leavers) -> None:
    """`stop` of one service ends its leaver, and nothing of the others."""
    leaver = start(hold, leavers)
    if hold.environ["HOLDFAST_CGROUP"] != "off" and has_cgroups():
        place = hold.service("web")["run_id"]
        wait_for(lambda: place in Path(f"/proc/{leaver}/cgroup").read_text(), what="its cgroup")
    told = hold.cli("stop", "web").stdout
    assert not is_alive(leaver), told
    assert not leavers.pids()
    assert hold.service("other")["status"] == hold.service("another")["status"] == "running"


def test_down_ends_what_left_at_once(hold: Hold, leavers: Leavers) -> None:
    """`down` leaves nothing behind."""
    start(hold, leavers)
    hold.cli("down")
    assert not leavers.pids()


def test_a_run_that_ends_takes_its_leaver_along(hold: Hold, leavers: Leavers) -> None:
    """The main process ends by itself right after the other left: that is the run's rest."""
    command = leavers.command("exit 0")
    hold.services(web=quick(command, restart_policy="never"), other=quick(), another=quick())
    hold.up()
    hold.wait_status("web", "exited")
    wait_for(lambda: not leavers.pids(), what="the rest of the run to be ended")


def test_each_restart_ends_the_leaver_of_the_last_run(hold: Hold, leavers: Leavers) -> None:
    """A restart never adds one more."""
    start(hold, leavers)
    for _ in range(3):
        before = leavers.await_one()
        hold.cli("restart", "web")
        wait_for(lambda: leavers.pids() and before not in leavers.pids())  # noqa: B023
        assert len(leavers.pids()) == 1


@pytest.mark.parametrize("deaths", ["keeper", "supervisor", "keeper, then supervisor"])
def test_a_leaver_is_known_after_a_succession(hold: Hold, leavers: Leavers, deaths: str) -> None:
    """Whoever of us was killed meanwhile, `stop` ends what left before."""
    leaver = start(hold, leavers)
    if "keeper" in deaths:
        kill_keeper(hold)
    if "supervisor" in deaths:
        hold.kill_supervisor()
    hold.cli("stop", "web")
    assert not is_alive(leaver)
    assert hold.service("other")["status"] == "running"


def test_a_leaver_is_known_after_an_upgrade(hold: Hold, leavers: Leavers) -> None:
    """`upgrade` replaces both programs and forgets no process."""
    leaver = start(hold, leavers)
    hold.cli("upgrade")
    hold.cli("stop", "web")
    assert not is_alive(leaver)


@pytest.mark.parametrize("is_main_alive", [True, False], ids=["main", "rest"])
def test_a_leaver_is_known_after_both_died(
    hold: Hold, leavers: Leavers, is_main_alive: bool
) -> None:
    """Keeper and supervisor were killed: the next `up` finds the leaver of a survivor, and ends
    that of a run which did not survive."""
    leaver = start(hold, leavers)
    main = int(hold.service("web")["pid"])
    kill_both(hold)
    if not is_main_alive:
        kill_9(main)
    hold.up()
    if is_main_alive:
        assert hold.service("web")["pid"] == main
        hold.cli("stop", "web")
    assert not is_alive(leaver)


@pytest.mark.parametrize("deaths", ["none", "keeper", "both"])
def test_what_belongs_to_no_run_is_listed_and_ended(leavers: Leavers, deaths: str) -> None:
    """A process that removed its mark is in `status` and `doctor`; `down` ends it."""
    # Without cgroups: its cgroup would tell whose it is.
    with Hold(HOLDFAST_CGROUP="off") as hold:
        leaver = start(hold, leavers, leavers.nameless())
        if deaths == "keeper":
            kill_keeper(hold)
        elif deaths == "both":
            kill_both(hold)
            hold.up()
        _check_unclaimed(hold, leaver)


def test_what_removed_its_mark_is_no_other_services(leavers: Leavers) -> None:
    """Also if one service is left that it might have come from: only `down` ends it."""
    with Hold(HOLDFAST_CGROUP="off") as hold:
        hold.services(other=quick(["sleep", "601"]), web=quick(leavers.nameless()))
        hold.up()
        leaver = wait_for(leavers.pids)[0]
        hold.cli("stop", "web")
        assert str(leaver) not in hold.cli("ps", "other").stdout
        hold.cli("stop", "other")
        _check_unclaimed(hold, leaver)


def _check_unclaimed(hold: Hold, leaver: int) -> None:
    hold.cli("stop", "web")
    assert is_alive(leaver), "somebody else's process may be ended by mistake"
    told = wait_for(lambda: hold.status()["supervisor"].get("unclaimed"))
    assert told == [{"pid": leaver, "name": "sleep"}]
    assert f"sleep ({leaver})" in hold.cli("status").stdout
    assert f"sleep ({leaver})" in hold.cli("doctor", expect=None).stdout
    hold.cli("down")
    assert not is_alive(leaver)
