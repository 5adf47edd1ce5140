"""A stop is finished only when the tree is empty, and says what became of each process."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import pytest

from holdfast.keeper.processes.tree import Tree
from holdfast.keeper.protocol.messages import EndState
from holdfast.keeper.runs.kill_chain import KillChain
from holdfast.system import processes
from holdfast.system.processes import Process
from tests.keeper.stage import FLEEING, Stage, has_cgroups, in_a_subreaper, is_alive, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a subreaper")
needs_cgroups = pytest.mark.skipif(not has_cgroups(), reason="no writable cgroup v2 tree")
WAYS = ["off", pytest.param("on", marks=needs_cgroups)]
KILLED_BY = {"off": "SIGKILL", "on": "cgroup.kill"}


@pytest.mark.parametrize("cgroup", WAYS)
@in_a_subreaper
def test_obedient_service(cgroup: str) -> None:
    """A service that obeys is gone at once, by the signal it was sent."""
    with Stage(cgroup) as stage:
        tree = stage.start("say(1); forever()")
        stage.says()
        hows, seconds, is_empty = stage.end(tree)
        assert (hows, is_empty) == ({tree.pid: "SIGTERM"}, True)
        assert seconds < 1


@in_a_subreaper
def test_other_signal() -> None:
    """The configured signal is the one that is sent and reported."""
    with Stage() as stage:
        tree = stage.start(
            "signal.signal(signal.SIGUSR2, lambda *_: os._exit(0)); say(1); forever()"
        )
        stage.says()
        hows, _, _ = stage.end(tree, signal.SIGUSR2)
        assert hows == {tree.pid: "SIGUSR2"}


@pytest.mark.parametrize("is_overlooked", [False, True])
@in_a_subreaper
def test_group_gets_the_signal_once(is_overlooked: bool) -> None:
    """Children in the group are signalled with the main process, and not again later; nor are
    those that were not seen before the signal."""
    with Stage() as stage:
        tree = stage.start(
            "def count(*_):\n"
            "    say(7)\n"
            "def slow():\n"
            "    signal.signal(signal.SIGTERM, count)\n"
            "    say(os.getpid())\n"
            "    forever()\n"
            "child(slow)\n"
            "say(0)\n"
            "forever()"
        )
        child = stage.says() + stage.says()
        if is_overlooked:
            look = Tree.processes

            def roughly(tree: Tree, is_rough: bool = False) -> list[Process]:
                return look(tree, is_rough)[: 1 if is_rough else None]

            setattr(Tree, "processes", roughly)  # noqa: B010 - in the forked subreaper only
        hows, _, is_empty = stage.end(tree, grace=0.3)
        assert hows == {tree.pid: "SIGTERM", child: "SIGKILL"}
        assert is_empty
        assert stage.says() == 7
        with pytest.raises(AssertionError):
            stage.says()


@pytest.mark.parametrize("cgroup", WAYS)
@in_a_subreaper
def test_leftovers_get_the_signal_after_the_main_process(cgroup: str) -> None:
    """A daemon outside the group is left in peace until its main process is gone."""
    with Stage(cgroup) as stage:
        tree = stage.start(
            "def last():\n"
            "    time.sleep(0.1)\n"
            "    say(1 if alive() else 0)\n"
            "    os._exit(0)\n"
            "def alive():\n"
            "    try: return open(f'/proc/{pid}/stat').read().split()[2] not in 'ZX'\n"
            "    except OSError: return False\n"
            "reader, writer = os.pipe()\n"
            "daemon(lambda: (os.write(writer, b'%d' % os.getpid()), forever()))\n"
            "pid = int(os.read(reader, 20))\n"
            "signal.signal(signal.SIGTERM, lambda *_: last())\n"
            "say(pid)\n"
            "forever()"
        )
        daemon = stage.says()
        hows, seconds, is_empty = stage.end(tree)
        assert stage.says() == 1
        assert (hows, is_empty) == ({tree.pid: "SIGTERM", daemon: "SIGTERM"}, True)
        assert seconds < 2


@pytest.mark.parametrize("cgroup", WAYS)
@in_a_subreaper
def test_stubborn_grandchild_that_holds_stdout(cgroup: str) -> None:
    """A grandchild that ignores SIGTERM and holds our pipe is killed at the end of the grace."""
    with Stage(cgroup) as stage:
        tree = stage.start(
            "child(lambda: (ignore(), say(child(forever)), forever()))\nsay(0)\nforever()"
        )
        grandchild = stage.says() + stage.says()
        child = next(p.pid for p in tree.processes() if p.ppid == tree.pid)
        hows, seconds, is_empty = stage.end(tree, grace=0.2)
        killed = KILLED_BY[cgroup]
        assert hows == {tree.pid: "SIGTERM", child: killed, grandchild: killed}
        assert is_empty
        assert 0.2 <= seconds < 2
        assert os.read(stage.lines["run-1"], 1) == b"", "its pipe is closed"


@pytest.mark.parametrize("cgroup", WAYS)
@in_a_subreaper
def test_stubborn_daemon(cgroup: str) -> None:
    """Double fork, setsid and a deaf ear to SIGTERM do not outlive the stop."""
    with Stage(cgroup) as stage:
        tree = stage.start("daemon(lambda: (ignore(), say(os.getpid()), forever()))\nforever()")
        daemon = stage.says()
        hows, _, is_empty = stage.end(tree, grace=0.2)
        assert (hows[daemon], is_empty) == (KILLED_BY[cgroup], True)
        assert not is_alive(daemon)


@in_a_subreaper
def test_scrubbed_daemon() -> None:
    """A daemon that scrubbed its environment too is found because it became our child."""
    with Stage() as stage:
        tree = stage.start(
            "script = 'trap \"\" TERM; echo $$; while :; do sleep 1; done'\n"
            "daemon(lambda: os.execve('/bin/sh', ['sh', '-c', script], {}))\n"
            "forever()"
        )
        daemon = stage.says()
        hows, _, is_empty = stage.end(tree, grace=0.2)
        assert (hows[daemon], is_empty) == ("SIGKILL", True)
        assert not is_alive(daemon)


@pytest.mark.parametrize("cgroup", WAYS)
@in_a_subreaper
def test_stopped_child(cgroup: str) -> None:
    """A stopped process is woken, so that it can obey."""
    with Stage(cgroup) as stage:
        tree = stage.start("say(child(lambda: os.kill(os.getpid(), 19)))\nforever()")
        child = stage.says()
        wait_for(lambda: (found := processes.process(child)) and found.state == "T")
        hows, seconds, is_empty = stage.end(tree)
        assert (hows, is_empty) == ({tree.pid: "SIGTERM", child: "SIGTERM"}, True)
        assert seconds < 1


@pytest.mark.parametrize("cgroup", WAYS)
@in_a_subreaper
def test_paused_tree(cgroup: str) -> None:
    """A paused run is thawed and ends as gracefully as a running one."""
    with Stage(cgroup) as stage:
        tree = stage.start("say(child(lambda: (os.setsid(), forever())))\nforever()")
        child = stage.says()
        tree.pause()
        hows, seconds, is_empty = stage.end(tree)
        assert (hows, is_empty) == ({tree.pid: "SIGTERM", child: "SIGTERM"}, True)
        assert seconds < 1


@pytest.mark.parametrize("cgroup", WAYS)
@in_a_subreaper
def test_who_leaves_the_group_at_the_last_moment_gets_the_signal(cgroup: str) -> None:
    """It was seen in the group, and is in a session of its own when that is signalled."""
    with Stage(cgroup) as stage:
        tree = stage.start(
            "def leaving():\n"
            "    signal.signal(signal.SIGUSR1, lambda *_: os.setsid())\n"
            "    say(os.getpid())\n"
            "    forever()\n"
            "child(leaving)\n"
            "forever()\n"
        )
        child = stage.says()
        signal_group = Tree.signal_group

        def late(*arguments: Any) -> bool:
            os.kill(child, signal.SIGUSR1)
            wait_for(lambda: os.getpgid(child) == child)
            return signal_group(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Tree, "signal_group", late)
            hows, seconds, is_empty = stage.end(tree)
        assert (hows, is_empty) == ({tree.pid: "SIGTERM", child: "SIGTERM"}, True)
        assert seconds < 1


@in_a_subreaper
def test_who_leaves_the_group_after_the_signal_gets_no_second() -> None:
    """Programs take a second one for haste; also if the main process has gone since."""
    with Stage() as stage:
        tree = stage.start(
            "def leaving():\n"
            "    signal.signal(signal.SIGTERM, lambda *_: say(7))\n"
            "    signal.signal(signal.SIGUSR1, lambda *_: os.setsid())\n"
            "    say(os.getpid())\n"
            "    forever()\n"
            "signal.signal(signal.SIGTERM, lambda *_: None)\n"
            "child(leaving)\n"
            "forever()\n"
        )
        child, arm = stage.says(), KillChain._arm

        def then_leave(ending: KillChain) -> None:
            arm(ending)
            if os.getpgid(child) != child:
                os.kill(child, signal.SIGUSR1)
                wait_for(lambda: os.getpgid(child) == child)
                os.kill(tree.pid, signal.SIGKILL)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(KillChain, "_arm", then_leave)
            hows, _, is_empty = stage.end(tree, grace=0.3)
        assert (hows, is_empty) == ({tree.pid: "SIGTERM", child: "SIGKILL"}, True)
        assert stage.says() == 7
        with pytest.raises(AssertionError):
            stage.says()


@pytest.mark.parametrize("cgroup", WAYS)
@in_a_subreaper
def test_fleeing_processes(cgroup: str) -> None:
    """Ten processes that fork away all the time are all killed."""
    with Stage(cgroup) as stage:
        tree = stage.start(FLEEING)
        stage.says()
        wait_for(lambda: len(stage.members(tree)) > 7)
        _, seconds, is_empty = stage.end(tree, grace=0.1)
        assert is_empty
        assert seconds < 5
        assert not any(map(is_alive, processes.own_children()))


@pytest.mark.parametrize("cgroup", WAYS)
@in_a_subreaper
def test_kill_at_once(cgroup: str) -> None:
    """No grace, or SIGKILL as the signal, kills without asking."""
    with Stage(cgroup) as stage:
        first = stage.start("ignore(); say(1); forever()", "run-1")
        second = stage.start("ignore(); say(1); forever()", "run-2")
        stage.says("run-1"), stage.says("run-2")
        stage.begin(first, grace=0)
        stage.begin(second, signal.SIGKILL)
        stage.finish()
        assert stage.results["run-1"][0] == {first.pid: KILLED_BY[cgroup]}
        assert stage.results["run-2"][0] == {second.pid: KILLED_BY[cgroup]}


@in_a_subreaper
def test_shortened_grace() -> None:
    """A second, more impatient stop shortens the first; a more patient one changes nothing."""
    with Stage() as stage:
        tree = stage.start("ignore(); say(1); forever()")
        stage.says()
        ending = stage.begin(tree, grace=30)
        ending.shorten(60)
        assert ending.remaining_seconds <= 30
        stage.loop.call_later(0.05, lambda: ending.shorten(0.1))
        stage.finish()
        _, seconds, is_empty = stage.results["run-1"]
        assert 0.15 <= seconds < 2
        assert is_empty
        ending.shorten(0)
        ending.check()


@in_a_subreaper
def test_shortened_to_nothing() -> None:
    """Shortened to zero, the kill comes now."""
    with Stage() as stage:
        tree = stage.start("ignore(); say(1); forever()")
        stage.says()
        stage.begin(tree, grace=30).shorten(0)
        stage.finish()
        assert stage.results["run-1"][0] == {tree.pid: "SIGKILL"}


@in_a_subreaper
def test_already_empty() -> None:
    """Ending what has ended reports at the end of the turn, with nothing to tell."""
    with Stage() as stage:
        tree = stage.start("pass")
        wait_for(lambda: not is_alive(tree.pid))
        stage.begin(tree)
        assert stage.results == {}
        stage.finish()
        assert stage.results["run-1"][0] == {}
        assert stage.results["run-1"][2]


@in_a_subreaper
def test_leftovers_only() -> None:
    """When the main process has died by itself, what it left is ended the same way."""
    with Stage() as stage:
        tree = stage.start(
            "child(lambda: (say(os.getpid()), forever()))\n"
            "daemon(lambda: (ignore(), say(os.getpid()), forever()))\n"
        )
        said = {stage.says(), stage.says()}
        wait_for(lambda: not is_alive(tree.pid))
        stage.reap()
        hows, _, is_empty = stage.end(tree, grace=0.2)
        assert set(hows) == said
        assert sorted(hows.values()) == ["SIGKILL", "SIGTERM"]
        assert is_empty


@in_a_subreaper
def test_process_that_went_by_itself() -> None:
    """A process that nobody signalled is reported as exited."""
    with Stage() as stage:
        tree = stage.start(
            "def slow(*_):\n"
            "    time.sleep(0.3)\n"
            "    os._exit(0)\n"
            "signal.signal(signal.SIGTERM, slow)\n"
            "say(child(lambda: (os.setsid(), time.sleep(0.1))))\n"
            "forever()"
        )
        child = stage.says()
        wait_for(lambda: os.getsid(child) == child)
        hows, _, _ = stage.end(tree)
        assert hows == {tree.pid: "SIGTERM", child: "exited"}


@in_a_subreaper
def test_born_after_the_signal() -> None:
    """What the main process starts while it shuts down gets the signal when that is gone."""
    with Stage() as stage:
        tree = stage.start(
            "def leave(*_):\n"
            "    time.sleep(0.05)\n"
            "    signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
            "    say(child(forever))\n"
            "    os._exit(0)\n"
            "signal.signal(signal.SIGTERM, leave)\n"
            "say(1)\n"
            "forever()"
        )
        stage.says()
        hows, seconds, is_empty = stage.end(tree)
        assert (hows, is_empty) == ({tree.pid: "SIGTERM", stage.says(): "SIGTERM"}, True)
        assert seconds < 2


@in_a_subreaper
def test_unkillable(monkeypatch: pytest.MonkeyPatch) -> None:
    """What survives SIGKILL for ten seconds is reported, and the tree as not empty."""
    monkeypatch.setattr("holdfast.keeper.runs.kill_chain._KILL_SECONDS", 0.1)
    monkeypatch.setattr(Tree, "kill_each", lambda self, spared=(): self.processes())
    with Stage() as stage:
        tree = stage.start("ignore(); say(1); forever()")
        stage.says()
        hows, seconds, is_empty = stage.end(tree, grace=0)
        assert (hows, is_empty) == ({tree.pid: "unkillable"}, False)
        assert 0.1 <= seconds < 2


@pytest.mark.parametrize("cgroup", WAYS)
@in_a_subreaper
def test_adopted_run(cgroup: str) -> None:
    """A run that is not our child is ended with its descendants, without any reap."""
    with Stage(cgroup) as stage:
        born = stage.start(
            "daemon(lambda: (ignore(), say(os.getpid()), forever()))\n"
            "say(child(forever))\n"
            "forever()"
        )
        said = {stage.says(), stage.says()}
        tree = Tree(
            born.run_id, born.pid, born.start_time, born.cgroup, False, stage.cgroups, lambda: ()
        )
        hows, _, is_empty = stage.end(tree, grace=0.3)
        assert set(hows) == {born.pid} | said
        assert hows[born.pid] == "SIGTERM"
        assert KILLED_BY[cgroup] in hows.values()
        assert is_empty
        assert not any(map(is_alive, said))


@pytest.mark.parametrize("cgroup", WAYS)
@in_a_subreaper
def test_adopted_process_that_leads_no_group(cgroup: str) -> None:
    """An adopted process in somebody's group is signalled alone, with its descendants; also
    if it is paused."""
    with Stage(cgroup) as stage:
        code = (
            "signal.signal(signal.SIGTERM, lambda *_: os._exit(0))\n"
            "say(child(lambda: (say(child(forever)), forever())))\n"
            "forever()"
        )
        parent = stage.start(code, place=False)
        said = sorted((stage.says(), stage.says()))
        start_time = processes.start_time(said[0])
        assert start_time is not None
        path = stage.cgroups.create(f"adopted.{os.getpid()}")
        assert all(path is None or stage.cgroups.place(path, pid) for pid in said)
        tree = Tree("adopted", said[0], start_time, path, False, stage.cgroups, lambda: ())
        stage.trees[said[0]] = tree
        assert tree.pause()
        hows, _, is_empty = stage.end(tree)
        assert (hows, is_empty) == (dict.fromkeys(said, "SIGTERM"), True)
        assert is_alive(parent.pid)


@in_a_subreaper
def test_two_runs_do_not_touch_each_other() -> None:
    """Ending one run leaves the other and its daemon alone."""
    code = "daemon(lambda: (say(os.getpid()), forever()))\nforever()"
    with Stage() as stage:
        first, second = stage.start(code, "run-1"), stage.start(code, "run-2")
        mine, theirs = stage.says("run-1"), stage.says("run-2")
        hows, _, _ = stage.end(first)
        assert set(hows) == {first.pid, mine}
        assert is_alive(theirs)
        assert is_alive(second.pid)


@pytest.mark.parametrize("cgroup", WAYS)
@in_a_subreaper
def test_many_at_once(cgroup: str) -> None:
    """Thirty services end together, in the time of one."""
    with Stage(cgroup) as stage:
        trees = [stage.start("say(1); forever()", f"run-{n}") for n in range(30)]
        for number in range(30):
            stage.says(f"run-{number}")
        began = time.monotonic()
        for tree in trees:
            stage.begin(tree)
        stage.finish()
        hows = [stage.results[f"run-{number}"][0] for number in range(30)]
        assert hows == [{tree.pid: "SIGTERM"} for tree in trees]
        assert time.monotonic() - began < 10


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
@in_a_subreaper
def test_without_privileges() -> None:
    """A user without privileges ends a daemon of its own just as surely."""
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    with Stage("on") as stage:
        assert stage.cgroups.root is None
        shell = (
            "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' &"
            "while :; do sleep 1; done"
        )
        reader, writer = os.pipe()
        pid = os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", shell],
            {"HOLDFAST_RUN_ID": "run-1", "PATH": os.environ["PATH"]},
            file_actions=[(os.POSIX_SPAWN_DUP2, writer, 1)],
            setsid=True,
        )
        os.close(writer)
        stage.lines["run-1"] = reader
        daemon = stage.says()
        start_time = processes.start_time(pid)
        assert start_time is not None
        tree = Tree("run-1", pid, start_time, None, True, stage.cgroups, lambda: ())
        hows, _, is_empty = stage.end(tree, grace=0.1)
        assert (hows[pid], hows[daemon], is_empty) == ("SIGKILL", "SIGKILL", True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
@in_a_subreaper
def test_process_that_may_not_be_signalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of another user that we may not kill is called unkillable, not gone."""
    monkeypatch.setattr("holdfast.keeper.runs.kill_chain._KILL_SECONDS", 0.1)
    sleeper = os.posix_spawn("/bin/sleep", ["sleep", "100"], {}, setsid=True)
    start_time = processes.start_time(sleeper)
    assert start_time is not None
    os.setresuid(65534, 65534, 0)
    try:
        stage = Stage()
        tree = Tree("run-1", sleeper, start_time, None, True, stage.cgroups, lambda: ())
        hows, _, is_empty = stage.end(tree, grace=0.1)
    finally:
        os.setresuid(0, 0, 0)
    assert (hows, is_empty) == ({sleeper: "unkillable"}, False)


