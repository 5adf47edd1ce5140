"""Every message of the keeper's protocol as a type: requests, replies and notices.

Keeper and supervisor both use these types, so a field that one side misspells is an error of
mypy's. The page docs/reference/keeper-protocol.md explains the fields; a test compares the page,
this module and the words that the keeper answers. The protocol only grows: add a field as
optional, and never change or remove one.

Types only. The keeper must not import this module at run time, because it cannot afford `typing`.
Optional fields are in a subclass with `total=False`; `NotRequired` is newer than Python 3.10.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

Kind = Literal["service", "task", "terminal"]
"""A service's output is recorded, a task's is handed over, a terminal's passes a PTY."""
LeaseKind = Literal["job", "session"]
GapState = Literal["begin", "end"]
Parts = list[str]
"""Names of the descriptors that travel with a message, in their order: `out`, `err`, `stdin`,
`channel_in`, `channel_out`, `terminal`, `transit`, `pidfd`."""


# Values that occur in several messages.


class StopSettings(TypedDict, total=False):
    """How a run is ended: a signal, and the seconds until SIGKILL."""

    signal: int
    grace: float
    hangup: bool
    """Whether SIGHUP is sent with the signal, as to a terminal that was closed."""


class LogSettings(TypedDict, total=False):
    """How much of a service's output is kept, in bytes."""

    max_size: int
    total_size: int


class _LeaseSettings(TypedDict):
    seconds: float


class LeaseSettings(_LeaseSettings, total=False):
    """A run is ended unless its lease is renewed in time."""

    kind: LeaseKind
    remaining: float


class ConfinementFields(TypedDict, total=False):
    """The paths that a run may reach, and folders that are open for it by variable."""

    read: list[str]
    write: list[str]
    open: dict[str, str]


class ReadyDescriptor(TypedDict):
    """A held descriptor, and the number at which the run finds it."""

    name: str
    fd: int


class EndState(TypedDict, total=False):
    """A kill chain that is under way, as a successor needs it to go on."""

    signal: int
    grace: float
    signalled: bool
    ago: float
    rest_ago: float
    seen: list[list[Any]]
    reached: list[list[Any]]


class ResourceUsage(TypedDict, total=False):
    """The rusage of a main process; `max_rss` is in KiB."""

    user: float
    system: float
    max_rss: int
    minor_faults: int
    major_faults: int
    in_blocks: int
    out_blocks: int
    voluntary_switches: int
    involuntary_switches: int


class _RunFacts(TypedDict):
    run_id: str
    service: str


class RunFacts(_RunFacts, total=False):
    """A run as the keeper lists it. `list` with `only` tells nothing but `log_bytes` of it."""

    number: int
    kind: str
    pid: int
    start_time: str
    started_at: float
    age: float
    paused: bool
    ending: bool
    is_end_asked: bool
    end: EndState | None
    adopted: bool
    exited: bool
    cgroup: str | None
    enforced: list[str]
    cols: int | None
    rows: int | None
    stop: StopSettings
    log: LogSettings
    lease: LeaseSettings | None
    has_stdin: bool
    log_bytes: int
    is_within_gap: bool
    hidden: bool
    exit: ExitFacts | None


class RunEntry(RunFacts, total=False):
    """A run in the table that one keeper leaves to the next."""

    began: float
    is_child: bool
    parts: dict[str, int]
    cause: str | None
    feed: tuple[str, bool]


class _ExitFacts(TypedDict):
    run_id: str


class ExitFacts(_ExitFacts, total=False):
    """How a run's main process ended; also a line of the journal."""

    service: str
    number: int
    kind: str
    pid: int | None
    code: int | None
    signal: int | None
    unknown: bool
    is_end_asked: bool
    cause: str | None
    started_at: float
    ended_at: float
    seconds: float | None
    rusage: ResourceUsage | None
    log_bytes: int
    empty: bool
    leftovers: list[int]
    oom_kills: int


class EndedProcess(TypedDict):
    """One process of a tree, and how it ended."""

    pid: int
    name: str
    how: str


class TreeReport(TypedDict):
    """How the processes of a run's tree ended; `empty` is False if one cannot be killed."""

    report: list[EndedProcess]
    seconds: float
    empty: bool


class ProcessName(TypedDict):
    """A process as a person recognises it."""

    pid: int
    name: str


class ProcessFacts(TypedDict):
    """One process of a run's tree."""

    pid: int
    ppid: int
    name: str
    state: str
    start_time: str


class _RunRecord(TypedDict):
    run_id: str
    service: str
    number: int


class PredecessorRun(_RunRecord, total=False):
    """A run that an earlier keeper left: a line of `runs.jsonl`, or what its environment says."""

    pid: int
    start_time: str
    started_at: float
    boot_id: str


class Doubt(TypedDict):
    """A start that an earlier keeper did not finish, and the processes that may be its run."""

    run_id: str
    service: str
    number: int
    processes: list[ProcessName]


class SupervisorExit(TypedDict):
    """How the last supervisor ended."""

    code: int | None
    signal: int | None
    at: float


