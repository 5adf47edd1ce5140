"""The words of the keeper, spoken over a real link and over its control socket."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.keeper import lock
from holdfast.keeper.protocol import wire
from tests.keeper.conftest import KeeperProcess, is_alive, wait_for

pytestmark = pytest.mark.unprivileged

MakeKeeper = Callable[..., KeeperProcess]


def test_hello(keeper: KeeperProcess) -> None:
    """Hello tells what the keeper is and holds."""
    assert keeper.hello["protocol"] == 1
    assert keeper.hello["pid"] == keeper.pid
    assert keeper.hello["runs"] == keeper.hello["exits"] == []
    assert keeper.hello["host"]["nofile"] > 0


def test_description(keeper: KeeperProcess) -> None:
    """The state folder says which process keeps it; everything in it is private."""
    description = json.loads((keeper.state / "keeper.json").read_text())
    assert description["pid"] == keeper.pid
    assert stat.S_IMODE(keeper.state.stat().st_mode) == 0o700
    assert stat.S_IMODE((keeper.runtime / "keeper.sock").stat().st_mode) == 0o600
    for name in ("keeper.json", "lock", "exits.jsonl"):
        assert stat.S_IMODE((keeper.state / name).stat().st_mode) == 0o600


def test_only_what_was_recorded(keeper: KeeperProcess) -> None:
    """What a supervisor asks for again and again comes without the rest."""
    keeper.spawn("sh", "-c", "printf 12345; sleep 300", run_id="r1", service="web")
    expected = {"run_id": "r1", "service": "web", "log_bytes": 5}
    wait_for(lambda: keeper.link.do("list", only="log_bytes")["runs"] == [expected])


def test_unknown_word(keeper: KeeperProcess) -> None:
    """A word of a later version is answered, not ignored; unknown fields are."""
    assert keeper.link.ask("dance")["error"]["code"] == "unknown_word"
    assert keeper.link.ask("list", colour="blue")["ok"]


@pytest.mark.parametrize("fields", [{}, {"run_id": 3}, {"run_id": "none"}, {"run_id": []}])
def test_bad_requests(keeper: KeeperProcess, fields: dict[str, Any]) -> None:
    """Nonsense is refused with a code and hurts nobody."""
    for word in ("spawn", "end", "signal", "write", "resize", "lease", "adopt", "tree", "pause"):
        answer = keeper.link.ask(word, **fields)
        assert answer["error"]["code"] in ("bad_request", "not_found"), word
    assert keeper.link.ask("hold", name="x")["error"]["code"] == "bad_request"
    assert keeper.link.do("list")["runs"] == []


def test_run_ids_are_unique(keeper: KeeperProcess) -> None:
    """A run id that lives or is not forgotten cannot be used again."""
    request = keeper.request("sleep", "0.1")
    keeper.link.do("spawn", **request)
    assert keeper.link.ask("spawn", **request)["error"]["code"] == "exists"
    keeper.exit_of(keeper.last)
    assert keeper.link.ask("spawn", **request)["error"]["code"] == "exists"
    keeper.link.do("forget", run_ids=[keeper.last])
    assert keeper.link.ask("spawn", **request)["ok"]


def test_exits_are_kept_until_forgotten(make_keeper: MakeKeeper) -> None:
    """An exit survives even a kill -9 of the keeper, until it is forgotten."""
    keeper = make_keeper()
    keeper.spawn("sh", "-c", "exit 9")
    keeper.exit_of(keeper.last)
    keeper.process.kill()
    keeper.process.wait()
    second = make_keeper()
    assert [it["code"] for it in second.hello["exits"]] == [9]
    second.link.do("forget", run_ids=[keeper.last])
    assert second.link.do("list")["exits"] == []


def test_control_may_look_and_end_but_not_spawn(keeper: KeeperProcess) -> None:
    """The control socket lets a person look and stop, nothing else."""
    keeper.spawn("sleep", "1000")
    control = keeper.control()
    assert control.do("hello", role="control")["runs"][0]["run_id"] == keeper.last
    assert control.ask("hello", role="supervisor")["error"]["code"] == "refused"
    for word in ("spawn", "write", "hold", "keep", "forget", "adopt"):
        assert control.ask(word)["error"]["code"] == "refused"
    control.do("end", run_id=keeper.last)
    assert control.notice("ended")["run_id"] == keeper.last


def test_a_run_may_not_direct_its_keeper(keeper: KeeperProcess) -> None:
    """What is supervised cannot end itself or others through the control socket."""
    path = keeper.runtime / "keeper.sock"
    code = (
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect(%r);"
        's.sendall(b\'{"id": 1, "do": "shutdown"}\\n\'); print(s.recv(1000).decode())'
    )
    keeper.spawn(sys.executable, "-I", "-c", code % str(path))
    keeper.exit_of(keeper.last)
    assert "refused" in keeper.output(keeper.last).decode()
    assert keeper.link.do("list")


def test_broken_peer_is_dropped(keeper: KeeperProcess) -> None:
    """A peer that sends rubbish loses its connection; nobody else does."""
    control = keeper.control()
    control.sock.sendall(b"rubbish\n")
    with pytest.raises((ConnectionError, KeyError)):
        control.ask("list")
    assert keeper.link.do("list")


def test_peer_that_does_not_read(keeper: KeeperProcess) -> None:
    """A control peer that never reads is dropped before it costs memory."""
    for number in range(20):
        keeper.spawn("sleep", "1000", env={"PATH": os.environ["PATH"]}, service=f"s{number}")
    control = keeper.control()
    with pytest.raises(OSError):  # noqa: PT011 - reset or broken pipe
        control.sock.sendall(wire.encode({"id": 1, "do": "list"}) * 100_000)
    assert len(keeper.link.do("list")["runs"]) == 20


def test_sockets_are_private_and_services_keep_the_umask(keeper: KeeperProcess) -> None:
    """Our sockets are for this user only; a service makes files as its starter would."""
    for name in ("keeper", "line"):
        assert (keeper.runtime / f"{name}.sock").stat().st_mode & 0o777 == 0o600
    keeper.spawn("sh", "-c", "umask")
    before = os.umask(0o022)
    os.umask(before)
    keeper.wait_output(keeper.last, b"%04o\n" % before)


def test_environment_by_its_key(keeper: KeeperProcess) -> None:
    """A run starts from a kept environment; what the request says of its own wins."""
    kept = {"environ:1": '{"COLOUR": "green", "SHAPE": "round", "PATH": "/bin:/usr/bin"}'}
    keeper.spawn("sh", "-c", "echo $COLOUR $SHAPE", kept=kept, environ="environ:1",
                 env={"SHAPE": "flat"})  # fmt: skip
    keeper.wait_output(keeper.last, b"green flat\n")
    refused = keeper.link.ask("spawn", **keeper.request("true", environ="environ:none"))
    assert not refused["ok"]


def test_kept_values_and_descriptors_outlive_the_supervisor(keeper: KeeperProcess) -> None:
    """What was kept and held comes back with the next hello."""
    keeper.link.do("keep", kept={"environment": "x" * 1000, "gone": "y"})
    keeper.link.do("list", kept={"gone": None})
    listener = socket.create_server(("127.0.0.1", 0))
    keeper.link.do("hold", name="http", fds=(listener.fileno(),))
    keeper.spawn("sleep", "1000", stdin="pipe")
    hello = keeper.link.do("hello", role="supervisor")
    keeper.link.notice("spares_done")
    assert hello["kept"] == {"environment": "x" * 1000}
    assert hello["held"] == ["line", "http"]
    copy = socket.socket(fileno=os.dup(keeper.link.held["http"]))
    assert copy.getsockname() == listener.getsockname()
    copy.close()
    listener.close()
    assert list(keeper.link.spares[keeper.last]) == ["out", "err", "stdin", "pidfd"]
    keeper.link.do("release", name="http")
    assert keeper.link.ask("release", name="http")["error"]["code"] == "not_found"


def test_grew(keeper: KeeperProcess) -> None:
    """Who watches a service is told that its log grew; who does not is not."""
    keeper.link.do("watch", service="seen", on=True)
    keeper.spawn("sh", "-c", "echo hello", service="seen")
    assert keeper.link.notice("grew") == {"notice": "grew", "service": "seen", "position": 6}
    keeper.link.do("watch", service="seen", on=False)
    keeper.spawn("sh", "-c", "echo hello", service="seen")
    keeper.exit_of(keeper.last)
    assert not [it for it in keeper.link.notices if it["notice"] == "grew"]


def test_prune(keeper: KeeperProcess) -> None:
    """Segments of ended runs can be deleted; what a live run has written stays, whatever the
    word is, also if another run has come and gone beside it."""
    log = {"max_size": 8192, "total_size": 1 << 20}
    keeper.spawn("head", "-c", "40000", "/dev/zero", service="s", log=log, number=1)
    keeper.exit_of(keeper.last)
    talk = "head -c 20000 /dev/zero; sleep 1000"
    keeper.spawn("sh", "-c", talk, service="s", log=log, number=2)
    live = keeper.last
    wait_for(lambda: len(keeper.output("s")) == 60000)
    keeper.spawn("head", "-c", "20000", "/dev/zero", service="s", log=log, number=3)
    keeper.exit_of(keeper.last)
    answer = keeper.link.do("prune", service="s", keep_segments=1)
    assert answer["segments"] == 4
    assert answer["deleted_bytes"] >= 4 * 8192
    assert len(keeper.output("s")) == 80000 - 4 * 8192
    assert keeper.link.do("prune", service="other", all=True)["segments"] == 0
    for word in ({"all": True}, {"before": time.time() + 60}, {"keep_segments": 1}):
        assert keeper.link.do("prune", service="s", **word)["segments"] == 0
    keeper.link.do("end", run_id=live)
    keeper.link.notice("ended")
    assert keeper.link.do("prune", service="s", all=True)["segments"] == 6
    assert not list((keeper.state / "logs").iterdir())


def test_two_keepers_on_one_folder(make_keeper: MakeKeeper) -> None:
    """A second keeper of the same state folder does not start and disturbs nothing."""
    first = make_keeper()
    first.spawn("sleep", "1000")
    second = make_keeper(link=False)
    assert second.ready["error"]["code"] == "already_running"
    assert second.process.wait(30) == 1
    assert len(first.control().do("list")["runs"]) == 1


def test_who_asks_for_the_lock_keeps_nobody_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Askers share it for as long as a busy machine lets them; a keeper is told from them."""
    path = tmp_path / "lock"
    path.touch()
    looks = 0
    with path.open() as asker:
        fcntl.flock(asker, fcntl.LOCK_SH)

        def look(_: float) -> None:
            nonlocal looks
            looks += 1
            if looks == 100:
                fcntl.flock(asker, fcntl.LOCK_UN)

        monkeypatch.setattr("time.sleep", look)
        fd = lock.take(str(tmp_path))
        try:
            with pytest.raises(lock.AlreadyLocked, match="another keeper holds"):
                lock.take(str(tmp_path))
        finally:
            os.close(fd)
    assert looks == 100


