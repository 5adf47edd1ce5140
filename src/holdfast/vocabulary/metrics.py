"""What services use: the command and its answer. Bytes, seconds, and percent of one core."""

from __future__ import annotations

import msgspec

from holdfast.vocabulary.authority import SecurityMetrics
from holdfast.vocabulary.command import Command, Effect, Permission, Result


class ServiceMetrics(Result, frozen=True, kw_only=True):
    """One service, over the whole tree of its live run. Without a run, only its totals."""

    status: str
    pid: int | None = None
    started_at: float | None = None
    """Unix seconds."""
    uptime: float | None = None
    cpu_percent: float | None = None
    memory_bytes: int | None = None
    """Resident; what processes share counts in each of them."""
    memory_mb: float | None = None
    user_seconds: float | None = None
    system_seconds: float | None = None
    handles: int | None = None
    threads: int | None = None
    processes: int | None = None
    read_bytes: int | None = None
    """From storage; `read_chars` counts every read, of pipes and the cache, too."""
    written_bytes: int | None = None
    read_chars: int | None = None
    written_chars: int | None = None
    cpu_seconds_total: float = 0.0
    """Of all its runs."""
    read_bytes_total: int = 0
    written_bytes_total: int = 0
    restarts: int = 0
    """Automatic ones in a row."""
    runs: int = 0
    custom: dict[str, float] = {}
    """Its own status text, from its notify socket."""
    pss_bytes: int | msgspec.UnsetType | None = msgspec.UNSET
    """Of each shared page its part; only with `extras`."""
    ports: list[int] | msgspec.UnsetType = msgspec.UNSET
    """It listens on these; only with `extras`."""


class Aggregate(
    Result,
    frozen=True,
    kw_only=True,
    rename={
        "total_cpu": "totalCPU",
        "total_memory": "totalMemory",
        "active_processes": "activeProcesses",
        "total_processes": "totalProcesses",
        "total_threads": "totalThreads",
        "total_handles": "totalHandles",
        "total_bytes_read": "totalBytesRead",
        "total_bytes_written": "totalBytesWritten",
    },
):
    """All services of the answer together."""

    total_cpu: float
    """Percent of one core."""
    total_memory: int
    active_processes: int
    """Services that run."""
    total_processes: int
    total_threads: int
    total_handles: int
    total_bytes_read: int
    total_bytes_written: int


class HostMetrics(Result, frozen=True, kw_only=True):
    """The machine; smoothed over ten seconds. None: not known."""

    cpu_percent: float | None
    """Of all processors."""
    memory_percent: float | None
    processors: int


class OwnMetrics(Result, frozen=True, kw_only=True):
    """Holdfast itself, since this supervisor began."""

    uptime: float
    cpu_seconds: float | None
    """Of the supervisor."""
    memory_bytes: int | None
    keeper_cpu_seconds: float | None
    keeper_memory_bytes: int | None
    commands: dict[str, int]
    """Dispatched, by name."""
    handler_seconds: float
    events: int
    spawns: int
    spawn_seconds: float
    restarts: int
    failures: int
    loop_lag_seconds: float
    """On average, when it sampled the use of services."""
    loop_lag_max_seconds: float


class QueueMetrics(Result, frozen=True, kw_only=True):
    """The queue of jobs."""

    states: dict[str, int]
    """Jobs in each state now."""
    totals: dict[str, int]
    """What has happened since the queue was made."""
    running: int
    concurrency: int
    paused: bool


class MetricPoint(Result, frozen=True, kw_only=True):
    """The `seconds` before `time`. What no point covers is unknown."""

    time: int
    seconds: int
    cpu_percent: float
    cpu_percent_max: float
    memory_bytes: int
    memory_bytes_max: int
    handles: int
    threads: int
    processes: int
    read_bytes_per_second: float
    written_bytes_per_second: float


class MetricsResult(Result, frozen=True, kw_only=True):
    services: dict[str, ServiceMetrics]
    aggregate: Aggregate
    supervisor: OwnMetrics
    host: HostMetrics
    age: float | None
    """Seconds since the look; None: nothing runs."""
    resolution: int | msgspec.UnsetType = msgspec.UNSET
    history: dict[str, list[MetricPoint]] | msgspec.UnsetType = msgspec.UNSET
    """By service; only if asked for."""
    security: SecurityMetrics | msgspec.UnsetType = msgspec.UNSET
    """Only in mode advanced."""
    queue: QueueMetrics | msgspec.UnsetType = msgspec.UNSET
    """Only if there ever was a job."""


class Metrics(Command, frozen=True, kw_only=True):
    """Tell what each service uses over its whole process tree, and all of them together.

    `extras` adds what is slow to collect: memory with shared pages counted fairly (`pss_bytes`) and
    the ports it listens on. `history` in seconds adds the points of that time; `resolution` is
    1, 10 or 60 seconds, by default the finest that reaches back far enough.
    """

    name = "metrics"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = MetricsResult
    route = ("GET", "/api/metrics")
    is_shared = True
    services: list[str] = []
    extras: bool = False
    history: float | None = None
    resolution: int | None = None
