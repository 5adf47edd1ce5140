"""Commands about jobs, and their answers: add, look, wait, cancel, retry, pause.

A job is a command that is run once, later or when there is room, and again if it fails. Its id
begins with the name of its template, so that whoever is limited to some templates is so everywhere.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec

from holdfast.vocabulary.command import LOCAL, Command, Done, Effect, Permission, Result
from holdfast.vocabulary.output import LogLine

MOST_ARGUMENTS = 1000
MOST_AFTER = 100
LARGEST_REPORT = 64 * 1024
"""Bytes of JSON that a job may tell as its result."""
State = Literal["waiting", "delayed", "blocked", "active", "completed", "failed", "cancelled"]


class JobInfo(Result, frozen=True, kw_only=True):
    """A job as it is now."""

    id: str
    state: State
    kind: Literal["spawn", "kill"]
    template: str
    """Empty for a command of its own."""
    command: str
    """What it runs, without secrets; or what is killed, and how."""
    priority: int
    attempts: int
    """Attempts that began."""
    most_attempts: int
    added_at: float
    by: str = ""
    run_at: float | None = None
    """Not before this time."""
    started_at: float | None = None
    ended_at: float | None = None
    unique: str | None = None
    after: list[str] = []
    """Jobs that have to be completed first, and are not."""
    run_id: str | None = None
    pid: int | None = None
    progress: Any = None
    result: Any = None
    reason: str | None = None
    """Why it or its last attempt failed, or why it waits."""
    exit_code: int | None = None
    signal: str | None = None
    is_removed: bool = False
    """Whether it is in no list any more."""


class RepeatInfo(Result, frozen=True, kw_only=True):
    """A job that is added again and again."""

    id: str
    template: str
    command: str
    schedule: str
    next: float | None
    by: str = ""


class AddedJob(Result, frozen=True, kw_only=True):
    """`is_new` is False if an unfinished job has the same `unique` text: that one is told."""

    job: JobInfo | None = None
    repeat: RepeatInfo | None = None
    is_new: bool = True


class JobsResult(Result, frozen=True, kw_only=True):
    jobs: list[JobInfo]
    counts: dict[str, int]
    """All jobs of the queue, by state."""
    repeats: list[RepeatInfo] = []
    is_paused: bool = False


class JobResult(Result, frozen=True, kw_only=True):
    job: JobInfo


class JobLogsResult(Result, frozen=True, kw_only=True):
    job: str
    lines: list[LogLine]
    cursor: str | None = None
    more: bool = False


class JobStatsResult(Result, frozen=True, kw_only=True):
    """`totals` count since the queue was made; `waits_for` says why nothing more is started."""

    queue: str
    concurrency: int
    running: int
    counts: dict[str, int]
    totals: dict[str, int]
    templates: dict[str, int]
    """Running jobs of each template of the configuration."""
    is_paused: bool
    waits_for: str | None = None


class Backoff(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to wait after a failed attempt; `delay` in seconds, doubled each time if
    exponential."""

    type: Literal["exponential", "fixed"] = "exponential"
    delay: float = 2.0


class AddJob(Command, frozen=True, kw_only=True):
    """Add a job: a template of the configuration, a command of its own, or a process to be killed.

    With `template`, `argv` are further arguments; without, the command. `kind: kill` sends `signal`
    to the process that `service` has now, and to no other, also if its number is given out again.
    Lower `priority` goes first; 0 is the usual. `delay` is in seconds. `attempts` and `backoff`
    say how often and after how long it is tried. While a job with the same `unique` text is not
    over, that one is answered and nothing is added. `after`: jobs that must be completed first.
    With `repeat` (five fields of cron, or `every` seconds) it is added at each of these times. What
    it is told in `env` is stored with it: give secrets to the template instead.
    """

    name = "add_job"
    carries_commands = True
    path_fields = frozenset({"working_dir"})
    admin_fields = frozenset({"env"})
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    answers = AddedJob
    route = ("POST", "/api/jobs")
    kind: Literal["spawn", "kill"] = "spawn"
    template: str | None = None
    argv: list[str] = []
    working_dir: str | None = None
    env: dict[str, str] | None = None
    service: str | None = None
    signal: str = "SIGTERM"
    priority: int | None = None
    delay: float = 0.0
    attempts: int | None = None
    backoff: Backoff | None = None
    timeout: float | None = None
    unique: str | None = None
    after: list[str] = []
    repeat: str | None = None
    every: float | None = None
    remove_on_complete: bool | None = None
    remove_on_fail: bool | None = None

    def __post_init__(self) -> None:
        if self.kind == "kill":
            if self.service is None or self.template is not None or self.argv:
                raise ValueError("a job of kind kill names a `service`, and no command")
        elif self.service is not None:
            raise ValueError("`service` is for jobs of kind kill")
        elif self.template is None and not self.argv:
            raise ValueError("there is nothing to run: give a `template` or a command in `argv`")
        if len(self.argv) > MOST_ARGUMENTS or len(self.after) > MOST_AFTER:
            raise ValueError(
                f"a job has at most {MOST_ARGUMENTS} arguments, and comes after {MOST_AFTER} others"
            )
        if any("\0" in word for word in self.argv):
            raise ValueError("a command must not contain NUL characters")
        if not 0 <= self.delay < math.inf:
            raise ValueError(f"a delay of {self.delay:g} s is not possible")
        if self.attempts is not None and not 1 <= self.attempts <= 1000:
            raise ValueError("attempts are 1 to 1000")
        if self.timeout is not None and not 0 < self.timeout < math.inf:
            raise ValueError("a timeout is a number of seconds above 0")
        if self.unique is not None and not 1 <= len(self.unique) <= 200:
            raise ValueError("`unique` is a text of 1 to 200 letters")
        if self.repeat is not None and self.every is not None:
            raise ValueError("`repeat` and `every` are two ways to say the same; keep one")
        if self.every is not None and not 1 <= self.every < math.inf:
            raise ValueError("`every` is a number of seconds, at least 1")


