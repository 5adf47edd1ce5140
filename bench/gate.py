"""The gate: how many requests it answers beside a bare route, what it weighs, and whether a flood
of them harms supervision.

The client, the gate and the supervisor share the machine, and a bare route needs no supervisor:
compare within a row only.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.finding import Finding, interleaved, judged, listed
from bench.lab import Trial, cpu_seconds, environment, median, program, pss_mib, wait_until
from bench.peers import ROOT, Holdfast, Service
from bench.viewers import Viewer, gate_process, restarts_ms

SERVICES = 10
CONNECTIONS = 32
SECONDS = 3.0
VIEWERS = 200
LINES_PER_SECOND = 1000


class Unhurried(Holdfast):
    """It lets one token ask as often as it can; else that would be measured."""

    def configure(self, services: list[Any], tune: Any = None) -> None:
        super().configure(services, tune)
        path = self.work / "holdfast.json"
        limit = {"requests_per_second": 1_000_000, "burst": 1_000_000}
        config = {**json.loads(path.read_text()), "security": {"rate_limit": limit}}
        path.write_text(json.dumps(config))


@contextmanager
def gated(services: list[Service], **more: str) -> Iterator[tuple[Trial, int, int, str]]:
    """A Holdfast with a gate of its own: its port, its pid, and a token for it."""
    with Trial(Unhurried) as trial:
        trial.up(services, reports=0)
        peer = trial.peer
        assert isinstance(peer, Holdfast)
        wait_until(lambda: (peer.state / "admin.token").exists(), 20, "the token")
        wait_until(lambda: peer.answers(), 20, "status")
        token = (peer.state / "admin.token").read_text().strip()
        process, port = gate_process(peer.state, **more)
        try:
            yield trial, port, process.pid, token
        finally:
            process.kill()
            process.wait()


@contextmanager
def bare(size: int) -> Iterator[tuple[int, int]]:
    listening = socket.create_server(("127.0.0.1", 0), backlog=1000)
    argv = program("bare.py", listening.fileno(), size)
    process = subprocess.Popen(
        [sys.executable, *argv[-3:]], env=environment(), pass_fds=[listening.fileno()],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield int(listening.getsockname()[1]), process.pid
    finally:
        process.kill()
        process.wait()
        listening.close()


def load(port: int, path: str, token: str, pids: list[int]) -> dict[str, Any]:
    """What the client found, and the CPU time of the server a request."""
    argv = [sys.executable, "-m", "bench.load", str(port), path, str(CONNECTIONS), str(SECONDS)]
    cpu = cpu_seconds(pids)
    done = subprocess.run(
        [*argv, token], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=60
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-1000:])
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "cpu_us": 1e6 * (cpu_seconds(pids) - cpu) / found["requests"]}


def rate(rounds: int) -> Finding:
    """`/api/services` of ten services, beside a route that answers as many bytes."""
    names = [f"s{number}" for number in range(SERVICES)]
    with gated([Service(name, ["sleep", "100000"]) for name in names]) as (trial, port, pid, token):
        both = [pid, *trial.peer.own_pids()]
        size = answered(port, token)
        different = " ".join(f"/api/services?services={name}" for name in names)
        with bare(size) as (bare_port, bare_pid):
            results = interleaved(
                max(3, min(rounds, 5)),
                {
                    "bare": lambda: load(bare_port, "/api/services", token, [bare_pid]),
                    "holdfast": lambda: load(port, "/api/services", token, both),
                    "different": lambda: load(port, different, token, both),
                },
            )
        weight = pss_mib([pid])
    rates = {name: [run["per_second"] for run in runs] for name, runs in results.items()}
    middle = {name: median(runs) for name, runs in rates.items()}
    ratio = middle["holdfast"] / middle["bare"]
    # However the runs differ: our slowest beside the fastest of the bare route.
    is_sure = min(rates["holdfast"]) >= max(rates["bare"]) / 3
    return Finding(
        f"GET /api/services of {SERVICES} services, {CONNECTIONS} connections",
        f"bare Starlette route {middle['bare']:.0f}/s",
        "–",
        f"{middle['holdfast']:.0f}/s; {middle['different']:.0f}/s if each connection asks for "
        f"another service; gate {weight:.1f} MiB PSS",
        f"{ratio:.2f} of the bare route",
        "≥ 0.33 of the bare route, gate ≤ 60 MiB",
        weight <= 60 and (is_sure or judged(ratio >= 1 / 3, rates["bare"])),
        {
            **{name: listed(runs) for name, runs in rates.items()},
            "p99_ms": {
                name: listed([it["p99_ms"] for it in runs], 1) for name, runs in results.items()
            },
            "cpu_us_per_request": {
                name: listed([it["cpu_us"] for it in runs]) for name, runs in results.items()
            },
            "bytes": size,
            "gate_mib": weight,
        },
    )


def at_rest(rounds: int, seconds: float = 20.0) -> Finding:
    """All of a Holdfast as it is by default, with a gate that assistants can reach."""
    with gated([Service("s", ["sleep", "100000"])], HOLDFAST_GATE_MCP="{}") as (trial, _, pid, _):
        trial.settle()
        time.sleep(5.0)
        every = [pid, *trial.peer.own_pids()]
        cpu, begun = cpu_seconds(every), time.monotonic()
        time.sleep(seconds)
        percent = (cpu_seconds(every) - cpu) / (time.monotonic() - begun) * 100
        weight, own = pss_mib(every), pss_mib([pid])
    return Finding(
        "keeper, supervisor and gate at rest",
        "–",
        "–",
        f"{weight:.1f} MiB, of it the gate {own:.1f} MiB; {percent:.3f} % CPU",
        "–",
        "≤ 80 MiB, ≤ 0.05 % CPU",
        weight <= 80 and percent <= 0.05,
        {"mib": weight, "gate_mib": own, "cpu_percent": percent},
    )


def answered(port: int, token: str) -> int:
    """How many bytes the answer has."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/services")
    request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=20) as answer:
        return len(answer.read())


