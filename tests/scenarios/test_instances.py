"""Instances of real processes: numbers, scaling, rolling restarts, overlap."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.harness import PYTHON, Hold, is_alive, kill_9, program, quick, wait_for


def service(command: Any = None, **fields: Any) -> dict[str, Any]:
    return quick(command, **{"stop": {"grace": "2s"}, **fields})


def pids(hold: Hold) -> dict[str, int | None]:
    return {name: it["pid"] for name, it in hold.status()["services"].items()}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def free_base() -> int:
    """The three ports above it are nobody's, and nobody gets them by chance."""
    while True:
        base = random.randrange(20_000, 30_000)
        try:
            for index in (1, 2, 3):
                with socket.socket() as one:
                    one.bind(("127.0.0.1", base + index))
        except OSError:
            continue
        return base


def answer_of(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), 5) as one:
        one.settimeout(30)
        one.sendall(b"?\n")
        return one.makefile().readline().strip()


def test_instances_have_ports_of_their_own(hold: Hold) -> None:
    """`{{ index }}` makes each instance another one: ports, variables, folders."""
    base = free_base()
    for index in (1, 2, 3):
        (hold.project / f"dir{index}").mkdir()
    command = program("answering.py", f"{{{{ index + {base} }}}}", "v{{ index }}", 0)
    probe = {"tcp": f"127.0.0.1:{{{{ index + {base} }}}}", "interval": "100ms", "retries": 100}
    hold.services(
        web=service(
            command,
            instances=3,
            working_dir="dir{{ index }}",
            readiness=probe,
            env={"A": "{{index}}"},
        )
    )
    hold.up()
    assert list(hold.status()["services"]) == ["web@1", "web@2", "web@3"]
    for index in (1, 2, 3):
        version, pid = answer_of(base + index).split()
        assert version == f"v{index}"
        assert int(pid) == hold.service(f"web@{index}")["pid"]
        assert Path(f"/proc/{pid}/cwd").resolve().name == f"dir{index}"
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert f"A={index}".encode() in environ


def test_scale(hold: Hold) -> None:
    """More are started like their siblings, fewer stopped from the top; nobody else moves."""
    hold.services(web=service(instances=2), db=service())
    hold.up()
    before = pids(hold)
    done = hold.cli("scale", "web=4")
    assert "web@3: started" in done.stdout
    assert hold.service("web@4")["status"] == "running"
    assert {name: pids(hold)[name] for name in before} == before
    assert "scaled to 4, configured 2" in hold.cli("status").stdout
    assert "web: scaled to 4, configured 2" in hold.cli("plan").stdout
    kill_9(hold.supervisor_pid)
    wait_for(lambda: len(hold.status()["services"]) == 5)
    assert hold.service("web@4")["status"] == "running"
    hold.up()
    assert len(hold.status()["services"]) == 5, "the file says the same number as before"
    fourth = hold.service("web@4")["pid"]
    hold.cli("scale", "web=1", "--json")
    assert list(hold.status()["services"]) == ["web@1", "db"]
    assert not is_alive(fourth)
    assert pids(hold) == {"web@1": before["web@1"], "db": before["db"]}
    hold.cli("scale", "web=2")
    assert "scaled" not in hold.service("web@1")


def test_scale_says_what_it_cannot(hold: Hold) -> None:
    """What cannot be scaled is refused with what to write instead."""
    hold.services(web=service(instances=1), db=service())
    hold.up()
    done = hold.cli("scale", "db=2", expect=2)
    assert "db has no instances, so it cannot be scaled" in done.stderr
    assert "instances: 1" in done.stderr
    assert 'did you mean "web"' in hold.cli("scale", "wep=2", expect=3).stderr
    assert "holdfast scale web=2" in hold.cli("scale", "web@1=2", expect=2).stderr
    for text in ("web", "web=²"):
        assert "not SERVICE=N" in hold.cli("scale", text, expect=2).stderr
    assert "is no port" in hold.cli("ports", "²", expect=2).stderr


