"""The cases about supervision: each measures Holdfast, the bare limit and supervisord in turn, and
judges the target."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from typing import Any

from bench import limits
from bench.finding import Finding, interleaved, judged, listed
from bench.lab import Trial, cpu_seconds, is_alive, median, program, pss_mib, wait_until, when_gone
from bench.peers import Holdfast, Peer, Service, Supervisord


def ready(trial: Trial, count: int, restart: bool = True) -> list[Service]:
    return [
        Service(f"s{n}", program("ready.sh", trial.reports.path, f"s{n}"), restart)
        for n in range(count)
    ]


def flood_once(peer: type[Peer], writers: int, size: int) -> tuple[float, float, int]:
    """Seconds from the first byte to the last recorded, CPU seconds, bytes lost."""
    with Trial(peer) as trial:
        go = trial.work / "go"
        names = [f"w{number}" for number in range(writers)]
        trial.up(
            [
                Service(name, program("flood.py", trial.reports.path, name, go, size))
                for name in names
            ]
        )
        time.sleep(0.3)
        own = trial.peer.own_pids()
        cpu = cpu_seconds(own)
        go.touch()
        total = writers * size

        def recorded() -> int:
            return sum(trial.peer.log_bytes(name) for name in names)

        try:
            wait_until(lambda: recorded() >= total, 60, "all output recorded")
        except TimeoutError:
            pass
        done = time.monotonic()
        time.sleep(0.2)
        cpu = cpu_seconds(own) - cpu
        trial.reports.wait(2 * writers)
        numbers = trial.reports.numbers()
        begun = min(number for name, number in numbers.items() if name.endswith(".begin"))
        return done - begun / 1e9, cpu, total - recorded()


def flood(title: str, writers: int, size: int, factor: float, rounds: int) -> Finding:
    megabytes = writers * size / 1e6
    results = interleaved(
        rounds,
        {
            "limit": lambda: (*limits.flood(writers, size), 0),
            "holdfast": lambda: flood_once(Holdfast, writers, size),
            "supervisord": lambda: flood_once(Supervisord, writers, size),
        },
    )
    rates = {name: [megabytes / run[0] for run in runs] for name, runs in results.items()}
    cpus = {name: [run[1] for run in runs] for name, runs in results.items()}
    lost = sum(run[2] for run in results["holdfast"])
    ratio = median(rates["holdfast"]) / median(rates["supervisord"])
    cpu_ratio = median(cpus["holdfast"]) / median(cpus["supervisord"])

    def shown(name: str) -> str:
        return f"{median(rates[name]):.0f} MB/s, {median(cpus[name]):.2f} s CPU"

    target = "more than supervisord" if factor == 1 else f"≥ {factor}× supervisord"
    return Finding(
        title,
        shown("limit"),
        shown("supervisord"),
        shown("holdfast") + (f", {lost} bytes lost" if lost else ", nothing lost"),
        f"{ratio:.2f}× the rate, {cpu_ratio:.2f}× the CPU of supervisord",
        f"{target}, no more CPU, nothing lost",
        ratio > factor and cpu_ratio <= 1 and lost == 0,
        {
            name: {"mb_per_s": listed(rates[name]), "cpu_s": listed(cpus[name], 2)}
            for name in results
        },
    )


def log_one(rounds: int) -> Finding:
    return flood("200 MB of 100-byte lines from one service", 1, 200_000_000, 1, rounds)


def log_twenty(rounds: int) -> Finding:
    return flood("10 MB each from 20 services at once", 20, 10_000_000, 1.3, rounds)


def spawn(rounds: int, count: int = 500) -> Finding:
    def once(peer: type[Peer]) -> float:
        with Trial(peer) as trial:
            return trial.up(ready(trial, count))

    # Once before, until it has left what only a first start finds missing: byte code and the like.
    with Trial(Holdfast) as trial:
        trial.up(ready(trial, 1))
        trial.settle()
    # A second each: twice as many cost little, and single runs differ by a fifth.
    results = interleaved(
        2 * rounds + 1, {"limit": lambda: limits.spawn(count), "holdfast": lambda: once(Holdfast)}
    )
    # Not what it is judged by, and eight seconds each.
    results["supervisord"] = [once(Supervisord)]
    rates = {name: [count / run for run in runs] for name, runs in results.items()}
    ratio = median(rates["holdfast"]) / median(rates["limit"])
    return Finding(
        f"{count} services started, output recorded",
        f"bare Popen {median(rates['limit']):.0f}/s",
        f"{median(rates['supervisord']):.0f}/s",
        f"{median(rates['holdfast']):.0f}/s",
        f"{ratio:.2f} of the limit",
        "≥ 0.6 of the limit",
        judged(ratio >= 0.6, rates["limit"]),
        {name: listed(values) for name, values in rates.items()},
    )


def restart(rounds: int, count: int = 20) -> Finding:
    def once(peer: type[Peer]) -> list[float]:
        with Trial(peer) as trial:
            trial.up(ready(trial, 1))
            latencies = []
            for number in range(count):
                time.sleep(1.25)
                begun = time.monotonic()
                os.kill(trial.reports.seen[-1][2], signal.SIGKILL)
                trial.reports.wait(number + 2, 15)
                latencies.append((trial.reports.seen[-1][0] - begun) * 1000)
            return latencies

    results = {
        "limit": limits.restart(count),
        "holdfast": once(Holdfast),
        "supervisord": once(Supervisord),
    }
    results["limit"] += limits.restart(count)
    middle = {name: median(values) for name, values in results.items()}
    ratio = middle["holdfast"] / middle["limit"]
    return Finding(
        "SIGKILL to the replacement's first line, p50",
        f"posix_spawn loop {middle['limit']:.2f} ms",
        f"{middle['supervisord']:.1f} ms",
        f"{middle['holdfast']:.2f} ms",
        f"{ratio:.1f}× the limit",
        "≤ 3× the limit",
        judged(ratio <= 3, [median(results["limit"][:count]), median(results["limit"][count:])]),
        {name: listed(values, 2) for name, values in results.items()},
    )


def idle(rounds: int, count: int = 500, seconds: float = 15.0) -> Finding:
    def once(peer: type[Peer]) -> dict[str, float]:
        with Trial(peer) as trial:
            trial.up(ready(trial, count))
            trial.settle()
            own = trial.peer.own_pids()
            cpu, begun = cpu_seconds(own), time.monotonic()
            time.sleep(seconds)
            percent = (cpu_seconds(own) - cpu) / (time.monotonic() - begun) * 100
            found = {"pss_mib": pss_mib(own), "cpu_percent": percent}
            if isinstance(trial.peer, Holdfast):
                found["keeper_mib"] = pss_mib([trial.peer.keeper_pid()])
            return found

    bare = limits.bare_python()
    ours, theirs = once(Holdfast), once(Supervisord)
    return Finding(
        f"{count} idle services",
        f"bare Python {bare[0]:.1f} MiB",
        f"{theirs['pss_mib']:.1f} MiB, {theirs['cpu_percent']:.2f} % CPU",
        f"keeper {ours['keeper_mib']:.1f} MiB, both {ours['pss_mib']:.1f} MiB, "
        f"{ours['cpu_percent']:.3f} % CPU",
        f"{ours['pss_mib'] / theirs['pss_mib']:.1f}× supervisord's memory",
        "keeper ≤ 12 MiB, both ≤ 60 MiB, ≤ 0.1 % CPU",
        ours["keeper_mib"] <= 12 and ours["pss_mib"] <= 60 and ours["cpu_percent"] <= 0.1,
        {"holdfast": ours, "supervisord": theirs},
    )


def status(rounds: int, count: int = 100, requests: int = 300) -> Finding:
    def once(peer: type[Peer]) -> list[float]:
        with Trial(peer) as trial:
            trial.up(ready(trial, count))
            trial.settle()
            trial.peer.control("all", 5)
            number = requests if peer is Holdfast else 50
            return [latency * 1000 for latency in trial.peer.control("all", number)]

    results = {"holdfast": once(Holdfast), "supervisord": once(Supervisord)}
    bare = limits.echo(1000)
    middle = {name: median(values) for name, values in results.items()}
    return Finding(
        f"status of {count} services over a kept connection, p50",
        f"asyncio echo {bare:.2f} ms",
        f"{middle['supervisord']:.1f} ms",
        f"{middle['holdfast']:.2f} ms",
        f"{middle['holdfast'] / bare:.1f}× the limit",
        "≤ 0.5 ms",
        middle["holdfast"] <= 0.5,
        {name: {"p50": middle[name], "max": max(values)} for name, values in results.items()},
    )


def cli(rounds: int, count: int = 100) -> Finding:
    def once(peer: type[Peer]) -> list[float]:
        with Trial(peer) as trial:
            trial.up(ready(trial, count))
            trial.settle()
            argv = [str(word) for word in trial.peer.cli_status()]
            limits.wall_ms(argv, trial.work)
            return [limits.wall_ms(argv, trial.work) for _ in range(15)]

    results = {
        "limit": limits.python_wall(15),
        "holdfast": once(Holdfast),
        "supervisord": once(Supervisord),
    }
    results["limit"] += limits.python_wall(15)
    middle = {name: median(values) for name, values in results.items()}
    ratio = middle["holdfast"] / middle["limit"]
    return Finding(
        f"`holdfast status` of {count} services, wall",
        f"python -c pass {middle['limit']:.0f} ms",
        f"{middle['supervisord']:.0f} ms",
        f"{middle['holdfast']:.0f} ms",
        f"{ratio:.1f}× the limit",
        "≤ 3× the limit",
        judged(ratio <= 3, [median(results["limit"][:15]), median(results["limit"][15:])]),
        {name: listed(values, 1) for name, values in results.items()},
    )


def stop(rounds: int, count: int = 100) -> Finding:
    def once(peer: type[Peer]) -> tuple[float, float]:
        with Trial(peer) as trial:
            trial.up(ready(trial, count))
            trial.settle()
            trial.peer.control("all", 1)
            pids = list(trial.reports.numbers().values())
            gone: list[float | None] = []
            watcher = threading.Thread(target=lambda: gone.append(when_gone(pids, 60)))
            watcher.start()
            begun = time.monotonic()
            trial.peer.stop_all()
            answered = time.monotonic() - begun
            watcher.join()
            last = gone[0]
            if last is None:
                raise TimeoutError("not all services ended")
            return last - begun, answered

    results = interleaved(
        min(rounds, 5),
        {"holdfast": lambda: once(Holdfast), "supervisord": lambda: once(Supervisord)},
    )
    middle = {name: median([run[0] for run in runs]) for name, runs in results.items()}
    answer = {name: median([run[1] for run in runs]) for name, runs in results.items()}
    ratio = middle["holdfast"] / middle["supervisord"]
    return Finding(
        f"stop of {count} obedient services, until the last is gone",
        "–",
        f"{middle['supervisord'] * 1000:.0f} ms (answer {answer['supervisord'] * 1000:.0f} ms)",
        f"{middle['holdfast'] * 1000:.0f} ms (answer {answer['holdfast'] * 1000:.0f} ms)",
        f"{ratio:.1f}× supervisord",
        "≤ 2× supervisord",
        ratio <= 2,
        {name: listed([run[0] * 1000 for run in runs], 1) for name, runs in results.items()},
    )


def small_writer(trial: Trial, go: Any, count: int) -> list[str]:
    """A program that writes 100 bytes at a time: in C where there is a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return program("small.py", go, count)
    binary = trial.work / "small"
    source = program("small.c")[0]
    subprocess.run([compiler, "-O2", "-w", "-o", str(binary), source], check=True)
    return [str(binary), str(go), str(count)]


