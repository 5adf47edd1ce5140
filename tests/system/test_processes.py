"""Facts about processes, and signals that reach nobody else."""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.adapters.metrics import linux
from holdfast.client import survivors
from holdfast.system import kernel_files, processes
from tests.keeper.stage import Stage, in_a_subreaper, wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads procfs")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "100"]) as process:
        try:
            yield process
        finally:
            process.kill()


def test_boot_id_is_stable() -> None:
    """The boot id is there and the same at each call."""
    assert processes.boot_id() == processes.boot_id() != ""


def test_process_facts(sleeper: subprocess.Popen[bytes]) -> None:
    """A process is described with its parent, name, session and group."""
    wait_for(lambda: (found := processes.process(sleeper.pid)) and found.name == "sleep")
    found = processes.process(sleeper.pid)
    assert found is not None
    assert (found.ppid, found.session, found.pgid) == (os.getpid(), os.getsid(0), os.getpgid(0))
    assert found.is_alive
    assert found.start_time == processes.start_time(sleeper.pid)


@pytest.mark.parametrize("name", ["a) b (c", ") S 1 (", "((", "x )"])
def test_odd_names(name: str, tmp_path: Path) -> None:
    """A name with spaces and parentheses does not confuse the fields after it."""
    link = tmp_path / name
    link.symlink_to("/bin/sleep")
    with subprocess.Popen([str(link), "100"]) as process:
        try:
            wait_for(lambda: (found := processes.process(process.pid)) and found.name == name)
            found = processes.process(process.pid)
            assert found is not None
            assert (found.ppid, found.state in "RS") == (os.getpid(), True)
            assert found.start_time.isdigit()
        finally:
            process.kill()


def test_vanished_process() -> None:
    """A process that is gone has no facts, no children and takes no signal."""
    process = subprocess.Popen(["true"])
    start_time = processes.start_time(process.pid)
    assert start_time is not None
    process.wait()
    assert processes.process(process.pid) is None
    assert processes.start_time(process.pid) is None
    assert processes.children(process.pid) == []
    assert processes.run_id_of(process.pid) is None
    assert processes.pidfd_open(process.pid) is None
    assert not processes.send_signal(process.pid, start_time, 0)
    assert not processes.send_group_signals(process.pid, start_time, (0,))


def test_zombie_is_not_alive() -> None:
    """A process that waits to be reaped counts as dead."""
    with subprocess.Popen(["true"]) as process:
        wait_for(lambda: (found := processes.process(process.pid)) and found.state == "Z")
        found = processes.process(process.pid)
        assert found is not None
        assert not found.is_alive
        assert not processes.send_signal(process.pid, found.start_time, 0)


def test_every_reader_agrees_on_a_leader_that_left_its_threads() -> None:
    """Shown as a zombie, it runs: for the keeper, the sampler and the command line alike."""
    code = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(1000,)).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as leader:
        try:
            wait_for(lambda: (found := processes.process(leader.pid)) and found.state == "Z")
            found = processes.live_process(leader.pid)
            assert found is not None
            assert found.threads == 2
            assert survivors.is_running(leader.pid, found.start_time)
            sampled = linux.sample_process(leader.pid)
            assert sampled is not None
            assert (sampled.threads, sampled.start_time) == (2, found.start_time)
            assert processes.zombie_exit_status(leader.pid, found.start_time) is None
        finally:
            leader.kill()
        wait_for(lambda: (seen := processes.process(leader.pid)) and not seen.is_alive)
        assert processes.live_process(leader.pid) is None
        assert not survivors.is_running(leader.pid, found.start_time)
        sampled = linux.sample_process(leader.pid)
        assert sampled is not None
        assert sampled.threads == 0


@in_a_subreaper
def test_leader_that_left_its_threads_is_alive() -> None:
    """A process whose first thread has ended but others run is still alive."""
    with Stage() as stage:
        tree = stage.start(
            "import threading, ctypes\n"
            "threading.Thread(target=forever).start()\n"
            "say(1)\n"
            "ctypes.CDLL(None).pthread_exit(None)\n"
        )
        stage.says()
        wait_for(lambda: (found := processes.process(tree.pid)) and found.state == "Z")
        found = processes.process(tree.pid)
        assert found is not None
        assert found.is_alive
        assert not tree.is_empty()
        hows, _, is_empty = stage.end(tree)
        assert (hows, is_empty) == ({tree.pid: "SIGTERM"}, True)


