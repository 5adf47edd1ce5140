"""The handler of `metrics`: the resources that services, the host and Holdfast use."""

from __future__ import annotations

import os
import time
from typing import Any

import msgspec

from holdfast.adapters.metrics import own
from holdfast.adapters.metrics.rings import RESOLUTIONS, Point
from holdfast.app.context import Context
from holdfast.app.handlers.authority import security_metrics
from holdfast.app.registry import handles
from holdfast.engine.metrics.monitor import Gauge
from holdfast.engine.runner.runner import Runner
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.metrics import (
    Aggregate,
    HostMetrics,
    MetricPoint,
    Metrics,
    MetricsResult,
    OwnMetrics,
    QueueMetrics,
    ServiceMetrics,
)


@handles(Metrics)
async def metrics(context: Context, command: Metrics) -> MetricsResult:
    names, monitor = context.roster.names(command.services), context.resources
    resolution = _resolution(command)
    await monitor.refresh()
    services = {name: _service(context, name) for name in names if name in monitor.gauges}
    if command.extras:
        services = {
            name: await _with_extras(context, name, shown) for name, shown in services.items()
        }
    asked: dict[str, Any] = {}
    if command.history is not None:
        since = time.time() - command.history
        ask, points = monitor.ask, monitor.sampler.points
        asked["resolution"] = resolution
        asked["history"] = {
            name: [_point(point) for point in await ask(points, name, resolution, since)]
            for name in names
        }
    looked = monitor.looked_at
    return MetricsResult(
        services=services,
        aggregate=_aggregate(list(services.values())),
        supervisor=_own(context),
        host=HostMetrics(
            cpu_percent=_rounded(context.host_capacity.cpu),
            memory_percent=_rounded(context.host_capacity.memory),
            processors=os.cpu_count() or 1,
        ),
        age=None if looked is None else round(time.monotonic() - looked, 3),
        **security_metrics(context),
        **await _queue(context),
        **asked,
    )


async def _queue(context: Context) -> dict[str, Any]:
    queue = context.jobs
    if not queue.is_open:
        return {}
    counts = await queue.store.counts()
    totals = {
        name.partition(":")[2]: count for name, count in counts.items() if name.startswith("total:")
    }
    states = {name: count for name, count in counts.items() if ":" not in name}
    numbers = QueueMetrics(
        states=states,
        totals=totals,
        running=len(queue.running),
        concurrency=queue.spec.concurrency,
        paused=await queue.store.is_paused(),
    )
    return {"queue": numbers}


def _resolution(command: Metrics) -> int:
    if command.resolution is not None and command.resolution not in RESOLUTIONS:
        raise UsageError(f"resolution: {command.resolution} is none of 1, 10, 60 seconds")
    if command.history is not None and command.history <= 0:
        raise UsageError("history: must be longer than 0 seconds", "history: 600")
    if command.resolution is not None or command.history is None:
        return command.resolution or 1
    fits = (seconds for seconds, count in RESOLUTIONS.items() if seconds * count >= command.history)
    return next(fits, max(RESOLUTIONS))


def _service(context: Context, name: str) -> ServiceMetrics:
    runner, gauge = context.roster.get(name), context.resources.gauges[name]
    totals = gauge.totals
    facts: dict[str, Any] = {
        "status": runner.state.value,
        "cpu_seconds_total": round(totals.user + totals.system, 3),
        "read_bytes_total": totals.read_bytes,
        "written_bytes_total": totals.written_bytes,
        "restarts": runner.counters.restarts,
        "runs": runner.number,
        "custom": {**gauge.custom, **_agent_totals(context, runner)},
    }
    run = runner.run
    if run is not None and run.is_up:
        uptime = round(time.monotonic() - run.started_mono, 3)
        facts.update(pid=run.pid, started_at=run.started_at, uptime=uptime)
        facts.update(_usage(gauge))
    return ServiceMetrics(**facts)


def _agent_totals(context: Context, runner: Runner) -> dict[str, float]:
    """Return what the session of an AI agent has used of its model."""
    if runner.declaration.spec.kind != "agent":
        return {}
    conversation = context.agents.of_service(runner.name)
    if conversation is None:
        return {}
    totals = conversation.record.totals
    return {
        "input_tokens": totals.input_tokens,
        "output_tokens": totals.output_tokens,
        "cost": round(totals.cost, 6),
        "turns": totals.turns,
        "turn_seconds": round(totals.seconds, 3),
    }


def _usage(gauge: Gauge) -> dict[str, Any]:
    usage = gauge.usage
    if usage is None:
        return {}
    return {
        "cpu_percent": usage.cpu_percent,
        "memory_bytes": usage.memory,
        "memory_mb": round(usage.memory / 1e6, 1),
        "user_seconds": round(usage.totals.user, 3),
        "system_seconds": round(usage.totals.system, 3),
        "handles": usage.handles,
        "threads": usage.threads,
        "processes": usage.processes,
        "read_bytes": usage.totals.read_bytes,
        "written_bytes": usage.totals.written_bytes,
        "read_chars": usage.totals.read_chars,
        "written_chars": usage.totals.written_chars,
    }


async def _with_extras(context: Context, name: str, found: ServiceMetrics) -> ServiceMetrics:
    monitor = context.resources
    run_id = monitor.gauges[name].run_id if name in monitor.gauges else None
    if run_id is None:
        return found
    extras = await monitor.ask(monitor.sampler.extras, run_id)
    return msgspec.structs.replace(
        found, pss_bytes=extras.pss, handles=extras.handles, ports=extras.ports
    )


def _aggregate(services: list[ServiceMetrics]) -> Aggregate:
    def total(field: str) -> Any:
        return sum(getattr(service, field) or 0 for service in services)

    return Aggregate(
        total_cpu=round(total("cpu_percent"), 2),
        total_memory=total("memory_bytes"),
        active_processes=sum(service.pid is not None for service in services),
        total_processes=total("processes"),
        total_threads=total("threads"),
        total_handles=total("handles"),
        total_bytes_read=total("read_bytes"),
        total_bytes_written=total("written_bytes"),
    )


def _own(context: Context) -> OwnMetrics:
    counters = context.resources.counters
    supervisor, keeper = own.usage_of(os.getpid()), own.usage_of(context.link.keeper_pid)
    return OwnMetrics(
        uptime=round(time.monotonic() - context.started_mono, 3),
        cpu_seconds=supervisor[0],
        memory_bytes=supervisor[1],
        keeper_cpu_seconds=keeper[0],
        keeper_memory_bytes=keeper[1],
        commands=dict(counters.commands),
        handler_seconds=round(counters.handler_seconds, 6),
        events=counters.events,
        spawns=counters.spawns,
        spawn_seconds=round(counters.spawn_seconds, 6),
        restarts=counters.restarts,
        failures=counters.failures,
        loop_lag_seconds=round(counters.lag_seconds / max(1, counters.lags), 6),
        loop_lag_max_seconds=round(counters.lag_max, 6),
    )


def _point(point: Point) -> MetricPoint:
    return MetricPoint(
        time=point.time,
        seconds=point.seconds,
        cpu_percent=round(point.cpu, 2),
        cpu_percent_max=round(point.cpu_max, 2),
        memory_bytes=point.memory,
        memory_bytes_max=point.memory_max,
        handles=point.handles,
        threads=point.threads,
        processes=point.processes,
        read_bytes_per_second=round(point.read_rate, 1),
        written_bytes_per_second=round(point.write_rate, 1),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
