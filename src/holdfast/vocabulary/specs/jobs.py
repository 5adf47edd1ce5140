"""What a user declares about jobs and their queue, and what one job asks for.

Durations are seconds. The defaults here are the defaults of the product.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.vocabulary.specs.services import ScheduleSpec, ServiceSpec

PRIORITY = 0
ATTEMPTS = 3
BACKOFF_SECONDS = 2.0
KEEP_FAILED_SECONDS = 7 * 86400.0


class BackoffSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How long a job that failed waits for its next attempt."""

    type: Literal["exponential", "fixed"] = "exponential"
    delay: float = BACKOFF_SECONDS


class RateSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """At most `max` jobs are started within `per` seconds."""

    max: int
    per: float = 1.0


class JobTemplate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A kind of job that the configuration names."""

    service: ServiceSpec
    """The process: what is run, where, as whom and within which limits."""
    description: str = ""
    takes_args: bool = False
    """Whether a job may bring further arguments without being an admin's."""
    attempts: int = ATTEMPTS
    backoff: BackoffSpec = BackoffSpec()
    concurrency: int | None = None
    """How many jobs of this template run at once. None: as many as the queue allows."""
    priority: int = PRIORITY
    """Lower first."""
    rate: RateSpec | None = None
    remove_on_complete: bool = True
    remove_on_fail: bool = False
    keep_failed: float | None = None
    """How long a failed job is kept. None: as the queue says."""


class QueueSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The queue of this Holdfast."""

    name: str = "process-queue"
    concurrency: int = 4
    """How many jobs run at once."""
    rate: RateSpec | None = None
    keep_failed: float = KEEP_FAILED_SECONDS
    log_size: int = 256 * 1024 * 1024
    """How much output of all jobs together is kept; the oldest goes first."""
    lease: float = 60.0
    """How long a job may run while nobody confirms it."""


class KillTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The very process that a `kill` job means."""

    service: str
    run_id: str
    pid: int
    start_time: str
    boot_id: str


class JobRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one job asks for. It is stored with the job, so it holds no environment of a person."""

    kind: Literal["spawn", "kill"] = "spawn"
    template: str = ""
    """The template in the configuration; empty for a command of its own."""
    argv: tuple[str, ...] = ()
    """The command; with a template, further arguments for it."""
    working_dir: str = ""
    confined_to: str | None = None
    """The folder that it must run below, wherever links lead; set for callers but the owner."""
    env: dict[str, str] = {}
    timeout: float | None = None
    target: KillTarget | None = None
    signal: str = "SIGTERM"
    attempts: int = ATTEMPTS
    backoff: BackoffSpec = BackoffSpec()
    remove_on_complete: bool = True
    remove_on_fail: bool = False
    keep_failed: float | None = None
    by: str = ""
    """Who added it."""


class RepeatSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job that is added again and again."""

    id: str
    schedule: ScheduleSpec
    request: JobRequest
    priority: int = PRIORITY
    handled: float = 0.0
    """All times up to here are settled."""
