"""The limit that tells whose process a process is: what every process inherits and none regains."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.keeper.supervisor_launcher import _ceiling
from holdfast.system import peers, processes, run_marks
from holdfast.system.processes import Process
from tests.keeper.conftest import KeeperProcess, wait_for
from tests.keeper.stage import in_a_subreaper

pytestmark = [
    pytest.mark.unprivileged,
    pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's own"),
]

LEAVE = """
import os, sys, time
if os.fork():
    time.sleep(600)
os.setsid()
if os.fork():
    os._exit(0)
null = os.open("/dev/null", os.O_RDWR)
print(os.getpid(), flush=True)
for fd in (0, 1, 2):
    os.dup2(null, fd)
os.execve("/bin/sleep", ["sleep", "600"], {})
"""


@pytest.fixture
def own_ceiling() -> int:
    """The hard limit of this test's process, which may run inside a Holdfast."""
    limits = run_marks.read(os.getpid())
    assert limits is not None
    return limits[1]


def leave(keeper: KeeperProcess, **asked: Any) -> int:
    """A run with an orphan that shows nothing of its origin; the orphan's pid."""
    keeper.spawn(sys.executable, "-I", "-S", "-c", LEAVE, **asked)
    pid = int(keeper.wait_output(keeper.last, b"\n"))
    wait_for(lambda: processes.run_id_of(pid) is None)
    return pid


def test_marks_differ() -> None:
    """Two runs have two marks, each of them a number that no ceiling is below."""
    marks = {run_marks.mark_of(f"run-{number:021x}") for number in range(10_000)}
    assert len(marks) == 10_000
    assert all(run_marks.is_mark(mark) for mark in marks)
    assert max(marks) < 1 << 56 < run_marks.UNLIMITED
    assert not run_marks.is_mark(run_marks.UNLIMITED)


@in_a_subreaper
def test_a_ceiling_only_goes_down() -> None:
    """Each ceiling is below the one around it, and nothing without privileges raises it."""
    outer = run_marks.lower_ceiling(processes.start_time(os.getpid()))
    inner = run_marks.lower_ceiling(processes.start_time(os.getpid()))
    assert outer is not None
    assert inner is not None
    assert outer > inner > 1 << 57
    assert run_marks.has_ceiling(inner)
    assert not run_marks.has_ceiling(outer)
    if os.geteuid() != 0:
        with pytest.raises(ValueError, match="not allowed to raise"):
            resource.setrlimit(run_marks.RLIMIT, (outer, outer))


@in_a_subreaper
def test_a_limit_that_is_too_low_already() -> None:
    """Where somebody else has limited real-time tasks there is neither ceiling nor mark."""
    resource.setrlimit(run_marks.RLIMIT, (200_000, 200_000))
    assert run_marks.lower_ceiling(processes.start_time(os.getpid())) is None
    assert not run_marks.can_mark()


@in_a_subreaper
def test_a_successor_has_a_ceiling_only_by_inheritance() -> None:
    """A table without one is of an earlier version, whose runs are above any: then none counts."""
    before = run_marks.own()
    assert _ceiling({"version": 1}) is None
    assert _ceiling({"version": 1, "ceiling": 1 << 60}) is None
    assert run_marks.own() == before
    fresh = _ceiling({})
    assert fresh is not None
    assert _ceiling({"version": 1, "ceiling": fresh}) == fresh
    # A process of the same user can lower the limit of ours; that makes nobody a person.
    resource.setrlimit(run_marks.RLIMIT, (1000, 1000))
    assert _ceiling({"version": 1, "ceiling": fresh}) == fresh


def test_every_process_of_a_run_has_its_mark(keeper: KeeperProcess) -> None:
    """The soft limit of an orphan is its run's mark, the hard one the keeper's ceiling; keeper and
    runs that come later keep their own."""
    orphan = leave(keeper)
    own = run_marks.read(keeper.pid)
    assert own is not None
    assert run_marks.read(orphan) == (run_marks.mark_of(keeper.last), own[1])
    assert own == (own[1], own[1]) or run_marks.is_mark(own[0])
    first = keeper.last
    keeper.spawn("sleep", "600")
    assert keeper.last != first
    second = run_marks.read(keeper.link.do("list")["runs"][1]["pid"])
    assert second == (run_marks.mark_of(keeper.last), own[1])


