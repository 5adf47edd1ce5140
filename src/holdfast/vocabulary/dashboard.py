"""What programs that know other dashboards are told: the same facts, by the names used there."""

from __future__ import annotations

import msgspec

from holdfast.vocabulary.command import Result
from holdfast.vocabulary.metrics import MetricsResult, ServiceMetrics
from holdfast.vocabulary.services import ServiceStatus, SupervisorStatus


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


class SystemUsage(
    ServiceMetrics,
    frozen=True,
    kw_only=True,
    rename={
        "start_time": "startTime",
        "bytes_read": "bytesRead",
        "bytes_written": "bytesWritten",
        "user_time": "userTime",
        "system_time": "systemTime",
    },
):
    """The use of a service, in both spellings."""

    cpu: float | msgspec.UnsetType = msgspec.UNSET
    """As `cpu_percent`: percent of one core."""
    memory: int | msgspec.UnsetType = msgspec.UNSET
    """As `memory_bytes`."""
    start_time: str | msgspec.UnsetType = msgspec.UNSET
    """As `started_at`: RFC 3339."""
    bytes_read: int | msgspec.UnsetType = msgspec.UNSET
    """As `read_bytes`."""
    bytes_written: int | msgspec.UnsetType = msgspec.UNSET
    """As `written_bytes`."""
    user_time: float | msgspec.UnsetType = msgspec.UNSET
    """As `user_seconds`."""
    system_time: float | msgspec.UnsetType = msgspec.UNSET
    """As `system_seconds`."""


class SystemMetrics(MetricsResult, frozen=True, kw_only=True):
    """The use of services, of all of them together, of the host and of Holdfast itself."""

    services: dict[str, SystemUsage]  # type: ignore[assignment]
