"""Which processes belong to a run: all of its own, and nobody else's."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from holdfast.keeper.processes.tree import Tree
from holdfast.system import processes
from tests.keeper.stage import (
    FLEEING,
    Stage,
    cpu_ticks,
    has_cgroups,
    in_a_subreaper,
    is_alive,
    wait_for,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper")
needs_cgroups = pytest.mark.skipif(not has_cgroups(), reason="no writable cgroup v2 tree")
WAYS = ["off", pytest.param("on", marks=needs_cgroups)]

SCRUBBED = "lambda: os.execve('/bin/sh', ['sh', '-c', 'echo $$; while :; do sleep 9; done'], {})"


def pids(tree: Tree) -> set[int]:
    return {process.pid for process in tree.processes()}


@pytest.mark.parametrize("cgroup", WAYS)
@in_a_subreaper
def test_plain_service(cgroup: str) -> None:
    """A service without children is its main process, then nothing."""
    with Stage(cgroup) as stage:
        tree = stage.start("say(1); forever()")
        stage.says()
        assert pids(tree) == {tree.pid}
        assert not tree.is_empty()
        os.kill(tree.pid, signal.SIGKILL)
        wait_for(lambda: not is_alive(tree.pid))
        assert tree.is_empty(), "a zombie is not alive"
        stage.reap()
        assert tree.is_empty()
        assert tree.processes() == []


@in_a_subreaper
def test_one_reading_serves_many_but_none_from_before_the_end() -> None:
    """Of runs that were collected together, the orphans are listed once; what was listed before
    a run was collected says nothing about the orphans that it left."""
    with Stage() as stage:
        processes.ROUGH_SECONDS = 60.0
        quiet = stage.start("say(1); forever()", "quiet")
        stage.says("quiet")
        loud = stage.start("say(child(lambda: (os.setsid(), forever()))); forever()", "loud")
        orphan = stage.says("loud")
        readings: list[int] = []
        list_children = processes.own_children
        processes.own_children = lambda: readings.append(1) or list_children()  # type: ignore[func-returns-value]
        known = lambda: {quiet.pid, loud.pid}  # noqa: E731
        quiet._known_children = loud._known_children = known
        quiet.processes(is_rough=True)
        assert len(readings) == 1
        for tree in (quiet, loud):
            os.kill(tree.pid, signal.SIGKILL)
            os.waitpid(tree.pid, 0)
            tree.collect()
        assert not loud.is_empty()
        assert pids(loud) == {orphan}
        del readings[:]
        os.kill(orphan, signal.SIGKILL)
        os.waitpid(orphan, 0)
        processes.ROUGH_SECONDS = 0.0
        assert loud.is_empty()
        processes.ROUGH_SECONDS = 60.0
        assert quiet.is_empty()
        assert len(readings) == 1


@pytest.mark.parametrize("cgroup", WAYS)
@in_a_subreaper
def test_descendants_of_every_kind(cgroup: str) -> None:
    """Children, grandchildren, new sessions and daemons are all found."""
    with Stage(cgroup) as stage:
        tree = stage.start(
            "say(child(lambda: (say(child(forever)), forever())))\n"
            "say(child(lambda: (os.setsid(), forever())))\n"
            "daemon(lambda: (say(os.getpid()), forever()))\n"
            "forever()"
        )
        said = {stage.says() for _ in range(4)}
        # The one in the middle of the double fork may not have ended yet.
        wait_for(lambda: pids(tree) == {tree.pid} | said)
        os.kill(tree.pid, signal.SIGKILL)
        wait_for(lambda: not is_alive(tree.pid))
        stage.reap()
        assert not tree.is_empty()
        assert pids(tree) == said


@pytest.mark.parametrize("is_main_alive", [True, False])
@in_a_subreaper
def test_daemon_known_by_its_cookie(is_main_alive: bool) -> None:
    """A double-forked daemon in its own session is found by its environment."""
    with Stage() as stage:
        tree = stage.start("daemon(lambda: (say(os.getpid()), forever()))\nforever()")
        other = stage.start("say(1); forever()", "run-2")
        daemon = stage.says()
        stage.says("run-2")
        if not is_main_alive:
            os.kill(tree.pid, signal.SIGKILL)
            wait_for(lambda: not is_alive(tree.pid))
        assert not tree.is_empty()
        assert pids(tree) == ({tree.pid, daemon} if is_main_alive else {daemon})
        assert pids(other) == {other.pid}


@in_a_subreaper
def test_scrubbed_daemon_of_the_only_run() -> None:
    """Without any mark, an orphan belongs to the only run that can have started it."""
    with Stage() as stage:
        tree = stage.start(f"daemon({SCRUBBED})\nforever()")
        daemon = stage.says()
        wait_for(lambda: processes.run_id_of(daemon) is None)
        assert daemon in pids(tree)


@in_a_subreaper
def test_scrubbed_daemon_among_two_runs() -> None:
    """An orphan without any mark is nobody's while two runs may own it, then the last one's."""
    with Stage() as stage:
        tree = stage.start("say(1); forever()")
        other = stage.start(f"daemon({SCRUBBED})\nforever()", "run-2")
        stage.says()
        daemon = stage.says("run-2")
        wait_for(lambda: processes.run_id_of(daemon) is None)
        assert pids(tree) == {tree.pid}
        assert daemon not in pids(other)
        stage.end(tree)
        assert is_alive(daemon)
        assert daemon in pids(other)


@in_a_subreaper
def test_scrubbed_daemon_seen_before() -> None:
    """Who was once seen as a descendant stays ours, whatever it does afterwards."""
    with Stage() as stage:
        tree = stage.start("say(1); forever()")
        stage.says()
        middle = stage.start(
            "ready = os.pipe()\n"
            "def middle():\n"
            "    os.setsid()\n"
            "    pid = child(lambda: os.execve('/bin/sleep', ['sleep', '99'], {}))\n"
            "    say(pid)\n"
            "    os.read(ready[0], 1)\n"
            "child(middle)\n"
            "signal.signal(signal.SIGUSR1, lambda *_: os.write(ready[1], b'x'))\n"
            "say(0)\n"
            "forever()",
            "run-2",
        )
        daemon = max(stage.says("run-2"), stage.says("run-2"))
        wait_for(lambda: processes.run_id_of(daemon) is None)
        assert daemon in pids(middle)
        os.kill(middle.pid, signal.SIGUSR1)
        wait_for(lambda: (found := processes.process(daemon)) and found.ppid == os.getpid())
        assert daemon in pids(middle)
        assert daemon not in pids(tree)


@needs_cgroups
@in_a_subreaper
def test_scrubbed_daemon_in_a_cgroup() -> None:
    """The cgroup knows its processes, however many runs there are."""
    with Stage("on") as stage:
        tree = stage.start("say(1); forever()")
        other = stage.start(f"daemon({SCRUBBED})\nforever()", "run-2")
        daemon = stage.says("run-2")
        assert daemon in pids(other)
        assert daemon not in pids(tree)


@in_a_subreaper
def test_threads_that_fork() -> None:
    """A child that a second thread of the service forked is found."""
    with Stage() as stage:
        tree = stage.start(
            "import threading\n"
            "threading.Thread(target=lambda: (say(child(forever)), forever())).start()\n"
            "forever()"
        )
        child = stage.says()
        assert pids(tree) == {tree.pid, child}


@in_a_subreaper
def test_nested_subreaper_is_part_of_the_tree() -> None:
    """A Holdfast inside a service, and what it holds, belongs to the service."""
    with Stage() as stage:
        tree = stage.start(
            "import ctypes\n"
            "def keeper():\n"
            "    os.setsid()\n"
            "    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
            "    environment = {'HOLDFAST_RUN_ID': 'inner'}\n"
            "    daemon(lambda: (say(os.getpid()),\n"
            "        os.execve('/bin/sleep', ['sleep', '99'], environment)))\n"
            "    forever()\n"
            "say(child(keeper))\n"
            "forever()"
        )
        said = {stage.says(), stage.says()}
        wait_for(lambda: pids(tree) == {tree.pid} | said)


@pytest.mark.parametrize("is_adopted", [False, True])
@in_a_subreaper
def test_supervisor_is_never_included(is_adopted: bool) -> None:
    """A known child of the keeper is left out, even with our cookie in its environment."""
    with Stage() as stage:
        tree = stage.start("say(1); forever()")
        stage.says()
        if is_adopted:
            known, facts = tree._known_children, (tree.run_id, tree.pid, tree.start_time)
            tree = Tree(*facts, None, False, stage.cgroups, known)
        environment = {"HOLDFAST_RUN_ID": tree.run_id}
        supervisor = os.posix_spawn("/bin/sleep", ["sleep", "99"], environment, setsid=True)
        stage.trees[supervisor] = tree
        assert pids(tree) == {tree.pid}
        del stage.trees[supervisor]
        wait_for(lambda: pids(tree) == {tree.pid, supervisor})


@in_a_subreaper
def test_who_shows_no_environment_is_looked_at_again() -> None:
    """In the middle of an exec there is none to see: that says nothing about what comes."""
    with Stage() as stage:
        born = stage.start("say(1); forever()")
        stage.says()
        facts = (born.run_id, born.pid, born.start_time)
        tree = Tree(*facts, None, False, stage.cgroups, lambda: set())
        reader, writer = os.pipe()
        code = f"read go; HOLDFAST_RUN_ID={tree.run_id} exec sleep 99"
        actions = [(os.POSIX_SPAWN_DUP2, reader, 0)]
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", code], {}, setsid=True, file_actions=actions)
        try:
            assert pids(tree) == {tree.pid}
            os.write(writer, b"go\n")
            wait_for(lambda: pids(tree) == {tree.pid, pid})
        finally:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("cgroup", WAYS)
@in_a_subreaper
def test_adopted_run(cgroup: str) -> None:
    """Runs that are not our children are found by session, parents, cookie and cgroup."""
    with Stage(cgroup) as stage:
        born = stage.start(
            "say(child(lambda: (say(child(forever)), forever())))\n"
            "daemon(lambda: (say(os.getpid()), forever()))\n"
            "forever()"
        )
        said = {stage.says() for _ in range(3)}
        other = stage.start("say(child(forever)); forever()", "run-2")
        stage.says("run-2")
        tree = Tree(
            born.run_id,
            born.pid,
            born.start_time,
            born.cgroup,
            False,
            stage.cgroups,
            lambda: {other.pid},
        )
        assert not tree.is_empty()
        assert pids(tree) == {born.pid} | said
        os.kill(born.pid, signal.SIGKILL)
        wait_for(lambda: not is_alive(born.pid))
        assert not tree.is_empty()
        assert pids(tree) == said
        tree.signal(signal.SIGKILL)
        stage.wait_until_empty(tree)
        assert is_alive(other.pid)


@pytest.mark.parametrize("since", ["the adoption", "later"])
@in_a_subreaper
def test_adopted_run_with_a_wrong_identity(since: str) -> None:
    """A recycled pid is not the run: the tree is empty and nothing is signalled."""
    with Stage() as stage:
        born = stage.start("say(child(forever)); forever()")
        child = stage.says()
        first = born.start_time if since == "later" else "1"
        tree = Tree("run-x", born.pid, first, None, False, stage.cgroups, lambda: ())
        tree._start_time = "1"
        assert tree.processes() == []
        assert tree.is_empty()
        assert tree.signal(signal.SIGKILL) == 0
        assert not tree.signal_group(signal.SIGKILL)
        assert is_alive(born.pid)
        assert is_alive(child)


@pytest.mark.parametrize("cgroup", WAYS)
@pytest.mark.parametrize("is_placed", [True, False])
@in_a_subreaper
def test_pause_stops_the_whole_tree(cgroup: str, is_placed: bool) -> None:
    """While paused no process of the tree uses the CPU, and after that all go on."""
    with Stage(cgroup) as stage:
        spin = "(say(os.getpid()), [None for _ in iter(int, 1)])"
        tree = stage.start(
            f"child(lambda: (os.setsid(), {spin}))\ndaemon(lambda: {spin})\n{spin}", place=is_placed
        )
        spinners = [stage.says() for _ in range(3)]
        assert tree.pause()
        assert tree.is_paused
        wait_for(lambda: _are_still(spinners))
        assert tree.resume()
        before = [cpu_ticks(pid) for pid in spinners]
        wait_for(lambda: all(cpu_ticks(p) > b for p, b in zip(spinners, before, strict=True)))


def _are_still(pids: list[int]) -> bool:
    before = [cpu_ticks(pid) for pid in pids]
    time.sleep(0.1)
    return before == [cpu_ticks(pid) for pid in pids]


@in_a_subreaper
def test_resume_wakes_only_whom_pause_stopped() -> None:
    """A process that was stopped before the pause stays stopped after it."""
    with Stage() as stage:
        tree = stage.start("say(child(lambda: os.kill(os.getpid(), 19)))\nsay(1)\nforever()")
        sleeper = stage.says()
        wait_for(lambda: (found := processes.process(sleeper)) and found.state == "T")
        tree.pause()
        tree.resume()
        wait_for(lambda: (found := processes.process(tree.pid)) and found.state == "S")
        found = processes.process(sleeper)
        assert found is not None
        assert found.state == "T"


@pytest.mark.parametrize("cgroup", WAYS)
@in_a_subreaper
def test_pause_of_fleeing_processes(cgroup: str) -> None:
    """Pausing converges while ten processes fork away, and then nothing new appears."""
    with Stage(cgroup) as stage:
        tree = stage.start(FLEEING)
        stage.says()
        wait_for(lambda: len(stage.members(tree)) > 7)
        tree.pause()
        wait_for(lambda: _are_the_same(tree))
        tree.signal(signal.SIGKILL)
        stage.wait_until_empty(tree)


def _are_the_same(tree: Tree) -> bool:
    before = pids(tree)
    time.sleep(0.05)
    return before == pids(tree)


@in_a_subreaper
def test_nobody_forks_away_from_a_kill() -> None:
    """Everybody is stopped before the first is killed."""
    sent: list[int] = []
    send = processes.send_signal

    def noting(pid: int, start_time: str, number: int) -> bool:
        sent.append(number)
        return send(pid, start_time, number)

    setattr(processes, "send_signal", noting)  # noqa: B010 - in the forked subreaper only
    with Stage() as stage:
        tree = stage.start("say(child(forever)); forever()")
        child = stage.says()
        assert {process.pid for process in tree.kill_each()} == {tree.pid, child}
        assert sent == [signal.SIGSTOP] * 2 + [signal.SIGKILL] * 2
        stage.wait_until_empty(tree)


@in_a_subreaper
def test_signal_to_the_tree() -> None:
    """A signal to the tree reaches each process once."""
    with Stage() as stage:
        tree = stage.start(
            "signal.signal(signal.SIGUSR1, lambda *_: say(os.getpid()))\n"
            "say(child(lambda: (os.setsid(), say(0), forever())))\n"
            "forever()"
        )
        child = stage.says() + stage.says()
        assert tree.signal(signal.SIGUSR1) == 2
        assert {stage.says(), stage.says()} == {tree.pid, child}


@in_a_subreaper
def test_childless_service_is_cheap() -> None:
    """Asking a plain service whether it is empty takes microseconds, not a walk of the machine."""
    with Stage() as stage:
        tree = stage.start("say(1); forever()")
        stage.says()
        times = []
        for _ in range(50):
            began = time.perf_counter()
            tree.processes()
            tree.is_empty()
            times.append(time.perf_counter() - began)
        assert min(times) < 0.0005