class ListJobs(Command, frozen=True, kw_only=True):
    """List the jobs of the queue: those that run, then those that wait in their order, then the
    others, the newest first. Completed ones are removed, unless their template says otherwise.
    """

    name = "list_jobs"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = JobsResult
    route = ("GET", "/api/jobs")
    states: list[State] = []
    templates: list[str] = []
    limit: int = 100


class ShowJob(Command, frozen=True, kw_only=True):
    """Show a job. How a removed one ended can be asked for a while."""

    name = "show_job"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = JobResult
    route = ("GET", "/api/jobs/{job}")
    job: str


class JobLogs(Command, frozen=True, kw_only=True):
    """Tell what the attempts of a job printed, without secrets. With `follow`, lines are told as
    items until the job is over, the last item being the job."""

    name = "job_logs"
    reads_content = True
    permission = Permission.VIEW
    effect = Effect.READS
    answers = JobLogsResult
    route = ("GET", "/api/jobs/{job}/logs")
    job: str
    attempt: int | None = None
    tail: int | None = None
    cursor: str | None = None
    limit: int = 1000
    follow: bool = False


class WaitJob(Command, frozen=True, kw_only=True):
    """Wait until a job is over: completed, failed for good, or cancelled. With `follow`, every
    change of state and every progress is told as an item, the last item being the job."""

    name = "wait_job"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = JobResult
    route = ("GET", "/api/jobs/{job}/wait")
    job: str
    timeout: float = 60.0
    follow: bool = False


class CancelJob(Command, frozen=True, kw_only=True):
    """Cancel a job, or end a repetition. One that runs is ended with its whole tree; it is over
    when no process of it is left. A failed job is taken off the list."""

    name = "cancel_job"
    in_lockdown = True
    permission = Permission.OPERATE
    effect = Effect.DISRUPTS
    answers = JobResult
    route = ("POST", "/api/jobs/{job}/cancel")
    job: str


class RetryJob(Command, frozen=True, kw_only=True):
    """Let a job that failed or was cancelled wait again, with all its attempts."""

    name = "retry_job"
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    answers = JobResult
    route = ("POST", "/api/jobs/{job}/retry")
    job: str


class PauseJobs(Command, frozen=True, kw_only=True):
    """Start no further job, until the queue is resumed. Those that run go on."""

    name = "pause_jobs"
    in_lockdown = True
    permission = Permission.OPERATE
    effect = Effect.DISRUPTS
    answers = Done
    route = ("POST", "/api/queue/pause")


class ResumeJobs(Command, frozen=True, kw_only=True):
    """Let a paused queue go on."""

    name = "resume_jobs"
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    answers = Done
    route = ("POST", "/api/queue/resume")


class JobStats(Command, frozen=True, kw_only=True):
    """Tell how many jobs are in which state, what runs, and why nothing more is started."""

    name = "job_stats"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = JobStatsResult
    route = ("GET", "/api/queue")


class ReportJob(Command, frozen=True, kw_only=True):
    """Tell the progress or the result of a job, by the job itself: `token` is what it has in
    `HOLDFAST_JOB_TOKEN`. A token of an earlier attempt is refused, so that a process that should
    be gone changes nothing."""

    name = "report_job"
    doors = LOCAL
    masked = frozenset({"token", "result"})
    permission = Permission.VIEW
    effect = Effect.CHANGES
    answers = Done
    job: str
    token: str
    progress: Any | msgspec.UnsetType = msgspec.UNSET
    result: Any | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        for value in (self.progress, self.result):
            if value is not msgspec.UNSET and len(msgspec.json.encode(value)) > LARGEST_REPORT:
                raise ValueError(f"progress and result have at most {LARGEST_REPORT // 1024} KiB")
