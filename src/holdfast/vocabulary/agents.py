"""AI backends and their sessions: what can be asked of them, what they tell, what is answered.

A session is one conversation with a backend, `session-{UUID}`, for ever. It has runs, one process
life each, and the backend's own id of the conversation, which may change. All backends tell what
happens in the same words, whatever their dialect.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from holdfast.vocabulary.command import Command, Done, Effect, Permission, Result


class AgentEventKind(str, Enum):
    """What happened in a session. The value is the name that users see."""

    SESSION_BOUND = "session.bound"
    TURN_STARTED = "turn.started"
    TEXT_DELTA = "text.delta"
    THOUGHT_DELTA = "thought.delta"
    TOOL_STARTED = "tool.started"
    TOOL_UPDATED = "tool.updated"
    TOOL_FINISHED = "tool.finished"
    APPROVAL_REQUESTED = "approval.requested"
    APPROVAL_SETTLED = "approval.settled"
    PLAN = "plan"
    USAGE = "usage"
    RETRYING = "retrying"
    RATE_LIMIT = "rate_limit"
    WARNING = "warning"
    TURN_FINISHED = "turn.finished"
    RUN_STARTED = "run.started"
    RUN_ENDED = "run.ended"
    RAW = "raw"


EVENT_MEANING: dict[AgentEventKind, str] = {
    AgentEventKind.SESSION_BOUND: "The backend named the conversation (`provider_id`) and is "
    "ready; with its `model` and `version` where it tells them.",
    AgentEventKind.TURN_STARTED: "A prompt was given: `turn` and its `text`.",
    AgentEventKind.TEXT_DELTA: "A piece of the answer: `text`.",
    AgentEventKind.THOUGHT_DELTA: "A piece of its reasoning: `text`.",
    AgentEventKind.TOOL_STARTED: "It uses a tool: `id`, `tool`, `title`, `input`.",
    AgentEventKind.TOOL_UPDATED: "News of a tool: `id`, and `text` or `input`.",
    AgentEventKind.TOOL_FINISHED: "A tool has answered: `id`, `is_error`, `text`.",
    AgentEventKind.APPROVAL_REQUESTED: "It waits for a permission: `request`, `tool`, `title`, "
    "`input`, and the `approval` in the inbox.",
    AgentEventKind.APPROVAL_SETTLED: "The permission was decided: `request`, `is_approved`, "
    "`reason`, `by`.",
    AgentEventKind.PLAN: "What it means to do: `entries`.",
    AgentEventKind.USAGE: "What it used: `input_tokens`, `output_tokens`, `cost`.",
    AgentEventKind.RETRYING: "It does not reach its model and tries again: `attempt`, `most`, "
    "`delay`, `cause`.",
    AgentEventKind.RATE_LIMIT: "Its vendor limits it: `resets_at`, `status`.",
    AgentEventKind.WARNING: "Something that a person should know: `text`; with "
    "`is_final` the conversation cannot be begun.",
    AgentEventKind.TURN_FINISHED: "The turn is over: `turn`, `reason` (done, interrupted, failed, "
    "limit), and `text`: why it failed.",
    AgentEventKind.RUN_STARTED: "A process of it began: `run_id`, `number`.",
    AgentEventKind.RUN_ENDED: "Its process ended: `code` or `signal`, and why (`failure`, "
    "`sentence`, `fix`).",
    AgentEventKind.RAW: "Something that the adapter does not know: `text`, as it was printed.",
}


class FailureClass(str, Enum):
    """Why a backend does not work: each has its own remedy."""

    NOT_INSTALLED = "not_installed"
    NEEDS_LOGIN = "needs_login"
    NEEDS_TRUST = "needs_trust"
    BAD_FLAG = "bad_flag"
    UPSTREAM_UNREACHABLE = "upstream_unreachable"
    RATE_LIMITED = "rate_limited"
    LOST_CONVERSATION = "lost_conversation"
    STALLED = "stalled"
    CRASHED = "crashed"


class BackendInfo(Result, frozen=True, kw_only=True):
    """One backend of the configuration, and what was found of it on this machine."""

    name: str
    kind: str
    mode: str
    model: str | None = None
    path: str | None = None
    """The program or the address; nothing if it is not there, or was not looked for."""
    version: str | None = None
    capabilities: list[str] = []
    login: str = "unknown"
    """yes, no or unknown."""
    failure: str | None = None
    """Why it cannot be used: not_installed, needs_login, …"""
    sentence: str | None = None
    fix: str | None = None
    """The command that mends it."""
    health: str | None = None
    """Of a model server: none, reachable, models or answers."""
    models: list[str] = []
    """Those that a model server has."""
    sessions: list[str] = []
    """The sessions of it that are there."""


class BackendsResult(Result, frozen=True, kw_only=True):
    backends: list[BackendInfo]


class ListBackends(Command, frozen=True, kw_only=True):
    """List the AI backends of the configuration.

    With `probe`, each program is asked for its version, what it can do and whether it is logged
    in, which may take seconds; what is wrong is answered with the command that mends it.
    """

    name = "list_backends"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = BackendsResult
    route = ("GET", "/api/backends")
    backends: list[str] = []
    """Which ones; empty: all."""
    probe: bool = False


class AgentInfo(Result, frozen=True, kw_only=True):
    """One session with a backend. Times are unix seconds."""

    session: str
    service: str
    """The service that runs its processes: `logs`, `ps` and `metrics` are about it."""
    backend: str
    kind: str
    mode: str = "headless"
    state: str
    """The state of the service: starting, running, backoff, failed, stopped, …"""
    condition: str
    """new, starting, ready, working, waiting_approval, retrying, backoff, stalled, needs_login,
    needs_trust, …, suppressed, stopped."""
    folder: str
    worktree: str | None = None
    provider_id: str | None = None
    """The id of the conversation at the backend."""
    run_id: str | None = None
    opened_at: float
    opened_by: str
    parent: str | None = None
    turn: int = 0
    """How many turns were begun."""
    is_working: bool = False
    queued: int = 0
    """Prompts that wait for their turn."""
    approvals: list[str] = []
    """Permissions that it waits for, by their ids in the inbox."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    """Its turns took together."""
    crashes: int = 0
    failure: str | None = None
    """Why it does not work, by class."""
    sentence: str | None = None
    fix: str | None = None
    next_start_at: float | None = None
    events: int = 0
    """How many events its transcript has."""


class AgentsResult(Result, frozen=True, kw_only=True):
    agents: list[AgentInfo]


class AgentResult(Result, frozen=True, kw_only=True):
    """`outcome`: started, attached, interrupted, nothing_to_interrupt, stopped, restarted,
    resumed, forked, already_running."""

    outcome: str
    agent: AgentInfo


class PromptResult(Result, frozen=True, kw_only=True):
    """`after` is the number of the event before the turn: what follows it belongs to it."""

    session: str
    turn: int
    after: int
    is_queued: bool = False


class DelegateResult(Result, frozen=True, kw_only=True):
    session: str
    reason: str
    """done, interrupted, failed, limit; or working: it has not answered yet."""
    text: str
    """What the other backend answered."""


class TranscriptResult(Result, frozen=True, kw_only=True):
    """Events with their `seq`, `at` and `kind`; with `format: markdown` the text instead."""

    session: str
    events: list[dict[str, Any]] = []
    markdown: str | None = None
    after: int
    """The number of the last event; ask again with it for those that follow."""
    is_whole: bool = True


class ListAgents(Command, frozen=True, kw_only=True):
    """List the sessions with AI backends, the oldest first."""

    name = "list_agents"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = AgentsResult
    route = ("GET", "/api/agents")
    backends: list[str] = []
    """Only sessions of these; empty: of all."""


class StartOrAttach(Command, frozen=True, kw_only=True):
    """Return a live session of a backend in a folder, or start one.

    With `session`, this very session is started again and goes on with its conversation; with
    `new`, a further one is started in any case. A model server that the backend names as its
    service is started first.
    """

    name = "start_or_attach"
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    about_agents = True
    answers = AgentResult
    route = ("POST", "/api/agents")
    path_fields = frozenset({"working_dir"})
    backend: str = ""
    session: str | None = None
    working_dir: str = ""
    service: str | None = None
    """The name of the service that runs it; by default the backend's, with a number."""
    worktree: bool = False
    """Work in a git worktree of its own."""
    new: bool = False