def test_up_and_reload_scale_too(hold: Hold) -> None:
    """Another number in the file is another number of processes; the others keep their pids."""
    hold.services(web=service(instances=3))
    hold.up()
    before = pids(hold)
    hold.cli("scale", "web=5")
    hold.services(web=service(instances=2))
    hold.up()
    assert pids(hold) == {name: before[name] for name in ("web@1", "web@2")}
    hold.services(web=service(instances=3))
    hold.cli("reload")
    assert list(pids(hold)) == ["web@1", "web@2", "web@3"]
    assert pids(hold)["web@1"] == before["web@1"]


@pytest.mark.parametrize("turn", ["web@1", "web@2"])
def test_what_goes_or_is_stopped_during_a_reload_stays_so(hold: Hold, turn: str) -> None:
    """Instances that are scaled away and a service that is stopped, before it is their turn or
    in the middle of it: the reload did all that is still wanted, and has not failed."""

    def declare(number: int) -> None:
        slow = {"start_seconds": 1.0, "env": {"NUMBER": number}}
        later = service(env={"NUMBER": number}, depends_on=["web"])
        hold.services(web=service(instances=3) | slow, api=later, job=later)

    declare(1)
    hold.up()
    before = pids(hold)
    declare(2)
    told: list[Any] = []
    thread = threading.Thread(target=lambda: told.append(hold.cli("reload", expect=None)))
    thread.start()
    wait_for(lambda: pids(hold)[turn] not in (before[turn], None))
    hold.ask("stop", services=["job"])
    hold.ask("scale", instances={"web": 1})
    thread.join()
    assert told[0].returncode == 0, told[0]
    after = pids(hold)
    assert list(after) == ["web@1", "api", "job"]
    assert after["api"] != before["api"]
    assert after["job"] is None
    assert "Traceback" not in hold.own_logs()


def test_scaling_that_was_cut_short_is_finished(hold: Hold) -> None:
    """kill -9 while an instance is being stopped: the next supervisor goes on with it."""
    stubborn = ["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"]
    hold.services(web=service(stubborn, instances=3, stop={"grace": "1s"}))
    hold.up()
    thread = threading.Thread(target=lambda: hold.cli("scale", "web=1", expect=None))
    thread.start()
    wait_for(lambda: hold.service("web@2")["status"] == "stopping")
    kill_9(hold.supervisor_pid)
    wait_for(lambda: list(hold.status()["services"]) == ["web@1"], what="one instance")
    thread.join()


def test_a_dependent_needs_every_instance(hold: Hold) -> None:
    """Who needs a service with instances waits for the last of them."""
    hold.services(
        web=service(program("gated.py", "gate{{ index }}"), instances=2),
        edge=service(depends_on={"web": {"condition": "log", "pattern": "^ready"}}),
    )
    hold.up("--no-wait")
    (hold.project / "gate1").write_text("now")
    wait_for(lambda: len(hold.service("edge").get("waiting_for", ())) == 1)
    (hold.project / "gate2").write_text("now")
    hold.wait_status("edge", "running")


class Crowd:
    """Clients that connect all the time; every connection has to be answered."""

    def __init__(self, *ports: int) -> None:
        self.answers: list[str] = []
        self.failures: list[str] = []
        self._ports = ports
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(port,)) for port in ports]

    def __enter__(self) -> Crowd:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, port: int) -> None:
        while not self._is_over.is_set():
            try:
                answer = answer_of(port)
            except OSError as error:
                self.failures.append(f"{port}: {error}")
                time.sleep(0.01)
            else:
                (self.answers if answer else self.failures).append(answer or f"{port}: nothing")
            time.sleep(0.002)


