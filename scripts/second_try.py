"""Runs `scripts/test`, and what failed in it a second time: at most five tests, each alone in a
process of its own without other workers.

A test that fails in the crowded run and passes alone shows a race, in the test or in the product.
It is named at the end and does not make the run red: on a busy machine that would decide by chance.
A test that fails alone is red, and so are more failures than five, a process that is left behind by
a test that passed, and any end of the suite that the failed tests do not explain.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MOST = 5
VARIABLE = "HOLDFAST_TEST_OUTCOMES"
FAILED = 1
"""The exit status of pytest when tests failed and nothing else went wrong."""


@dataclass(frozen=True)
class Failure:
    """A test that failed in the crowded run, and the user whose run it was."""

    user: str
    test: str

    def __str__(self) -> str:
        return f"{self.test} (as {self.user})" if self.user else self.test

    def command(self) -> list[str]:
        """What runs this test alone."""
        if self.user == "nobody":
            return [sys.executable, "scripts/unprivileged.py", "-n0", self.test]
        return [sys.executable, "-m", "pytest", "-n0", self.test]


def users() -> set[str]:
    """Return whose runs the suite has here."""
    return {"nobody", "root"} if os.geteuid() == 0 else {""}


def failures_of(runs: list[dict[str, Any]]) -> list[Failure]:
    """Return the failed tests of these runs."""
    return [Failure(run["user"], test) for run in runs for test in run["failed"]]


def reason_for_red(status: int, runs: list[dict[str, Any]], expected: set[str]) -> str | None:
    """Return why a second try would answer nothing; None if the failed tests are all there is."""
    if status not in (0, FAILED):
        return f"scripts/test ended with status {status}"
    broken = [line for run in runs for line in run["broken"]]
    if broken:
        return "; ".join(broken)
    if missing := expected - {run["user"] for run in runs}:
        return f"a run of the suite broke off: {', '.join(sorted(missing)) or 'the only one'}"
    for run in runs:
        if run["status"] not in (0, FAILED) or (run["status"] == FAILED) != bool(run["failed"]):
            return f"the suite ended with status {run['status']}"
    failures = failures_of(runs)
    if not failures:
        return "scripts/test failed, but no test did"
    if len(failures) > MOST:
        return f"{len(failures)} tests failed; at most {MOST} are tried a second time"
    return None


def passes_alone(failure: Failure, folder: Path) -> bool:
    """Run the test alone; True if it ran and passed."""
    status, runs = run(failure.command(), folder)
    clean = all(not one["failed"] and not one["broken"] for one in runs)
    return status == 0 and clean and sum(one["passed"] for one in runs) > 0


def run(command: list[str], folder: Path) -> tuple[int, list[dict[str, Any]]]:
    """Run a command; returns its status and what the runs of pytest in it have recorded."""
    place = Path(tempfile.mkdtemp(dir=folder))
    place.chmod(0o755)
    records = place / "outcomes"
    records.touch()
    records.chmod(0o666)  # nobody writes to it, too
    environ = {**os.environ, VARIABLE: str(records)}
    status = subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode
    return status, [json.loads(line) for line in records.read_text().splitlines()]


def tell(heading: str, lines: list[str]) -> None:
    print(f"test: {heading}", *(f"  {line}" for line in lines), sep="\n", flush=True)


def main(arguments: list[str]) -> int:
    folder = Path(tempfile.mkdtemp(prefix="hf-tries-"))
    folder.chmod(0o755)
    try:
        status, runs = run(["scripts/test", *arguments], folder)
        if status == 0:
            return 0
        failures = failures_of(runs)
        if (reason := reason_for_red(status, runs, users())) is not None:
            tell(f"red: {reason}", [str(one) for one in failures])
            return 1
        tell("failed in the crowded run, now run alone", [str(one) for one in failures])
        alone = {one: passes_alone(one, folder) for one in failures}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    outcome = {True: "passed alone", False: "FAILED ALONE, TOO"}
    tell("both tries", [f"{one}: failed, then {outcome[alone[one]]}" for one in failures])
    if races := [str(one) for one in failures if alone[one]]:
        tell("passed only alone: a race to mend", races)
    return 0 if all(alone.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