def test_shutdown(keeper: KeeperProcess) -> None:
    """Shutdown ends every run, says retire, exits with the asked code and tidies up."""
    pids = [keeper.spawn("sleep", "1000")["pid"] for _ in range(5)]
    keeper.link.do("shutdown", exit_code=42)
    keeper.link.notice("retire")
    assert keeper.process.wait(30) == 42
    assert not any(is_alive(pid) for pid in pids)
    assert not (keeper.runtime / "keeper.sock").exists()
    assert not (keeper.state / "keeper.json").exists()


def test_sigterm_is_told_to_the_supervisor(keeper: KeeperProcess) -> None:
    """A supervisor that is there decides how to end; a second signal insists."""
    pid = keeper.spawn("sleep", "1000")["pid"]
    keeper.process.send_signal(signal.SIGTERM)
    assert keeper.link.notice("shutdown_requested")["signal"] == signal.SIGTERM
    assert is_alive(pid)
    keeper.process.send_signal(signal.SIGTERM)
    assert keeper.process.wait(30) == 0
    assert not is_alive(pid)


def test_a_third_sigterm_grants_no_grace(keeper: KeeperProcess) -> None:
    """Who insists once more does not wait for what is deaf."""
    stop = {"signal": 15, "grace": 600.0}
    pid = keeper.spawn("sh", "-c", "trap '' TERM; echo up; sleep 1000 & wait", stop=stop)["pid"]
    keeper.wait_output(keeper.last, b"up")
    keeper.process.send_signal(signal.SIGTERM)
    keeper.link.notice("shutdown_requested")
    keeper.process.send_signal(signal.SIGTERM)
    wait_for(lambda: keeper.control().do("list")["runs"][0]["ending"])
    assert is_alive(pid)
    keeper.process.send_signal(signal.SIGTERM)
    assert keeper.process.wait(30) == 0
    assert not is_alive(pid)