def test_a_rolling_restart_leaves_all_but_one_up(hold: Hold) -> None:
    """Over three instances there are never fewer than two, and each is ready before the next."""
    base = free_base()
    command = program("answering.py", f"{{{{ index + {base} }}}}", "v", 0.2)
    ready = {"tcp": f"127.0.0.1:{{{{ index + {base} }}}}", "interval": "50ms", "retries": 200}
    hold.services(
        web=service(command, instances=3, readiness=ready),
        edge=service(depends_on={"web": {"condition": "ready", "restart": True}}),
    )
    hold.up()
    before = pids(hold)
    fewest = 3
    is_over = threading.Event()

    def count() -> None:
        nonlocal fewest
        while not is_over.is_set():
            up = 0
            for index in (1, 2, 3):
                try:
                    up += bool(answer_of(base + index))
                except OSError:
                    pass
            fewest = min(fewest, up)

    watcher = threading.Thread(target=count)
    watcher.start()
    done = hold.cli("restart", "--rolling", "web")
    is_over.set()
    watcher.join()
    assert done.stdout.count("restarted") == 3
    assert fewest >= 2
    after = pids(hold)
    assert all(after[f"web@{index}"] != before[f"web@{index}"] for index in (1, 2, 3))
    events = hold.ask("events", limit=500)["events"]
    steps = [it["data"] for it in events if it["kind"] == "rolling:step"]
    assert [(it["step"], it.get("outcome")) for it in steps] == [
        (number, outcome) for number in (1, 2, 3) for outcome in (None, "restarted")
    ]
    wait_for(lambda: pids(hold)["edge"] not in (None, before["edge"]))
    hold.wait_status("edge", "running")
    events = hold.ask("events", limit=500, services=["edge"])["events"]
    assert [it["kind"] for it in events].count("service:follows") == 1, "once for all three"


def test_a_rolling_restart_stops_at_a_failure(hold: Hold) -> None:
    """The first that fails ends it, and the answer says who is still on the run from before."""
    script = "test -e broken && exit 9; exec sleep 1000"
    hold.services(web=service(["sh", "-c", script], instances=3, start_retries=0))
    hold.up()
    before = pids(hold)
    (hold.project / "broken").write_text("")
    done = hold.cli("rolling-restart", "web", expect=1)
    assert "web@1: failed" in done.stdout
    assert "still on the run from before: web@2, web@3" in done.stderr
    after = pids(hold)
    assert (after["web@2"], after["web@3"]) == (before["web@2"], before["web@3"])


def test_a_rolling_restart_stops_when_one_does_not_stay(hold: Hold) -> None:
    """One that came up and fails while the next is restarted saves those that remain."""
    script = "test -e broken || exec sleep 1000; test {{ index }} = 1 || exec sleep 1000"
    fields = {"start_seconds": 0.5, "restart": {"delay": "30s"}}
    hold.services(web=service(["sh", "-c", f"{script}; sleep 0.7; exit 9"], instances=3) | fields)
    hold.up()
    before = pids(hold)
    (hold.project / "broken").write_text("")
    done = hold.cli("rolling-restart", "web", expect=1)
    assert "web@1: failed" in done.stdout
    assert "still on the run from before: web@3" in done.stderr
    after = pids(hold)
    assert after["web@2"] != before["web@2"]
    assert after["web@3"] == before["web@3"]


def overlapping(hold: Hold, port: int, **fields: Any) -> None:
    (hold.project / "version").write_text("one")
    command = program("answering.py", port, "version", 0.3)
    ready = {"log": "^listening", "timeout": "5s"}
    hold.services(web=service(command, overlap=True, readiness=ready, **fields))
    hold.up()


def test_overlap_drops_no_connection(hold: Hold) -> None:
    """The new one listens before the old one goes: whoever connects is answered."""
    port = free_port()
    overlapping(hold, port)
    before = hold.service("web")
    (hold.project / "version").write_text("two")
    with Crowd(port, port) as crowd:
        wait_for(lambda: len(crowd.answers) > 20)
        result = hold.json("rolling-restart", "web")
        seen = len(crowd.answers)
        wait_for(lambda: len(crowd.answers) > seen + 20)
    assert crowd.failures == []
    versions = [answer.split()[0] for answer in crowd.answers]
    assert set(versions) == {"one", "two"}
    assert set(versions[seen + 5 :]) == {"two"}
    assert result["services"]["web"]["outcome"] == "restarted"
    after = hold.service("web")
    assert after["status"] == "running"
    assert (after["run"], after["restart_count"]) == (before["run"] + 1, 0)
    assert not is_alive(before["pid"])
    lines = [json.loads(line) for line in hold.cli("logs", "web", "--json").stdout.splitlines()]
    told = {(line["run"], line["text"]) for line in lines if line["text"]}
    assert told == {
        (1, "version one"), (1, "listening"), (1, "bye"), (2, "version two"), (2, "listening"),
    }  # fmt: skip
    assert hold.raw("web", "--run", 1) == b"version one\nlistening\nbye\n"
    first, second = hold.ask("runs", service="web")["runs"][::-1]
    assert (first["exit_code"], second["ended_at"]) == (0, None)


