"""Why a service is in its state: the command and its answer."""

from __future__ import annotations

from holdfast.vocabulary.alerts import Alert
from holdfast.vocabulary.authority import LockdownInfo
from holdfast.vocabulary.command import Command, Effect, Permission, Result


class Happening(Result, frozen=True, kw_only=True):
    """Something decisive that happened to a service."""

    seq: int
    time: float
    kind: str
    text: str


class LastEnding(Result, frozen=True, kw_only=True):
    """How the newest finished run ended."""

    code: int | None = None
    signal: str | None = None
    seconds: float | None = None
    stage: str | None = None
    """The step of starting that failed, if it never ran."""
    meaning: str = ""


class FieldChange(Result, frozen=True, kw_only=True):
    """A field of the declaration that differs; values that may be secrets are left out."""

    field: str
    before: str | None = None
    after: str | None = None


class ConfigurationChange(Result, frozen=True, kw_only=True):
    """Differences from the last run that went well; `run` is None if there was none."""

    run: int | None = None
    at: float | None = None
    fields: list[FieldChange] = []


class PortHolder(Result, frozen=True, kw_only=True):
    port: int
    pid: int | None
    name: str
    service: str | None = None
    """The service of ours that it belongs to."""


class Explanation(Result, frozen=True, kw_only=True):
    """Why a service is in its state. Where several are explained at once, only up to `is_fine`; for
    one service, with everything that is known."""

    service: str
    status: str
    since: float
    summary: str
    next: str
    is_fine: bool
    desired: str = ""
    reason: str | None = None
    run: int | None = None
    pid: int | None = None
    uptime: float | None = None
    restarts: int = 0
    failures: int = 0
    next_start_in: float | None = None
    waiting_for: list[str] = []
    health: str | None = None
    is_ready: bool | None = None
    command: list[str] = []
    working_dir: str = ""
    happened: list[Happening] = []
    ending: LastEnding | None = None
    last_out: list[str] = []
    last_err: list[str] = []
    environment: dict[str, str | None] = {}
    """Names; the value only where it cannot be a secret."""
    changes: ConfigurationChange | None = None
    started_by: str | None = None
    """The session that it runs for, and through which tool call, in words."""
    ports: dict[str, int] = {}
    holders: list[PortHolder] = []
    alerts: list[Alert] = []
    hints: list[str] = []
    unknown: list[str] = []
    """Facts that could not be found out."""


class ExplainResult(Result, frozen=True, kw_only=True):
    explanations: list[Explanation]
    fine: list[str] = []
    """Services about which there is nothing to explain."""
    lockdown: LockdownInfo | None = None
    """While one is in force: why every change is refused."""


class Explain(Command, frozen=True, kw_only=True):
    """Say in words why a service is in its state, since when, what happened before and what
    comes next; with exit code, last lines, environment (no secrets) and what changed.

    Without `service`, every one that is not fine (of `services`, or of all) is told in a
    sentence.
    """

    name = "explain"
    rest_tag = "trouble"
    reads_content = True
    permission = Permission.VIEW
    effect = Effect.READS
    answers = ExplainResult
    route = ("GET", "/api/services/{service}/explain")
    service: str | None = None
    services: list[str] = []
