"""What users of other supervisors suffer from around dependencies, instances and groups."""

from __future__ import annotations

import signal

from tests.harness import Hold, quick, read_until, started, wait_for


def test_a_late_dependent_is_not_skipped_after_a_loss_of_readiness(hold: Hold) -> None:
    """Readiness that was lost before the dependent's turn, and came back, starts it."""
    ready = {"exec": ["test", "-e", "ready"], "interval": "50ms", "retries": 1}
    hold.services(
        db=quick(readiness=ready),
        slow=quick(["sh", "-c", "until test -e go; do sleep 0.02; done"], restart_policy="never"),
        api=quick(depends_on={"db": "ready", "slow": "completed"}),
    )
    (hold.project / "ready").write_text("")
    hold.up("--no-wait")
    wait_for(lambda: hold.service("db").get("ready"))
    (hold.project / "ready").unlink()
    wait_for(lambda: hold.service("db")["ready"] is False)
    (hold.project / "go").write_text("")
    wait_for(lambda: hold.service("slow")["status"] == "exited")
    wait_for(lambda: hold.service("api").get("waiting_for") == ["db to become ready (not ready)"])
    (hold.project / "ready").write_text("")
    hold.wait_status("api", "running")


def test_a_dependency_that_fails_fast_starts_nobody(hold: Hold) -> None:
    """With `ready`, a process that dies right away is not taken for one that is up."""
    hold.services(
        db=quick(["sh", "-c", "exit 1"], start_retries=0),
        api=quick(depends_on={"db": "ready"}),
    )
    hold.cli("up", "-d", expect=1)
    assert hold.service("api")["run"] is None


def test_the_foreground_waits_for_who_waits(hold: Hold) -> None:
    """A migration that has ended is not the end of an `up` in the foreground."""
    hold.services(
        migrate=quick(["sh", "-c", "echo migrated"], restart_policy="never"),
        api=quick(
            ["sh", "-c", "echo serving; exec sleep 1000"], depends_on={"migrate": "completed"}
        ),
    )
    with started(hold.command("up"), cwd=hold.project, env=hold.environ) as front:
        read_until(front, b"serving")
        assert hold.service("api")["status"] in ("starting", "running")
        front.send_signal(signal.SIGINT)
        front.wait(60)
