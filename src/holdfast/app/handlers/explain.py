"""The handler of `explain`: gathers what is known of a service and lets `rules.explain` tell.

Nothing here decides or words anything. Values of variables and what looks like a secret never
leave this module.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

from holdfast.adapters import processes
from holdfast.adapters.store.state_store import SHORT_SECONDS
from holdfast.app.context import Context
from holdfast.app.handlers.services import shown_lines
from holdfast.app.registry import handles
from holdfast.engine.runner.live_run import LastExit
from holdfast.engine.runner.runner import Runner
from holdfast.secrets.redaction import redact, redact_arguments, redact_value, shown_environment
from holdfast.system.processes import run_id_of
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.explain import (
    ConfigurationChange,
    Explain,
    ExplainResult,
    Explanation,
    FieldChange,
    Happening,
    LastEnding,
    PortHolder,
)
from holdfast.vocabulary.specs.services import Applies, ServiceSpec

if TYPE_CHECKING:
    from holdfast.rules.explain.explanation import Evidence, PortListener

_EVENTS = 60


@handles(Explain)
async def explain(context: Context, command: Explain) -> ExplainResult:
    from holdfast.rules.explain import explanation as rules

    if command.service is not None:
        names = context.roster.names([command.service])
        found = [await _full(context, context.roster.get(name)) for name in names]
        return ExplainResult(explanations=found, lockdown=context.authority.lockdown.now)
    troubled, fine = [], []
    for name in context.roster.names(command.services):
        runner = context.roster.get(name)
        facts = _facts(context, runner)
        if rules.is_fine(facts):
            fine.append(runner.name)
        else:
            troubled.append(_short(runner, facts))
    return ExplainResult(explanations=troubled, fine=fine, lockdown=context.authority.lockdown.now)


def _facts(context: Context, runner: Runner, **more: Any) -> Evidence:
    """Return the facts that are known at once."""
    from holdfast.rules.explain.explanation import Evidence

    status, condition, last = runner.status(), runner.condition, runner.last_exit
    return Evidence(
        spec=runner.declaration.spec,
        state=runner.state,
        desired=runner.desired,
        for_seconds=max(0.0, time.time() - runner.since),
        reason=redact(runner.reason) if runner.reason else None,
        number=_number(runner),
        pid=status.pid,
        uptime=status.uptime,
        restarts=runner.counters.restarts,
        failures=runner.counters.failures,
        start_failures=runner.counters.start_failures,
        next_start_in=_next_start_in(context, runner, status.next_start_in),
        waiting_for=tuple(runner.waiting_for),
        health=condition.health,
        is_started=condition.is_started,
        is_ready=condition.is_ready,
        said=redact(condition.said) if condition.said else None,
        code=last.code,
        signal=last.signal,
        is_suppressed=_is_suppressed(context, runner),
        is_adopted=status.adopted,
        is_outdated=runner.is_outdated,
        has_verdict=runner.has_verdict,
        is_retiring=runner.is_retiring,
        failure=_failure_of_agent(context, runner),
        **more,
    )


def _next_start_in(context: Context, runner: Runner, planned: float | None) -> float | None:
    """Return the seconds to the next start that is planned: of an AI agent, by its session."""
    if runner.declaration.spec.kind == "agent":
        conversation = context.agents.of_service(runner.name)
        return conversation.next_start_in if conversation is not None else None
    return planned


def _failure_of_agent(context: Context, runner: Runner) -> tuple[str, str] | None:
    """Return why an AI agent does not work, and what mends it."""
    if runner.declaration.spec.kind != "agent":
        return None
    conversation = context.agents.of_service(runner.name)
    record = conversation.record if conversation is not None else None
    if record is None or record.sentence is None:
        return None
    return redact(record.sentence), record.fix or ""


def _number(runner: Runner) -> int:
    """Return the number of the live run, or of the newest. A candidate has a higher number."""
    return runner.run.number if runner.run is not None else runner.number


def _is_suppressed(context: Context, runner: Runner) -> bool:
    """Return whether it failed too often, by its reason or by an alert that is still open."""
    reason = runner.reason or ""
    if "(max_restarts " in reason or "(start_retries " in reason:
        return True
    return any(alert.cause == "suppressed" for alert in context.alerting.alerts.of(runner.name))


def _short(runner: Runner, facts: Evidence) -> Explanation:
    from holdfast.rules.explain import explanation as rules

    return Explanation(
        service=runner.name,
        status=runner.state.value,
        since=runner.since,
        summary=redact(rules.why(facts)),
        next=rules.next_step(facts),
        is_fine=rules.is_fine(facts),
    )


async def _full(context: Context, runner: Runner) -> Explanation:
    from holdfast.rules.explain import explanation as rules
    from holdfast.rules.sessions import started_by

    unknown: list[str] = []
    events = await _events(context, runner, unknown)
    out, err, both = await _lines(context, runner, unknown)
    holders = await _holders(context, _wanted_ports(runner, both))
    changes = _changes(context, runner)
    stage = _stage(events)
    facts = _facts(
        context,
        runner,
        stage=stage,
        lines=tuple(both),
        holders=tuple(holders),
        changed_fields=tuple(change.field for change in changes.fields),
        next_scheduled_in=_scheduled_in(runner),
        failed_check=_failed_check(runner, events),
        stopped_because=_stopped_because(events),
    )
    last, spec = _last_exit(runner, events), runner.declaration.spec
    has_ended = stage is not None or last.code is not None or last.signal is not None
    if not has_ended and runner.accounted is not None:
        unknown.append("how the last run ended")
        has_ended = True
    return Explanation(
        service=runner.name,
        status=runner.state.value,
        since=runner.since,
        summary=redact(rules.why(facts)),
        next=rules.next_step(facts),
        is_fine=rules.is_fine(facts),
        desired=runner.desired.value,
        reason=facts.reason,
        run=facts.number or None,
        pid=facts.pid,
        uptime=facts.uptime,
        restarts=facts.restarts,
        failures=facts.failures,
        next_start_in=facts.next_start_in,
        waiting_for=list(facts.waiting_for),
        health=facts.health,
        is_ready=facts.is_ready,
        command=redact_arguments(_argv(runner)),
        working_dir=spec.working_dir,
        happened=_happenings(events),
        ending=_ending(last, stage) if has_ended else None,
        last_out=out,
        last_err=err,
        environment=_environment(runner),
        changes=changes,
        started_by=started_by(runner.owner) if runner.owner else None,
        ports=runner.ports or {},
        holders=[PortHolder(**holder._asdict()) for holder in holders],
        alerts=context.alerting.alerts.of(runner.name),
        hints=[redact(hint) for hint in rules.hints(facts)],
        unknown=unknown,
    )


def _last_exit(runner: Runner, events: list[dict[str, Any]]) -> LastExit:
    """Return how the newest finished run ended. A new run forgets it, but the history does not."""
    if runner.last_exit != LastExit():
        return runner.last_exit
    for event in reversed(events):
        if event["kind"] == EventKind.EXIT.value and event["run_id"] == runner.accounted:
            data = event["data"]
            return LastExit(data.get("code"), data.get("signal"), data.get("seconds"))
    return LastExit()


def _ending(last: LastExit, stage: str | None) -> LastEnding:
    from holdfast.rules.explain import diagnosis

    return LastEnding(
        code=last.code,
        signal=last.signal,
        seconds=last.seconds,
        stage=stage,
        meaning=diagnosis.ending_words(last.code, last.signal) if stage is None else "",
    )


async def _events(context: Context, runner: Runner, unknown: list[str]) -> list[dict[str, Any]]:
    from holdfast.rules.explain.event_sentences import DECISIVE

    await context.store.written(SHORT_SECONDS)
    try:
        return await context.store.newest_events_of(DECISIVE, [runner.name], _EVENTS)
    except HoldfastError:
        unknown.append("what happened before: the history cannot be read")
        return []


def _happenings(events: list[dict[str, Any]]) -> list[Happening]:
    from holdfast.rules.explain.event_sentences import MOST_HAPPENINGS, sentences_of

    told = [
        Happening(seq=event["seq"], time=event["time"], kind=event["kind"], text=redact(text))
        for event, text in sentences_of(events)
    ]
    return told[-MOST_HAPPENINGS:]


def _stage(events: list[dict[str, Any]]) -> str | None:
    """Return the step at which the newest run failed to start; None: it had a process."""
    for event in reversed(events):
        match event["kind"]:
            case (
                EventKind.PROCESS_STARTED.value
                | EventKind.EXIT.value
                | EventKind.SERVICE_ADOPTED.value
            ):
                return None
            case EventKind.START_FAILED.value:
                stage = event["data"].get("stage")
                return str(stage) if stage else None
            case _:
                pass
    return None


def _stopped_because(events: list[dict[str, Any]]) -> str | None:
    """Return why it was stopped last, if nobody asked for that."""
    for event in reversed(events):
        if event["kind"] == EventKind.REQUESTED.value:
            because = event["data"].get("because")
            return redact(str(because)) if because else None
    return None


def _failed_check(runner: Runner, events: list[dict[str, Any]]) -> str | None:
    """Return why a check of the live run failed last."""
    run_id = runner.run.run_id if runner.run is not None else None
    for event in reversed(events):
        if event["run_id"] == run_id and event["kind"] == EventKind.HEALTH_FAILED.value:
            return redact(str(event["data"].get("reason") or "")) or None
    return None


async def _lines(
    context: Context, runner: Runner, unknown: list[str]
) -> tuple[list[str], list[str], list[str]]:
    """Return the last lines of the newest run that printed: of each stream, and of both."""
    number = _number(runner)
    if runner.run is not None and runner.run.pid is None:
        number -= 1
    found: list[list[str]] = []
    streams: tuple[Literal["out", "err"] | None, ...] = ("out", "err", None)
    for stream in streams:
        try:
            lines = await context.in_thread(shown_lines, context.logs, runner.name, number, stream)
        except OSError as error:
            unknown.append(f"what it printed: {error.strerror or error}")
            lines = []
        found.append(lines)
    return found[0], found[1], found[2]


def _wanted_ports(runner: Runner, lines: list[str]) -> list[int]:
    """Return the ports that its output calls taken, or its own ports if it could not start."""
    from holdfast.rules.explain.diagnosis import ports_in_use

    fixed = [port for port in runner.declaration.spec.ports.values() if port]
    failed = fixed if runner.run is None and (runner.reason or "").startswith("port ") else []
    return list(dict.fromkeys([*ports_in_use(lines), *failed]))[:3]


async def _holders(context: Context, ports: list[int]) -> list[PortListener]:
    """Return the processes that listen on these ports."""
    from holdfast.rules.explain.explanation import PortListener

    holders = []
    for port in ports:
        found = await context.in_thread(processes.listener, port)
        if found is None:
            holders.append(PortListener(port))
            continue
        pid, name = found
        run_id = await context.in_thread(run_id_of, pid)
        service = (context.link.runs.get(run_id or "") or {}).get("service")
        holders.append(PortListener(port, pid, name, service))
    return holders


def _argv(runner: Runner) -> tuple[str, ...]:
    spec, overrides = runner.declaration.spec, runner.overrides
    if overrides is None or overrides.args is None:
        return spec.argv
    return (*spec.argv[: spec.command_words], *overrides.args)


def _environment(runner: Runner) -> dict[str, str | None]:
    declaration, overrides = runner.declaration, runner.overrides
    environ = dict(declaration.environ) if declaration.spec.environment == "inherit" else {}
    environ.update(declaration.spec.env)
    if overrides is not None:
        environ.update(overrides.env_vars)
    return shown_environment(environ)


def _changes(context: Context, runner: Runner) -> ConfigurationChange:
    from holdfast.rules import plan

    found = context.alerting.good_runs.of(runner)
    if found is None:
        return ConfigurationChange()
    good, before = found
    now = runner.declaration.spec
    names = [
        name
        for when in (Applies.BY_RESTART, Applies.IN_PLACE)
        for name in plan.differences(before, now, when)
    ]
    fields = [
        FieldChange(
            field=name, before=_field_in_words(before, name), after=_field_in_words(now, name)
        )
        for name in names
    ]
    return ConfigurationChange(run=good.run, at=good.at, fields=fields)


def _field_in_words(spec: ServiceSpec, name: str) -> str | None:
    """Return a field's value in words; None where it may hold a secret."""
    if name == "command":
        return " ".join(redact_arguments(spec.argv))
    value: Any = spec
    for part in name.split("."):
        value = getattr(value, part, None)
    if isinstance(value, (str, int, float, bool)):
        return str(redact_value(value))
    return None


def _scheduled_in(runner: Runner) -> float | None:
    """Return when its schedule starts it next, if it has one."""
    following = runner.status().next_scheduled
    return max(0.0, following - time.time()) if isinstance(following, float) else None
