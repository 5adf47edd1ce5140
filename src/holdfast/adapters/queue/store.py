"""What a store of jobs does, whatever keeps them.

A job is claimed by one node at a time, with a token and a lease. Everything that the node says
about the job afterwards takes the token: an answer False means that the claim is lost, and the node
has to end the job's process. A store never starts anything and decides nothing about attempts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from holdfast.vocabulary.specs.jobs import JobRequest, RepeatSpec

JobState = Literal["waiting", "delayed", "blocked", "active", "completed", "failed", "cancelled"]
UNFINISHED: tuple[JobState, ...] = ("waiting", "delayed", "blocked", "active")
STATES: tuple[JobState, ...] = (*UNFINISHED, "completed", "failed", "cancelled")
LEASE_LOST = "its node stopped confirming that it works on it"


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be added."""

    request: JobRequest
    priority: int = 0
    run_at: float | None = None
    """Not before this time."""
    key: str | None = None
    """No second unfinished job has this key."""
    after: tuple[str, ...] = ()
    """Jobs that must be completed first."""
    id: str | None = None
    """An id that its maker chose, so that adding it again adds nothing."""


class StoredJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the store has it."""

    id: str
    state: JobState
    request: JobRequest
    priority: int = 0
    key: str | None = None
    added_at: float = 0.0
    run_at: float | None = None
    attempts: int = 0
    """Attempts that began."""
    run_id: str | None = None
    """The run of its newest attempt."""
    token: str | None = None
    """The token of its present claim."""
    node: str | None = None
    lease_until: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    is_cancel_asked: bool = False
    progress: Any = None
    result: Any = None
    reason: str | None = None
    """Why it failed, or why its last attempt did."""
    exit_code: int | None = None
    signal: str | None = None
    is_removed: bool = False
    """Whether it is in no list any more; how it ended is remembered for a while."""
    after: tuple[str, ...] = ()
    """Jobs that are not completed yet and have to be first."""
    damage: str | None = None
    """Why its request cannot be read. `request` is then an empty one, and must not be run."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended."""

    reason: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    log_bytes: int = 0


class Expired(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that a store has dropped, and jobs whose output should go."""

    jobs: int
    outputs: tuple[str, ...]


class JobStore(Protocol):
    """A queue of jobs. Every time is a wall clock's: a lease must outlive a restart."""

    async def add(self, jobs: Sequence[NewJob]) -> list[tuple[StoredJob, bool]]:
        """Add jobs, all or none. With each the job, and whether it is new: one with the same key
        or id is answered instead of adding a second."""

    async def claim(
        self, node: str, lease_seconds: float, free: Mapping[str, int], run_ids: Sequence[str]
    ) -> list[StoredJob]:
        """Take the next jobs, one for each run id, and of each template at most what is free; `""`
        stands for commands of their own. Jobs whose time has come, and jobs of nodes that lost
        their lease, are waiting again before that."""

    async def next_due(self) -> float | None:
        """The next moment at which a claim may find more than now: a delay or a lease ends."""

    async def renew(
        self, claims: Sequence[tuple[str, str]], lease_seconds: float
    ) -> dict[str, bool]:
        """Confirm claims (job and token). By job: True, or False for a claim that is lost or a job
        that is to be cancelled."""

    async def report(self, job: str, token: str, *, progress: Any, result: Any) -> bool:
        """Note what the job says about itself; UNSET changes nothing."""

    async def complete(self, job: str, token: str, ending: Ending) -> bool: ...

    async def fail(self, job: str, token: str, ending: Ending, retry_at: float | None) -> bool:
        """The attempt failed: the job is tried again at a time, or is dead."""

    async def release(self, job: str, token: str, run_at: float | None = None) -> bool:
        """Give a claim back as if it had not been made: the process was never started."""

    async def cancel(self, job: str) -> StoredJob | None:
        """Cancel a job. One that is active is marked, and its node ends it."""

    async def cancelled(self, job: str, token: str, ending: Ending) -> bool:
        """Its process is gone, after a cancel."""

    async def retry(self, job: str) -> StoredJob | None:
        """Let a failed or cancelled job wait again, with all its attempts."""

    async def get(self, job: str) -> StoredJob | None: ...

    async def find(
        self,
        states: Sequence[JobState],
        templates: Collection[str] | None = None,
        limit: int = 100,
    ) -> list[StoredJob]:
        """Jobs in these states, the newest first; those that wait in their order."""

    async def active(self, node: str) -> list[StoredJob]:
        """Jobs that this node has claimed."""

    async def counts(self) -> dict[str, int]:
        """How many jobs are in each state, and under `total:NAME` what has happened so far."""

    async def pause(self, *, is_paused: bool) -> None:
        """Let no claim find a job, or find them again."""

    async def is_paused(self) -> bool: ...

    async def repeats(self) -> list[RepeatSpec]: ...

    async def set_repeat(self, repeat: RepeatSpec) -> None: ...

    async def remove_repeat(self, repeat: str) -> bool: ...

    async def settle_repeat(self, repeat: str, handled: float, job: NewJob | None) -> bool:
        """Note a time as settled and add its job, both or none. Returns whether a job was added."""

    async def expire(self, keep_failed: float, log_size: int) -> Expired:
        """Drop failed jobs that were kept long enough, and name outputs beyond the budget."""

    async def close(self) -> None: ...


def new_job_id(template: str) -> str:
    """Return a fresh id. It names the template, and ids of one template sort by time."""
    middle = f"{template}-" if template else ""
    return f"job-{middle}{int(time.time() * 1000):011x}{os.urandom(3).hex()}"


def template_of(job: str) -> str:
    """Return the template that the id of a job or a repetition names; empty for none."""
    return job.partition("-")[2].rpartition("-")[0]
