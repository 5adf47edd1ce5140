"""Handlers of commands about jobs: add, look, read, wait, cancel, retry, pause, report."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable
from typing import Any

import msgspec

from holdfast.adapters.queue.store import STATES, JobState, NewJob, StoredJob, new_job_id
from holdfast.app.authority.path_scopes import confine
from holdfast.app.context import Context
from holdfast.app.handlers.output import read_logs
from holdfast.app.registry import handles
from holdfast.engine.jobs.attempt import service_of
from holdfast.secrets.redaction import redact_arguments, redact_value
from holdfast.system import deadlines, processes
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.command import Done
from holdfast.vocabulary.errors import Conflict, NotFound, TimedOut, UsageError
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.jobs import (
    AddedJob,
    AddJob,
    CancelJob,
    JobInfo,
    JobLogs,
    JobLogsResult,
    JobResult,
    JobsResult,
    JobStats,
    JobStatsResult,
    ListJobs,
    PauseJobs,
    RepeatInfo,
    ReportJob,
    ResumeJobs,
    RetryJob,
    ShowJob,
    WaitJob,
)
from holdfast.vocabulary.names import closest
from holdfast.vocabulary.output import Logs
from holdfast.vocabulary.quantities import format_duration, parse_signal
from holdfast.vocabulary.specs.jobs import (
    PRIORITY,
    BackoffSpec,
    JobRequest,
    JobTemplate,
    KillTarget,
    RepeatSpec,
)
from holdfast.vocabulary.specs.services import ScheduleSpec

OVER = ("completed", "failed", "cancelled")
MOST_LISTED = 1000
REPEAT = "repeat-"
_UNTIMED = ("waiting", "blocked")


@handles(AddJob)
async def add_job(context: Context, command: AddJob, actor: Actor) -> AddedJob:
    context.shutdown.check_not_begun()
    await context.jobs.ready()
    template = _template(context, command.template)
    request = await _request(context, command, actor, template)
    priority = command.priority
    if priority is None:
        priority = PRIORITY if template is None else template.priority
    if command.repeat is not None or command.every is not None:
        return await _add_repeat(context, command, request, priority)
    now = context.jobs.clock.steady()
    job, is_new = await context.jobs.add(
        NewJob(
            request=request,
            priority=priority,
            run_at=now + command.delay if command.delay else None,
            key=command.unique,
            after=tuple(command.after),
        )
    )
    if job.request.template != request.template:
        raise Conflict(
            f'another job has the key "{command.unique}"', "wait for that one, or choose another"
        )
    return AddedJob(job=_info(context, job), is_new=is_new)


@handles(ListJobs)
async def list_jobs(context: Context, command: ListJobs) -> JobsResult:
    await context.jobs.ready()
    store = context.jobs.store
    states: list[JobState] = [*command.states]
    if not states:
        states = ["active", *(state for state in STATES if state != "active")]
    limit = max(1, min(command.limit, MOST_LISTED))
    jobs = await store.find(states, command.templates or None, limit)
    wanted = set(command.templates)
    return JobsResult(
        jobs=[_info(context, job) for job in jobs],
        counts=_by_state(await store.counts()),
        repeats=[
            _repeat_info(repeat, moment)
            for repeat, moment in context.jobs.repeats.all()
            if not wanted or repeat.request.template in wanted
        ],
        is_paused=await store.is_paused(),
    )


@handles(ShowJob)
async def show_job(context: Context, command: ShowJob) -> JobResult:
    await context.jobs.ready()
    return JobResult(job=_info(context, await _get(context, command.job)))


@handles(JobLogs)
def job_logs(
    context: Context, command: JobLogs
) -> Awaitable[JobLogsResult] | AsyncGenerator[dict[str, Any], None]:
    return (_follow_logs if command.follow else _logs)(context, command)


async def _logs(context: Context, command: JobLogs) -> JobLogsResult:
    await context.jobs.ready()
    job = await _get(context, command.job)
    found = await read_logs(context, _query(job, command))
    return JobLogsResult(job=job.id, lines=found.lines, cursor=found.cursor, more=found.more)


def _query(job: StoredJob, command: JobLogs) -> Logs:
    return Logs(
        service=service_of(job.id),
        run=command.attempt,
        tail=command.tail,
        # Without any bound it is read from its beginning.
        since=0.0
        if (command.attempt, command.tail, command.cursor) == (None, None, None)
        else None,
        cursor=command.cursor,
        limit=command.limit,
    )


async def _follow_logs(context: Context, command: JobLogs) -> AsyncGenerator[dict[str, Any], None]:
    await context.jobs.ready()
    job = await _get(context, command.job)
    bell = context.jobs.follow(job.id)
    silence = context.subscriptions.call_on_growth(service_of(job.id), bell.set)
    try:
        while True:
            bell.clear()
            job = await _get(context, command.job)
            is_more = True
            while is_more:
                found = await read_logs(context, _query(job, command))
                for line in found.lines:
                    if not line.partial or job.state in OVER:
                        yield {"kind": "line", **msgspec.to_builtins(line)}
                is_more = found.more
                command = msgspec.structs.replace(
                    command, cursor=found.cursor, tail=None, attempt=None
                )
            if job.state in OVER:
                yield {"kind": "finished", "job": msgspec.to_builtins(_info(context, job))}
                return
            await bell.wait()
    finally:
        silence()
        context.jobs.unfollow(job.id, bell)


@handles(WaitJob)
def wait_job(
    context: Context, command: WaitJob
) -> Awaitable[JobResult] | AsyncGenerator[dict[str, Any], None]:
    return (_follow if command.follow else _wait)(context, command)


async def _wait(context: Context, command: WaitJob) -> JobResult:
    try:
        job = await deadlines.wait_for(_over(context, command.job), command.timeout)
    except TimeoutError:
        state = (await _get(context, command.job)).state
        raise TimedOut(
            f"{command.job} is {state} after {command.timeout:g} s", "wait longer; it goes on"
        ) from None
    return JobResult(job=_info(context, job))


async def _over(context: Context, job_id: str) -> StoredJob:
    return [job async for job in _states(context, job_id)][-1]


async def _follow(context: Context, command: WaitJob) -> AsyncGenerator[dict[str, Any], None]:
    async for job in _states(context, command.job):
        kind = "finished" if job.state in OVER else "changed"
        yield {"kind": kind, "job": msgspec.to_builtins(_info(context, job))}


async def _states(context: Context, job_id: str) -> AsyncGenerator[StoredJob, None]:
    """Yield the job whenever it has changed, until it is over."""
    queue = context.jobs
    await queue.ready()
    bell, last = queue.follow(job_id), None
    try:
        while True:
            bell.clear()
            job = await _get(context, job_id)
            if job != last:
                yield job
            last = job
            if job.state in OVER:
                return
            await bell.wait()
    finally:
        queue.unfollow(job_id, bell)


@handles(CancelJob)
async def cancel_job(context: Context, command: CancelJob) -> JobResult:
    await context.jobs.ready()
    if command.job.startswith(REPEAT):
        return await _cancel_repeat(context, command.job)
    await _get(context, command.job)
    job = await context.jobs.cancel(command.job)
    assert job is not None
    if job.state == "completed":
        raise Conflict(f"{job.id} is completed already", "there is nothing to cancel")
    return JobResult(job=_info(context, job))


@handles(RetryJob)
async def retry_job(context: Context, command: RetryJob) -> JobResult:
    await context.jobs.ready()
    before = await _get(context, command.job)
    if before.state not in ("failed", "cancelled"):
        raise Conflict(
            f"{before.id} is {before.state}", "only a failed or cancelled one is retried"
        )
    job = await context.jobs.store.retry(command.job)
    assert job is not None
    context.jobs.changed(job.id)
    context.jobs.ring()
    return JobResult(job=_info(context, job))


@handles(PauseJobs)
async def pause_jobs(context: Context, command: PauseJobs) -> Done:
    await context.jobs.ready()
    await context.jobs.store.pause(is_paused=True)
    context.store.event(EventKind.QUEUE_PAUSED)
    count = len(context.jobs.running)
    return Done(message=f"the queue is paused; {count} jobs that run go on")


@handles(ResumeJobs)
async def resume_jobs(context: Context, command: ResumeJobs) -> Done:
    await context.jobs.ready()
    await context.jobs.store.pause(is_paused=False)
    context.store.event(EventKind.QUEUE_RESUMED)
    context.jobs.ring()
    return Done(message="the queue goes on")


@handles(JobStats)
async def job_stats(context: Context, command: JobStats) -> JobStatsResult:
    await context.jobs.ready()
    queue = context.jobs
    counts = await queue.store.counts()
    totals = {
        name.removeprefix("total:"): count
        for name, count in counts.items()
        if name.startswith("total:")
    }
    return JobStatsResult(
        queue=queue.spec.name,
        concurrency=queue.spec.concurrency,
        running=len(queue.running),
        counts=_by_state(counts),
        totals=totals,
        templates={name: queue.running_of(name) for name in queue.templates},
        is_paused=await queue.store.is_paused(),
        waits_for=queue.waits_for,
    )


@handles(ReportJob)
async def report_job(context: Context, command: ReportJob) -> Done:
    await context.jobs.ready()
    is_ours = await context.jobs.store.report(
        command.job, command.token, progress=command.progress, result=command.result
    )
    if not is_ours:
        raise Conflict(
            f"this attempt of {command.job[:80]} is over: its token is not valid any more",
            "end this process; another attempt may run",
        )
    context.jobs.changed(command.job)
    return Done()


# What is added


def _template(context: Context, name: str | None) -> JobTemplate | None:
    if name is None:
        return None
    templates = context.jobs.templates
    template = templates.get(name)
    if template is None:
        guess = closest(name, list(templates))
        meant = f'; did you mean "{guess}"?' if guess else ""
        known = ", ".join(templates) or "none; write them under `jobs:`"
        raise NotFound(f'no job is called "{name[:80]}"{meant}', f"known: {known}")
    return template


async def _request(
    context: Context, command: AddJob, actor: Actor, template: JobTemplate | None
) -> JobRequest:
    fields: dict[str, Any] = {}
    if command.kind == "kill":
        fields["target"] = _target(context, str(command.service))
        try:
            parse_signal(command.signal)
        except ValueError as error:
            raise UsageError(str(error), "as in SIGTERM") from None
        fields["signal"] = command.signal
    elif template is None:
        folder = command.working_dir or "."
        fields["working_dir"] = os.path.join(context.project or "/", folder)
        if actor.role is not Role.OWNER:
            fields["confined_to"] = await context.in_thread(confine, context, folder)
    elif command.working_dir is not None:
        raise UsageError(
            "a template says itself where it runs", "leave out `working_dir`, or the template"
        )
    backoff = command.backoff
    if backoff is not None:
        fields["backoff"] = BackoffSpec(type=backoff.type, delay=backoff.delay)
    elif template is not None:
        fields["backoff"] = template.backoff
    for name in ("attempts", "remove_on_complete", "remove_on_fail"):
        value = getattr(command, name)
        if value is None and template is not None:
            value = getattr(template, name)
        if value is not None:
            fields[name] = value
    return JobRequest(
        kind=command.kind,
        template=command.template or "",
        argv=tuple(command.argv),
        env=command.env or {},
        timeout=command.timeout,
        keep_failed=template.keep_failed if template is not None else None,
        by=actor.name,
        **fields,
    )


def _target(context: Context, service: str) -> KillTarget:
    """Return the process that a service has now."""
    runner = context.roster.get(service)
    run_id = runner.live_run_id()
    run = context.link.runs.get(run_id, {})
    pid = int(run.get("pid") or 0)
    start_time = processes.start_time(pid)
    if not pid or start_time is None:
        raise Conflict(f"{runner.name} has no process", "start it first")
    return KillTarget(
        service=runner.name,
        run_id=run_id,
        pid=pid,
        start_time=start_time,
        boot_id=context.link.boot_id,
    )


async def _add_repeat(
    context: Context, command: AddJob, request: JobRequest, priority: int
) -> AddedJob:
    from holdfast.rules.schedule import cron_of

    if command.after or command.delay:
        raise UsageError("a repeated job takes neither `after` nor `delay`", "leave them out")
    cron = None
    if command.repeat is not None:
        try:
            cron = cron_of(command.repeat)
        except ValueError as error:
            raise UsageError(str(error), 'as in "0 3 * * *"') from None
    queue = context.jobs
    name = command.unique or new_job_id("").removeprefix("job-")
    if not set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_"):
        raise UsageError(
            f'"{name}" cannot name a repetition', "use lower-case letters, digits and '_'"
        )
    middle = f"{request.template}-" if request.template else ""
    repeat = RepeatSpec(
        id=f"{REPEAT}{middle}{name}",
        schedule=ScheduleSpec(cron=cron, every=command.every),
        request=request,
        priority=priority,
        handled=queue.clock.time(),
    )
    is_new = queue.repeats.get(repeat.id) is None
    moment = await queue.repeats.add(repeat)
    return AddedJob(repeat=_repeat_info(repeat, moment), is_new=is_new)


async def _cancel_repeat(context: Context, repeat: str) -> JobResult:
    found = context.jobs.repeats.get(repeat)
    if found is None:
        raise NotFound(f"no repetition {repeat[:80]}", "`holdfast job ls` lists them")
    await context.jobs.repeats.remove(repeat)
    job = StoredJob(
        id=repeat,
        state="cancelled",
        request=found.request,
        priority=found.priority,
        is_removed=True,
    )
    return JobResult(job=_info(context, job))


# What is told


async def _get(context: Context, job: str) -> StoredJob:
    found = await context.jobs.store.get(job)
    if found is None:
        raise NotFound(f"no job {job[:80]}", "`holdfast job ls` lists them")
    return found


def _info(context: Context, job: StoredJob) -> JobInfo:
    attempt = context.jobs.attempt_of(job.id)
    request, reason = job.request, job.reason
    if job.state in _UNTIMED:
        reason = _why_it_waits(context, job)
    return JobInfo(
        id=job.id,
        state=job.state,
        kind=request.kind,
        template=request.template,
        command=_command(request),
        priority=job.priority,
        attempts=job.attempts,
        most_attempts=request.attempts,
        added_at=job.added_at,
        by=request.by,
        run_at=job.run_at,
        started_at=job.started_at,
        ended_at=job.ended_at if job.state in OVER else None,
        unique=job.key,
        after=list(job.after),
        run_id=job.run_id,
        pid=attempt.pid if attempt is not None and not attempt.exit.done() else None,
        progress=redact_value(job.progress),
        result=redact_value(job.result),
        reason=reason,
        exit_code=job.exit_code,
        signal=job.signal,
        is_removed=job.is_removed,
    )


def _why_it_waits(context: Context, job: StoredJob) -> str | None:
    template, queue = job.request.template, context.jobs
    if template and template not in queue.templates:
        return f"no template {template} is in the configuration; nobody runs it"
    if job.state == "blocked":
        return f"it comes after {', '.join(job.after)}"
    return queue.waits_for


def _command(request: JobRequest) -> str:
    if request.target is not None:
        return f"{request.signal} to {request.target.service} (pid {request.target.pid})"
    words = " ".join(redact_arguments(list(request.argv)))
    return f"{request.template} {words}".strip()


def _repeat_info(repeat: RepeatSpec, moment: float | None) -> RepeatInfo:
    schedule = repeat.schedule
    return RepeatInfo(
        id=repeat.id,
        template=repeat.request.template,
        command=_command(repeat.request),
        schedule=schedule.cron or f"every {format_duration(schedule.every or 0.0)}",
        next=moment,
        by=repeat.request.by,
    )


def _by_state(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if not name.startswith("total:")}