def test_signal_reaches_the_right_process(sleeper: subprocess.Popen[bytes]) -> None:
    """With the right start time the signal is delivered."""
    start_time = processes.start_time(sleeper.pid)
    assert start_time is not None
    assert processes.send_signal(sleeper.pid, start_time, signal.SIGTERM)
    assert sleeper.wait(30) == -signal.SIGTERM


def test_recycled_identity_is_refused(sleeper: subprocess.Popen[bytes]) -> None:
    """A wrong start time means another process: nothing is sent, to it or to its group."""
    assert not processes.send_signal(sleeper.pid, "1", signal.SIGKILL)
    assert sleeper.poll() is None
    with subprocess.Popen(["sleep", "100"], start_new_session=True) as leader:
        assert not processes.send_group_signals(leader.pid, "1", (signal.SIGKILL,))
        start_time = processes.start_time(leader.pid)
        assert start_time is not None
        assert processes.send_group_signals(leader.pid, start_time, (signal.SIGTERM,))
        assert leader.wait(30) == -signal.SIGTERM


def test_recycled_identity_is_refused_without_pidfd(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old kernel without pidfds verifies the start time just as well."""
    monkeypatch.setattr(processes, "pidfd_open", lambda pid: None)
    assert not processes.send_signal(sleeper.pid, "1", signal.SIGKILL)
    start_time = processes.start_time(sleeper.pid)
    assert start_time is not None
    assert processes.send_signal(sleeper.pid, start_time, signal.SIGTERM)
    assert sleeper.wait(30) == -signal.SIGTERM


def test_group_needs_its_leader(sleeper: subprocess.Popen[bytes]) -> None:
    """A process that leads no group is refused: its number is nobody's group."""
    start_time = processes.start_time(sleeper.pid)
    assert start_time is not None
    assert not processes.send_group_signals(sleeper.pid, start_time, (signal.SIGKILL,))
    assert sleeper.poll() is None


@pytest.mark.parametrize("pid", [0, -1])
def test_no_wildcard_signals(pid: int) -> None:
    """Numbers that mean «everybody» to the kernel are never passed on."""
    assert not processes.send_signal(pid, "0", signal.SIGTERM)
    assert not processes.send_group_signals(pid, "0", (signal.SIGTERM,))


def test_signal_through_a_pidfd(sleeper: subprocess.Popen[bytes]) -> None:
    """A held pidfd names its process, also after it has ended."""
    fd = processes.pidfd_open(sleeper.pid)
    assert fd is not None
    try:
        assert processes.send_signal(sleeper.pid, "", signal.SIGTERM, fd)
        sleeper.wait(30)
        assert not processes.send_signal(sleeper.pid, "", signal.SIGTERM, fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize(("command", "status"), [("exit 7", 7 << 8), ("kill -TERM $$", 15)])
def test_exit_status_of_a_reaped_process(command: str, status: int) -> None:
    """The kernel tells the wait status of a reaped process, and nothing before that."""
    if not processes.facts()["pidfd_info"]:
        pytest.skip("the kernel does not tell")
    process = subprocess.Popen(["sh", "-c", f"read x; {command}"], stdin=subprocess.PIPE)
    fd = processes.pidfd_open(process.pid)
    assert fd is not None
    try:
        assert processes.pidfd_exit_status(fd) is None
        process.communicate(b"\n")
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        assert poll.poll(5000)[0][1] & select.POLLHUP
        assert processes.pidfd_exit_status(fd) == status
    finally:
        os.close(fd)


def test_exit_status_of_something_else() -> None:
    """A descriptor that is no pidfd has no exit status."""
    fd = os.open("/dev/null", os.O_RDONLY)
    assert processes.pidfd_exit_status(fd) is None
    os.close(fd)


def test_children_of_threads() -> None:
    """A child that a second thread started is a child like any other."""
    started: list[subprocess.Popen[bytes]] = []
    is_over = threading.Event()

    def run() -> None:
        started.append(subprocess.Popen(["sleep", "100"]))
        is_over.wait()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_for(lambda: started)
        assert started[0].pid in processes.children(os.getpid())
    finally:
        is_over.set()
        thread.join()
        started[0].kill()
        started[0].wait()


def test_children_without_the_kernel_file(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel without children files gives the same answer by a scan."""
    monkeypatch.setattr(processes, "_has_children_files", [False])
    assert sleeper.pid in processes.children(os.getpid())
    assert sleeper.pid in processes.own_children()


def test_all_processes(sleeper: subprocess.Popen[bytes]) -> None:
    """A scan finds us and our child."""
    assert {os.getpid(), sleeper.pid} <= {found.pid for found in processes.all_processes()}


def test_run_id_from_the_environment() -> None:
    """The cookie is read from a process's environment, and only there."""
    environment = {"X": "HOLDFAST_RUN_ID=no", "HOLDFAST_RUN_ID": "run-9"}
    assert _run_id_with(environment) == "run-9"
    assert _run_id_with({"X": "HOLDFAST_RUN_ID=no"}) is None
    assert _run_id_with({}) is None


def _run_id_with(environment: dict[str, str]) -> str | None:
    with subprocess.Popen(["/bin/sleep", "100"], env=environment) as process:
        try:
            wait_for(lambda: (found := processes.process(process.pid)) and found.name == "sleep")
            return processes.run_id_of(process.pid)
        finally:
            process.kill()


def test_has_exited_does_not_reap() -> None:
    """Asking whether a child has ended leaves its status to whoever waits for it."""
    process = subprocess.Popen(["sh", "-c", "read x; exit 3"], stdin=subprocess.PIPE)
    assert not processes.has_exited(process.pid)
    assert process.stdin is not None
    process.stdin.close()
    wait_for(lambda: processes.has_exited(process.pid))
    assert process.wait() == 3
    assert processes.has_exited(process.pid)


def test_facts() -> None:
    """Facts name all that `hello` promises."""
    facts = processes.facts()
    assert set(facts) == {"pidfd", "pidfd_info", "subreaper", "splice", "pipe_max", "nofile"}
    assert facts["pipe_max"] >= 4096


def test_reading_what_is_not_there() -> None:
    """A missing kernel file is an answer, never an error."""
    assert kernel_files.read("/proc/nothing") is None
    assert not kernel_files.write("/proc/nothing", b"1")
    assert kernel_files.read("/proc") is None


def test_a_process_is_seen_with_the_last_descriptor() -> None:
    """Without a descriptor to look with, nobody is taken for dead."""
    kernel_files.reserve()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[0], 256), before[1]))
        while (fd := _copy()) is not None:
            taken.append(fd)
        for _ in range(2):
            assert processes.process(os.getpid()) is not None
            assert os.getpid() in {found.pid for found in processes.all_processes()}
            assert os.getpid() in processes.children(os.getppid())
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_reserve_serves_when_the_machine_has_no_descriptor_left() -> None:
    """The table of all processes may be full, too."""
    kernel_files.reserve()

    def look(path: str) -> str:
        if kernel_files._reserve[0] >= 0:
            raise OSError(errno.ENFILE, "too many open files in system")
        return path

    assert kernel_files._with_reserve(look, "seen") == "seen"
    assert kernel_files._reserve[0] >= 0


