"""Jobs under kill -9: none is lost, and no job ever has two live processes.

The jobs count themselves: each holds a lock of its own while it lives, and notes begin and end.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from typing import Any

from holdfast.vocabulary.errors import HoldfastError
from tests.harness import Hold, is_alive, kill_9, program, wait_for

JOBS = 100
KILLS = 5


class Farm(Hold):
    """A Holdfast with jobs that count themselves."""

    def begin(self, seconds: float, **queue: Any) -> None:
        (self.folder / "count").mkdir()
        command = program("job.py", self.folder / "count", seconds)
        job = {"command": command, "attempts": 50, "backoff": {"type": "fixed", "delay": "50ms"}}
        self.write({"jobs": {"count": job}, "queue": {"concurrency": 8, **queue}})
        self.up()

    def notes(self) -> list[list[str]]:
        path = self.folder / "count" / "runs"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def count(self, word: str) -> Counter[str]:
        return Counter(job for what, job, _ in self.notes() if what == word)

    def unfinished(self) -> int | None:
        """Jobs that are not over; None while nobody answers."""
        try:
            counts = self.ask("job_stats")["counts"]
        except (HoldfastError, OSError):
            return None
        assert counts["failed"] == 0
        return sum(int(counts[state]) for state in ("waiting", "delayed", "blocked", "active"))

    def kill_both(self) -> None:
        """Kill keeper and supervisor in the same moment, and begin again."""
        keeper, supervisor = self.keeper_pid, self.supervisor_pid
        kill_9(supervisor)
        kill_9(keeper)
        self._disconnect()
        self.up()


def add(hold: Hold, count: int) -> list[str]:
    return [hold.ask("add_job", template="count")["job"]["id"] for _ in range(count)]


def test_a_hundred_jobs_under_kill_9() -> None:
    """Supervisor, keeper and both are killed again and again: every job is done, none overlaps."""
    with Farm() as farm:
        farm.begin(0.1)
        farm.ask("pause_jobs")
        jobs = add(farm, JOBS)
        farm.ask("resume_jobs")
        for number in range(KILLS):
            most = min(JOBS, sum(farm.count("end").values()) + 8)
            wait_for(lambda most=most: sum(farm.count("end").values()) >= most)
            match number % 3:
                case 0:
                    farm.kill_supervisor()
                case 1:
                    farm.kill_both()
                case _:
                    kill_9(farm.keeper_pid)
                    farm._disconnect()
                    wait_for(lambda: farm.unfinished() is not None, what="an answer")
        wait_for(lambda: farm.unfinished() == 0, 60, "all jobs to be over")
        assert set(farm.count("end")) == set(jobs), "a job was lost"
        assert farm.count("overlap") == Counter(), "a job had two processes"


def test_a_crash_between_claim_and_start_neither_loses_nor_doubles() -> None:
    """T19: a claim whose process was never asked for is given back, without counting an attempt."""
    with Farm() as farm:
        farm.begin(0.0)
        farm.ask("pause_jobs")
        (job,) = add(farm, 1)
        with closing(sqlite3.connect(farm.state / "jobs.db", timeout=30)) as db:
            db.execute(
                "UPDATE jobs SET state = 'active', token = '1-x', node = 'local', attempts = 1,"
                " run_id = 'run-0000000000000000000000', lease_until = 1e12 WHERE id = ?",
                (job,),
            )
            db.execute("UPDATE numbers SET value = 0 WHERE name = 'paused'")
            db.commit()
        farm.kill_supervisor()
        found = farm.ask("wait_job", job=job, timeout=30)["job"]
        assert (found["state"], found["attempts"]) == ("completed", 1)
        assert farm.count("begin") == Counter({job: 1})


def test_a_job_that_is_confirmed_outlives_its_lease() -> None:
    """Its claim is renewed in the store and at the keeper, also by the next supervisor."""
    with Farm() as farm:
        farm.begin(4.5, lease="2s")
        (job,) = add(farm, 1)
        wait_for(lambda: farm.count("begin"))
        farm.kill_supervisor()
        found = farm.ask("wait_job", job=job, timeout=30)["job"]
        assert (found["state"], found["attempts"]) == ("completed", 1)


def test_a_frozen_supervisor_loses_its_jobs_and_not_their_safety() -> None:
    """The keeper ends a job that nobody confirms; once awake, it is run again, and only then."""
    with Farm() as farm:
        farm.begin(1000, lease="2s", concurrency=1)
        (job,) = add(farm, 1)
        pid = wait_for(lambda: farm.ask("show_job", job=job)["job"]["pid"])
        supervisor = farm.supervisor_pid
        os.kill(supervisor, signal.SIGSTOP)
        try:
            wait_for(lambda: not is_alive(pid), what="the keeper to end it")
        finally:
            os.kill(supervisor, signal.SIGCONT)
        again = wait_for(
            lambda: (one := farm.ask("show_job", job=job)["job"])["attempts"] == 2 and one["pid"]
        )
        assert again != pid
        assert farm.count("overlap") == Counter()
