"""Alerts: what is wrong now or was, where people want to be told, and the command about both."""

from __future__ import annotations

from enum import Enum
from typing import Literal

import msgspec

from holdfast.vocabulary.command import Command, Effect, Permission, Result

Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")


class AlertCause(str, Enum):
    """Why an alert is raised. The value is the name that users see and filter by; the guide about
    alerts says what raises and clears each."""

    HEALTH_CHECK = "health_check"
    UNREADY = "unready"
    UNHEALTHY = "unhealthy"
    CRASH = "crash"
    START_FAILURE = "start_failure"
    SUPPRESSED = "suppressed"
    LIMIT = "limit"
    TIMEOUT = "timeout"
    UNKILLABLE = "unkillable"
    OUTPUT_GAP = "output_gap"
    WATCH = "watch"
    WORKFLOW = "workflow"
    DOOR = "door"
    KEEPER = "keeper"
    HISTORY = "history"
    DELIVERY = "delivery"
    OTHER = "other"


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong, until it is cleared. Repeats are counted, not raised again."""

    id: str
    service: str | None
    cause: str
    severity: Severity
    message: str
    since: float
    last_at: float
    count: int = 1
    subject: str = ""
    """Which limit, workflow, probe or target."""
    run_id: str | None = None
    cleared_at: float | None = None
    cleared_because: str | None = None


class TargetSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where alerts are delivered to; address and headers may hold secrets."""

    name: str
    """Shown to people; holds no secret."""
    webhook: str | None = None
    headers: dict[str, str] = {}
    format: Literal["json", "text"] = "json"
    command: tuple[str, ...] = ()
    desktop: bool = False
    timeout: float = 10.0
    severity: Severity = "warning"
    """The least severe alert that is told."""
    causes: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    cleared: bool = True
    """Whether the end of an alert is told too."""
    cooldown: float = 0.0
    """The same service and cause is not told again within this."""
    repeat: float = 0.0
    """What is still open is told again after this; 0: never."""


class TargetStatus(Result, frozen=True, kw_only=True):
    """Where alerts are delivered to; never its address."""

    name: str
    way: str
    """webhook, command or desktop"""
    severity: str
    delivered: int
    skipped: int
    failures: int
    """Failed attempts in a row; 0: the last one arrived, or there was none yet."""
    failing_since: float | None = None
    reason: str | None = None
    last_delivered_at: float | None = None


class AlertsResult(Result, frozen=True, kw_only=True):
    alerts: list[Alert]
    """The open ones, the most severe first; behind them those that are over."""
    targets: list[TargetStatus] = []


class Alerts(Command, frozen=True, kw_only=True):
    """Tell what is wrong now; with `history`, also the newest `limit` alerts that are over.

    `targets` is told too: where alerts are delivered to, and whether they arrive.
    """

    name = "alerts"
    rest_tag = "trouble"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = AlertsResult
    route = ("GET", "/api/alerts")
    is_shared = True
    services: list[str] = []
    history: bool = False
    limit: int = 50
