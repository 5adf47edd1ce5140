"""What looking at services costs: CPU of both our processes with 500 services, every 5 s.

Both ways of looking (a cgroup each, one pass over /proc), with services that rest and with
services that all run a little between two looks.
"""

from __future__ import annotations

import time

from bench.finding import Finding
from bench.lab import Trial, cpu_seconds, program, wait_until
from bench.peers import Holdfast, Service

COUNT = 500
SECONDS = 60.0
RESTING = ["sleep", "100000"]


def busy() -> list[str]:
    return program("flicker.sh")


def cost(argv: list[str], *, has_cgroups: bool, seconds: float = SECONDS) -> float:
    """Percent of one core that keeper and supervisor use."""
    with Trial(Holdfast) as trial:
        if not has_cgroups:
            trial.peer.env["HOLDFAST_CGROUP"] = "off"
        trial.up([Service(f"s{number}", argv) for number in range(COUNT)], 0)
        wait_until(trial.peer.answers, 30, "status")
        # The first looks see what starting cost; none of them is what a tick costs.
        time.sleep(20)
        own = trial.peer.own_pids()
        cpu, begun = cpu_seconds(own), time.monotonic()
        time.sleep(seconds)
        return (cpu_seconds(own) - cpu) / (time.monotonic() - begun) * 100


def sampling(rounds: int) -> Finding:
    found = {
        "idle": cost(RESTING, has_cgroups=True),
        "idle, no cgroups": cost(RESTING, has_cgroups=False),
        "all active": cost(busy(), has_cgroups=True),
        "all active, no cgroups": cost(busy(), has_cgroups=False),
    }
    is_idle_met = max(found["idle"], found["idle, no cgroups"]) <= 0.1
    is_busy_met = max(found["all active"], found["all active, no cgroups"]) <= 1.0
    return Finding(
        f"looking at {COUNT} services every 5 s",
        "–",
        "–",
        ", ".join(f"{name} {percent:.3f} %" for name, percent in found.items()),
        "–",
        "idle ≤ 0.1 %, all active ≤ 1 % of one core",
        is_idle_met and is_busy_met,
        {"holdfast": found},
    )
