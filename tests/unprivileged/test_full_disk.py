"""A full disk without root: the story of the small file system, in a user namespace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
UNSHARE = ["unshare", "--user", "--map-root-user", "--mount"]

pytestmark = [
    pytest.mark.unprivileged,
    pytest.mark.skipif(os.geteuid() == 0, reason="root runs the story itself"),
]


def may_unshare() -> bool:
    return (
        shutil.which("unshare") is not None
        and subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0
    )


def test_disk_full_without_root() -> None:
    """Disk full: the services go on, the gap is recorded, recording resumes."""
    if not may_unshare():
        pytest.skip("this host grants no user namespace, so nothing can be mounted")
    story = "tests/chaos/test_replaced.py::test_disk_full"
    options = ["-n0", "-p", "no:cacheprovider", "-rs", "-q", story]
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-m", "pytest", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SKIPPED" not in done.stdout, done.stdout