@pytest.mark.parametrize("asked", [{"nice": 1}, {"rlimits": {"core": [0, 0]}}])
def test_a_forked_run_has_its_mark(keeper: KeeperProcess, asked: dict[str, Any]) -> None:
    """Also where the process is made by fork, for what else is asked for."""
    keeper.spawn("sleep", "600", **asked)
    limits = run_marks.read(keeper.link.do("list")["runs"][0]["pid"])
    assert limits is not None
    assert limits[0] == run_marks.mark_of(keeper.last)


@pytest.mark.parametrize(
    ("asked", "soft"), [([1_000_000, 2_000_000], 1_000_000), ("unlimited", None), (300, 300)]
)
def test_a_limit_of_its_own_wins(keeper: KeeperProcess, asked: Any, soft: int | None) -> None:
    """A service that is to have this limit gets it, as far as the ceiling allows."""
    keeper.spawn("sleep", "600", rlimits={"rttime": asked})
    limits = run_marks.read(keeper.link.do("list")["runs"][0]["pid"])
    own = run_marks.read(keeper.pid)
    assert limits is not None
    assert own is not None
    assert limits[0] == (own[1] if soft is None else soft)
    keeper.link.do("end", run_id=keeper.last, grace=0)
    keeper.link.notice("ended")


def test_a_keeper_that_cannot_mark_starts_runs(keeper: KeeperProcess) -> None:
    """Somebody took the keeper's own limit away: what it starts is unmarked, and starts."""
    resource.prlimit(keeper.pid, run_marks.RLIMIT, (1000, 1000))
    for _ in range(2):
        keeper.spawn("sleep", "600")
    runs = keeper.link.do("list")["runs"]
    assert [run_marks.read(run["pid"]) for run in runs] == [(1000, 1000)] * 2


