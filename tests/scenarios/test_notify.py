"""Services that say themselves how they are: sd_notify, a watchdog, a newline on a descriptor."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import sys
from typing import Any

import pytest

from tests.harness import Hold, kill_9, program, wait_for

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs credentials of messages")


def speaking(*words: object, notify: Any = True, **fields: Any) -> dict[str, Any]:
    return {"command": program("speaks.py", *words), "notify": notify, "start_seconds": 0, **fields}


def events(hold: Hold, name: str, kind: str) -> list[dict[str, Any]]:
    found = hold.ask("events", since=0, limit=10_000, services=[name])["events"]
    return [event["data"] for event in found if event["kind"] == kind]


def test_ready_from_a_child(hold: Hold) -> None:
    """A start waits for READY=1, whichever process of the service says it; its status is shown."""
    hold.services(web=speaking("sleep:0.3", "child:READY=1", "STATUS=serving 3 users"))
    hold.up()
    wait_for(lambda: hold.service("web").get("said"), what="what it says")
    told = hold.service("web")
    assert (told["ready"], told["said"]) == (True, "serving 3 users")
    assert "serving 3 users" in hold.cli("status").stdout
    [ready] = events(hold, "web", "service:ready")
    assert ready["after"] >= 0.3


def test_short_lived_children_are_heard(hold: Hold) -> None:
    """Like `systemd-notify` in a script: each says one word and is gone; the last one counts."""
    words = [f"child:STATUS=word {number}" for number in range(300)]
    hold.services(web=speaking(*words, "child:STATUS=last", "child:READY=1"))
    hold.up()
    wait_for(lambda: hold.service("web").get("said") == "last", what="the last word")
    assert "a stranger spoke" not in hold.own_logs()


def test_who_never_says_it_is_not_ready(hold: Hold) -> None:
    """A start does not wait for ever; the service goes on."""
    timing = {"interval": "100ms", "retries": 2}
    hold.services(web=speaking("STATUS=thinking", readiness={"notify": True, **timing}))
    done = hold.cli("up", "-d", expect=1)
    assert "not ready: it has not said READY=1" in done.stdout + done.stderr
    assert hold.service("web")["status"] == "running"


def test_what_is_said_while_the_supervisor_is_dead_is_not_lost(hold: Hold) -> None:
    """READY=1 is said once. And who says much meanwhile does not hang for want of a listener."""
    go, done = hold.folder / "go", hold.folder / "done"
    words = (f"wait:{go}", "READY=1", "repeat:100:WATCHDOG=1", "STATUS=made it", f"touch:{done}")
    hold.services(web=speaking(*words))
    hold.cli("up", "-d", "--no-wait")
    pid = hold.service("web")["pid"]
    assert hold.service("web")["ready"] is False
    hold.cli("down", "--keep-running")
    go.touch()
    wait_for(done.exists, what="it to have said everything")
    hold.cli("up", "-d", "--no-wait")
    wait_for(lambda: hold.service("web").get("said") == "made it", what="what it said")
    told = hold.service("web")
    assert (told["pid"], told["ready"]) == (pid, True)


def test_readiness_survives_every_death(hold: Hold) -> None:
    """Of the supervisor, then of the keeper; and the socket is still the same."""
    go = hold.folder / "go"
    hold.services(web=speaking("READY=1", "STATUS=one", f"wait:{go}", "STATUS=two"))
    hold.up()
    wait_for(lambda: hold.service("web").get("said") == "one", what="the first word")
    pid = hold.service("web")["pid"]
    kill_9(hold.supervisor_pid)
    assert hold.service("web")["ready"] is True
    assert hold.service("web")["said"] == "one"
    keeper = hold.keeper_pid
    kill_9(keeper)
    wait_for(lambda: hold.keeper_pid != keeper, what="another keeper")
    wait_for(lambda: hold.service("web").get("ready") is True, what="readiness")
    go.touch()
    wait_for(lambda: hold.service("web").get("said") == "two", what="the second word")
    assert hold.service("web")["pid"] == pid


def test_the_watchdog(hold: Hold) -> None:
    """Who falls silent is restarted, and the reason says so."""
    pings = ["WATCHDOG=1", "sleep:0.1"] * 4
    hold.services(
        web=speaking("READY=1", *pings, notify={"watchdog": "300ms"}, restart={"delay": "100ms"})
    )
    hold.up()
    [why] = wait_for(lambda: events(hold, "web", "service:condemned")[:1], what="the watchdog")
    assert why["cause"] == "unhealthy"
    assert why["reason"] == "watchdog missed: no WATCHDOG=1 within 0.3 s"
    assert events(hold, "web", "health:changed")[0]["to"] == "healthy"


def test_the_watchdog_is_told_to_the_service(hold: Hold) -> None:
    """It finds its interval in WATCHDOG_USEC."""
    code = "import os, time; print(os.environ['WATCHDOG_USEC'], flush=True); time.sleep(99)"
    hold.services(web={"command": [sys.executable, "-c", code], "notify": {"watchdog": "2500ms"}})
    hold.cli("up", "-d", "--no-wait")
    hold.cli("wait", "web", "--for", "log:^2500000$")


def test_a_newline_on_a_descriptor(hold: Hold) -> None:
    """As s6 has it: no socket, no library. Each run has a line of its own."""
    hold.services(web=speaking("sleep:0.2", "newline:7", notify={"fd": 7}))
    hold.up()
    assert hold.service("web")["ready"] is True
    hold.cli("restart", "web")
    assert hold.service("web")["ready"] is True
    wait_for(lambda: len(events(hold, "web", "service:ready")) == 2)
    assert all(ready["after"] >= 0.2 for ready in events(hold, "web", "service:ready"))


def test_a_newline_while_the_supervisor_is_dead(hold: Hold) -> None:
    """The pipe keeps it, on a terminal, too."""
    go, done = hold.folder / "go", hold.folder / "done"
    hold.services(
        web=speaking(f"wait:{go}", "newline:3", f"touch:{done}", notify={"fd": 3}, terminal=True)
    )
    hold.cli("up", "-d", "--no-wait")
    hold.cli("down", "--keep-running")
    go.touch()
    wait_for(done.exists, what="it to have said so")
    hold.cli("up", "-d", "--no-wait")
    wait_for(lambda: hold.service("web").get("ready") is True, what="readiness")


def test_reloading_is_not_ready(hold: Hold) -> None:
    """Until READY=1 comes again."""
    go = hold.folder / "go"
    hold.services(web=speaking("READY=1", "sleep:0.2", "RELOADING=1", f"wait:{go}", "READY=1"))
    hold.up()
    wait_for(lambda: hold.service("web")["ready"] is False, what="the reload")
    go.touch()
    wait_for(lambda: hold.service("web")["ready"] is True, what="readiness")
    assert len(events(hold, "web", "service:ready")) == 2


@linux_only
def test_a_stranger_is_not_heard(hold: Hold) -> None:
    """Who knows the address and is no process of the service cannot speak for it."""
    where = hold.folder / "where"
    tell = f"import os, time; open({str(where)!r}, 'w').write(os.environ['NOTIFY_SOCKET'])"
    code = f"{tell}; time.sleep(1000)"
    hold.services(
        web={"command": [sys.executable, "-I", "-S", "-c", code], "notify": True},
        other=speaking("READY=1"),
    )
    hold.cli("up", "-d", "--no-wait")
    address = wait_for(lambda: where.exists() and where.read_text(), what="the address")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.connect("\0" + address[1:])
        sock.send(b"READY=1")
        sock.send(b"STATUS=pwned")
    hold.cli("wait", "other", "--for", "ready")
    wait_for(lambda: "a stranger spoke for it" in hold.own_logs(), what="a word in the log")
    told = hold.service("web")
    assert (told["ready"], told.get("said")) == (False, None)


@linux_only
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_can_speak(hold: Hold) -> None:
    """A service that runs as somebody else reaches its socket."""
    folder = hold.folder
    for path in (folder, folder / "project"):
        path.chmod(0o755)
    script = folder / "speaks.py"
    shutil.copy(program("speaks.py")[3], script)
    script.chmod(0o644)
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None or pwd.getpwnam("nobody") is None:
        pytest.skip("there is no interpreter that nobody can run")
    hold.services(
        web={
            "command": [python, "-I", "-S", str(script), "child:READY=1", "STATUS=nobody speaks"],
            "user": "nobody",
            "notify": True,
        }
    )
    hold.up()
    assert hold.service("web")["ready"] is True
    wait_for(lambda: hold.service("web").get("said") == "nobody speaks", what="what it says")


def test_what_was_said_ends_with_the_run(hold: Hold) -> None:
    """Nothing of one run is told of the next."""
    flag = hold.folder / "flag"
    hold.services(
        web=speaking(
            "STATUS=first" if not flag.exists() else "", "READY=1", f"wait:{flag}", "exit:1",
            restart={"delay": "50ms", "max_restarts": 1},
        )
    )  # fmt: skip
    hold.up()
    wait_for(lambda: hold.service("web").get("said") == "first", what="what it says")
    hold.cli("stop", "web")
    told = hold.service("web")
    assert "ready" not in told
    assert "said" not in told


def test_every_run_can_speak_whenever_the_supervisor_dies(hold: Hold) -> None:
    """A run that a new supervisor starts at once has its socket and its descriptor, too."""
    hold.services(
        web=speaking(
            "newline:5", "READY=1", "sleep:0.15", "exit:1", notify={"fd": 5},
            restart={"delay": "10ms", "max_delay": "10ms", "max_restarts": "unlimited"},
        )
    )  # fmt: skip
    hold.cli("up", "-d", "--no-wait")
    for _ in range(3):
        run = hold.service("web")["run"]
        kill_9(hold.supervisor_pid)
        wait_for(lambda run=run: hold.service("web")["run"] > run, what="a further run")
    assert b"Error" not in hold.raw("web")
    wait_for(lambda: hold.service("web").get("ready"), what="readiness")