def small(rounds: int, count: int = 1_000_000) -> Finding:
    def once(peer: type[Peer]) -> tuple[float, float]:
        with Trial(peer) as trial:
            go = trial.work / "go"
            trial.up([Service("w", small_writer(trial, go, count))], 0)
            wait_until(trial.peer.answers, 20, "status")
            trial.settle()
            own = trial.peer.own_pids()
            cpu, begun = cpu_seconds(own), time.monotonic()
            go.touch()
            wait_until(lambda: trial.peer.log_bytes("w") >= 100 * count, 60, "all recorded")
            seconds = time.monotonic() - begun
            time.sleep(0.2)
            return seconds, cpu_seconds(own) - cpu

    results = interleaved(
        min(rounds, 5),
        {"holdfast": lambda: once(Holdfast), "supervisord": lambda: once(Supervisord)},
    )
    cpu = {name: median([run[1] for run in runs]) for name, runs in results.items()}
    wall = {name: median([run[0] for run in runs]) for name, runs in results.items()}
    ratio = cpu["holdfast"] / cpu["supervisord"]
    return Finding(
        f"{count:,} writes of 100 bytes from one service, CPU",
        "–",
        f"{cpu['supervisord']:.2f} s CPU, {wall['supervisord']:.2f} s",
        f"{cpu['holdfast']:.2f} s CPU, {wall['holdfast']:.2f} s",
        f"{ratio:.2f} of supervisord",
        "≤ 0.33 of supervisord",
        ratio <= 1 / 3,
        {name: listed([run[1] for run in runs], 2) for name, runs in results.items()},
    )


