"""The life of runs: output, exits, leftovers, terminals, leases."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.keeper.processes.tree import Tree
from holdfast.keeper.protocol.connections import hand_parts
from holdfast.keeper.runs.exits import Exits
from holdfast.keeper.runs.leases import RunLease
from holdfast.keeper.runs.run import HeldRun
from holdfast.system import processes
from tests.keeper.conftest import KeeperProcess, Message, is_alive, wait_for
from tests.keeper.stage import in_a_subreaper

pytestmark = pytest.mark.unprivileged


@pytest.mark.parametrize(
    ("script", "code", "number"), [("exit 7", 7, None), ("kill -9 $$", None, 9)]
)
def test_how_it_ended(
    keeper: KeeperProcess, script: str, code: int | None, number: int | None
) -> None:
    """Exit codes and signals are told apart."""
    keeper.spawn("sh", "-c", script)
    ended = keeper.exit_of(keeper.last)
    assert (ended["code"], ended["signal"], ended["unknown"]) == (code, number, False)
    assert ended["empty"]


def test_resource_usage(keeper: KeeperProcess) -> None:
    """An exit carries what the run has used."""
    keeper.spawn(
        sys.executable, "-I", "-c", "x = bytearray(30_000_000)\nfor i in range(10**6): pass"
    )
    ended = keeper.exit_of(keeper.last)
    assert ended["rusage"]["user"] > 0
    assert ended["rusage"]["max_rss"] > 30_000
    assert 0 < ended["seconds"] < 60
    assert ended["ended_at"] > ended["started_at"]


def test_last_line_is_never_lost(keeper: KeeperProcess) -> None:
    """When an exit is announced, all that was printed before is in the log."""
    for number in range(30):
        size = number * 3000
        keeper.spawn(
            "sh", "-c", f"head -c {size} /dev/zero; echo last; echo err >&2", service=f"s{number}"
        )
        ended = keeper.exit_of(keeper.last)
        assert len(keeper.output(f"s{number}")) == size + 5
        assert keeper.output(f"s{number}").endswith(b"last\n")
        assert keeper.output(f"s{number}", "err") == b"err\n"
        assert ended["log_bytes"] == size + 9


def test_end_waits_for_the_tree(keeper: KeeperProcess) -> None:
    """A stop is finished only when every descendant is gone."""
    script = "(trap '' TERM; setsid sleep 1000) & trap 'exit 0' TERM; echo up; wait"
    keeper.spawn("sh", "-c", script)
    run_id = keeper.last
    keeper.wait_output(run_id, b"up")
    wait_for(lambda: len(keeper.link.do("tree", run_id=run_id)["processes"]) >= 2)
    pids = [it["pid"] for it in keeper.link.do("tree", run_id=run_id)["processes"]]
    keeper.link.do("end", run_id=run_id, grace=0.3)
    ended = keeper.link.notice("ended")
    assert ended["run_id"] == run_id
    assert ended["empty"]
    assert {it["pid"] for it in ended["report"]} >= set(pids)
    assert not any(is_alive(pid) for pid in pids)
    assert keeper.link.do("list")["runs"] == []


def test_leftovers_are_ended(keeper: KeeperProcess) -> None:
    """What a dead main process leaves behind is ended and reported."""
    keeper.spawn("sh", "-c", "setsid sleep 1000 & echo $!; exit 0")
    run_id = keeper.last
    ended = keeper.exit_of(run_id)
    assert not ended["empty"]
    assert ended["leftovers"]
    report = keeper.link.notice("ended")
    assert report["run_id"] == run_id
    assert not any(is_alive(pid) for pid in ended["leftovers"])


def test_end_again_shortens(keeper: KeeperProcess) -> None:
    """A second end with less grace is heeded."""
    keeper.spawn("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    keeper.wait_output(keeper.last, b"up")
    keeper.link.do("end", run_id=keeper.last, grace=60)
    keeper.link.do("end", run_id=keeper.last, grace=0)
    assert keeper.exit_of(keeper.last)["signal"] == 9
    keeper.link.notice("ended")


def test_pause_and_resume(keeper: KeeperProcess) -> None:
    """A paused run prints nothing until it is resumed."""
    keeper.spawn("sh", "-c", "while :; do echo tick; sleep 0.02; done")
    run_id = keeper.last
    keeper.wait_output(run_id, b"tick")
    keeper.link.do("pause", run_id=run_id)
    assert keeper.link.do("list")["runs"][0]["paused"]
    size = len(keeper.output(run_id))
    wait_for(lambda: _is_still(keeper, run_id), what="silence")
    size = len(keeper.output(run_id))
    keeper.link.do("resume", run_id=run_id)
    wait_for(lambda: len(keeper.output(run_id)) > size)


def _is_still(keeper: KeeperProcess, run_id: str) -> bool:
    before = len(keeper.output(run_id))
    time.sleep(0.2)
    return len(keeper.output(run_id)) == before


def test_stdin(keeper: KeeperProcess) -> None:
    """Input reaches the run; its end closes it, once the supervisor's spare is closed too."""
    answer = keeper.spawn("cat", stdin="pipe")
    keeper.write(keeper.last, b"one\n")
    keeper.wait_output(keeper.last, b"one\n")
    keeper.write(keeper.last, b"two\n", eof=True)
    keeper.link.notice("stdin_closed")
    os.close(answer["spare"]["stdin"])
    keeper.link._fds.remove(answer["spare"]["stdin"])
    assert keeper.exit_of(keeper.last)["code"] == 0
    assert keeper.output(keeper.last) == b"one\ntwo\n"


