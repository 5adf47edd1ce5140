"""What the command line does when its standard streams or its folder are not there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HOLDFAST = f"{sys.executable} -m holdfast"


def in_shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=30, check=False
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", ["version", "help", "status"])
def test_closed_streams_change_nothing(tmp_path: Path, closed: str, words: str) -> None:
    """With standard streams closed, exit codes are what they are, and nobody sees a traceback."""
    open_ones = in_shell(f"{HOLDFAST} {words}", tmp_path)
    done = in_shell(f"{HOLDFAST} {words} {closed}", tmp_path)
    assert done.returncode == open_ones.returncode
    assert "Traceback" not in done.stderr


def test_an_old_locale_is_written_as_well_as_it_can(tmp_path: Path) -> None:
    """What its letters cannot say is a question mark, and no traceback."""
    done = in_shell(f"PYTHONIOENCODING=ascii {HOLDFAST} help 2>&1", tmp_path)
    assert done.returncode == 0
    assert "holdfast [OPTIONS] VERB ?" in done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", ["version", "version --json", "status --json", "help"])
def test_an_output_that_is_full_is_said(tmp_path: Path, words: str) -> None:
    """Where the answer cannot be written, one line on standard error says why."""
    done = in_shell(f"{HOLDFAST} {words} >/dev/full", tmp_path)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_deleted_folder_is_said_and_another_can_be_named(tmp_path: Path) -> None:
    """In a folder that was deleted, the error says so; -C with a whole path works from there."""
    here = tmp_path / "gone"
    here.mkdir()
    done = in_shell(f"rmdir {here}; {HOLDFAST} status", here)
    assert done.returncode == 2
    assert "the folder you are in was deleted" in done.stderr
    here.mkdir()
    done = in_shell(f"rmdir {here}; {HOLDFAST} -C {tmp_path} status", here)
    assert done.returncode == 4
    assert str(tmp_path) in done.stderr
