"""The table in a memory file."""

from __future__ import annotations

import os

import pytest

from holdfast.keeper import handover


def test_round_trip() -> None:
    """What one keeper writes, the next one reads, whatever its size."""
    table = {"kept": {"key": "v\udcff" * 300_000}, "lock": 7, "runs": []}
    fd = handover.write(table)
    assert os.get_inheritable(fd)
    assert handover.read(fd) == {"version": 1, **table}


def test_names_every_descriptor() -> None:
    """Whatever must survive the exec is listed."""
    table = {
        "lock": 1,
        "listener": 2,
        "held": {"line": 3},
        "runs": [{"parts": {"out": 4, "pidfd": 5}}],
        "connections": [{"fd": 6, "inbox_fds": [7], "outbox": [["x", [8]]]}],
    }
    assert handover.descriptors(table) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_other_version() -> None:
    """A table of another version is refused, not guessed at."""
    fd = handover.write({"version": 99})
    with pytest.raises(handover.HandoverError):
        handover.read(fd)
