"""The published description and the gate agree, as a tool finds that knows neither of us.

`HOLDFAST_FUZZ=N` adds N random requests to each operation.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gate.conftest import Gate
from tests.harness import Hold, quick

NOT_FUZZED = {
    "shutdown": "nobody could answer what comes after it",
    "adopt": "it would take over processes of this machine that are not the test's",
    "set_mode": "the supervisor is replaced, and who asks meanwhile is told so",
    "dashboard_set_mode": "the same",
    "lockdown": "everything after it would be refused",
    "wait": "it waits, as long as it was asked to",
}
SHORT = "import holdfast.gate.rest.event_streams as told; told.LONGEST_SECONDS = 0.05; "
"""What is told for ever is told for a moment here."""
CONFIG = """
[checks]
# 422: a type cannot say that a cursor was never given out, or that a file is not there.
positive_data_acceptance.expected-statuses = [
    "2xx", "401", "403", "404", "409", "422", "429"
]
"""


@pytest.fixture
def hold() -> Iterator[Hold]:
    with Hold() as made:
        made.services(web=quick(["sh", "-c", "echo hello; exec sleep 1000"]), db=quick())
        made.up()
        yield made


@pytest.fixture
def gate(hold: Hold) -> Iterator[Gate]:
    made = Gate(hold, SHORT)
    try:
        yield made
    finally:
        made.close()


def test_no_request_finds_a_difference(gate: Gate, tmp_path: Path) -> None:
    """Every operation, with what it should take and what it should refuse: the answers are those
    of the description, nothing wrong is taken, nothing right refused, and nothing breaks."""
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG)
    examples = os.environ.get("HOLDFAST_FUZZ", "")
    done = subprocess.run(
        [
            os.path.join(os.path.dirname(sys.executable), "st"),
            "--config-file", str(config),
            "run", f"http://127.0.0.1:{gate.port}/api/openapi.json",
            "--header", f"Authorization: Bearer {gate.token}",
            "--phases", "examples,coverage,fuzzing" if examples else "examples,coverage",
            *(("--max-examples", examples) if examples else ()),
            "--generation-deterministic",
            "--suppress-health-check", "all",
            "--request-timeout", "15",
            "--workers", "1",
            "--continue-on-failure", "--no-color", "--warnings", "off",
            *(word for name in NOT_FUZZED for word in ("--exclude-operation-id", name)),
        ],
        cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)}, capture_output=True, text=True,
        timeout=230,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2000:]
    assert "an error inside Holdfast" not in gate.hold.own_logs()
