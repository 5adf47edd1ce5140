"""A small file system of a test's own, and how to fill it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, size: str = "3m") -> Iterator[Path]:
    """A tmpfs at this place; skips the test where mounting is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this host does not allow a mount")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path) -> Path:
    """Write until nothing more fits; the file to delete when there shall be room again."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
    return ballast