def test_sigterm_without_supervisor(keeper: KeeperProcess) -> None:
    """Without a supervisor SIGTERM ends everything at once."""
    pid = keeper.spawn("sleep", "1000")["pid"]
    keeper.link.sock.close()
    wait_for(lambda: keeper.control().do("list")["runs"])
    keeper.process.send_signal(signal.SIGTERM)
    assert keeper.process.wait(30) == 0
    assert not is_alive(pid)


def _fake_supervisor(folder: Path, body: str) -> list[str]:
    script = folder / "supervisor.py"
    script.write_text("import os, sys, time, socket\n" + body)
    return ["--supervisor-argv", json.dumps([sys.executable, "-I", "-S", str(script)])]


def test_relaunch_with_backoff(make_keeper: MakeKeeper, folder: Path) -> None:
    """A supervisor that dies at once is launched again, ever more slowly, and its end told."""
    body = f"open({str(folder / 'count')!r}, 'a').write('x')\nsys.exit('cannot start')\n"
    keeper = make_keeper(*_fake_supervisor(folder, body), link=False)
    wait_for(lambda: (folder / "count").exists() and (folder / "count").stat().st_size == 3)
    facts = keeper.control().do("list")["supervisor"]
    wait_for(lambda: keeper.control().do("list")["supervisor"]["state"] == "backoff")
    facts = keeper.control().do("list")["supervisor"]
    assert facts["failures"] >= 3
    assert facts["last_exit"]["code"] == 1
    assert "cannot start" in facts["last_error"]


