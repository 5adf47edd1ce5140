"""A small keeper for one test: a forked subreaper that runs, reaps and ends real processes.

The test body runs in a child of the test process, so that being a subreaper, losing
privileges and waiting for any child stay inside it. Whatever was started is killed.
"""

from __future__ import annotations

import functools
import os
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from holdfast.keeper.loop import Loop
from holdfast.keeper.processes.cgroups import Cgroups
from holdfast.keeper.processes.tree import Tree
from holdfast.keeper.protocol.messages import EndedProcess, EndState
from holdfast.keeper.runs.kill_chain import KillChain
from holdfast.system import kernel_files, own_process, processes

P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT_SECONDS = 60.0


def has_cgroups() -> bool:
    """Whether this machine lets us make cgroups at all."""
    cgroups = Cgroups(f"probe{os.getpid()}")
    is_there = cgroups.root is not None
    cgroups.close()
    return is_there


def wait_for(probe: Callable[[], T], seconds: float = 30.0) -> T:
    """The probe's first true answer; fails after the deadline."""
    deadline = time.monotonic() + seconds
    while not (answer := probe()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {answer!r}"
        time.sleep(0.005)
    return answer


def in_a_subreaper(body: Callable[P, None]) -> Callable[P, None]:
    """Run the test in a forked subreaper, and kill its descendants afterwards."""

    @functools.wraps(body)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        reader, writer = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            _run_in_child(lambda: body(*args, **kwargs), writer)
        os.close(writer)
        message = b""
        try:
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while select.select([reader], [], [], max(0.0, deadline - time.monotonic()))[0]:
                if not (data := os.read(reader, 65536)):
                    break
                message += data
            else:
                message += b"the test did not end"
        finally:
            os.close(reader)
            for victim in (*_descendants(pid), pid):
                _kill(victim)
            os.waitpid(pid, 0)
        assert not message, message.decode()

    return run


def _run_in_child(body: Callable[[], None], writer: int) -> None:
    try:
        os.setpgid(0, 0)
        assert own_process.set_subreaper()
        body()
    except BaseException:
        os.write(writer, traceback.format_exc().encode())
    finally:
        for _ in range(200):
            if not (victims := _descendants(os.getpid())):
                break
            for victim in victims:
                _kill(victim)
            _reap_all()
        os._exit(0)


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        found.extend(processes.children(parent))
    return found[1:]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _reap_all() -> list[int]:
    reaped: list[int] = []
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return reaped
        if pid == 0:
            return reaped
        reaped.append(pid)


class Stage:
    """Starts runs as the keeper does, and ends them on a real loop."""

    def __init__(self, cgroup: str = "off") -> None:
        os.environ["HOLDFAST_CGROUP"] = "off" if cgroup == "off" else ""
        self.loop = Loop()
        self.cgroups = Cgroups(f"test{os.getpid()}")
        self.trees: dict[int, Tree] = {}
        self.endings: list[KillChain] = []
        self.results: dict[str, tuple[dict[int, str], float, bool]] = {}
        self.lines: dict[str, int] = {}
        self.loop.on_signal(signal.SIGCHLD, self.reap)

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *exception: object) -> None:
        for _ in range(200):
            victims = _descendants(os.getpid())
            for victim in victims:
                _kill(victim)
            _reap_all()
            if not victims:
                break
        for tree in self.trees.values():
            if tree.cgroup is not None:
                wait_for(functools.partial(self._is_left, tree.cgroup))
                self.cgroups.remove(tree.cgroup)
        self.cgroups.close()

    def _is_left(self, path: str) -> bool:
        return not self.cgroups.is_populated(path)

    def start(self, code: str, name: str = "run-1", place: bool = True) -> Tree:
        """A run of Python code in its own session, with its cookie."""
        # As unique as in life: other tests may scan the machine at the same time.
        run_id = f"{name}.{os.getpid()}"
        reader, writer = os.pipe()
        gate, opener = os.pipe()
        environment = {**os.environ, "HOLDFAST_RUN_ID": run_id}
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-c", PRELUDE + code],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, writer, 1),
                (os.POSIX_SPAWN_DUP2, gate, 0),
            ],
            setsid=True,
        )
        os.close(writer)
        os.close(gate)
        self.lines[name] = reader
        path = self.cgroups.create(run_id) if place else None
        if path is not None:
            assert self.cgroups.place(path, pid)
        # Only now, so that nothing is forked before the run is in its cgroup.
        os.close(opener)
        start_time = processes.start_time(pid)
        assert start_time is not None
        tree = Tree(run_id, pid, start_time, path, True, self.cgroups, lambda: self.others(pid))
        self.trees[pid] = tree
        return tree

    def others(self, pid: int) -> set[int]:
        return {main for main in self.trees if main != pid}

    def says(self, name: str = "run-1") -> int:
        """The next number that a run prints: mostly a pid."""
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self.lines[name]], [], [], 30)
            byte = os.read(self.lines[name], 1) if ready else b""
            assert byte, "the run printed nothing"
            line += byte
        return int(line)

    def reap(self) -> None:
        if _reap_all():
            for ending in self.endings:
                ending.check()

    def members(self, tree: Tree) -> set[int]:
        """The pids of a tree, after a reap."""
        self.reap()
        return {process.pid for process in tree.processes()}

    def wait_until_empty(self, tree: Tree) -> None:
        wait_for(lambda: not self.members(tree) and tree.is_empty())

    def begin(
        self,
        tree: Tree,
        number: int = signal.SIGTERM,
        grace: float = 5.0,
        earlier: EndState | None = None,
    ) -> KillChain:
        def on_done(report: list[EndedProcess], seconds: float, is_empty: bool) -> None:
            hows = {int(entry["pid"]): str(entry["how"]) for entry in report}
            self.results[_name(tree)] = (hows, seconds, is_empty)

        ending = KillChain(tree, number, grace, self.loop, on_done, earlier)
        self.endings.append(ending)
        return ending

    def finish(self, seconds: float = 30.0) -> None:
        """Run the loop until every ending has reported."""
        deadline = time.monotonic() + seconds

        def look() -> None:
            if len(self.results) == len(self.endings) or time.monotonic() > deadline:
                self.loop.stop()
            else:
                self.loop.call_later(0.005, look)

        look()
        self.loop.run()
        assert len(self.results) == len(self.endings), "an ending did not report"

    def end(
        self, tree: Tree, number: int = signal.SIGTERM, grace: float = 5.0
    ) -> tuple[dict[int, str], float, bool]:
        self.begin(tree, number, grace)
        self.finish()
        return self.results[_name(tree)]


def _name(tree: Tree) -> str:
    return tree.run_id.partition(".")[0]


def is_alive(pid: int) -> bool:
    process = processes.process(pid)
    return process is not None and process.is_alive


def cpu_ticks(pid: int) -> int:
    data = kernel_files.read(f"/proc/{pid}/stat") or b""
    fields = data[data.rfind(b")") + 2 :].split()
    return int(fields[11]) + int(fields[12])


PRELUDE = """
import os, signal, sys, time
os.read(0, 1)
def say(number):
    os.write(1, b"%d\\n" % number)
def forever():
    while True: time.sleep(100)
def ignore():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
def daemon(body):
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        body()
        os._exit(0)
    os.waitpid(pid, 0)
def child(body):
    pid = os.fork()
    if pid == 0:
        body()
        os._exit(0)
    return pid
"""

# Ten processes, each of which forks its successor into a new session and exits. Their
# number never grows, and they give up by themselves.
FLEEING = """
until = time.monotonic() + 4
def flee():
    while time.monotonic() < until:
        try:
            if os.fork(): os._exit(0)
        except OSError: os._exit(0)
        os.setsid()
        time.sleep(0.005)
for _ in range(10): child(flee)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
ignore()
say(1)
forever()
"""
