"""The stories that matter most, on the stand-in for macOS: what it can show, its docstring says."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.system.places import find_places
from tests.harness import Hold, is_alive, kill_9, program, quick, wait_for
from tests.portable import standin

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is no stand-in"),
    pytest.mark.unprivileged,
]


class Portable(Hold):
    """A Holdfast of which no process leans on Linux."""

    def __init__(self) -> None:
        super().__init__()
        self.python = standin.install(self.folder)

    def command(self, *args: object) -> list[str]:
        return [str(self.python), "-m", "holdfast", *map(str, args)]

    def both_killed(self) -> None:
        own = self.status()["supervisor"]
        for pid in (pids := (own["pid"], own["keeper_pid"])):
            kill_9(pid)
        wait_for(lambda: not any(map(is_alive, pids)))


@pytest.fixture
def hold() -> Iterator[Portable]:
    with Portable() as one:
        yield one


def counting(hold: Hold, lines: int = 100_000) -> list[str]:
    """A service that prints a number every few milliseconds, and to a file before."""
    return program("count.py", hold.folder / "truth", lines, 0.005, 7)


def check_nothing_lost(hold: Hold) -> None:
    """What was printed is recorded, in order and once; it may go on meanwhile."""
    printed = (hold.folder / "truth").read_bytes()
    wait_for(lambda: hold.raw("web").startswith(printed), what="every line")


def test_process_facts_are_those_of_the_kernel(hold: Portable) -> None:
    """What the keeper reads of `sysctl` is what /proc says; a hidden environment is told apart."""
    code = (
        "import json, os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from holdfast.system import processes as host\n"
        "def facts(it): return [it.pid, it.ppid, it.session, it.pgid, it.name, it.start_time]\n"
        "pids = [os.getpid(), *map(int, sys.argv[2:])]\n"
        "every = {it.pid: it for it in host.all_processes()}\n"
        "print(json.dumps([[facts(host.process(it)), facts(every[it]), host.run_id_of(it),"
        " host.hides_marks(it), host.live_process(it).start_time, host.user_of(it)]"
        " for it in pids] + [host.process(2 ** 22), host.boot_id()]))"
    )
    environ = {"HOLDFAST_RUN_ID": "run-1", "PATH": os.environ["PATH"]}
    ours = subprocess.Popen(program("speaks.py", "sleep:60"), env=environ)
    systems = subprocess.Popen(["sleep", "60"], env=environ)
    try:
        package = str(Path(sys.modules["holdfast"].__file__ or "").parent.parent)
        argv = [str(hold.python), "-c", code, package, str(ours.pid), str(systems.pid)]
        told = json.loads(subprocess.check_output(argv, timeout=30))
    finally:
        for process in (ours, systems):
            process.kill()
            process.wait()
    *known, nobody, boot = told
    for pid, one in zip((ours.pid, systems.pid), known[1:], strict=True):
        first, again, _, _, start_time, user = one
        assert first == again
        assert first[:4] == [pid, os.getpid(), os.getsid(0), os.getpgid(0)]
        assert (start_time, user) == (first[5], os.geteuid())
    assert [it[2:4] for it in known[1:]] == [["run-1", False], [None, True]]
    assert known[2][0][4] == "sleep"
    assert nobody is None
    assert len(boot) == 36


def test_a_day(hold: Portable) -> None:
    """up, status, logs, a terminal, restart, metrics, readiness, stop and down."""
    shell = "tty; stty size; ulimit -n; read line; echo got $line; stty size; exec sleep 300"
    hold.services(
        web=quick(["sh", "-c", "echo hello; echo trouble >&2; exec sleep 300"]),
        shell=quick(["sh", "-c", shell], terminal=True),
        ready=quick(program("speaks.py", "READY=1"), notify=True),
    )
    hold.up()
    first = hold.service("web")
    assert {it["status"] for it in hold.status()["services"].values()} == {"running"}
    assert "running" in hold.cli("status").stdout
    assert hold.cli("logs", "web").stdout.split() == ["hello", "trouble"]
    wait_for(lambda: b"24 80\r\n256\r\n" in hold.raw("shell"), what="a terminal, and the old limit")
    assert b"/dev/pts/" in hold.raw("shell")
    hold.ask("resize", service="shell", cols=100, rows=40)
    hold.ask("send_input", service="shell", data=base64.b64encode(b"you\n").decode())
    wait_for(lambda: b"got you\r\n40 100" in hold.raw("shell"), what="input and size")
    hold.cli("restart", "web")
    second = hold.service("web")
    assert second["pid"] != first["pid"]
    assert [it["signal"] for it in hold.json("runs", "web")["runs"]] == [None, "SIGTERM"]
    wait_for(lambda: hold.json("metrics", "web")["services"]["web"].get("memory_bytes"))
    hold.cli("stop", "web")
    assert not is_alive(second["pid"])
    secret = (hold.state / "notify.name").read_text()
    names = Path(f"/tmp/holdfast-notify-{os.getuid()}")
    assert [*names.glob(f"{secret}-*")]
    hold.cli("down")
    assert hold.marked_pids() == []
    assert not [*names.glob(f"{secret}-*")]


def test_supervisor_killed(hold: Portable) -> None:
    """Nobody notices, and an exit meanwhile is known."""
    hold.services(web=quick(counting(hold)), job=quick(["sleep", "300"], restart_policy="never"))
    hold.up()
    pid = hold.service("web")["pid"]
    kill_9(hold.service("job")["pid"])
    hold.kill_supervisor()
    assert hold.service("web")["pid"] == pid
    assert hold.wait_status("job", "exited", "failed")["signal"] == "SIGKILL"
    check_nothing_lost(hold)


def test_keeper_killed(hold: Portable) -> None:
    """Output and services go on; how a service ends then, the system does not tell."""
    go = hold.folder / "go"
    job = ["sh", "-c", f"while ! test -e {go}; do sleep 0.02; done; exit 3"]
    hold.services(
        web=quick(counting(hold)),
        shell=quick(["sh", "-c", "read it; echo got $it; exec sleep 300"], terminal=True),
        job=quick(job, restart_policy="never"),
    )
    hold.up()
    before = {name: it["pid"] for name, it in hold.status()["services"].items()}
    old = hold.keeper_pid
    kill_9(old)
    wait_for(lambda: hold.status()["supervisor"]["keeper_pid"] != old)
    assert {name: it["pid"] for name, it in hold.status()["services"].items()} == before
    hold.ask("send_input", service="shell", data=base64.b64encode(b"you\n").decode())
    wait_for(lambda: b"got you" in hold.raw("shell"), what="a terminal that goes on")
    check_nothing_lost(hold)
    go.touch()
    hold.wait_status("job", "exited", "failed")
    assert hold.json("runs", "job")["runs"][0]["unknown"]
    hold.cli("stop", "web")
    assert not is_alive(before["web"])


def test_both_killed(hold: Portable) -> None:
    """`status` names who lives on, `up` adopts them: even programs that hide their environment."""
    hold.services(hidden=quick(["sleep", "300"]), marked=quick(program("speaks.py", "sleep:300")))
    hold.up()
    before = {name: it["pid"] for name, it in hold.status()["services"].items()}
    hold.both_killed()
    assert "2 services outlived" in hold.cli("status", expect=None).stderr
    hold.up()
    assert {name: it["pid"] for name, it in hold.status()["services"].items()} == before
    hold.cli("stop", "hidden", "marked")
    assert not any(map(is_alive, before.values()))


def test_upgrade(hold: Portable) -> None:
    """The keeper executes itself with its table in shared memory: nothing else changes."""
    hold.services(web=quick(counting(hold)), other=quick(["sleep", "300"]))
    hold.up()
    before = {name: it["pid"] for name, it in hold.status()["services"].items()}
    old, keeper = hold.supervisor_pid, hold.keeper_pid
    hold.cli("upgrade")
    assert (hold.keeper_pid, hold.supervisor_pid != old) == (keeper, True)
    assert {name: it["pid"] for name, it in hold.status()["services"].items()} == before
    check_nothing_lost(hold)


@pytest.mark.parametrize("mode", ["child", "session", "daemon", "scrubbed"])
def test_descendants_at_a_stop(hold: Portable, mode: str) -> None:
    """Children, sessions and daemons are ended. A daemon without environment cannot be found
    where orphans are handed to the first process: the one thing that is left."""
    note = hold.folder / "pids"
    hold.services(web=quick(program("tree.py", note, mode)))
    hold.up()
    pids = wait_for(lambda: len(it := note.read_text().split()) == 2 and [*map(int, it)])
    hold.cli("stop", "web")
    main = hold.json("runs", "web")["runs"][0]["pid"]
    (descendant,) = {*pids} - {main}
    assert not is_alive(main)
    if mode == "scrubbed":
        assert is_alive(descendant)
        os.kill(descendant, 9)
    wait_for(lambda: not is_alive(descendant))


def test_deleted_sockets(hold: Portable) -> None:
    """The system sweeps its folder of temporary files: the next command brings the sockets back."""
    hold.services(web=quick())
    hold.up()
    pid = hold.service("web")["pid"]
    shutil.rmtree(hold.runtime)
    assert hold.json("status")["services"]["web"]["pid"] == pid


def test_sockets_have_short_names() -> None:
    """However deep the folder of temporary files is, as macOS has it or a build chooses it."""
    usual = "/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T/"
    deep = {"XDG_RUNTIME_DIR": "/x" * 60, "TMPDIR": "/y" * 60}
    for environ, root in (({"TMPDIR": usual}, usual), (deep, "/tmp/")):
        found = find_places("/", {"HOME": "/", **environ}).keeper_socket
        assert found.startswith(f"{root}holdfast-{os.getuid()}/")
        assert len(found) <= standin.LONGEST_PATH


def test_everything_leads_a_session(hold: Portable) -> None:
    """Holdfast and its services have sessions of their own."""
    hold.services(web=quick())
    hold.up()
    pids = [hold.keeper_pid, hold.supervisor_pid, hold.service("web")["pid"]]
    assert [os.getsid(pid) for pid in pids] == pids
