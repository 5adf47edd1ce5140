"""How start, status, memory, rest and end grow with the number of services."""

from __future__ import annotations

import time

from bench.cases import ready
from bench.finding import Finding
from bench.lab import Trial, cpu_seconds, median, pss_mib
from bench.peers import Holdfast

SIZES = (100, 1000, 3000)
REST_SECONDS = 10.0
REQUESTS = 20


def growth(rounds: int, sizes: tuple[int, ...] = SIZES) -> Finding:
    found = {size: _once(size) for size in sizes}
    first, last = found[sizes[0]], found[sizes[-1]]
    ratio = last["start_ms"] / first["start_ms"]
    return Finding(
        f"{', '.join(f'{size:,}' for size in sizes)} services: each start, status decoded, memory, "
        "rest, `stop` of all",
        "–",
        "–",
        "; ".join(
            f"{one['start_ms']:.2f} ms, {one['status_ms']:.1f} ms, {one['pss_mib']:.0f} MiB, "
            f"{one['cpu_percent']:.3f} % CPU, {one['stop_seconds']:.1f} s"
            for one in found.values()
        ),
        f"a start costs {ratio:.2f}× of that among {sizes[0]}",
        "≤ 1.5×",
        ratio <= 1.5,
        {str(size): one for size, one in found.items()},
    )


def _once(count: int) -> dict[str, float]:
    with Trial(Holdfast) as trial:
        peer = trial.peer
        assert isinstance(peer, Holdfast)
        trial.up(ready(trial, count))
        # From the first service to the last: what Holdfast itself takes to start is no growth.
        moments = [moment for moment, _, _ in trial.reports.seen]
        start = moments[-1] - moments[0]
        trial.settle()
        latencies = []
        for _ in range(REQUESTS):
            begun = time.monotonic()
            assert len(peer.result("status")["services"]) == count
            latencies.append((time.monotonic() - begun) * 1000)
        own = peer.own_pids()
        cpu, begun = cpu_seconds(own), time.monotonic()
        time.sleep(REST_SECONDS)
        percent = (cpu_seconds(own) - cpu) / (time.monotonic() - begun) * 100
        found = {
            "start_ms": start / count * 1000,
            "status_ms": median(latencies),
            "pss_mib": pss_mib(own),
            "cpu_percent": percent,
        }
        begun = time.monotonic()
        peer.stop_all()
        return found | {"stop_seconds": time.monotonic() - begun}