def test_an_orphan_ends_with_its_run(
    make_keeper: Callable[..., KeeperProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among many runs, without cgroups, and with children of its own."""
    monkeypatch.setenv("HOLDFAST_CGROUP", "off")
    keeper = make_keeper()
    first, second = leave(keeper), leave(keeper)
    keeper.link.do("end", run_id=keeper.last, grace=0.2)
    told = keeper.link.notice("ended")
    assert second in {it["pid"] for it in told["report"]}
    assert processes.process(first) is not None
    assert keeper.link.do("list")["unclaimed"] == []


def test_an_adopted_process_is_marked(keeper: KeeperProcess) -> None:
    """What it has started and will start is of its run, too, and no person."""
    script = "import os, time; pid = os.fork() or os.fork(); print(flush=True); time.sleep(600)"
    argv = [sys.executable, "-I", "-S", "-c", script]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.read(2) == b"\n\n"
            request = keeper.request()
            keeper.link.do("adopt", **{**request, "pid": process.pid})
            ceiling = keeper.link.do("list")["host"]["ceilings"][0]
            wanted = run_marks.mark_of(keeper.last), ceiling
            for pid in (process.pid, *processes.children(process.pid)):
                assert run_marks.read(pid) == wanted
        finally:
            os.killpg(process.pid, 9)


def seen(pid: int) -> list[Process]:
    process = processes.process(pid)
    assert process is not None
    return processes.lineage(process)


def test_who_is_outside(keeper: KeeperProcess) -> None:
    """We are, and an orphan of a run is not, also in the eyes of a successor of the keeper."""
    orphan, ceilings = leave(keeper), keeper.link.do("list")["host"]["ceilings"]
    assert run_marks.is_outside(seen(os.getpid()), ceilings)
    assert run_marks.is_outside(seen(orphan), ceilings) is False
    stranger = processes.process(orphan)
    assert stranger is not None
    stranger.ppid = 1
    assert run_marks.is_outside([stranger], ceilings) is False
    standing = peers.standing_of(
        stranger, {}, cgroup_root=None, keeper_pid=None, supervisor_pid=None, ceilings=ceilings
    )
    assert standing.is_supervised
    gone = Process(1 << 22, 1, "gone", "S", "1", 1, 1)
    assert run_marks.is_outside([gone], ceilings) is None


@pytest.fixture
def pretenders() -> Iterator[Callable[..., Process]]:
    """Processes of a tree with whatever limit they choose for themselves."""
    started: list[subprocess.Popen[bytes]] = []

    def start(hard: int, *words: str) -> Process:
        limit = f"import os, resource; resource.setrlimit(15, ({hard}, {hard}))"
        code = f"{limit}; print(flush=True); import time; time.sleep(600)"
        argv = [sys.executable, "-I", "-S", "-c", code, *words]
        started.append(subprocess.Popen(argv, stdout=subprocess.PIPE))
        assert started[-1].stdout is not None
        assert started[-1].stdout.readline()
        process = processes.process(started[-1].pid)
        assert process is not None
        return process

    yield start
    for it in started:
        it.kill()
        it.communicate()


def test_only_a_keeper_began_when_its_limit_says(
    pretenders: Callable[..., Process], own_ceiling: int
) -> None:
    """A process that lowered its limit to look like another Holdfast's is not taken for that; what
    a keeper beside ours started is."""
    level = min(own_ceiling >> 56, 64) - 1
    plain = pretenders((level << 56) + 1)
    ceiling = (level << 56) + (int(plain.start_time) << 22) + (1 << 21)
    assert run_marks.is_outside([plain], [ceiling]) is False
    # A keeper that is older than ours: its own start time and pid are in its limit.
    origin = int(plain.start_time) << 22 | plain.pid
    keeper = pretenders((level << 56) + 1)
    resource.prlimit(keeper.pid, run_marks.RLIMIT, (1, 1))
    assert run_marks.is_outside([keeper], [ceiling]) is False
    assert run_marks._is_other_keeper(plain, (level << 56) + origin, ceiling)
    assert not run_marks._is_other_keeper(plain, (level - 1 << 56) + origin, ceiling), "inside ours"
    assert not run_marks._is_other_keeper(keeper, (level << 56) + origin, ceiling)


def name_as_keeper(process: Process, level: int) -> int:
    """Lower the limit of a process to the number that a keeper in its place would have."""
    number = level << 56 | int(process.start_time) << 22 | process.pid
    resource.prlimit(process.pid, run_marks.RLIMIT, (1, number))
    return number


def test_another_program_is_no_keeper_by_its_limit(
    pretenders: Callable[..., Process], own_ceiling: int
) -> None:
    """Who lowers the limit of an older process, such as the user's service manager, gains nothing
    by becoming its child."""
    level = min(own_ceiling >> 56, 64) - 1
    manager = pretenders((level + 1 << 56) - 1)
    keeper = pretenders((level + 1 << 56) - 1, "holdfast/keeper/__main__.py")
    ceiling = name_as_keeper(manager, level) + (1 << 40)
    name_as_keeper(keeper, level)
    assert run_marks.is_outside([manager], [ceiling]) is False
    assert run_marks.is_outside([keeper], [ceiling])


@in_a_subreaper
def test_an_ancestor_of_ours_is_no_keeper_beside_ours(own_ceiling: int) -> None:
    """Orphans of a killed keeper go to an ancestor of its successor, whose limit may be forged."""
    level = min(own_ceiling >> 56, 64) - 1
    ancestor = seen(os.getpid())[0]
    ceiling = name_as_keeper(ancestor, level) + (1 << 40)
    orphan = os.fork()
    if orphan == 0:
        signal.pause()
    judge = os.fork()
    if judge == 0:
        run_marks._is_keeper_program = lambda pid: True
        is_outside = run_marks.is_outside(seen(orphan), [ceiling])
        os._exit(0 if is_outside is False else 1)
    assert os.waitpid(judge, 0)[1] == 0