def test_stdin_is_bounded(keeper: KeeperProcess) -> None:
    """A run that does not read costs at most a megabyte, and blocks nobody."""
    keeper.spawn("sleep", "1000", stdin="pipe")
    answers = [keeper.write(keeper.last, b"x" * 100_000) for _ in range(15)]
    codes = [answer.get("error", {}).get("code") for answer in answers]
    assert codes[0] is None
    assert codes[-1] == "buffer_full"
    assert keeper.link.do("list")["runs"]


def test_big_input_is_not_lost(keeper: KeeperProcess) -> None:
    """What was accepted arrives whole and in order."""
    keeper.spawn("sh", "-c", "sleep 0.2; exec cat", stdin="pipe")
    data = b"".join(b"%07d\n" % number for number in range(100_000))
    for start in range(0, len(data), 200_000):
        assert keeper.write(keeper.last, data[start : start + 200_000])["ok"]
    wait_for(lambda: len(keeper.output(keeper.last)) == len(data))
    assert keeper.output(keeper.last) == data


def _terminal(keeper: KeeperProcess, *argv: str, **fields: object) -> str:
    keeper.spawn(*argv, kind="terminal", **fields)
    return keeper.last


def test_terminal_size_and_name(keeper: KeeperProcess) -> None:
    """A terminal has its size and type, and is the controlling one."""
    run_id = _terminal(keeper, "sh", "-c", "stty size; echo $TERM; tty; echo hi >/dev/tty")
    keeper.exit_of(run_id)
    lines = keeper.output(run_id).decode().split("\r\n")
    assert lines[:2] == ["24 80", "xterm-color"]
    assert lines[2].startswith("/dev/pts/")
    assert lines[3] == "hi"


def test_terminal_resize(keeper: KeeperProcess) -> None:
    """A resize is seen by the program in the foreground."""
    script = "trap 'stty size' WINCH; echo up; while :; do sleep 0.02; done"
    run_id = _terminal(keeper, "bash", "-c", script, cols=100, rows=30)
    keeper.wait_output(run_id, b"up")
    keeper.link.do("resize", run_id=run_id, cols=132, rows=43)
    keeper.wait_output(run_id, b"43 132")


def test_terminal_interrupt(keeper: KeeperProcess) -> None:
    """Ctrl-C interrupts the foreground job of a shell, and the shell goes on."""
    run_id = _terminal(keeper, "bash", "--norc", "-i")
    keeper.write(run_id, b"echo ma''rk; sleep 1000\n")
    keeper.wait_output(run_id, b"mark\r\n")
    wait_for(lambda: b"sleep" in _names(keeper, run_id), what="the job")
    keeper.write(run_id, b"\x03")
    keeper.write(run_id, b"echo status $?\n")
    keeper.wait_output(run_id, b"status 130")
    keeper.write(run_id, b"", eof=True)
    assert keeper.exit_of(run_id)["code"] == 0


