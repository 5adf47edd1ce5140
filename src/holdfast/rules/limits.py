"""Whether a run uses more than it may, and whether the host has room for another. Pure.

Numbers come in. Every verdict names what was measured and what is allowed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec

from holdfast.vocabulary.quantities import format_duration, format_size
from holdfast.vocabulary.specs.resources import HostLimits
from holdfast.vocabulary.specs.services import ServiceSpec

SMOOTHING_SECONDS = 10.0
"""One short peak of the host refuses nothing."""
CLEAR_BELOW = 0.9
"""A limit is cleared only a tenth below it, so that numbers at the edge do not flap."""
CPU_LOOKS = 3
"""So many samples in a row beyond `cpu_limit` count: one peak does not."""


class HostLoad(msgspec.Struct, frozen=True):
    """The load of the host, smoothed. None: not known yet."""

    processes: int
    cpu: float | None = None
    memory: float | None = None


def smooth(before: float | None, value: float, seconds: float) -> float:
    """Return an average in which a value from ten seconds ago counts for about a third."""
    if before is None:
        return value
    weight = 1 - math.exp(-max(0.0, seconds) / SMOOTHING_SECONDS)
    return before + (value - before) * weight


def obstacle(limits: HostLimits, measured: HostLoad) -> str | None:
    """Return in words why nothing may be started now; None: it may."""
    if limits.max_processes is not None and measured.processes >= limits.max_processes:
        live = measured.processes
        running = "1 service runs" if live == 1 else f"{live} services run"
        allowed = f"at most {limits.max_processes} allowed (limits.max_processes)"
        return f"Process limit exceeded: {running}, {allowed}"
    for name, found, most in (
        ("CPU", measured.cpu, limits.max_cpu),
        ("Memory", measured.memory, limits.max_memory),
    ):
        if most is not None and found is not None and found > most:
            allowed = f"at most {most:g} % allowed (limits.max_{name.lower()})"
            return f"{name} limit exceeded: it is at {_percent(found, most)} %, {allowed}"
    return None


class ResourceUse(msgspec.Struct, frozen=True):
    """What a run uses."""

    memory: int
    cpu: float
    processes: int


class Breach(NamedTuple):
    """A limit that a run has reached."""

    limit: str
    """memory, cpu or processes"""
    reason: str
    action: str
    """kill, warn, restart or stop"""


class LimitState(msgspec.Struct, frozen=True):
    """What is remembered of a run between two samples."""

    reached: frozenset[str] = frozenset()
    cpu_looks: int = 0


class LimitVerdict(msgspec.Struct, frozen=True):
    standing: LimitState
    breaches: tuple[Breach, ...]
    """Limits reached since the last sample."""
    cleared: tuple[str, ...]
    """Limits that were reached and are not any more."""


def judge(
    spec: ServiceSpec, before: LimitState, use: ResourceUse, enforced: frozenset[str] = frozenset()
) -> LimitVerdict:
    """Return what follows from a sample; the kernel itself enforces the limits in `enforced`."""
    cpu_looks = before.cpu_looks + 1 if _is_beyond(use.cpu, spec.cpu_limit) else 0
    breaches: list[Breach] = []
    cleared: list[str] = []
    reached = set(before.reached)
    for breach, value, most in _checks(spec, use, cpu_looks):
        if breach.limit in enforced:
            continue
        if breach.limit not in reached and value > most:
            reached.add(breach.limit)
            breaches.append(breach)
        elif breach.limit in reached and value <= most * CLEAR_BELOW:
            reached.discard(breach.limit)
            cleared.append(breach.limit)
    return LimitVerdict(LimitState(frozenset(reached), cpu_looks), tuple(breaches), tuple(cleared))


def has_limits(spec: ServiceSpec) -> bool:
    """Return whether it has any limit."""
    limits = (spec.memory_limit, spec.cpu_limit, spec.process_limit)
    return any(limit is not None for limit in limits)


def timeout_reason(seconds: float) -> str:
    return f"took longer than its timeout of {format_duration(seconds)}"


def _checks(
    spec: ServiceSpec, use: ResourceUse, cpu_looks: int
) -> list[tuple[Breach, float, float]]:
    checks: list[tuple[Breach, float, float]] = []
    if (memory := spec.memory_limit) is not None:
        reason = (
            f"memory is at {format_size(use.memory)}, at most {format_size(memory.size)} allowed "
            "(memory_limit)"
        )
        checks.append((Breach("memory", reason, memory.action), use.memory, memory.size))
    if (cpu := spec.cpu_limit) is not None:
        reason = f"cpu is at {_percent(use.cpu, cpu)} %, at most {cpu:g} % allowed (cpu_limit)"
        value = use.cpu if cpu_looks >= CPU_LOOKS or use.cpu <= cpu else cpu
        checks.append((Breach("cpu", reason, "warn"), value, cpu))
    if (processes := spec.process_limit) is not None:
        count = f"it has {use.processes} processes and threads"
        reason = f"{count}, at most {processes} allowed (process_limit)"
        checks.append((Breach("processes", reason, "kill"), use.processes, processes))
    return checks


def _is_beyond(value: float, most: float | None) -> bool:
    return most is not None and value > most


def _percent(found: float, most: float) -> str:
    """Format a percentage, never rounded down to the limit that it exceeds."""
    shown = f"{found:.0f}"
    return shown if float(shown) > most else f"{found:.2f}"
