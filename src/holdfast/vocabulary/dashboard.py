"""What programs that know other dashboards are told: the same facts, by the names used there."""

from __future__ import annotations

import msgspec

from holdfast.vocabulary.results import Result, ServiceStatus, SupervisorStatus


class SystemService(
    ServiceStatus,
    frozen=True,
    kw_only=True,
    rename={"start_time": "startTime", "start_time_ms": "startTimeMs"},
):
    """A service, with both spellings of what it uses and of when it began."""

    cpu: float | msgspec.UnsetType = msgspec.UNSET
    """As `cpu_percent`: percent of one core."""
    memory: int | msgspec.UnsetType = msgspec.UNSET
    """As `memory_mb`, in bytes."""
    start_time: str | msgspec.UnsetType = msgspec.UNSET
    """As `started_at`: RFC 3339."""
    start_time_ms: int | msgspec.UnsetType = msgspec.UNSET
    """As `started_at`, in milliseconds since 1970."""


class SystemStatus(Result, frozen=True, kw_only=True):
    """Holdfast and its services."""

    supervisor: SupervisorStatus
    services: dict[str, SystemService]
