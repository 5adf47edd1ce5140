"""Who starts services is not kept waiting for ever, and is told what for."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from tests.harness import Hold, program, quick, read_until, started


def waiting_for_a_line() -> dict[str, Any]:
    """A database that prints its line when there is a file `line`, and one who waits for it."""
    return {
        "db": quick(program("gated.py", "line")),
        "web": quick(depends_on={"db": {"condition": "log", "pattern": "^ready"}}),
    }


def test_up_is_answered_in_time(hold: Hold) -> None:
    """A line that is not printed, a task that does not end: told after the time, not given up."""
    hold.services(
        **waiting_for_a_line(),
        job=quick(program("gated.py", "done")),
        api=quick(depends_on={"job": "completed"}),
        slow=quick(start_seconds="1h"),
    )
    began = time.monotonic()
    done = hold.cli("up", "-d", "--timeout", "1.5s", expect=1)
    assert time.monotonic() - began < 60
    assert 'web: waiting for db to print "^ready" (running)' in done.stdout
    assert "api: waiting for job to complete (running)" in done.stdout
    assert "slow: waiting to become ready (starting)" in done.stdout
    assert "it starts by itself then; holdfast stop web ends that" in done.stdout
    assert "it goes on trying; holdfast stop slow ends that" in done.stdout
    assert "db: started" in done.stdout
    answer = hold.json("start", "web", "--timeout", "100ms", expect=1)["services"]["web"]
    assert answer["outcome"] == "waiting"
    answer = hold.json("restart", "api", "--timeout", "100ms", expect=1)["services"]["api"]
    assert answer["reason"] == "waiting for job to complete (running)"
    (hold.project / "line").write_text("")
    hold.wait_status("web", "running")


@contextlib.contextmanager
def errors_on_terminal(hold: Hold, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A command whose errors and notes go to a terminal, and the other end of it."""
    screen, slave = pty.openpty()
    command = hold.command(*words)
    try:
        with started(command, cwd=hold.project, env=hold.environ, stderr=slave) as process:
            yield process, screen
    finally:
        os.close(screen)
        os.close(slave)


def see(screen: int, wanted: bytes, seconds: float = 60.0) -> bytes:
    seen, deadline = b"", time.monotonic() + seconds
    while wanted not in seen:
        ready = select.select([screen], [], [], max(0.0, deadline - time.monotonic()))[0]
        assert ready, (wanted, seen)
        seen += os.read(screen, 65536)
    return seen


def test_a_terminal_shows_what_is_awaited(hold: Hold) -> None:
    """One line while it lasts, which is gone with the answer."""
    hold.services(**waiting_for_a_line())
    with errors_on_terminal(hold, "up", "-d") as (up, screen):
        see(screen, b's: web: waiting for db to print "^ready" (running)')
        (hold.project / "line").write_text("")
        see(screen, b"\r\x1b[K")
        read_until(up, b"web: started")
        assert up.wait(60) == 0


def test_the_foreground_tells_who_waits(hold: Hold) -> None:
    """Also an `up` that stays says at once which start waits, and for what."""
    hold.services(**waiting_for_a_line())
    with errors_on_terminal(hold, "up") as (up, screen):
        see(screen, b'web: waiting for db to print "^ready"')
        (hold.project / "line").write_text("")
        read_until(up, b"ready")
        up.send_signal(signal.SIGINT)
        up.wait(60)