def _names(keeper: KeeperProcess, run_id: str) -> bytes:
    return " ".join(
        it["name"] for it in keeper.link.do("tree", run_id=run_id)["processes"]
    ).encode()


def test_job_lease_expires(keeper: KeeperProcess) -> None:
    """A lease that nobody renews ends the run, and the exit says why."""
    keeper.spawn("sleep", "1000", lease={"seconds": 0.2, "kind": "job"})
    ended = keeper.exit_of(keeper.last)
    assert ended["cause"] == "lease"


def test_lease_renewed_and_dropped(keeper: KeeperProcess) -> None:
    """A renewed lease lasts, and one that was taken away never ends the run."""
    runs = []
    for seconds in (1000.0, None):
        keeper.spawn("sleep", "1000", lease={"seconds": 1.5, "kind": "job"})
        keeper.link.do("lease", run_id=keeper.last, seconds=seconds, kind="job")
        runs.append(keeper.last)
    keeper.spawn("sleep", "1000", lease={"seconds": 1.5, "kind": "job"})
    assert keeper.exit_of(keeper.last)["cause"] == "lease"
    left = {run["run_id"]: run["lease"] for run in keeper.link.do("list")["runs"]}
    assert list(left) == runs
    assert left[runs[1]] is None


def test_a_paused_lease_goes_on_with_what_was_left() -> None:
    """Neither a pause nor another keeper grants the whole time anew."""
    clock = 0.0

    def call_later(seconds: float, call: Any) -> Any:
        return SimpleNamespace(due=clock + seconds, cancel=lambda: None)

    loop = cast("Any", SimpleNamespace(now=lambda: clock, call_later=call_later))
    lease = RunLease(10.0, "session", loop, lambda: None)
    lease.arm()
    clock = 4.0
    lease.pause()
    clock = 100.0
    assert lease.remaining() == 6.0
    lease.arm()
    clock = 101.0
    assert lease.remaining() == 5.0
    successors = RunLease(10.0, "session", loop, lambda: None, remaining=lease.remaining())
    successors.arm()
    assert successors.remaining() == 5.0


def test_session_lease_pauses_without_supervisor(keeper: KeeperProcess) -> None:
    """Without a supervisor a session's run lives on while a job's does not."""
    session = keeper.spawn("sleep", "1000", lease={"seconds": 1.5, "kind": "session"})
    job = keeper.spawn("sleep", "1000", lease={"seconds": 1.5, "kind": "job"})
    keeper.link.sock.close()
    wait_for(lambda: not is_alive(job["pid"]))
    assert is_alive(session["pid"])
    ended = keeper.control().do("list")["exits"]
    assert [it["cause"] for it in ended] == ["lease"]


def test_recording_without_supervisor(keeper: KeeperProcess) -> None:
    """Output is recorded and exits are kept with nobody connected."""
    keeper.spawn("sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 0.05; done; exit 4")
    run_id = keeper.last
    keeper.link.sock.close()
    control = keeper.control()
    wait_for(lambda: control.do("list")["exits"])
    [ended] = control.do("list")["exits"]
    assert (ended["run_id"], ended["code"]) == (run_id, 4)
    assert keeper.output(run_id) == b"1\n2\n3\n4\n5\n"


def test_adopt(keeper: KeeperProcess) -> None:
    """A foreign process can be adopted by its identity, stopped, and its code known."""
    pid = _orphan("sleep 1000")
    run = keeper.link.do("adopt", run_id="run-a", service="a", number=1, pid=pid)
    assert run["adopted"]
    wrong = keeper.link.ask(
        "adopt", run_id="run-b", service="b", number=1, pid=os.getpid(), start_time="1"
    )
    assert wrong["error"]["code"] == "identity_mismatch"
    # Without a boot, pid and start time may fit by chance: its environment would have to agree.
    facts: dict[str, Any] = {"pid": os.getpid(), "start_time": processes.start_time(os.getpid())}
    unmarked = keeper.link.ask("adopt", run_id="b", service="b", number=1, cookie=True, **facts)
    assert unmarked["error"]["code"] == "identity_unknown"
    facts["boot_id"] = "another"
    other = keeper.link.ask("adopt", run_id="b", service="b", number=1, cookie=True, **facts)
    assert other["error"]["code"] == "identity_mismatch"
    keeper.link.do("end", run_id="run-a", signal=15, grace=5)
    ended = keeper.exit_of("run-a")
    assert ended["signal"] == 15 or ended["unknown"]
    assert not is_alive(pid)