def relaunch(rounds: int, count: int = 100) -> Finding:
    with Trial(Holdfast) as trial:
        peer = trial.peer
        assert isinstance(peer, Holdfast)
        trial.up(ready(trial, count))
        time.sleep(1)
        latencies = []
        for _ in range(5):
            # A supervisor that lived for ten seconds is relaunched at once.
            time.sleep(10.5)
            old = peer.daemon_pid()
            begun = time.monotonic()
            os.kill(old, signal.SIGKILL)

            def answers(old: int = old) -> bool:
                try:
                    found = peer.result("status")
                except OSError:
                    return False
                return found["supervisor"]["pid"] != old and len(found["services"]) == count

            wait_until(answers, 20, "a new supervisor's status")
            latencies.append((time.monotonic() - begun) * 1000)
        unchanged = all(is_alive(pid) for pid in trial.reports.numbers().values())
    return Finding(
        f"kill -9 of the supervisor of {count} services to the new one's status",
        "–",
        "–",
        f"{median(latencies):.0f} ms" + ("" if unchanged else ", services died"),
        "–",
        "≤ 400 ms",
        median(latencies) <= 400 and unchanged,
        {"holdfast": listed(latencies)},
    )


def storm(rounds: int, count: int = 50, seconds: float = 10.0) -> Finding:
    def once(peer: type[Peer]) -> dict[str, float]:
        with Trial(peer) as trial:
            starts = trial.work / "starts"
            starts.touch()
            trial.up(
                [Service(f"c{n}", program("crash.sh", starts), restart=True) for n in range(count)],
                0,
            )
            wait_until(trial.peer.answers, 20, "status")
            time.sleep(5)
            own = trial.peer.own_pids()
            cpu, before = cpu_seconds(own), starts.stat().st_size
            begun, latencies = time.monotonic(), list[float]()
            while time.monotonic() < begun + seconds:
                latencies += trial.peer.control("all", 1, interval=0.1)
            span = time.monotonic() - begun
            return {
                "worst_ms": max(latencies) * 1000,
                "p50_ms": median(latencies) * 1000,
                "cpu_percent": (cpu_seconds(own) - cpu) / span * 100,
                "starts_per_second": (starts.stat().st_size - before) / span,
            }

    ours, theirs = once(Holdfast), once(Supervisord)

    def shown(found: dict[str, float]) -> str:
        return (
            f"worst {found['worst_ms']:.0f} ms, {found['starts_per_second']:.0f} starts/s, "
            f"{found['cpu_percent']:.0f} % CPU"
        )

    return Finding(
        f"{count} services that exit at once, restarted for ever: status",
        "–",
        shown(theirs),
        shown(ours),
        "–",
        "within 50 ms, always",
        ours["worst_ms"] <= 50,
        {"holdfast": ours, "supervisord": theirs},
    )