def _copy() -> int | None:
    try:
        return os.dup(0)
    except OSError:
        return None


@pytest.mark.parametrize(
    ("command", "outcome"), [("exit 3", 3), ("exit 0", 0), ("kill -KILL $$", -9)]
)
def test_a_zombie_tells_how_it_ended(command: str, outcome: int) -> None:
    """Its wait status is read without reaping it; of no other process is any told."""
    with subprocess.Popen(["sh", "-c", f"read x; {command}"], stdin=subprocess.PIPE) as child:
        born = processes.start_time(child.pid)
        assert born is not None
        assert processes.zombie_exit_status(child.pid, born) is None, "it lives"
        assert child.stdin is not None
        child.stdin.close()
        wait_for(lambda: processes.zombie_exit_status(child.pid, born) is not None)
        status = processes.zombie_exit_status(child.pid, born)
        assert status is not None
        assert os.waitstatus_to_exitcode(status) == outcome
        assert processes.zombie_exit_status(child.pid, born + "1") is None, "another process"
    assert child.returncode == outcome
    assert processes.zombie_exit_status(child.pid, born) is None, "it is gone"


@pytest.mark.skipif(os.geteuid() != 0, reason="changes the user")
@in_a_subreaper
def test_a_zero_that_is_shown_to_strangers_is_no_exit_code() -> None:
    """Of another user's zombie the kernel shows zeros: how it ended is unknown."""
    with subprocess.Popen(["sh", "-c", "exit 3"]) as child:
        born = processes.start_time(child.pid) or ""
        wait_for(lambda: processes.zombie_exit_status(child.pid, born) is not None)
        os.seteuid(65534)
        assert processes.zombie_exit_status(child.pid, born) is None
        os.seteuid(0)
