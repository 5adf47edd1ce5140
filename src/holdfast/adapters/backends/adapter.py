"""What an adapter of a backend is: pure knowledge of one program's language.

An adapter starts nothing and keeps nothing. It says what a program is asked about itself
(`questions`, `understand`), how it is started (`plan`), what its bytes mean and what is written to
it (`Dialect`), and what its end means (`judge`). Spawning, recording, restarting, approving and
auditing are the engine's, the same for all. A model server without a process of its own is spoken
to by a small program that `plan` names, so that its conversation, too, outlives the supervisor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from holdfast.vocabulary.agents import AgentEventKind, FailureClass
from holdfast.vocabulary.specs.backends import BackendSpec

Retry = Literal["never", "backoff", "when_network", "after_login"]
Login = Literal["yes", "no", "unknown"]
Stream = Literal["out", "err"]


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """What is on this machine of a backend."""

    path: str | None = None
    """The program, or the address of a model server. None: it is not there."""
    version: str | None = None
    capabilities: tuple[str, ...] = ()
    """What this very installation can do, as it says itself: resume, fork, approvals, …"""
    login: Login = "unknown"
    failure: FailureClass | None = None
    sentence: str = ""
    """What is wrong, if anything."""
    fix: str = ""
    """A command that mends it."""
    health: str | None = None
    """Of a model server: none, reachable, models (the wanted one is there) or answers."""
    models: tuple[str, ...] = ()
    """Those that a model server has."""


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of a session is started for."""

    spec: BackendSpec
    session: str
    """Our id, `session-{UUID}`."""
    folder: str
    provider_id: str | None = None
    """The conversation to go on with. None: a new one."""
    is_fork: bool = False
    """Whether to go on in a copy, and leave the original as it is."""
    mcp: tuple[str, ...] = ()
    """The command of Holdfast's MCP server for this agent. Empty: it gets none."""
    program: str | None = None
    """The path of the program, where it was found."""
    history: str = ""
    """The path of the transcript of the conversation to go on with."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is started."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    """Added to the environment of the backend."""
    has_ready: bool = True
    """Whether the dialect says when the session is ready. Without, five seconds count."""


class Ended(NamedTuple):
    """How a run ended by itself."""

    code: int | None
    signal: str | None
    seconds: float
    was_ready: bool
    errors: tuple[str, ...]
    """The last lines of standard error."""
    events: tuple[AgentWord, ...]
    """The last words that the dialect found in its output."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run ended, and what helps."""

    failure: FailureClass
    sentence: str
    fix: str = ""
    retry: Retry = "never"


class AgentWord(NamedTuple):
    """One event as a dialect found it; the engine gives it number, time and place."""

    kind: AgentEventKind
    data: dict[str, Any] = {}


class Heard(NamedTuple):
    """What one line meant: events, and what must be written back because of it."""

    words: list[AgentWord]
    reply: bytes = b""


class Prompt(NamedTuple):
    """Begin a turn with this text."""

    turn: int
    text: str


class Interrupt(NamedTuple):
    """End the turn that is under way."""

    turn: int


class Decide(NamedTuple):
    """Answer a request for permission."""

    request: str
    is_approved: bool
    reason: str


Act = Prompt | Interrupt | Decide


class Dialect(Protocol):
    """The language of one run. All that it must remember is in `memory`, plain JSON: the next
    supervisor goes on with a new dialect and the same memory."""

    memory: dict[str, Any]

    def greet(self) -> bytes:
        """What is written first, when the process is there."""

    def hear(self, stream: Stream, line: bytes) -> Heard:
        """Understand one line, without its end. Never raises; what is unknown becomes `raw`."""

    def say(self, act: Act) -> bytes:
        """What is written to do this."""


class Answer(NamedTuple):
    """What a program answered to a question. `code` is None if it did not answer in time."""

    code: int | None
    out: str
    err: str


class Adapter(Protocol):
    """The knowledge of one kind of backend. Every method is pure."""

    kind: str
    usual: str
    """The program where the configuration names none. Empty: it must name one."""
    install: str
    """The command that installs it."""
    questions: Mapping[str, tuple[str, ...]]
    """Arguments with which the program answers at once and without a model, by a name."""

    def understand(
        self, spec: BackendSpec, program: str, answers: Mapping[str, Answer]
    ) -> Installed:
        """Say what is installed, from the answers to the questions."""

    def plan(self, launch: Launch) -> Plan:
        """Say how a run is started."""

    def dialect(self, launch: Launch, memory: dict[str, Any]) -> Dialect:
        """Return the language of one run; `memory` is empty when it begins."""

    def judge(self, ended: Ended) -> Verdict:
        """Say why a run ended that nobody stopped."""


@runtime_checkable
class ModelServer(Protocol):
    """What the adapter of a model server has besides: it is asked anew each time."""

    def check(self, spec: BackendSpec) -> Plan:
        """Say how the server is asked for its health; the answer is named `check`."""
