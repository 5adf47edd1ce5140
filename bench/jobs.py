"""Measures the queue of jobs: `python -m bench.jobs`, by way of `scripts/bench jobs`.

Adding and claiming with a short and a long queue, jobs a second through a real Holdfast beside a
bare loop that spawns the same program, the time until a job is picked up, and 500 jobs under
kill -9 that count themselves. Loopback only; whatever it starts is ended.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from holdfast.adapters.queue.sqlite_store import SqliteJobStore
from holdfast.adapters.queue.store import Ending, NewJob
from holdfast.vocabulary.specs.jobs import JobRequest
from tests.harness import Hold, kill_9, program, wait_for

TRUE = "/bin/true"
LONG_QUEUE = 100_000
SPAWNED = 300


def job() -> NewJob:
    return NewJob(request=JobRequest(argv=(TRUE,)))


async def _store(path: str, queued: int, count: int) -> dict[str, float]:
    store = SqliteJobStore(path)
    await store.open()
    for begin in range(0, queued, 5000):
        await store.add([job() for _ in range(min(5000, queued - begin))])
    began = time.perf_counter()
    for _ in range(count):
        await store.add([job()])
    added = time.perf_counter()
    claimed = [(await store.claim("bench", 60.0, {"": 1}, ["run"]))[0] for _ in range(count)]
    taken = time.perf_counter()
    for one in claimed:
        assert await store.complete(one.id, str(one.token), Ending())
    done = time.perf_counter()
    began_many = time.perf_counter()
    await asyncio.gather(*(store.add([job()]) for _ in range(count)))
    many = time.perf_counter() - began_many
    await store.close()
    return {
        "add ms": 1000 * (added - began) / count,
        "claim ms": 1000 * (taken - added) / count,
        "complete ms": 1000 * (done - taken) / count,
        "adds at once, each ms": 1000 * many / count,
    }


def stores(count: int) -> None:
    print("| jobs in the queue | add | claim | complete | adds at once, each |")
    print("|---|---|---|---|---|")
    for queued in (0, LONG_QUEUE):
        with tempfile.TemporaryDirectory(prefix="hf-") as folder:
            found = asyncio.run(_store(f"{folder}/jobs.db", queued, count))
        print(f"| {queued} | " + " | ".join(f"{value:.2f} ms" for value in found.values()) + " |")


def through_holdfast() -> None:
    began = time.perf_counter()
    for _ in range(SPAWNED):
        subprocess.run([TRUE], check=True)
    bare = SPAWNED / (time.perf_counter() - began)
    with Hold() as hold:
        hold.write({"jobs": {"true": {"command": TRUE}}, "queue": {"concurrency": 8}})
        hold.up()
        hold.ask("pause_jobs")
        for _ in range(SPAWNED):
            hold.ask("add_job", template="true")
        began = time.perf_counter()
        hold.ask("resume_jobs")
        wait_for(lambda: _completed(hold) >= SPAWNED, 300)
        rate = SPAWNED / (time.perf_counter() - began)
        latencies = []
        for _ in range(50):
            added = hold.ask("add_job", template="true")["job"]
            found = hold.ask("wait_job", job=added["id"])["job"]
            latencies.append(1000 * (found["started_at"] - found["added_at"]))
    latencies.sort()
    print(f"\n{SPAWNED} jobs that spawn `true`: {rate:.0f} a second; a bare loop: {bare:.0f}")
    p50, p98 = statistics.median(latencies), latencies[int(len(latencies) * 0.98)]
    print(f"from adding to claiming: p50 {p50:.1f} ms, p98 {p98:.1f} ms")


def _completed(hold: Hold) -> int:
    return int(hold.ask("job_stats")["totals"].get("completed", 0))


def chaos(jobs: int, kills: int) -> None:
    with Hold() as hold:
        folder = hold.folder / "count"
        folder.mkdir()
        template = {
            "command": program("job.py", folder, 0.05),
            "attempts": 1000,
            "backoff": {"type": "fixed", "delay": "50ms"},
        }
        hold.write({"jobs": {"count": template}, "queue": {"concurrency": 8}})
        hold.up()
        hold.ask("pause_jobs")
        added = {hold.ask("add_job", template="count")["job"]["id"] for _ in range(jobs)}
        hold.ask("resume_jobs")
        began = time.perf_counter()

        def lines(word: str) -> list[str]:
            path = folder / "runs"
            text = path.read_text() if path.exists() else ""
            return [line.split()[1] for line in text.splitlines() if line.startswith(word)]

        for number in range(kills):
            before = len(lines("end"))
            most = min(jobs, before + jobs // (kills + 1))
            wait_for(lambda most=most: len(lines("end")) >= most, 120)  # type: ignore[misc]
            if number % 2:
                keeper, supervisor = hold.keeper_pid, hold.supervisor_pid
                kill_9(supervisor)
                kill_9(keeper)
                hold._disconnect()
                hold.up()
            else:
                hold.kill_supervisor()
        wait_for(lambda: added == set(lines("end")), 120, "every job")
        begun, overlaps = len(lines("begin")), len(lines("overlap"))
        seconds = time.perf_counter() - began
    print(
        f"\n{kills} kill -9 (supervisor; keeper and supervisor) among {jobs} jobs: all done, "
        f"{begun} runs begun, {overlaps} overlaps, {seconds:.0f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.jobs", description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="adds and claims that are timed")
    parser.add_argument("--jobs", type=int, default=500, help="jobs under kill -9")
    parser.add_argument("--kills", type=int, default=20)
    given = parser.parse_args()
    print(
        f"Python {sys.version.split()[0]}, {os.cpu_count()} processors, "
        f"load {os.getloadavg()[0]:.1f}\n"
    )
    stores(given.count)
    through_holdfast()
    chaos(given.jobs, given.kills)


if __name__ == "__main__":
    main()
