"""Writes down how a run of the suite ended, for `scripts/second_try.py`.

One JSON line for each run of pytest, whose workers it includes. Only used when the environment
names a file for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

VARIABLE = "HOLDFAST_TEST_OUTCOMES"
USER = "HOLDFAST_TEST_USER"
"""Names the user whose run it is, where a run is one of several."""


class Outcomes:
    """Collects the outcomes of the tests of one run, and appends them to a file at its end."""

    def __init__(self, path: str, leaks: Callable[[], list[str]]) -> None:
        self._path = path
        self._leaks = leaks
        self._passed: set[str] = set()
        self._failed: dict[str, None] = {}
        self._broken: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed[report.nodeid] = None
        elif report.passed and report.when == "call":
            self._passed.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._broken.append(f"{report.nodeid} cannot be collected")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        # What a failed test leaves behind is a part of its failure.
        blamed = tuple(f"(from {name})" for name in self._failed)
        left = [line for line in self._leaks() if not (blamed and line.endswith(blamed))]
        record = {
            "user": os.environ.get(USER, ""),
            "status": int(session.exitstatus),
            "passed": len(self._passed - set(self._failed)),
            "failed": list(self._failed),
            "broken": self._broken + [f"left behind: {line}" for line in left],
        }
        with open(self._path, "a") as file:
            file.write(json.dumps(record) + "\n")


def record(config: pytest.Config, leaks: Callable[[], list[str]]) -> None:
    """Record this run if that is wanted. Runs of pytest inside of tests are not recorded."""
    path = os.environ.pop(VARIABLE, None)
    if path is not None:
        config.pluginmanager.register(Outcomes(path, leaks), "outcomes")
