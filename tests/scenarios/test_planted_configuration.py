"""A configuration in a subfolder: named, and not started for an assistant unasked."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import time
from pathlib import Path

import pytest

from tests.harness import Hold, quick

PLANTED = {"services": {"evil": quick(["sh", "-c", "touch been-here; exec sleep 100"])}}


def up(hold: Hold, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`holdfast up -d` there."""
    return subprocess.run(
        [*hold.command("up", "-d"), *words], cwd=folder, env=hold.environ, capture_output=True,
        text=True, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def down(hold: Hold, folder: Path) -> None:
    subprocess.run(
        hold.command("down"), cwd=folder, env=hold.environ, capture_output=True, timeout=60
    )


def planted(hold: Hold) -> Path:
    folder = hold.project / "sub" / "deeper"
    folder.mkdir(parents=True)
    (folder.parent / "holdfast.json").write_text(json.dumps(PLANTED))
    return folder


@pytest.mark.parametrize("is_assistant_there", [True, False])
def test_one_that_was_written_while_holdfast_ran_is_not_started_unasked(
    is_assistant_there: bool,
) -> None:
    """It is refused and named, also when the outer Holdfast is down after an assistant's stay;
    `--trust` starts it, once and for all."""
    with Hold() as hold:
        hold.services(web=quick())
        hold.up()
        if is_assistant_there:
            hold.ask("open_session", client="an assistant")
        folder = planted(hold)
        if is_assistant_there:
            hold.cli("down")
        refused = up(hold, folder)
        assert refused.returncode == 5, refused
        assert str(hold.project) in refused.stderr
        assert "sub/holdfast.json" in refused.stderr
        assert "--trust" in refused.stderr
        assert not (folder.parent / "been-here").exists()
        try:
            trusted = up(hold, folder, "--trust")
            assert trusted.returncode == 0, trusted
            assert (folder.parent / "been-here").exists()
            again = up(hold, folder)
            assert again.returncode == 0, again
            assert "inside the project" in again.stderr
        finally:
            down(hold, folder)


def test_a_command_that_was_run_there_vouches_for_nothing() -> None:
    """`run` reads no configuration, so a Holdfast that it left there does not make one known."""
    with Hold() as hold:
        hold.services(web=quick())
        hold.up()
        folder = planted(hold)
        try:
            subprocess.run(
                hold.command("run", "--", "sleep", "100"), cwd=folder, env=hold.environ,
                capture_output=True, timeout=60, check=True,
            )  # fmt: skip
            refused = up(hold, folder)
            assert refused.returncode == 5, refused
            assert not (folder.parent / "been-here").exists()
        finally:
            down(hold, folder)


def test_a_user_at_a_terminal_is_asked() -> None:
    """And `n` starts nothing."""
    with Hold() as hold:
        hold.services(web=quick())
        hold.up()
        folder = planted(hold)
        ours, theirs = pty.openpty()
        try:
            with subprocess.Popen(
                hold.command("up", "-d"), cwd=folder, env=hold.environ, stdin=theirs,
                stdout=theirs, stderr=theirs,
            ) as asking:  # fmt: skip
                os.write(ours, b"n\n")
                assert asking.wait(30) == 5
            assert b"[y/N]" in os.read(ours, 65536)
        finally:
            os.close(ours)
            os.close(theirs)
        assert not (folder.parent / "been-here").exists()


def test_a_users_own_configuration_asks_nothing() -> None:
    """Alone, inside a folder without a Holdfast, or older than the Holdfast around it."""
    with Hold() as hold:
        folder = planted(hold)
        time.sleep(0.02)  # file times are coarse
        hold.services(web=quick())
        hold.up()
        try:
            found = up(hold, folder)
            assert found.returncode == 0, found
        finally:
            down(hold, folder)
        assert "trust" not in hold.cli("up", "-d").stderr
