"""Holdfast as the first process of a container."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.cli.terminal.signals import reap_orphans
from holdfast.system.places import lock_is_held
from tests.harness import Hold, quick, read_until, started, wait_for

UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]


@contextmanager
def first_process(hold: Hold, line: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A shell as the first process of its own world, with its pid in ours."""
    try:
        subprocess.run([*UNSHARE, "true"], check=True, timeout=60, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("no PID namespace can be made here")
    argv = [*UNSHARE, "sh", "-c", line]
    with started(argv, cwd=hold.project, env=hold.environ, stderr=subprocess.STDOUT) as outer:
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
        yield outer, int(wait_for(lambda: children.read_text().split(), what="its child")[0])


def test_orphans_are_reaped_and_sigterm_is_down(hold: Hold) -> None:
    """Whoever is orphaned leaves no zombie, whichever process dies; SIGTERM ends all in order."""
    orphans = hold.project / "orphans"
    code = (
        f"echo is up; until [ -e {orphans} ]; do sleep 0.02; done; "
        f"for pid in $(cat {orphans}); do while [ -e /proc/$pid ]; do sleep 0.02; done; done; "
        "echo all were reaped; exec sleep 1000"
    )
    hold.services(web=quick(["sh", "-c", code]))
    up = shlex.join(hold.command("up"))
    with first_process(hold, f"sleep 0.3 & echo $! >pid; exec {up}") as (outer, first):
        children = Path(f"/proc/{first}/task/{first}/children")
        read_until(outer, b"is up")
        keeper = int(children.read_text().split()[-1])
        with (hold.project / "pid").open("a") as pids:
            pids.write(f"{_inner_pid(keeper)}\n")
        os.kill(keeper, signal.SIGKILL)
        (hold.project / "pid").rename(orphans)
        read_until(outer, b"all were reaped")
        os.kill(first, signal.SIGTERM)
        assert b"Holdfast is down" in read_until(outer, b"Holdfast is down")
        assert outer.wait(60) == 0


@pytest.mark.parametrize("moment", ["lock", "keeper.json", "holdfast.db", "logs/web*"])
def test_sigterm_is_heard_from_the_start(hold: Hold, moment: str) -> None:
    """Whenever it comes while Holdfast starts, everything ends in order and nothing is left."""
    code = "echo is up; trap exit TERM; while :; do sleep 0.02; done"
    hold.services(web=quick(["sh", "-c", code]))
    with first_process(hold, f"exec {shlex.join(hold.command('up'))}") as (outer, first):
        places = hold.folder / "s" / "holdfast"
        wait_for(lambda: list(places.glob(f"project-*/{moment}")), what=moment)
        os.kill(first, signal.SIGTERM)
        assert outer.wait(60) in (0, 128 + signal.SIGTERM)
    assert not lock_is_held(str(hold.state))
    assert not (hold.state / "keeper.json").exists()  # its last step


def test_run_wait_passes_sigterm_on(hold: Hold) -> None:
    """`run --wait` as the first process stops its command at SIGTERM, and ends as that did."""
    command = ["sh", "-c", "trap 'exit 9' TERM; echo up; while :; do sleep 0.02; done"]
    run = shlex.join(hold.command("run", "--wait", "--", *command))
    with first_process(hold, f"exec {run}") as (outer, first):
        read_until(outer, b"up")
        os.kill(first, signal.SIGTERM)
        assert outer.wait(60) == 9


def test_who_was_seen_meanwhile_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another end interrupts who takes note of one, and takes note of both."""
    ends = iter([os.getppid(), None])  # no child of ours, any more
    monkeypatch.setattr("os.getpid", lambda: 1)
    monkeypatch.setattr("holdfast.cli.terminal.signals._ended_child", lambda: next(ends))
    before = signal.getsignal(signal.SIGCHLD)
    try:
        reap_orphans(None)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert next(ends, "all were asked for") == "all were asked for"


def _inner_pid(pid: int) -> str:
    """The pid as it is called in the process's own world."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return line.split()[-1]
    return ""