class PromptAgent(Command, frozen=True, kw_only=True):
    """Give a session a prompt. It waits for its turn if another is under way."""

    name = "prompt"
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    about_agents = True
    answers = PromptResult
    route = ("POST", "/api/agents/{session}/prompt")
    masked = frozenset({"text"})
    session: str
    text: str


class InterruptAgent(Command, frozen=True, kw_only=True):
    """End the turn that is under way; the session goes on."""

    name = "interrupt"
    in_lockdown = True
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    about_agents = True
    answers = AgentResult
    route = ("POST", "/api/agents/{session}/interrupt")
    session: str


class StopAgent(Command, frozen=True, kw_only=True):
    """Stop the process of a session; its conversation can be resumed."""

    name = "stop_agent"
    in_lockdown = True
    permission = Permission.OPERATE
    effect = Effect.DISRUPTS
    about_agents = True
    answers = AgentResult
    route = ("POST", "/api/agents/{session}/stop")
    session: str


class RestartAgent(Command, frozen=True, kw_only=True):
    """Start the process of a session again, whatever happened to it, in the same conversation."""

    name = "restart_agent"
    permission = Permission.OPERATE
    effect = Effect.DISRUPTS
    about_agents = True
    answers = AgentResult
    route = ("POST", "/api/agents/{session}/restart")
    session: str