def test_a_failed_overlap_leaves_the_old_one(hold: Hold) -> None:
    """The new one is ended, the old one never noticed, and the answer says both."""
    port = free_port()
    overlapping(hold, port)
    before = hold.service("web")
    (hold.project / "version").write_text("broken")
    with Crowd(port) as crowd:
        done = hold.cli("rolling-restart", "web", expect=1)
        seen = len(crowd.answers)
        wait_for(lambda: len(crowd.answers) > seen + 5)
    assert crowd.failures == []
    assert {answer.split()[0] for answer in crowd.answers} == {"one"}
    assert "the new run failed: exit code 1" in done.stdout
    assert f"the old one goes on (pid {before['pid']})\n" in done.stdout, "the pid once"
    assert "cannot listen" in done.stdout
    after = hold.service("web")
    assert (after["pid"], after["status"]) == (before["pid"], "running")
    assert (after["restart_count"], after["run"]) == (0, before["run"])


SAYS_READY = """
import os, socket, time
if not os.path.exists("mute"):
    time.sleep(0.2)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        name = os.environ["NOTIFY_SOCKET"]
        one.connect("\\0" + name[1:] if name.startswith("@") else name)
        one.send(b"READY=1\\nSTATUS=pid %d" % os.getpid())
time.sleep(1000)
"""


def test_each_of_two_runs_speaks_for_itself(hold: Hold) -> None:
    """What the new run says makes the new run ready; a mute one is ended, and the old one stays."""
    command = [PYTHON, "-I", "-S", "-c", SAYS_READY]
    hold.services(web=service(command, overlap=True, notify=True))
    hold.up()
    old = hold.service("web")["pid"]
    (hold.project / "mute").write_text("")
    done = hold.cli("rolling-restart", "web", "--timeout", "500ms", expect=1)
    assert "it is not ready after 0.5 s; the old one goes on" in done.stdout
    assert hold.service("web")["pid"] == old
    (hold.project / "mute").unlink()
    hold.cli("rolling-restart", "web")
    after = hold.service("web")
    assert after["pid"] != old
    assert after["ready"] is True
    assert after["said"] == f"pid {after['pid']}"


@pytest.mark.parametrize("is_promoted", [False, True])
def test_one_run_is_left_after_a_death_in_an_overlap(hold: Hold, is_promoted: bool) -> None:
    """kill -9 of the supervisor: the old one stays, unless the new one was in its place."""
    port = free_port()
    stop = {"grace": "1s"} if is_promoted else {"grace": "2s"}
    overlapping(hold, port, stop=stop)
    old = hold.service("web")["pid"]
    (hold.project / "version").write_text("two")
    if is_promoted:
        kill_stop(old)
    thread = threading.Thread(target=lambda: hold.cli("rolling-restart", "web", expect=None))
    thread.start()
    wait_for(lambda: hold.service("web").get("beside"))
    if is_promoted:
        wait_for(lambda: (hold.service("web").get("beside") or {}).get("leaving"))
        new = hold.service("web")["pid"]
    else:
        new = wait_for(lambda: hold.service("web").get("beside", {}).get("pid"))
    kill_9(hold.supervisor_pid)
    thread.join()
    staying, leaving = (new, old) if is_promoted else (old, new)
    wait_for(lambda: not is_alive(leaving), what="the other one to go")
    wait_for(lambda: "beside" not in hold.service("web"))
    after = hold.service("web")
    assert (after["pid"], after["status"]) == (staying, "running")
    assert after["restart_count"] == 0
    assert is_alive(staying)


def kill_stop(pid: int) -> None:
    """So that it takes its whole grace to end."""
    os.kill(pid, signal.SIGSTOP)