class SupervisorFacts(TypedDict):
    """The supervisor as its keeper sees it."""

    pid: int | None
    state: str
    failures: int
    last_exit: SupervisorExit | None
    last_error: str | None
    since: float
    next_in: float | None
    standbys: list[int]


class HostFacts(TypedDict, total=False):
    """What this machine allows."""

    cgroup: str | None
    cgroup_kill: bool
    ceilings: list[int]
    pidfd: bool
    pidfd_info: bool
    subreaper: bool
    splice: bool
    pipe_max: int
    nofile: int


# Requests, in the order of the page.


class _Envelope(TypedDict, total=False):
    """What any request may carry; the link fills it in."""

    id: int
    kept: dict[str, str | None]
    fds: int


class _Hello(_Envelope):
    do: Literal["hello"]


class HelloRequest(_Hello, total=False):
    protocol: int
    role: str
    version: str


class _List(_Envelope):
    do: Literal["list"]


class ListRequest(_List, total=False):
    only: Literal["log_bytes"]


class _Spawn(_Envelope):
    do: Literal["spawn"]
    run_id: str
    service: str
    argv: list[str]


class SpawnRequest(_Spawn, total=False):
    number: int
    kind: Kind
    environ: str
    env: dict[str, str]
    cwd: str
    beneath: str
    user: str
    rlimits: dict[str, list[int]]
    limits: dict[str, float]
    umask: int | str
    nice: int
    confine: ConfinementFields
    stdin: str
    cols: int
    rows: int
    log: LogSettings
    stop: StopSettings
    lease: LeaseSettings
    hidden: bool
    pass_fds: list[str]
    ready_fd: ReadyDescriptor


class _Signal(_Envelope):
    do: Literal["signal"]
    run_id: str
    signal: int


class SignalRequest(_Signal, total=False):
    to: str


class _EndFields(_Envelope):
    do: Literal["end"]
    run_id: str


class EndRequest(_EndFields, total=False):
    signal: int
    grace: float


class _StayOff(_Envelope):
    do: Literal["stay_off"]
    service: str


class StayOffRequest(_StayOff, total=False):
    grace: float


class _Adjust(_Envelope):
    do: Literal["adjust"]
    run_id: str


class AdjustRequest(_Adjust, total=False):
    stop: StopSettings
    log: LogSettings


class PauseRequest(_Envelope):
    do: Literal["pause"]
    run_id: str


class ResumeRequest(_Envelope):
    do: Literal["resume"]
    run_id: str


class _Write(_Envelope):
    do: Literal["write"]
    run_id: str


class WriteRequest(_Write, total=False):
    data: str
    eof: bool


class ResizeRequest(_Envelope):
    do: Literal["resize"]
    run_id: str
    cols: int
    rows: int


class _Lease(_Envelope):
    do: Literal["lease"]
    run_id: str
    seconds: float | None


class LeaseRequest(_Lease, total=False):
    kind: LeaseKind


class _Adopt(_Envelope):
    do: Literal["adopt"]
    run_id: str
    service: str
    pid: int


class AdoptRequest(_Adopt, total=False):
    number: int
    start_time: str | None
    boot_id: str | None
    started_at: float
    age: float
    cookie: bool
    stop: StopSettings
    log: LogSettings
    reopen: bool


class StraysRequest(_Envelope):
    do: Literal["strays"]


class _EndRest(_Envelope):
    do: Literal["end_rest"]
    run_id: str
    service: str


class EndRestRequest(_EndRest, total=False):
    number: int
    pid: int
    start_time: str | None
    boot_id: str | None
    started_at: float
    age: float
    stop: StopSettings
    log: LogSettings


class TreeRequest(_Envelope):
    do: Literal["tree"]
    run_id: str


class HoldRequest(_Envelope):
    do: Literal["hold"]
    name: str


class ReleaseRequest(_Envelope):
    do: Literal["release"]
    name: str


class KeepRequest(_Envelope):
    do: Literal["keep"]


class ForgetRequest(_Envelope):
    do: Literal["forget"]
    run_ids: list[str]


class _Watch(_Envelope):
    do: Literal["watch"]
    service: str


class WatchRequest(_Watch, total=False):
    on: bool


class _Prune(_Envelope):
    do: Literal["prune"]
    service: str


class PruneRequest(_Prune, total=False):
    keep_segments: int | None
    before: float | None
    all: bool


class _Supervise(_Envelope):
    do: Literal["supervise"]
    on: bool


class SuperviseRequest(_Supervise, total=False):
    again: bool


class StandByRequest(_Envelope):
    do: Literal["stand_by"]


class ReadyRequest(_Envelope):
    do: Literal["ready"]


class _Upgrade(_Envelope):
    do: Literal["upgrade"]


class UpgradeRequest(_Upgrade, total=False):
    argv_prefix: list[str]
    package: str
    import_path: list[str]


class NotedRequest(_Envelope):
    do: Literal["noted"]


class _Shutdown(_Envelope):
    do: Literal["shutdown"]