async def look_on(port: int, token: str) -> None:
    """Two hundred viewers of a service that prints, for ever."""
    loop = asyncio.get_running_loop()
    viewers = []
    for _ in range(VIEWERS):
        made = partial(Viewer, token, "printer", "lag")
        _, viewer = await loop.create_connection(made, "127.0.0.1", port)
        viewers.append(viewer)
    await asyncio.gather(*(viewer.is_ready for viewer in viewers))
    print("ready", flush=True)
    await asyncio.sleep(600)


@contextmanager
def beset(port: int, token: str) -> Iterator[None]:
    """A flood of requests and many viewers, each in a process of its own."""
    watching = [sys.executable, "-m", "bench.gate", str(port), token]
    asking = [sys.executable, "-m", "bench.load", str(port), "/api/services"]
    asking += [str(CONNECTIONS), "60", token]
    options: dict[str, Any] = {"cwd": ROOT, "env": environment(), "stdout": subprocess.PIPE}
    with subprocess.Popen(watching, **options) as viewers:
        assert viewers.stdout is not None
        viewers.stdout.readline()
        with subprocess.Popen(asking, **options) as flood:
            time.sleep(0.7)
            try:
                yield
            finally:
                flood.kill()
                viewers.kill()


def unharmed(rounds: int) -> Finding:
    """How long a restart takes while the gate is flooded, and while it is not."""
    quiet: list[float] = []
    busy: list[float] = []
    go = Path(tempfile.mkdtemp(prefix="hfb-")) / "go"
    go.touch()
    printing = program("lines.py", go, LINES_PER_SECOND, 600)
    services = [Service("printer", printing), Service("other", ["sleep", "100000"])]
    with gated(services) as (trial, port, pid, token):
        peer = trial.peer
        assert isinstance(peer, Holdfast)
        for _ in range(max(3, min(rounds, 5))):
            quiet += restarts_ms(peer)
            with beset(port, token):
                busy += restarts_ms(peer)
        weight = pss_mib([pid])
    shutil.rmtree(go.parent)
    before, during = median(quiet), median(busy)
    return Finding(
        f"restart under a flood of requests and {VIEWERS} viewers of "
        f"{LINES_PER_SECOND} lines/s, p50",
        "–",
        "–",
        f"{during:.1f} ms; quiet {before:.1f} ms",
        f"{during / before:.2f}× the quiet figure",
        "≤ 2× the quiet figure",
        during <= 2 * before,
        {"quiet_ms": listed(quiet, 1), "busy_ms": listed(busy, 1), "gate_mib": weight},
    )


if __name__ == "__main__":
    asyncio.run(look_on(int(sys.argv[1]), sys.argv[2]))