def test_end_rest(keeper: KeeperProcess) -> None:
    """What a run left is ended whole, and answered for when it is gone; not while it lives."""
    out = _output_of(keeper, "sh", "-c", "echo $HOLDFAST_STATE")
    marks = {"HOLDFAST_RUN_ID": "run-a", "HOLDFAST_SERVICE": "a", "HOLDFAST_STATE": out}
    pid = _orphan("sh -c 'trap : TERM; while :; do sleep 0.1; done' 2>/dev/null", marks)
    asked: Message = {
        "run_id": "run-a",
        "service": "a",
        "number": 1,
        "stop": {"signal": 15, "grace": 0.2},
    }
    [stray] = keeper.link.do("strays")["strays"]
    assert (stray["run_id"], stray["start_time"]) == ("run-a", "")
    start_time = processes.start_time(pid)
    lives = keeper.link.ask("end_rest", **asked, pid=pid, start_time=start_time)
    assert lives["error"]["code"] == "exists"
    ended = keeper.link.do("end_rest", **asked)
    assert pid in ended["pids"]
    assert not is_alive(pid)
    assert keeper.link.do("end_rest", **asked)["pids"] == []
    assert not keeper.link.do("list")["runs"]
    keeper.spawn("sleep", "1000")
    assert keeper.link.ask("end_rest", run_id=keeper.last)["error"]["code"] == "exists"


def _output_of(keeper: KeeperProcess, *argv: str) -> str:
    keeper.spawn(*argv)
    run_id = keeper.last
    keeper.exit_of(run_id)
    return keeper.output(run_id).decode().strip()


