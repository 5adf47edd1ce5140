"""CI's second try: a race is named and decides nothing, everything else is red."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts import second_try
from tests.project.tree import ROOT

CONFTEST = f"""
import sys
sys.path.append({str(ROOT)!r})
from tests import outcomes
def pytest_configure(config):
    if outcomes.VARIABLE in __import__("os").environ:
        outcomes.record(config, list)
"""
# As `scripts/test` does: by root, the same tests as two users.
SUITE = f"""#!/bin/sh
status=0
if [ "$(id -u)" = 0 ]; then
    {sys.executable} scripts/unprivileged.py tests || status=$?
    export HOLDFAST_TEST_USER=root
fi
{sys.executable} -m pytest tests || status=$?
exit $status
"""
UNPRIVILEGED = """
import os, subprocess, sys
os.environ["HOLDFAST_TEST_USER"] = "nobody"
sys.exit(subprocess.run([sys.executable, "-m", "pytest", "-k", "both", *sys.argv[1:]]).returncode)
"""
RACE = """
import os
def test_{name}(request):
    first = not os.path.exists("{name}")
    open("{name}", "w").close()
    assert not first
"""
FINE = "def test_fine():\n    pass\n"


def tried(folder: Path, **tests: str) -> tuple[int, str]:
    """The second try of a suite with these test files: its status and what it prints."""
    (folder / "scripts").mkdir()
    (folder / "tests").mkdir()
    shutil.copy(ROOT / "scripts" / "second_try.py", folder / "scripts")
    (folder / "scripts" / "test").write_text(SUITE)
    (folder / "scripts" / "test").chmod(0o755)
    (folder / "scripts" / "unprivileged.py").write_text(UNPRIVILEGED)
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text(
        "[pytest]\naddopts = -q -p no:cacheprovider -p xdist.plugin\n"
    )
    for name, text in tests.items():
        (folder / "tests" / f"test_{name}.py").write_text(text)
    environ = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("HOLDFAST_TEST_", "PYTEST_"))
    }
    environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # they take seconds to import
    done = subprocess.run(
        [sys.executable, "scripts/second_try.py"], cwd=folder, env=environ, check=False, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_a_green_suite_is_green(tmp_path: Path) -> None:
    """Where nothing fails, nothing is said of a second try."""
    status, text = tried(tmp_path, fine=FINE, both="def test_both():\n    pass\n")
    assert status == 0, text
    assert "alone" not in text


def test_a_race_is_named_and_decides_nothing(tmp_path: Path) -> None:
    """What passes alone is told with both outcomes, listed at the end, and green."""
    status, text = tried(
        tmp_path, fine=FINE, race=RACE.format(name="race"), both="def test_both():\n    pass\n"
    )
    assert status == 0, text
    assert "tests/test_race.py::test_race" in text
    assert "failed, then passed alone" in text
    end = text[text.index("test: passed only alone: a race to mend") :].splitlines()
    assert [line.split(" (as ")[0] for line in end[1:]] == ["  tests/test_race.py::test_race"]


def test_a_test_that_fails_alone_is_red(tmp_path: Path) -> None:
    """A true failure stays one, also beside a race; both are told."""
    status, text = tried(
        tmp_path,
        race=RACE.format(name="race"),
        wrong="def test_wrong():\n    assert False\n",
        both="def test_both():\n    pass\n",
    )
    assert status == 1, text
    assert "test_wrong.py::test_wrong" in text
    assert "failed, then FAILED ALONE, TOO" in text
    assert "failed, then passed alone" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="the suite has two users only for root")
def test_a_failure_as_nobody_is_tried_as_nobody(tmp_path: Path) -> None:
    """Each failed test is run again as the user for whom it failed."""
    code = (
        "import os\ndef test_both():\n"
        "    assert os.environ['HOLDFAST_TEST_USER'] == 'root' or os.path.exists('again')\n"
        "    open('again', 'w').close()\n"
    )
    status, text = tried(tmp_path, both=code)
    # As root it passes and leaves the file; alone, as nobody, it passes too.
    assert status == 0, text
    assert "test_both.py::test_both (as nobody): failed, then passed alone" in text


def test_a_suite_that_breaks_off_is_red(tmp_path: Path) -> None:
    """A run of pytest that dies has no outcomes: no second try can answer for it."""
    status, text = tried(tmp_path, gone="import os\ndef test_gone():\n    os._exit(1)\n")
    assert status == 1, text
    assert "test: red: " in text


def test_a_file_that_cannot_be_collected_is_red(tmp_path: Path) -> None:
    """Tests that did not run at all did not fail by chance."""
    status, text = tried(tmp_path, bad="import nothing_of_this_name\n")
    assert status == 1, text
    assert "test: red: " in text


def run_of(user: str = "", **changed: Any) -> dict[str, Any]:
    failed = changed.pop("failed", [])
    record = {"user": user, "passed": 9, "failed": failed, "broken": []}
    return {**record, "status": 1 if failed else 0, **changed}


@pytest.mark.parametrize(
    ("status", "runs", "reason"),
    [
        (1, [run_of(failed=["a"])], None),
        (1, [run_of(failed=list("abcde"))], None),
        (1, [run_of(failed=list("abcdef"))], "6 tests failed"),
        (1, [run_of(failed=["a"], broken=["left behind: 7 sleep"])], "left behind"),
        (1, [run_of(failed=["a"], status=2)], "status 2"),
        (1, [run_of(status=1)], "status 1"),
        (2, [run_of(failed=["a"])], "status 2"),
        (1, [], "broke off"),
        (1, [run_of()], "no test did"),
    ],
)
def test_what_is_tried_again(status: int, runs: list[dict[str, Any]], reason: str | None) -> None:
    """At most five failures are tried, and only when they explain the end of the suite."""
    found = second_try.reason_for_red(status, runs, {""})
    assert found is None if reason is None else found is not None and reason in found


def test_both_users_must_have_run() -> None:
    """A failure of one user does not hide that the other's run broke off; five are all together."""
    both = {"nobody", "root"}
    three = [run_of(user, failed=["a", "b", "c"]) for user in ("nobody", "root")]
    assert second_try.reason_for_red(1, [run_of("root", failed=["a"])], both) is not None
    assert (
        second_try.reason_for_red(1, [run_of("nobody"), run_of("root", failed=["a"])], both) is None
    )
    assert second_try.reason_for_red(1, three, both) is not None
