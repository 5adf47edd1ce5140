"""Arguments and environments that the system or the line does not take: an error names them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Hold, quick

LONG = 140_000
"""Bytes; one string may have 128 KiB."""


@pytest.mark.parametrize("umask", [{}, {"umask": "022"}], ids=["spawned", "forked"])
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"command": ["sleep", "1000", "s3cret" + "x" * LONG]}, "argument 2 has 140,006 bytes"),
        ({"env": {"HUGE": "s3cret" + "x" * LONG}}, "the variable HUGE has 140,011 bytes"),
    ],
)
def test_one_string_too_long(
    hold: Hold, fields: dict[str, Any], named: str, umask: dict[str, str]
) -> None:
    """A start says which argument or variable is too long, how long, and how long it may be; its
    value is not shown, and other services start."""
    hold.services(web={**quick(restart_policy="never"), **fields, **umask}, other=quick())
    told = hold.cli("up", "-d", expect=1)
    assert f"{named}; one string may have at most 131,071" in told.stdout
    assert "s3cret" not in told.stdout + told.stderr + hold.own_logs()
    assert hold.service("other")["status"] == "running"
    assert named in hold.cli("start", "web", expect=1).stdout


def big(count: int, letter: str = "x") -> dict[str, str]:
    return {f"BIG_{number:02}": letter * 100_000 for number in range(count)}


def test_all_strings_together_too_long(hold: Hold) -> None:
    """An environment that only just lets Holdfast itself be started is too long for a service
    with more of its own: the sum is told, and what is longest."""
    hold.services(web=quick(restart_policy="never", env={"OWN": "x" * 90_000}))
    told = hold.cli("up", "-d", expect=1, environ={**big(19), "LAST": "x" * 120_000})
    assert "bytes together, of at most" in told.stdout
    assert "the variable LAST has 120,005 bytes" in told.stdout


@pytest.mark.parametrize("words", [["up", "-d"], ["up"], ["run", "--", "sleep", "300"]])
def test_a_request_too_long_for_the_line(hold: Hold, words: list[str]) -> None:
    """Bytes that need six each on the line may be more than it takes: that is an error which names
    the largest variable, not a supervisor that went away; nothing is left running."""
    hold.services(web=quick())
    told = hold.cli(*words, expect=2, environ={**big(15, "\x01"), "MOST": "\x01" * 110_000})
    assert "of at most 8,388,607; the variable MOST takes most" in told.stderr
    assert "nothing runs here" in hold.cli("status", expect=4).stderr


@pytest.mark.parametrize(("length", "who"), [(131_050, "keeper"), (130_200, "supervisor")])
def test_holdfast_itself_cannot_be_started(
    hold: Hold, tmp_path: Path, length: int, who: str
) -> None:
    """Where the folders of Python's own modules are too long for one argument, that is told."""
    folders = [str(tmp_path / (f"{number:03}" + "d" * 70)) for number in range(1000)]
    count = length // (len(folders[0]) + 1)
    folders = folders[:count]
    folders[-1] += "e" * (length - len(os.pathsep.join(folders)))
    assert len(os.path.basename(folders[-1])) < 256
    for folder in folders:
        os.mkdir(folder)
    hold.services(web=quick())
    told = hold.cli("up", "-d", expect=None, environ={"PYTHONPATH": os.pathsep.join(folders)})
    assert told.returncode in (1, 4)
    assert f"the {who} c" in told.stderr
    assert "Argument list too long: " in told.stderr
    assert re.search(r" has 13\d,\d{3} bytes", told.stderr)