class ResumeAgent(Command, frozen=True, kw_only=True):
    """Start a session that is stopped, in exactly its conversation."""

    name = "resume_agent"
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    about_agents = True
    answers = AgentResult
    route = ("POST", "/api/agents/{session}/resume")
    session: str


class ForgetAgent(Command, frozen=True, kw_only=True):
    """Forget a session that does not run: its record and its transcript.

    What becomes of its worktree is the backend's `worktree_end`; one with changes that are not
    committed, or commits that are not merged, is kept in any case.
    """

    name = "forget_agent"
    permission = Permission.OPERATE
    effect = Effect.DISRUPTS
    about_agents = True
    answers = Done
    route = ("DELETE", "/api/agents/{session}")
    session: str


class ForkAgent(Command, frozen=True, kw_only=True):
    """Begin a new session with a copy of a conversation; the original stays as it is."""

    name = "fork_agent"
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    about_agents = True
    answers = AgentResult
    route = ("POST", "/api/agents/{session}/fork")
    session: str
    service: str | None = None


class Transcript(Command, frozen=True, kw_only=True):
    """Return the events of a session after a number, or all of it as text.

    With `follow`, they are told as items, and go on with new ones; with `turn`, to the end of it.
    """

    name = "transcript"
    permission = Permission.VIEW
    effect = Effect.READS
    about_agents = True
    reads_content = True
    streams = True
    answers = TranscriptResult
    route = ("GET", "/api/agents/{session}/transcript")
    session: str
    after: int = 0
    limit: int = 1000
    format: str = "json"
    """json or markdown."""
    follow: bool = False
    turn: int | None = None


class Delegate(Command, frozen=True, kw_only=True):
    """Hand a task to a backend, in a session of its own, and wait for the answer.

    If there is none within `seconds`, the reason is `working`; with the `session` of that answer,
    it is waited for further. When the task is over, a session that was opened for it is stopped. A
    session that was delegated to may delegate further, three deep.
    """

    name = "delegate"
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    about_agents = True
    toolset = "process"
    mcp_setting = "delegate"
    answers = DelegateResult
    route = ("POST", "/api/agents/delegate")
    masked = frozenset({"text"})
    path_fields = frozenset({"working_dir"})
    backend: str = ""
    text: str = ""
    session: str | None = None
    """One that works already: wait for it."""
    working_dir: str = ""
    seconds: float = 600.0
    keep: bool = False
    """Leave the session running afterwards."""