class ShutdownRequest(_Shutdown, total=False):
    grace: float | None
    exit_code: int | None
    abandon: bool


RunRequest = (
    SpawnRequest | SignalRequest | EndRequest | AdjustRequest | PauseRequest | ResumeRequest
    | WriteRequest | ResizeRequest | LeaseRequest | AdoptRequest | EndRestRequest | TreeRequest
)  # fmt: skip
"""Requests about one run."""
Request = (
    RunRequest | HelloRequest | ListRequest | StayOffRequest | StraysRequest | HoldRequest
    | ReleaseRequest | KeepRequest | ForgetRequest | WatchRequest | PruneRequest
    | SuperviseRequest | StandByRequest | ReadyRequest | UpgradeRequest | NotedRequest
    | ShutdownRequest
)  # fmt: skip


# Replies. An older keeper may leave fields out, so none is required.


class RefusalFacts(TypedDict, total=False):
    """Why a request was refused; `stage` and `errno` tell of a spawn that failed."""

    code: str
    message: str
    stage: str
    errno: int


class Reply(TypedDict, total=False):
    """The answer to a request: `ok`, or an error. Most words answer nothing more."""

    id: int
    ok: bool
    error: RefusalFacts
    fds: int


class _RunReply(Reply, total=False):
    start_time: str
    started_at: float
    enforced: list[str]
    cgroup: str | None
    parts: Parts
    spares: dict[str, int]
    """Filled in by the link: the descriptors that came along, by the names in `parts`."""


class SpawnReply(_RunReply, total=False):
    pid: int


class AdoptReply(_RunReply, total=False):
    """The facts of the adopted run."""

    run_id: str
    service: str
    number: int
    kind: str
    pid: int
    age: float
    paused: bool
    ending: bool
    is_end_asked: bool
    end: EndState | None
    adopted: bool
    exited: bool
    cols: int | None
    rows: int | None
    stop: StopSettings
    log: LogSettings
    lease: LeaseSettings | None
    has_stdin: bool
    log_bytes: int
    is_within_gap: bool
    hidden: bool


class KeeperFacts(Reply, total=False):
    """The answer to `hello` and `list`; `kept` and `ended_unseen` are told to supervisors only."""

    protocol: int
    version: str
    pid: int
    boot_id: str
    started_at: float
    host: HostFacts
    runs: list[RunFacts]
    exits: list[ExitFacts]
    held: list[str]
    supervisor: SupervisorFacts
    unclaimed: list[ProcessName]
    kept: dict[str, str]
    ended_unseen: list[PredecessorRun]


class StraysReply(Reply, total=False):
    strays: list[PredecessorRun]
    doubts: list[Doubt]
    marks: list[int]


class EndRestReply(Reply, total=False):
    pids: list[int]


class TreeReply(Reply, total=False):
    processes: list[ProcessFacts]


class PruneReply(Reply, total=False):
    deleted_bytes: int
    segments: int


class SuperviseReply(Reply, total=False):
    supervisor: SupervisorFacts


class UpgradeReply(Reply, total=False):
    version: str
    pid: int


# Notices.


class _ExitNotice(ExitFacts):
    notice: Literal["exit"]


class ExitNotice(_ExitNotice, total=False):
    """The main process of a run ended."""


class EndAskedNotice(TypedDict):
    notice: Literal["end_asked"]
    service: str
    grace: float


class EndedNotice(TreeReport):
    """The last process of a run's tree is gone, or cannot be killed."""

    notice: Literal["ended"]
    run_id: str
    service: str


class GrewNotice(TypedDict):
    notice: Literal["grew"]
    service: str
    position: int


class GapNotice(TypedDict):
    notice: Literal["gap"]
    service: str
    state: GapState
    lost: int | None
    why: str


class _SpareNotice(TypedDict):
    notice: Literal["spare"]
    run_id: str
    parts: Parts


class SpareNotice(_SpareNotice, total=False):
    start_time: str


class HeldNotice(TypedDict):
    notice: Literal["held"]
    name: str


class SparesDoneNotice(TypedDict):
    notice: Literal["spares_done"]


class StdinClosedNotice(TypedDict):
    """The standard input of a run was closed."""

    notice: Literal["stdin_closed"]
    run_id: str


class _RetireNotice(TypedDict):
    notice: Literal["retire"]


class RetireNotice(_RetireNotice, total=False):
    standby: bool


class LeaveNotice(TypedDict):
    notice: Literal["leave"]


class KeptNotice(TypedDict):
    notice: Literal["kept"]
    kept: dict[str, str | None]


class _ShutdownRequestedNotice(TypedDict):
    notice: Literal["shutdown_requested"]


class ShutdownRequestedNotice(_ShutdownRequestedNotice, total=False):
    signal: int


Notice = (
    ExitNotice | EndAskedNotice | EndedNotice | GrewNotice | GapNotice | SpareNotice | HeldNotice
    | SparesDoneNotice | StdinClosedNotice | RetireNotice | LeaveNotice | KeptNotice
    | ShutdownRequestedNotice
)  # fmt: skip