def _orphan(script: str, marks: dict[str, str] | None = None) -> int:
    """The pid of a process whose parent has gone to somebody who reaps it."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        environ = {**os.environ, **(marks or {})}
        pid = os.posix_spawn("/bin/sh", ["sh", "-c", f"exec {script}"], environ)
        os.write(writer, str(pid).encode())
        os._exit(0)
    os.wait()
    os.close(writer)
    pid = int(os.read(reader, 20))
    os.close(reader)
    return pid


def test_no_children_escape_the_cgroup(keeper: KeeperProcess) -> None:
    """A service that forks at once is wholly inside its cgroup soon after."""
    if not keeper.hello["host"]["cgroup"]:
        pytest.skip("no writable cgroup here")
    keeper.spawn("sh", "-c", "for i in 1 2 3 4 5 6; do (sleep 1000 & sleep 1000) & done; wait")
    run_id = keeper.last

    def count() -> tuple[int, int]:
        [run] = keeper.link.do("list")["runs"]
        if run["cgroup"] is None:
            return 0, -1
        inside = Path(run["cgroup"], "cgroup.procs").read_text().split()
        return len(inside), len(keeper.link.do("tree", run_id=run_id)["processes"])

    wait_for(lambda: count()[0] == count()[1] >= 13, what="all inside")
    cgroup = keeper.link.do("list")["runs"][0]["cgroup"]
    keeper.link.do("end", run_id=run_id, grace=0)
    keeper.link.notice("ended")
    wait_for(lambda: not os.path.exists(cgroup), what="its removal")


def test_signal(keeper: KeeperProcess) -> None:
    """A signal reaches the main process only, if so asked."""
    keeper.spawn("sh", "-c", "trap 'echo usr1' USR1; echo up; while :; do sleep 0.02; done")
    keeper.wait_output(keeper.last, b"up")
    keeper.link.do("signal", run_id=keeper.last, signal=int(signal.SIGUSR1), to="main")
    keeper.wait_output(keeper.last, b"usr1")


def test_idle_costs_nothing(keeper: KeeperProcess) -> None:
    """A keeper whose services are quiet uses no CPU at all."""
    for _ in range(5):
        keeper.spawn("sleep", "1000")
    keeper.link.do("list")

    def ticks() -> str:
        return " ".join(
            Path(f"/proc/{keeper.pid}/sched").read_text().split("nr_switches")[1].split()[:2]
        )

    wait_for(lambda: _settled(ticks), what="rest")


def _settled(ticks: object) -> bool:
    assert callable(ticks)
    before = ticks()
    time.sleep(1.0)
    return bool(ticks() == before)


@pytest.mark.parametrize(
    "bad", [{"lease": {"seconds": "soon"}}, {"stop": {"grace": "long"}}, {"number": "first"}]
)
@pytest.mark.parametrize("kind", ["service", "task"])
def test_nothing_lives_on_unknown(keeper: KeeperProcess, bad: dict[str, Any], kind: str) -> None:
    """A run that cannot be taken care of is refused, and its process does not stay."""
    before = len(os.listdir(f"/proc/{keeper.pid}/fd"))
    asked = keeper.request("sleep", "1000", kind=kind, **bad)
    answer = keeper.link.ask("spawn", **asked)
    assert (answer["ok"], answer["error"]["code"]) == (False, "bad_request")

    def left() -> list[int]:
        leaders = [
            it.pid for it in processes.all_processes() if it.session == it.pid and it.is_alive
        ]
        return [pid for pid in leaders if processes.run_id_of(pid) == asked["run_id"]]

    wait_for(lambda: not left(), what="its end")
    wait_for(lambda: not keeper.link.do("list")["runs"], what="the table to be empty")
    wait_for(lambda: len(os.listdir(f"/proc/{keeper.pid}/fd")) <= before + 2)
    keeper.spawn("true")
    assert keeper.exit_of(keeper.last)["code"] == 0


@in_a_subreaper
def test_a_failing_listener_costs_no_exit() -> None:
    """Exits that were reaped together are told, whatever another listener does."""
    told: list[int] = []

    def fail(status: int) -> None:
        raise OSError(24, "Too many open files")

    pids = [os.posix_spawn("/bin/true", ["true"], {}) for _ in range(3)]
    children = SimpleNamespace(by_pid={}, runs={}, others={}, identify=lambda: None)
    children.others = {pids[0]: fail, pids[1]: told.append, pids[2]: told.append}
    exits = Exits(cast("Any", children), *cast("Any", [None] * 4))
    for pid in pids:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    exits.reap()
    assert told == [0, 0]


@in_a_subreaper
def test_in_which_order_a_run_ends() -> None:
    """When an exit is told, all it printed can be read and the exit is on disk; before a run is
    let go, what its last process printed is taken."""
    done: list[str] = []

    def note(what: str) -> Any:
        return lambda *_: done.append(what)

    pid = os.posix_spawn("/bin/true", ["true"], {})
    tree = Tree("r", pid, "", None, True, cast("Any", None), lambda: ())
    run = HeldRun({"run_id": "r", "service": "s"}, tree)
    run.sources = cast("Any", [SimpleNamespace(drain=note("drained"), detach=note("let go"))])
    run.recorder = cast("Any", SimpleNamespace(flush=note("visible")))
    children = SimpleNamespace(by_pid={pid: run}, runs={"r": run}, others={})
    children.identify = children.unwatch = note("")
    children.records = SimpleNamespace(over=note(""))
    logs, journal = SimpleNamespace(leave=note("closed")), SimpleNamespace(add=note("on disk"))
    exits = Exits(*cast("Any", [children, None, logs, journal, note("told")]))
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    exits.reap()
    assert [it for it in done if it] == [
        *("drained", "visible", "on disk", "told"),
        *("drained", "let go", "visible", "closed"),
    ]


@in_a_subreaper
def test_a_fault_about_one_that_ended_costs_no_other_its_exit() -> None:
    """Whatever fails when the first of many is let go, or the second looked at, all are written
    down and told; of whom nobody knows what it left, that is looked for."""
    runs: dict[int, HeldRun] = {}
    for number in range(40):
        pid = os.posix_spawn("/bin/true", ["true"], {})
        tree = Tree(f"r{number}", pid, "", None, True, cast("Any", None), lambda: tuple(runs))
        runs[pid] = HeldRun({"run_id": f"r{number}", "service": "s"}, tree)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    first, second, *_ = runs.values()
    first.sources = cast("Any", [SimpleNamespace(drain=lambda _: None)])  # cannot be let go
    second.sources = cast("Any", [SimpleNamespace()])  # cannot be read
    children = SimpleNamespace(by_pid=dict(runs), runs={it.run_id: it for it in runs.values()})
    children.others, children.identify, children.unwatch = {}, lambda: None, lambda _: None
    children.records = SimpleNamespace(over=lambda _: None)
    written: list[str] = []
    told: list[str] = []
    journal = SimpleNamespace(add=lambda exits: written.extend(it["run_id"] for it in exits))
    exits = Exits(
        *cast("Any", [children, None, None, journal, lambda notice: told.append(notice["run_id"])])
    )
    sought: list[HeldRun] = []
    exits.begin = lambda run, *_: sought.append(run)  # type: ignore[method-assign]
    complaints: list[Any] = []
    sys.excepthook = lambda *complaint: complaints.append(complaint)
    exits.reap()
    every = [run.run_id for run in runs.values()]
    assert (sorted(written), sorted(told)) == (sorted(every), sorted(every))
    assert (len(complaints), children.runs, sought) == (2, {second.run_id: second}, [second])


@in_a_subreaper
def test_a_collected_child_is_not_looked_for_by_its_pid() -> None:
    """Another process may have it: neither its start time nor a pidfd of it is the run's."""
    pid = os.posix_spawn("/bin/true", ["true"], {})
    tree = Tree("r", pid, "", None, True, cast("Any", None), lambda: ())
    run = HeldRun({"run_id": "r", "service": "s"}, tree)
    # Nothing was learned in time, as where descriptors are short.
    children = SimpleNamespace(by_pid={pid: run}, runs={}, others={}, identify=lambda: None)
    exits = Exits(cast("Any", children), *cast("Any", [None] * 4))
    told: list[Any] = []
    link = cast("Any", SimpleNamespace(send=lambda message, _: told.append(message)))
    exits._on_exits = lambda ended: hand_parts(link, {}, run)  # type: ignore[method-assign]
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    processes.start_time = lambda pid: "another's"
    processes.pidfd_open = lambda pid: os.open(os.devnull, os.O_RDONLY)
    exits.reap()
    assert told == [{"start_time": "", "parts": []}]


