"""What a user declares about resources: what a run may use, and when the host is too busy."""

from __future__ import annotations

from typing import Literal

import msgspec

LimitAction = Literal["kill", "warn", "restart", "stop"]


class MemoryLimit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much memory a run may use over its whole tree, and what happens beyond that."""

    size: int
    action: LimitAction = "kill"


class HostLimits(msgspec.Struct, frozen=True, kw_only=True):
    """When the host is too busy for another start. None: no limit."""

    max_processes: int | None = None
    """Runs at the same time."""
    max_cpu: float | None = None
    """Percent of all processors in use, over ten seconds."""
    max_memory: float | None = None
    """Percent of the memory in use."""
    queue_when_busy: bool = False
    """Whether a start then waits instead of failing."""
