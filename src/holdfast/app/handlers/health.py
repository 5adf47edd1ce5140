"""The handler of `health_check`: asks the probes of services now."""

from __future__ import annotations

import asyncio

from holdfast.adapters.probes import Finding
from holdfast.app.context import Context
from holdfast.app.registry import handles
from holdfast.engine.runner.runner import Runner
from holdfast.vocabulary.health import CheckResult, HealthCheck, HealthResult, ServiceHealth
from holdfast.vocabulary.specs.probes import ProbeSpec
from holdfast.vocabulary.states import ALIVE


@handles(HealthCheck)
async def health_check(context: Context, command: HealthCheck) -> HealthResult:
    runners = [context.roster.get(name) for name in context.roster.names(command.services)]
    found = await asyncio.gather(*(_of(context, runner) for runner in runners))
    return HealthResult(
        services={runner.name: health for runner, health in zip(runners, found, strict=True)}
    )


async def _of(context: Context, runner: Runner) -> ServiceHealth:
    checks = [
        _check_result(probe, finding) for probe, finding in await context.health.check(runner)
    ]
    is_alive = runner.state in ALIVE and runner.run is not None and runner.run.is_up
    if not checks:
        # Without probes, or without a process to ask, only the state counts.
        reason = f"it is {runner.state.value}"
        checks = [
            CheckResult(
                probe="process", check="process", passed=is_alive, reason=reason, duration=0.0
            )
        ]
    condition = runner.condition
    return ServiceHealth(
        status=runner.state.value,
        ready=condition.is_ready if is_alive else None,
        health=condition.health if is_alive else None,
        consecutive_failures=condition.failures if is_alive else 0,
        checks=checks,
    )


def _check_result(probe: ProbeSpec, finding: Finding) -> CheckResult:
    return CheckResult(
        probe=probe.name,
        check=probe.kind,
        passed=finding.is_passed,
        reason=finding.reason,
        duration=round(finding.seconds, 4),
    )
