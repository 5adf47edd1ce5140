"""Services that fail, through the real restart path, with short delays."""

from __future__ import annotations

import subprocess

from tests.harness import PYTHON, Hold, is_alive, wait_for

QUICK = {"delay": 30, "max_delay": 100, "jitter": 0}


def test_start_failure_is_retried_then_failed(hold: Hold) -> None:
    """Exit 1 at once: retried per policy, then failed, with code, reason and last lines."""
    hold.services(
        web={"command": ["sh", "-c", "echo no database >&2; exit 1"], "restart": QUICK,
             "start_retries": 2}
    )  # fmt: skip
    hold.up(expect=None)
    failed = hold.wait_status("web", "failed")
    assert failed["exit_code"] == 1
    assert failed["pid"] is None
    assert "start" in failed["reason"]
    assert hold.raw("web") == b"no database\n" * 3
    outcome = hold.json("start", "web", expect=1)["services"]["web"]
    assert outcome["exit_code"] == 1
    assert outcome["last_lines"][-1] == "no database"


def test_missing_program_names_the_stage(hold: Hold) -> None:
    """A command that does not exist fails at its stage, in words."""
    hold.services(web={"command": ["/no/such/program"], "start_retries": 0, "restart": QUICK},
                  db={"command": ["sleep", "300"], "working_dir": "/no/such/folder",
                      "start_retries": 0, "restart": QUICK})  # fmt: skip
    hold.up(expect=None)
    assert "No such file" in hold.wait_status("web", "failed")["reason"]
    reason = hold.wait_status("db", "failed")["reason"]
    assert "entering directory" in reason
    assert "/no/such/folder" in reason


def test_crashes_are_suppressed_and_a_manual_restart_works(hold: Hold) -> None:
    """After max_restarts consecutive crashes it is failed; restart by hand still works."""
    flag = hold.folder / "healthy"
    hold.services(
        web={
            "command": ["sh", "-c", f"test -e {flag} && exec sleep 300; sleep 0.1; exit 3"],
            "start_seconds": 0.05,
            "restart": {"delay": 0, "jitter": 0, "max_restarts": 2},
        }
    )
    hold.up()
    failed = hold.wait_status("web", "failed")
    assert failed["restart_count"] == 2
    assert failed["exit_code"] == 3
    assert "2" in failed["reason"]
    flag.touch()
    assert hold.json("restart", "web")["services"]["web"]["outcome"] == "restarted"
    assert hold.service("web")["restart_count"] == 0


def test_policies(hold: Hold) -> None:
    """on_failure leaves a success alone, never leaves all alone, always starts again."""
    ok = ["sh", "-c", "sleep 0.15; exit 0"]
    quick = {"start_seconds": 0.05, "restart": {"delay": 10, "jitter": 0}}
    hold.services(
        on_failure={"command": ok, "restart_policy": "on_failure", **quick},
        never={"command": ["sh", "-c", "sleep 0.15; exit 4"], "restart_policy": "never", **quick},
        always={"command": ok, "restart_policy": "always", **quick},
        odd={"command": ["sh", "-c", "sleep 0.15; exit 5"], "success_exit_codes": [0, 5], **quick},
    )
    hold.up()
    assert hold.wait_status("on-failure", "exited")["exit_code"] == 0
    assert hold.wait_status("never", "failed")["exit_code"] == 4
    assert hold.wait_status("odd", "exited")["exit_code"] == 5
    wait_for(lambda: (hold.service("always")["run"] or 0) >= 3)


def test_essential_failure_ends_holdfast(hold: Hold) -> None:
    """The failure of an essential service ends the whole Holdfast."""
    hold.services(
        main={"command": ["sh", "-c", "sleep 0.2; exit 9"], "essential": True,
              "restart_policy": "never", "start_seconds": 0},
        other=["sleep", "300"],
    )  # fmt: skip
    done = hold.cli("up", expect=9, timeout=30)
    assert "main" in done.stdout + done.stderr
    wait_for(lambda: not hold.marked_pids())


LATE = """
import sys, time
from holdfast.cli import up
from holdfast.cli.main import main
from holdfast.system.places import lock_is_held

def wait(call, result):
    while lock_is_held(call.places.state):
        time.sleep(0.01)

up._note_changes = wait
sys.exit(main())
"""


def test_an_essential_failure_is_passed_on_however_early(hold: Hold) -> None:
    """An `up` that finds everything down again, before it could look, exits with the code."""
    hold.services(
        main={"command": ["sh", "-c", "echo no database; exit 9"], "essential": True,
              "restart_policy": "never", "start_seconds": 0},
    )  # fmt: skip
    done = subprocess.run(
        [PYTHON, "-c", LATE, "up"], cwd=hold.project, env=hold.environ, capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 9, done
    assert "main" in done.stdout
    assert "no database" in done.stdout
    assert "holdfast.log" in done.stderr


def test_last_line_before_exit_is_never_lost(hold: Hold) -> None:
    """Whatever was printed before the exit is recorded before the exit is told."""
    hold.services(**{
        f"s{i}": {"command": ["sh", "-c", "echo first; printf last; exit 3"],
                  "restart_policy": "never"} for i in range(10)
    })  # fmt: skip
    hold.up(expect=None)
    for i in range(10):
        hold.wait_status(f"s{i}", "failed")
        assert hold.raw(f"s{i}") == b"first\nlast"


def test_concurrent_requests_leave_one_instance(hold: Hold) -> None:
    """Start, stop and restart from several clients at once end in one consistent state."""
    import random
    import threading

    pids = hold.folder / "pids"
    hold.services(web={"command": ["sh", "-c", f"echo $$$$ >> {pids}; exec sleep 300"],
                       "start_seconds": 0.01})  # fmt: skip
    hold.up()
    rng = random.Random(7)
    plans = [[rng.choice(["start", "stop", "restart"]) for _ in range(8)] for _ in range(4)]

    def client(plan: list[str]) -> None:
        from holdfast.client.connection import Connection
        from holdfast.vocabulary.errors import HoldfastError

        connection = Connection(str(hold.runtime / "line.sock"))
        for verb in plan:
            try:
                connection.ask(verb, services=["web"])
            except HoldfastError:
                pass
        connection.close()

    threads = [threading.Thread(target=client, args=(plan,)) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    hold.cli("start", "web")
    now = hold.wait_status("web", "running")
    alive = {int(pid) for pid in pids.read_text().split() if is_alive(int(pid))}
    assert alive == {now["pid"]}
    hold.cli("stop", "web")
    assert not is_alive(now["pid"])
