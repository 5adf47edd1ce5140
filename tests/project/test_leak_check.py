"""The suite's own promise: a test that leaves a process behind fails the run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import is_alive
from tests.project.tree import ROOT

LEAKING = """
import os, subprocess
def test_leaks():
    kwargs = dict(start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
    process = subprocess.Popen(["sleep", "60"], **kwargs)
    with open("pid", "w") as file:
        file.write(str(process.pid))
    process.returncode = 0
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_leak_fails_the_run(workers: str, tmp_path: Path) -> None:
    """With and without workers, the process is named with its test, ended, and the run fails."""
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_leaking.py").write_text(LEAKING)
    environ = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("HOLDFAST_TEST_", "PYTEST_"))
    }
    environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # they take seconds to import
    options = ["-p", "xdist.plugin", "-n", workers, "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert "sleep 60 (from test_leaking.py::test_leaks)" in done.stdout
    assert not is_alive(int((tmp_path / "pid").read_text()))
