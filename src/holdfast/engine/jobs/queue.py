"""The queue's workers: claim a job, start its process, follow it, settle it.

A job is claimed in the store together with the id of the run that it gets, and only then its
process is asked for. So whatever dies in between, the next supervisor asks the keeper about that
id: there is a process, an exit, a rest that has to be ended first, or nothing was started. A claim
is renewed in the store first and then at the keeper, whose lease is shorter: a process is gone
before anybody else could get its job.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from holdfast.adapters.keeper_link import KeeperLink
from holdfast.adapters.own_log import logger
from holdfast.adapters.queue.store import Ending, JobStore, NewJob, StoredJob
from holdfast.adapters.run_ids import new_run_id
from holdfast.engine.jobs.attempt import JOB_SERVICES, Attempt, service_of
from holdfast.engine.jobs.repeats import Repeats
from holdfast.engine.runner.declaration import log_settings, stop_settings, undeclared
from holdfast.engine.runner.environment import Clock
from holdfast.rules.jobs import AttemptEnd, backoff_seconds, judge
from holdfast.rules.limits import timeout_reason
from holdfast.system import deadlines, processes
from holdfast.vocabulary.errors import Failed, HoldfastError, KeeperGone
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.quantities import parse_signal
from holdfast.vocabulary.specs.jobs import JobTemplate, QueueSpec, RateSpec
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.specs.settings import Settings

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import EndRestRequest, ExitFacts, Notice, RunFacts

NODE = "local"
BUSY_SECONDS = 2.0
"""The time between two looks at a host that has no room."""
STORE_RETRY_SECONDS = 1.0
MOST_CLAIMED = 16
"""Jobs that are claimed in one transaction."""
EXPIRE_AFTER_SECONDS = 5.0
_KEEPER_LEASE_PART = 0.75
"""The keeper's lease, as part of the store's: the process is gone before the claim is."""
_END_SECONDS = 30.0
_log = logger("jobs")


class OpenedStore(JobStore, Protocol):
    """A store that is opened when it is there, or first needed."""

    @property
    def exists(self) -> bool: ...

    async def open(self) -> None: ...


RecordEvent = Callable[..., None]


class JobQueue:
    """The queue of this Holdfast."""

    def __init__(
        self,
        link: KeeperLink,
        store: OpenedStore,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        *,
        event: RecordEvent,
        environ: Callable[[], Mapping[str, str]],
        project: str,
    ) -> None:
        self.store: JobStore = store
        self.repeats = Repeats(store, clock, loop.call_later, self.ring)
        self.obstacle: Callable[[], str | None] = lambda: None
        """Why nothing may be started on this host now."""
        self.waits_for: str | None = None
        """Why nothing more is started although jobs wait."""
        self.running: dict[str, Attempt] = {}
        """By run: attempts whose process may exist."""
        self._opened = store
        self._link = link
        self._loop = loop
        self.clock = clock
        self._event = event
        self._environ = environ
        self._project = project
        self._templates: dict[str, JobTemplate] = {}
        self._spec = QueueSpec()
        self._bell = asyncio.Event()
        self._followers: dict[str, set[asyncio.Event]] = {}
        self._cancels: set[str] = set()
        """Jobs that are being cancelled."""
        self._starts: dict[str, deque[float]] = {}
        """Moments of the last starts, by template; under a blank those of all."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready: asyncio.Future[None] = loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._renewal: asyncio.TimerHandle | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._is_retiring = self.is_open = False
        self._runs_found: dict[str, RunFacts] = {}
        self._exits_found: dict[str, ExitFacts] = {}
        self._unseen_found: set[str] = set()

    # Settings

    def use(self, settings: Settings) -> None:
        self._templates, self._spec = settings.jobs, settings.queue
        self.ring()

    @property
    def spec(self) -> QueueSpec:
        return self._spec

    @property
    def templates(self) -> Mapping[str, JobTemplate]:
        return self._templates

    def running_of(self, template: str) -> int:
        return sum(one.job.request.template == template for one in self.running.values())

    # Adding, and following

    async def add(self, job: NewJob) -> tuple[StoredJob, bool]:
        await self.ready()
        ((added, is_new),) = await self.store.add([job])
        if is_new:
            self._event(EventKind.JOB_ADDED, job=added.id, state=added.state, by=job.request.by)
            self.ring()
        return added, is_new

    def ring(self) -> None:
        """Look for jobs to start: something has changed."""
        self._bell.set()

    async def ready(self) -> None:
        """Wait until the store is open, and the jobs of an earlier supervisor are settled."""
        self._open()
        await asyncio.shield(self._ready)

    def _open(self) -> None:
        if not self.is_open:
            self.is_open = True
            self._spawn(self._work())

    def follow(self, job: str) -> asyncio.Event:
        """Return a bell that rings whenever this job may have changed; `unfollow` ends that."""
        bell = asyncio.Event()
        self._followers.setdefault(job, set()).add(bell)
        return bell

    def unfollow(self, job: str, bell: asyncio.Event) -> None:
        bells = self._followers.get(job, set())
        bells.discard(bell)
        if not bells:
            self._followers.pop(job, None)

    def changed(self, job: str | None = None) -> None:
        """Tell the followers of a job, or all."""
        found = self._followers.values() if job is None else [self._followers.get(job, set())]
        for bells in list(found):
            for bell in bells:
                bell.set()

    def attempt_of(self, job: str) -> Attempt | None:
        return next((one for one in self.running.values() if one.job.id == job), None)

    async def cancel(self, job: str) -> StoredJob | None:
        """Cancel it; returns when it is over, or cannot be ended in time."""
        await self.ready()
        found = await self.store.cancel(job)
        if found is None:
            return None
        if found.state != "active":
            if found.state == "cancelled":
                self._event(EventKind.JOB_ENDED, job=job, outcome="cancelled")
                self.changed()
            return found
        # A claim that was made in this moment becomes an attempt in the next.
        self._cancels.add(job)
        attempt = self.attempt_of(job)
        if attempt is not None:
            attempt.is_cancelled = True
            attempt.end()
        bell = self.follow(job)
        deadline = self._loop.time() + _END_SECONDS
        try:
            while (now := await self.store.get(job)) is not None and now.state == "active":
                await deadlines.wait_for(bell.wait(), deadline - self._loop.time())
                bell.clear()
            return now
        except TimeoutError:
            _log.warning("%s is cancelled, and its processes cannot be ended", job)
            return await self.store.get(job)
        finally:
            self._cancels.discard(job)
            self.unfollow(job, bell)

    # Beginning and ending

    def take_over(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Take the jobs of an earlier supervisor out of the keeper's facts."""
        rest = dict(facts)
        for key in ("runs", "exits", "ended_unseen"):
            entries = facts.get(key) or ()
            ours = [entry for entry in entries if _is_job(entry)]
            rest[key] = [entry for entry in entries if not _is_job(entry)]
            by_run = {entry["run_id"]: entry for entry in ours}
            match key:
                case "runs":
                    self._runs_found = by_run
                case "exits":
                    self._exits_found = by_run
                case _:
                    self._unseen_found = set(by_run)
        return rest

    def begin(self) -> None:
        """Settle what an earlier supervisor left, then work. Who never had a job has no store."""
        if self._opened.exists or self._runs_found or self._exits_found:
            self._open()

    async def retire(self, *, grace: float | None, keep_running: bool) -> None:
        """Start nothing more. End what runs, so that it is run again later; or let it go on."""
        self._is_retiring = True
        self.repeats.close()
        if not self.is_open:
            return
        await self.ready()
        for attempt in list(self.running.values()):
            if keep_running:
                attempt.keep()
            else:
                attempt.is_put_back = True
                attempt.end(grace=grace)
        if not keep_running and self.running:
            settled = [attempt.settled for attempt in self.running.values()]
            await asyncio.wait(settled, timeout=_END_SECONDS)

    async def close(self) -> None:
        """Leave processes and claims as they are, for the next supervisor."""
        self._is_retiring = True
        self.repeats.close()
        for timer in (self._timer, self._renewal, self._expiry):
            if timer is not None:
                timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        if self.is_open:
            await self.store.close()

    def on_notice(self, notice: Notice) -> bool:
        """Take an exit or an end of a job's process; return whether it was one."""
        if notice["notice"] not in ("exit", "ended") or not _is_job(notice):
            return False
        run_id = notice["run_id"]
        attempt = self.running.get(run_id)
        if notice["notice"] == "exit":
            if attempt is not None:
                attempt.on_exit(notice)
            elif not self._ready.done():
                self._exits_found[run_id] = notice
            else:
                self._link.forget([run_id])
        if notice["notice"] == "ended" or notice.get("empty", True):
            self._runs_found.pop(run_id, None)
            if attempt is not None:
                attempt.on_gone()
        return True

    # The work

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the queue's work failed", exc_info=error)

    async def _work(self) -> None:
        await self._until_done(self._opened.open)
        await self._until_done(self._recover)
        if not self._ready.done():
            self._ready.set_result(None)
        await self._until_done(self.repeats.open)
        self._renew_later()
        self._expire_later()
        self.ring()
        while True:
            await self._bell.wait()
            self._bell.clear()
            if not self._is_retiring:
                await self._until_done(self._fill)

    async def _until_done(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do it again until it succeeds: no error that nobody expected may end the queue."""
        while True:
            try:
                await self._until_written(work)
                return
            except KeeperGone:
                raise
            except Exception:  # noqa: BLE001 - a fault of ours must not end the queue
                _log.exception("the queue's work failed; trying again")
                await asyncio.sleep(STORE_RETRY_SECONDS)

    async def _until_written(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Do it again until the store takes it: a full disk or a lock ends by itself."""
        while True:
            try:
                return await work()
            except KeeperGone:
                raise
            except HoldfastError as error:
                _log.error("%s; trying again", error)
                await asyncio.sleep(STORE_RETRY_SECONDS)

    async def _fill(self) -> None:
        """Start jobs while there is room."""
        self.waits_for = None
        while not self._is_retiring and len(self.running) < self._spec.concurrency:
            if (words := self.obstacle()) is not None:
                counts = await self.store.counts()
                if counts["waiting"] or counts["delayed"]:
                    self.waits_for = words
                    self._wake_at(self.clock.steady() + BUSY_SECONDS)
                return
            free, most = self._free()
            claimed: list[StoredJob] = []
            if most > 0:
                run_ids = [new_run_id() for _ in range(most)]
                claimed = await self.store.claim(NODE, self._spec.lease, free, run_ids)
            if not claimed:
                break
            for job in claimed:
                attempt = Attempt(job, self._link, self._loop)
                self.running[attempt.run_id] = attempt
                self._note_start(job.request.template)
                self._spawn(self._attempt(attempt))
            self._renew_later()
        due = await self.store.next_due()
        if due is not None:
            self._wake_at(due)

    def _free(self) -> tuple[dict[str, int], int]:
        """Return how many jobs of each template may start now, and how many of all."""
        slots = self._spec.concurrency - len(self.running)
        most = min(slots, self._within_rate("", self._spec.rate), MOST_CLAIMED)
        if most <= 0 < slots:
            self.waits_for = "the rate of the queue"
        free = {"": slots}
        for name, template in self._templates.items():
            room = slots
            if template.concurrency is not None:
                room = template.concurrency - self.running_of(name)
            free[name] = min(room, self._within_rate(name, template.rate))
        return free, most

    def _within_rate(self, name: str, rate: RateSpec | None) -> int:
        """Return how many may start by a rate. If none may, look again when one does."""
        if rate is None:
            return MOST_CLAIMED
        starts, now = self._starts.setdefault(name, deque()), self.clock.monotonic()
        while starts and starts[0] <= now - rate.per:
            starts.popleft()
        if len(starts) >= rate.max:
            self._wake_at(self.clock.steady() + starts[0] + rate.per - now)
        return max(0, rate.max - len(starts))

    def _note_start(self, template: str) -> None:
        for name in {"", template}:
            if name in self._starts:
                self._starts[name].append(self.clock.monotonic())

    def _wake_at(self, moment: float) -> None:
        at = self._loop.time() + max(0.005, moment - self.clock.steady())
        if self._timer is not None:
            if not self._timer.cancelled() and self._loop.time() < self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self.ring)

    async def _attempt(self, attempt: Attempt) -> None:
        job = attempt.job
        async with self._accounted(attempt):
            if job.damage is not None:
                await self._settle(attempt, AttemptEnd(None, None, job.damage))
                return
            if job.request.kind == "kill":
                await self._kill(attempt)
                return
            if job.id in self._cancels:
                await self._settle(attempt, AttemptEnd(None, None, is_cancelled=True))
                return
            spec = self.spec_of(job)
            if spec is None:
                await self._until_written(lambda: self.store.release(job.id, attempt.token))
                return
            try:
                await attempt.start(spec, self._environ(), self._spec.lease * _KEEPER_LEASE_PART)
            except KeeperGone:
                return  # the next supervisor finds out whether it was started
            except HoldfastError as error:
                end = AttemptEnd(None, None, f"it could not be started: {error.message}")
                await self._settle(attempt, end)
                return
            self._event(
                EventKind.JOB_STARTED,
                run_id=attempt.run_id,
                job=job.id,
                attempt=job.attempts,
                pid=attempt.pid,
            )
            self.changed(job.id)
            await self._follow(attempt, spec)

    @asynccontextmanager
    async def _accounted(self, attempt: Attempt) -> AsyncGenerator[None]:
        """Leave no claim behind: after an error that nobody expected, the process is ended and
        the job fails with the error, for good."""
        try:
            yield
        except KeeperGone:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the queue
            job = attempt.job
            _log.exception("%s: the queue's work on it failed", job.id)
            attempt.end()
            if attempt.pid is not None:
                await attempt.gone
            why = _fault(error)
            ending = Ending(reason=why, log_bytes=attempt.log_bytes)
            await self._until_written(lambda: self.store.fail(job.id, attempt.token, ending, None))
            self._link.forget([attempt.run_id])
            self._event(EventKind.JOB_ENDED, job=job.id, outcome="failed", reason=why)
            self.changed()
        finally:
            self._leave(attempt)

    def _leave(self, attempt: Attempt) -> None:
        self.running.pop(attempt.run_id, None)
        if not attempt.settled.done():
            attempt.settled.set_result(None)
        self.ring()

    async def _follow(self, attempt: Attempt, spec: ServiceSpec) -> None:
        """Wait for its end, and settle the job."""
        job = attempt.job
        timeout = job.request.timeout or spec.timeout
        if timeout is not None and job.started_at is not None:
            left = job.started_at + timeout - self.clock.steady()
            attempt.end_after(left, timeout_reason(timeout))
        if attempt.is_cancelled or job.is_cancel_asked or job.id in self._cancels:
            attempt.is_cancelled = True
            attempt.end()
        await self._settle(attempt, await attempt.over(), spec.success_exit_codes)

    async def _settle(
        self, attempt: Attempt, end: AttemptEnd, success_codes: tuple[int, ...] = (0,)
    ) -> None:
        """Store how it ended; only then the keeper forgets it."""
        job, token = attempt.job, attempt.token
        if attempt.is_put_back and not end.is_cancelled:
            await self._until_written(lambda: self.store.release(job.id, token))
            self._link.forget([attempt.run_id])
            return
        verdict = judge(end, job.attempts, job.request.attempts, success_codes)
        ending = Ending(
            reason=verdict.reason,
            exit_code=end.code,
            signal=end.signal,
            log_bytes=attempt.log_bytes,
        )
        data: dict[str, Any] = {}
        store = self.store
        match verdict.outcome:
            case "completed":
                done = await self._until_written(lambda: store.complete(job.id, token, ending))
            case "cancelled":
                done = await self._until_written(lambda: store.cancelled(job.id, token, ending))
            case "failed":
                done = await self._until_written(lambda: store.fail(job.id, token, ending, None))
            case _:
                delay = backoff_seconds(job.request.backoff, job.attempts)
                at = self.clock.steady() + delay
                done = await self._until_written(lambda: store.fail(job.id, token, ending, at))
                data = {"retry_in": delay}
        self._link.forget([attempt.run_id])
        if done:
            self._event(
                EventKind.JOB_ENDED,
                run_id=attempt.run_id,
                job=job.id,
                outcome=verdict.outcome,
                attempt=job.attempts,
                exit_code=end.code,
                signal=end.signal,
                reason=verdict.reason,
                **data,
            )
        else:
            _log.warning("%s: the claim on it was lost; how it ended counts no more", job.id)
        self.changed(job.id if verdict.outcome in ("completed", "retry") else None)
        self._expire_soon()

    def spec_of(self, job: StoredJob) -> ServiceSpec | None:
        """Return what is run for a job; None: its template is not in the configuration."""
        request = job.request
        if not request.template:
            return ServiceSpec(
                name="job",
                argv=request.argv,
                working_dir=os.path.join(self._project or "/", request.working_dir),
                confined_to=request.confined_to,
                restart_policy="never",
                origin="run",
            )
        template = self._templates.get(request.template)
        if template is None:
            return None
        return replace(template.service, argv=(*template.service.argv, *request.argv))

    async def _kill(self, attempt: Attempt) -> None:
        """Send the signal to the very process that was meant when the job was added."""
        job, target = attempt.job, attempt.job.request.target
        assert target is not None
        run = self._link.runs.get(target.run_id, {})
        is_same = (
            self._link.boot_id == target.boot_id
            and run.get("pid") == target.pid
            and processes.start_time(target.pid) == target.start_time
        )
        reason = None
        if not is_same:
            reason = (
                f"process {target.pid} of {target.service} is gone; "
                "nothing was sent, even if its number is another process's now"
            )
        else:
            number = parse_signal(job.request.signal)
            try:
                await self._link.ask(
                    {"do": "signal", "run_id": target.run_id, "signal": number, "to": "main"}
                )
            except Failed as error:
                reason = error.message
        ending = Ending(reason=reason)
        if reason is None:
            await self._until_written(lambda: self.store.complete(job.id, attempt.token, ending))
        else:
            await self._until_written(lambda: self.store.fail(job.id, attempt.token, ending, None))
        outcome = "completed" if reason is None else "failed"
        self._event(EventKind.JOB_ENDED, job=job.id, outcome=outcome, reason=reason)
        self.changed()

    # Leases

    def _renew_later(self) -> None:
        """Renew in time, as long as there is a claim."""
        if self._renewal is None and self.running:
            seconds = self._spec.lease / 4
            self._renewal = self._loop.call_later(seconds, lambda: self._spawn(self._renew()))

    async def _renew(self) -> None:
        """Confirm every claim in the store, and what it confirms at the keeper."""
        self._renewal = None
        self._renew_later()
        attempts = {one.job.id: one for one in self.running.values() if not one.exit.done()}
        if not attempts:
            return
        asked = self.clock.monotonic()
        try:
            confirmed = await self.store.renew(
                [(one.job.id, one.token) for one in attempts.values()], self._spec.lease
            )
        except HoldfastError as error:
            _log.error("claims cannot be renewed: %s", error)
            return
        left = self._spec.lease * _KEEPER_LEASE_PART - (self.clock.monotonic() - asked)
        for job_id, is_held in confirmed.items():
            attempt = attempts[job_id]
            if is_held:
                attempt.renew(left)
                continue
            job = await self.store.get(job_id)
            if job is not None and job.token == attempt.token:
                attempt.is_cancelled = True
                attempt.end()
            else:
                attempt.is_lost = True
                attempt.end("its claim was lost to another node")

    # Recovery

    async def _recover(self) -> None:
        """Settle the claims of an earlier supervisor of this queue."""
        for job in await self.store.active(NODE):
            attempt = Attempt(job, self._link, self._loop)
            run_id = attempt.run_id
            if run_id in self.running:
                continue
            try:
                await self._recover_one(attempt)
            except HoldfastError:
                raise
            except Exception as error:  # noqa: BLE001 - a fault of ours must not end the queue
                _log.exception("%s: the queue's work on it failed", job.id)
                await self.store.fail(job.id, attempt.token, Ending(reason=_fault(error)), None)
        for run_id in list(self._runs_found):
            if run_id not in self.running:
                self._link.request({"do": "end", "run_id": run_id}, lambda reply: None)
        self._link.forget([*self._exits_found, *self._unseen_found])
        self._exits_found.clear()

    async def _recover_one(self, attempt: Attempt) -> None:
        job = attempt.job
        run = self._runs_found.get(attempt.run_id)
        ended = self._exits_found.pop(attempt.run_id, None)
        if run is not None or ended is not None:
            self._go_on(attempt, run, ended)
        elif job.request.kind == "kill":
            why = "Holdfast was killed; it may have been sent"
            await self.store.fail(job.id, attempt.token, Ending(reason=why), None)
        else:
            await self._settle_unseen(attempt)

    def _go_on(self, attempt: Attempt, run: RunFacts | None, ended: ExitFacts | None) -> None:
        """Follow a process that an earlier supervisor started, or account for its end."""
        self.running[attempt.run_id] = attempt
        if run is not None:
            attempt.pid = run.get("pid")
            attempt.renew(self._spec.lease * _KEEPER_LEASE_PART)
        if ended is not None:
            attempt.on_exit(ended)
            if run is None:
                attempt.on_gone()
        self._spawn(self._resume(attempt))

    async def _resume(self, attempt: Attempt) -> None:
        async with self._accounted(attempt):
            spec = self.spec_of(attempt.job) or undeclared("job")
            await self._follow(attempt, spec)

    async def _settle_unseen(self, attempt: Attempt) -> None:
        """A claim whose run this keeper does not have: end what is left of it, if there is any."""
        job, spec = attempt.job, undeclared("job")
        rest: EndRestRequest = {
            "do": "end_rest",
            "run_id": attempt.run_id,
            "service": service_of(job.id),
            "number": job.attempts,
            "log": log_settings(spec),
            "stop": stop_settings(spec),
        }
        for doubt in (await self._link.ask({"do": "strays"})).get("doubts") or ():
            if doubt["run_id"] == attempt.run_id:
                # It cannot be told whether it was started, so nothing may be started beside it.
                found = ", ".join(str(process["pid"]) for process in doubt["processes"])
                why = f"Holdfast was killed while it was started; process {found} may be it"
                await self.store.fail(job.id, attempt.token, Ending(reason=why), None)
                return
        pids = (await self._link.ask(rest)).get("pids") or []
        if not pids and attempt.run_id not in self._unseen_found:
            # It had been claimed, and nothing was started: this is no attempt.
            await self.store.release(job.id, attempt.token)
            return
        why = "Holdfast and its keeper were killed while it ran"
        if pids:
            why += f"; its processes were ended: {', '.join(map(str, pids))}"
        await self._settle(attempt, AttemptEnd(None, None, why, is_unknown=True))

    # What is kept

    def _expire_soon(self) -> None:
        if self._expiry is None:
            self._expire_later(EXPIRE_AFTER_SECONDS)

    def _expire_later(self, seconds: float = EXPIRE_AFTER_SECONDS) -> None:
        self._expiry = self._loop.call_later(seconds, lambda: self._spawn(self._expire()))

    async def _expire(self) -> None:
        """Drop what was kept long enough, and the oldest output beyond the budget."""
        self._expiry = None
        try:
            gone = await self.store.expire(self._spec.keep_failed, self._spec.log_size)
        except HoldfastError as error:
            _log.error("old jobs cannot be dropped: %s", error)
            return
        for job in gone.outputs:
            self._link.request(
                {"do": "prune", "service": service_of(job), "all": True}, lambda reply: None
            )


def _fault(error: Exception) -> str:
    return f"an error within Holdfast: {type(error).__name__}; its own log says more"


def _is_job(entry: Mapping[str, Any]) -> bool:
    return str(entry.get("service") or "").startswith(JOB_SERVICES)