def test_process_is_small() -> None:
    """A process record has no dictionary: hundreds are made in a walk."""
    assert not hasattr(Process(1, 0, "init", "S", "0", 1, 1), "__dict__")


@in_a_subreaper
def test_an_ending_begun_by_another_keeper_signals_nobody_again() -> None:
    """It waits for the rest of the grace, then kills, and reports what the other one saw."""
    with Stage() as stage:
        tree = stage.start(
            "signal.signal(signal.SIGTERM, lambda *_: say(7))\nsay(1)\nwhile True: time.sleep(9)"
        )
        stage.says()
        first = stage.begin(tree, grace=30)
        assert stage.says() == 7
        state = first.state(is_whole=True)
        state["grace"] = 0.2
        state["seen"].append([999_999_999, "1", "gone", "SIGTERM"])
        first.is_done = True  # its keeper is no more
        stage.endings.clear()
        stage.begin(tree, grace=state["grace"], earlier=state)
        stage.finish()
        hows, seconds, is_empty = stage.results["run-1"]
        assert (hows, is_empty) == ({tree.pid: "SIGKILL", 999_999_999: "SIGTERM"}, True)
        assert seconds >= 0.2
        with pytest.raises(AssertionError):
            stage.says()


@in_a_subreaper
def test_who_left_the_group_in_time_is_signalled_by_the_next_keeper() -> None:
    """It may have been in the group when that was signalled, and is signalled once more if it
    was not seen there afterwards; who was, is not."""
    with Stage() as stage:
        told = "signal.signal(signal.SIGTERM, lambda *_: say(7))\n    "
        tree = stage.start(
            f"def listen():\n    os.setsid()\n    {told}say(os.getpid())\n"
            "    while True: time.sleep(9)\n"
            "child(listen)\nforever()"
        )
        left = processes.process(stage.says())
        assert left is not None
        earlier: EndState = {"signal": signal.SIGTERM, "grace": 9.0, "signalled": True}
        earlier["seen"] = [[left.pid, left.start_time, left.name, "SIGTERM"]]
        earlier["reached"] = []
        os.kill(tree.pid, signal.SIGKILL)
        wait_for(lambda: not is_alive(tree.pid))
        stage.begin(tree, grace=9.0, earlier=earlier)
        assert stage.says() == 7


@in_a_subreaper
def test_an_ending_handed_over_while_killing_goes_on_killing() -> None:
    """No grace is granted to what was being killed already."""
    with Stage() as stage:
        tree = stage.start("ignore()\nsay(1)\nforever()")
        stage.says()
        earlier: EndState = {"signal": signal.SIGTERM, "grace": 0.0, "signalled": True}
        earlier["ago"] = 5.0
        stage.begin(tree, grace=0.0, earlier=earlier)
        stage.finish()
        hows, seconds, is_empty = stage.results["run-1"]
        assert (hows, is_empty) == ({tree.pid: "SIGKILL"}, True)
        assert 5.0 <= seconds < 7.0