def test_a_keeper_that_cannot_start_leaves_no_supervisor(
    make_keeper: MakeKeeper, folder: Path
) -> None:
    """The supervisor begins before its keeper is complete, and ends with it."""
    body = "import time\ntime.sleep(60)\n"
    (folder / "state").mkdir(exist_ok=True)
    (folder / "state" / "logs").write_text("in the way")
    keeper = make_keeper(*_fake_supervisor(folder, body), link=False)
    assert keeper.ready["error"]["code"] == "start_failed"
    assert keeper.process.wait(30) == 1
    with open(folder / "state" / "lock") as file:
        wait_for(lambda: _is_locked(file.fileno()))


def _is_locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def test_supervisor_has_link_and_lock(make_keeper: MakeKeeper, folder: Path) -> None:
    """The supervisor gets the link, the lock and the folders; retire lets it go for good."""
    body = """
link = socket.socket(fileno=int(sys.argv[sys.argv.index('--link') + 1]))
os.fstat(int(sys.argv[sys.argv.index('--lock') + 1]))
link.sendall(b'{"id": 1, "do": "hello", "role": "supervisor"}\\n')
buffer = b''
while b'retire' not in buffer:
    buffer += link.recv(65536)
"""
    keeper = make_keeper(*_fake_supervisor(folder, body), link=False)
    control = keeper.control()
    wait_for(lambda: control.do("list")["supervisor"]["state"] == "running")
    pid = control.do("list")["supervisor"]["pid"]
    control.do("supervise", on=False)
    wait_for(lambda: control.do("list")["supervisor"]["state"] == "off")
    assert not is_alive(pid)
    control.do("supervise", on=True)
    wait_for(lambda: control.do("list")["supervisor"]["state"] == "running")
    assert control.do("list")["supervisor"]["pid"] != pid


def test_keeper_imports_little() -> None:
    """The keeper loads nothing heavy: it is the process that is always there."""
    heavy = {"subprocess", "asyncio", "argparse", "typing", "dataclasses", "logging", "pathlib"}
    heavy |= {"re", "json"}
    code = "import sys; import holdfast.keeper.main, holdfast.keeper.keeper; print(*sys.modules)"
    source = str(Path(holdfast.__file__).parents[1])
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {source!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert not heavy & set(loaded)


def test_adjusted_while_it_runs(keeper: KeeperProcess) -> None:
    """How a run is ended and how much of it is kept can change while it runs."""
    code = "import signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True); "
    keeper.spawn(sys.executable, "-c", code + "signal.pause()", service="web")
    run_id = keeper.last
    keeper.wait_output("web", b"up")
    keeper.link.do("adjust", run_id=run_id, stop={"signal": int(signal.SIGINT), "grace": 30.0})
    keeper.link.do("adjust", run_id=run_id, log={"max_size": 4096, "total_size": 8192})
    facts = keeper.link.do("list")["runs"][0]
    assert facts["stop"] == {"signal": signal.SIGINT, "grace": 30.0}
    assert facts["log"] == {"max_size": 4096, "total_size": 8192}
    keeper.link.do("end", run_id=run_id)
    assert keeper.link.notice("ended")["seconds"] < 20