def test_where_several_are_ended_the_next_comes_before_the_dead() -> None:
    """Who ends many runs has all of them signalled first; one alone is reaped at once."""
    clock = 5.0
    later: list[tuple[float, Any]] = []
    loop = SimpleNamespace(now=lambda: clock, call_later=lambda *call: later.append(call))
    exits = Exits(*cast("Any", [None, loop, None, None, None]))
    exits.begin = lambda *_: None  # type: ignore[method-assign]
    reaped: list[float] = []
    exits.reap = lambda: reaped.append(clock)  # type: ignore[method-assign]

    def end_at(*moments: float) -> None:
        nonlocal clock
        for clock in moments:  # noqa: B007 - the loop's
            exits.end(cast("Any", SimpleNamespace()), 15, 5.0)

    end_at(clock)
    exits.on_child_signal()
    assert reaped == [5.0]
    end_at(5.002, 5.006)
    exits.on_child_signal()
    seconds, again = later.pop()
    assert (reaped, round(seconds, 6)) == ([5.0], 0.005)
    clock = 5.012
    again()
    assert (reaped, later) == ([5.0, 5.012], [])
    end_at(5.1, 5.101)
    exits.on_child_signal()
    end_at(5.105, 5.109, 5.113, 5.117, 5.121, 5.125, 5.129, 5.133)
    later.pop()[1]()
    assert reaped == [5.0, 5.012, 5.133], "for a moment, not for ever"


def test_requests_that_wait_come_before_the_ended() -> None:
    """A crowd of requests puts the reaping off, for a moment and not for ever."""
    clock = 5.0
    later: list[Any] = []
    loop = SimpleNamespace(now=lambda: clock, call_later=lambda _, call: later.append(call))
    exits = Exits(*cast("Any", [None, loop, None, None, None]))
    reaped: list[float] = []
    exits.reap = lambda: reaped.append(clock)  # type: ignore[method-assign]
    exits.on_child_signal()
    assert reaped == [5.0]
    exits.has_requests = lambda: True
    exits.on_child_signal()
    exits.on_child_signal()
    assert reaped == [5.0]
    clock = 5.02
    later.pop()()
    assert reaped == [5.0]
    clock = 5.04
    later.pop()()
    assert (reaped, later) == ([5.0, 5.04], [])
    exits.has_requests = lambda: False
    exits.on_child_signal()
    assert reaped == [5.0, 5.04, 5.04]
