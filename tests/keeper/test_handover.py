"""The table in a memory file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.keeper import handover
from tests.disk import fill, small_disk
from tests.keeper.stage import in_a_subreaper


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


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="only a mapping can be written here")
def test_without_memory_it_is_refused(tmp_path: Path) -> None:
    """An error, after which everything goes on and no descriptor is left behind: a fatal signal
    would end the keeper, and each attempt at an upgrade would cost a descriptor."""
    with small_disk(tmp_path / "memory") as memory:
        fill(memory)
        _write_to(str(memory / "table"))
        assert (memory / "table-refused").exists()


@in_a_subreaper
def _write_to(path: str) -> None:
    handover._memory_file = lambda: os.open(path, os.O_RDWR | os.O_CREAT)
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="No space"):
        handover.write({"kept": {"key": "v" * 300_000}})
    assert sorted(os.listdir("/proc/self/fd")) == before
    Path(f"{path}-refused").touch()