def killed(rounds: int, writers: int = 10, lines: int = 2000) -> Finding:
    def lost_after(who: str) -> dict[str, int]:
        with Trial(Holdfast) as trial:
            peer = trial.peer
            assert isinstance(peer, Holdfast)
            names = [f"n{number}" for number in range(writers)]
            trial.up(
                [
                    Service(n, program("counter.py", trial.reports.path, n, trial.work / n, lines))
                    for n in names
                ]
            )
            pids = trial.reports.numbers()
            time.sleep(1)
            victim = peer.keeper_pid() if who == "keeper" else peer.daemon_pid()
            os.kill(victim, signal.SIGKILL)
            time.sleep(0.5)
            died = sum(not is_alive(pid) for pid in pids.values())
            trial.reports.wait(2 * writers, 60)
            time.sleep(1)
            wrong = 0
            for name in names:
                truth = (trial.work / name).read_bytes()
                recorded = b"".join(path.read_bytes() for path in sorted(peer.log_files(name)))
                wrong += truth != recorded
            wait_until(peer.answers, 20, "status after the kill")
            return {"wrong": wrong, "known": known_codes(peer, names), "died": died}

    def known_codes(peer: Holdfast, names: list[str]) -> int:
        """How many exits are told as they were; orphans are known once init has reaped them."""
        deadline = time.monotonic() + 20
        while True:
            known = sum(peer.exit_code(name) == 7 for name in names)
            if known == len(names) or time.monotonic() > deadline:
                return known
            time.sleep(0.2)

    outcome = {who: lost_after(who) for who in ("supervisor", "keeper")}
    # After a keeper's death, exit codes are known where the kernel tells them (Linux 6.15).
    is_good = all(it["wrong"] == it["died"] == 0 for it in outcome.values())
    is_good = is_good and outcome["supervisor"]["known"] == writers
    return Finding(
        f"kill -9 of one of our processes, {writers} services printing",
        "–",
        "–",
        "; ".join(
            f"{who}: {it['wrong']} logs differ, {it['known']} of {writers} exit codes known, "
            f"{it['died']} died"
            for who, it in outcome.items()
        ),
        "–",
        "nothing lost",
        is_good,
        outcome,
    )


def tree(rounds: int) -> Finding:
    def survivors(peer: type[Peer]) -> int:
        with Trial(peer) as trial:
            argv = program("runaway.py", trial.reports.path, "t")
            trial.up([Service("t", argv)], 2)
            time.sleep(1)
            pids = trial.reports.numbers()
            trial.peer.stop("t")
            return sum(is_alive(pid) for pid in pids.values())

    ours, theirs = survivors(Holdfast), survivors(Supervisord)
    return Finding(
        "double fork and setsid: left alive after stop",
        "–",
        f"{theirs}",
        f"{ours}",
        "–",
        "0",
        ours == 0,
        {"holdfast": ours, "supervisord": theirs},
    )
