"""Work in steps, on request: workflows, custom restarts, single commands.

Owns everything that is under way: its caller, its progress, its followers. Steps are tasks of the
keeper or commands of the vocabulary; nothing here starts a process or changes a state. The keeper
remembers what a supervisor leaves unfinished, and its successor reports it.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.own_log import logger
from holdfast.engine.runner.environment import Clock, HistoryRecorder, KeeperApi
from holdfast.engine.workflows.steps import WorkflowStep, output_item
from holdfast.secrets.redaction import redact
from holdfast.vocabulary.errors import NotFound, Refused
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.quantities import format_duration, signal_name
from holdfast.vocabulary.workflows import StepResult, UnderWay, WorkflowResult

MOST_UNDER_WAY = 64
MOST_FOLLOWER_BYTES = 8 * 1024 * 1024
MOST_TOLD_BYTES = 64 * 1024
"""The most output of one activity that is kept for those who follow it later."""
MOST_OVER = 16
"""So many activities that are over can still be followed."""
_log = logger("workflows")


class DurableRecorder(HistoryRecorder, Protocol):
    """Records events, and tells when they are on disk."""

    async def written(self) -> bool: ...


class Unfinished(msgspec.Struct, frozen=True, kw_only=True):
    """An unfinished activity, as the keeper remembers it."""

    id: str
    name: str
    is_single: bool
    service: str | None
    steps: list[str]
    step: int
    run_id: str | None = None
    """The run id of its present step's task."""
    told: dict[str, Any] | None = None
    """How it ended, as long as the event about it may be lost."""


class Procedure(msgspec.Struct, frozen=True, kw_only=True):
    """The steps to take, and the actor who asked for them."""

    name: str
    steps: Sequence[WorkflowStep]
    by: str
    service: str | None = None
    key: str | None = None
    """Of two with the same key, only one runs at a time."""
    is_single: bool = False
    """One command, with events of its own kind."""
    stops_on_failure: bool = True
    timeout: float | None = None
    facts: dict[str, Any] = {}
    """More data for its events."""


class ProgressQueue:
    """The items that one listener has not taken yet, in order and bounded.

    A listener that does not keep up misses output and is told how much. It never misses a step or
    the result.
    """

    def __init__(self) -> None:
        self._items: deque[tuple[dict[str, Any], int]] = deque()
        self._bytes = 0
        self._lost = 0
        self._bell = asyncio.Event()

    def add(self, item: dict[str, Any]) -> None:
        size = _size(item)
        if size and self._bytes + size > MOST_FOLLOWER_BYTES:
            self._lost += size
            return
        if self._lost:
            self._items.append(({"kind": "lost", "bytes": self._lost}, 0))
            self._lost = 0
        self._items.append((item, size))
        self._bytes += size
        self._bell.set()

    async def next(self) -> dict[str, Any]:
        while not self._items:
            self._bell.clear()
            await self._bell.wait()
        item, size = self._items.popleft()
        self._bytes -= size
        return item


class Activity:
    """One procedure that is under way."""

    def __init__(self, procedure: Procedure, began: float, loop: asyncio.AbstractEventLoop) -> None:
        self.id = f"workflow-{os.urandom(4).hex()}"
        self.procedure = procedure
        self.began = began
        self.place = 0
        """The index of the present step."""
        self.results: list[StepResult] = []
        self.is_cancelled = False
        self.current: asyncio.Task[StepResult] | None = None
        self.result: asyncio.Future[WorkflowResult] = loop.create_future()
        self.followers: set[ProgressQueue] = set()
        self._told: deque[dict[str, Any]] = deque()
        self._told_bytes = 0

    @property
    def step(self) -> WorkflowStep:
        return self.procedure.steps[min(self.place, len(self.procedure.steps) - 1)]

    def cancel(self) -> None:
        """Begin no further step, and end the command that runs."""
        self.is_cancelled = True
        if self.current is not None:
            self.current.cancel()

    def tell(self, item: dict[str, Any]) -> None:
        self._remember(item)
        for follower in self.followers:
            follower.add(item)

    def on_output(self, stream: str, data: bytes) -> None:
        self.tell(output_item(stream, data))

    def told(self) -> Iterator[dict[str, Any]]:
        """Its steps so far, and the last of their output."""
        return iter(self._told)

    def _remember(self, item: dict[str, Any]) -> None:
        self._told.append(item)
        self._told_bytes += _size(item)
        while self._told_bytes > MOST_TOLD_BYTES:
            oldest = next(place for place, one in enumerate(self._told) if _size(one))
            self._told_bytes -= _size(self._told[oldest])
            del self._told[oldest]


class WorkflowRunner:
    """Everything that is under way."""

    def __init__(
        self,
        keeper: KeeperApi,
        recorder: DurableRecorder,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._keeper = keeper
        self._recorder = recorder
        self._clock = clock
        self._loop = loop
        self._activities: dict[str, Activity] = {}
        self._over: deque[Activity] = deque(maxlen=MOST_OVER)
        self._work: set[asyncio.Task[None]] = set()

    def begin(self, procedure: Procedure) -> Activity:
        """Begin it, whether anybody follows or not; raises Refused if it is under way already."""
        for other in self._activities.values():
            if procedure.key is not None and other.procedure.key == procedure.key:
                raise self._busy(other)
        if len(self._activities) >= MOST_UNDER_WAY:
            raise Refused(f"{MOST_UNDER_WAY} workflows and commands are under way", "wait for one")
        activity = Activity(procedure, self._clock.monotonic(), self._loop)
        self._activities[activity.id] = activity
        self._remember(activity)
        if procedure.is_single:
            what = activity.step.what
            self._event(activity, EventKind.COMMAND_STARTED, what=what, by=procedure.by)
        else:
            self._event(
                activity, EventKind.WORKFLOW_STARTED, steps=len(procedure.steps), by=procedure.by
            )
        self._begin(self._do(activity))
        return activity

    def find(self, activity_id: str) -> Activity:
        """Return what is under way, or was lately, under this id; raises NotFound."""
        for activity in self._over:
            if activity.id == activity_id:
                return activity
        return self._under_way(activity_id)

    def _under_way(self, activity_id: str) -> Activity:
        activity = self._activities.get(activity_id)
        if activity is None:
            known = ", ".join(self._activities) or "nothing"
            raise NotFound(f'nothing with the id "{activity_id}" is under way', f"it is: {known}")
        return activity

    def follow(self, activity: Activity) -> ProgressQueue:
        """Return a follower, which is told the steps so far, and everything from now on; the caller
        closes it."""
        follower = ProgressQueue()
        activity.followers.add(follower)
        what = [step.what for step in activity.procedure.steps]
        follower.add({"kind": "started", "id": activity.id, "name": activity.procedure.name})
        follower.add({"kind": "steps", "steps": what})
        for item in activity.told():
            follower.add(item)
        return follower

    def cancel(self, activity_id: str) -> Activity:
        activity = self._under_way(activity_id)
        activity.cancel()
        return activity

    def under_way(self) -> list[UnderWay]:
        now = self._clock.monotonic()
        return [
            UnderWay(
                id=one.id,
                name=one.procedure.name,
                service=one.procedure.service,
                by=one.procedure.by,
                step=one.place + 1,
                steps=len(one.procedure.steps),
                what=one.step.what,
                seconds=round(now - one.began, 3),
            )
            for one in self._activities.values()
        ]

    def restore(self, kept: dict[str, str], exits: list[dict[str, Any]]) -> None:
        """Report what an earlier supervisor could not finish; `exits` are tasks that ended
        meanwhile.
        """
        endings = {one["run_id"]: one for one in exits}
        keys = []
        for activity, value in keeper_memory.workflow.entries(kept):
            key = keeper_memory.workflow(activity)
            keys.append(key)
            try:
                left = msgspec.json.decode(value, type=Unfinished)
            except msgspec.MsgspecError:
                _log.error("%s cannot be read", key)
                continue
            if left.told is not None:
                self._recorder.event(_finished(left.is_single), left.service, **left.told)
            else:
                self._tell_interrupted(left, endings.get(left.run_id or ""))
        if keys:
            self._begin(self._forget(keys))

    async def _forget(self, keys: list[str]) -> None:
        """Forget what was reported once that is on disk."""
        await self._recorder.written()
        for key in keys:
            self._keeper.keep(key, None)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def _tell_interrupted(self, left: Unfinished, ending: dict[str, Any] | None) -> None:
        of = f"step {left.step + 1} of {len(left.steps)}, {left.steps[left.step]}"
        told: dict[str, Any] = {"id": left.id, "name": left.name, "outcome": "interrupted"}
        where = left.steps[left.step] if left.is_single else of
        reason = f"the supervisor was replaced meanwhile: {where} {_ended_how(left, ending)}"
        if ending is not None:
            told["exit_code"] = ending.get("code")
        if skipped := left.steps[left.step + 1 :]:
            told["skipped"] = skipped
        self._recorder.event(_finished(left.is_single), left.service, **told, reason=reason)

    # Steps

    async def _do(self, activity: Activity) -> None:
        procedure = activity.procedure
        try:
            while activity.place < len(procedure.steps) and not activity.is_cancelled:
                result = await self._next(activity)
                activity.results.append(result)
                if result.outcome != "done" and procedure.stops_on_failure:
                    break
                activity.place += 1
        except Exception as error:  # noqa: BLE001 - the border of what is done in the background
            _log.exception("%s failed", procedure.name)
            reason = f"an error inside Holdfast: {type(error).__name__}: {error}"
            what = activity.step.what
            activity.results.append(StepResult(what=what, outcome="failed", reason=reason))
        self._finish(activity)
        await self._forget([keeper_memory.workflow(activity.id)])

    async def _next(self, activity: Activity) -> StepResult:
        """Do the next step in the time that is left."""
        procedure, step = activity.procedure, activity.step
        left = None
        if procedure.timeout is not None:
            left = activity.began + procedure.timeout - self._clock.monotonic()
            if left <= 0:
                reason = f"the whole took longer than {format_duration(procedure.timeout)}"
                return self._ended(activity, step.result("timeout", reason=reason))
        self._remember(activity)
        self._tell_step(activity, step, "begun")
        activity.current = self._loop.create_task(_of(step, left, activity.on_output))
        await asyncio.wait([activity.current])
        ended, activity.current = activity.current, None
        if ended.cancelled():
            return self._ended(activity, step.result("cancelled", reason="cancelled"))
        return self._ended(activity, ended.result())

    def _ended(self, activity: Activity, result: StepResult) -> StepResult:
        self._tell_step(activity, activity.step, result.outcome, result)
        return result

    def _tell_step(
        self, activity: Activity, step: WorkflowStep, outcome: str, result: StepResult | None = None
    ) -> None:
        facts: dict[str, Any] = {
            "step": activity.place + 1,
            "steps": len(activity.procedure.steps),
            "what": step.what,
            "part": step.part or None,
            "outcome": outcome,
        }
        if result is not None:
            facts.update(_ending(result))
        facts = {name: value for name, value in facts.items() if value is not None}
        activity.tell({"kind": "step", **facts})
        if not activity.procedure.is_single:
            self._event(activity, EventKind.WORKFLOW_STEP, **facts)

    def _finish(self, activity: Activity) -> None:
        procedure, results = activity.procedure, activity.results
        failed = next((one for one in results if one.outcome != "done"), None)
        skipped = [step.result("skipped") for step in procedure.steps[len(results) :]]
        results += skipped
        outcome = "failed" if failed is not None else "cancelled" if skipped else "done"
        if failed is not None and failed.outcome == "cancelled":
            outcome = "cancelled"
        seconds = round(self._clock.monotonic() - activity.began, 3)
        result = WorkflowResult(
            id=activity.id,
            name=procedure.name,
            outcome=outcome,  # type: ignore[arg-type]
            seconds=seconds,
            steps=results,
            service=procedure.service,
            reason=_reason(failed, is_single=procedure.is_single),
        )
        del self._activities[activity.id]
        self._over.append(activity)
        told: dict[str, Any] = {"outcome": outcome, "reason": result.reason, "seconds": seconds}
        if procedure.is_single:
            told = {**_ending(results[0]), **told, "what": results[0].what}
        self._remember(activity, self._event(activity, _finished(procedure.is_single), **told))
        activity.result.set_result(result)
        activity.tell({"kind": "finished"})

    # Events and memory

    def _event(self, activity: Activity, kind: EventKind, **data: Any) -> dict[str, Any]:
        procedure = activity.procedure
        facts = {"id": activity.id, "name": procedure.name, **procedure.facts, **data}
        told = {name: value for name, value in facts.items() if value is not None}
        self._recorder.event(kind, procedure.service, **told)
        return told

    def _remember(self, activity: Activity, told: dict[str, Any] | None = None) -> None:
        procedure = activity.procedure
        left = Unfinished(
            id=activity.id,
            name=procedure.name,
            is_single=procedure.is_single,
            service=procedure.service,
            steps=[step.what for step in procedure.steps],
            step=activity.place,
            run_id=activity.step.run_id,
            told=told,
        )
        self._keeper.keep(keeper_memory.workflow(activity.id), msgspec.json.encode(left).decode())

    def _busy(self, other: Activity) -> Refused:
        seconds = format_duration(self._clock.monotonic() - other.began)
        steps = len(other.procedure.steps)
        return Refused(
            f"{other.procedure.name} is under way already: begun {seconds} ago by "
            f"{other.procedure.by}, step {other.place + 1} of {steps} ({other.step.what})",
            f"wait for it, or end it: holdfast workflow --cancel {other.id}",
            {"id": other.id},
        )


async def _of(
    step: WorkflowStep, seconds: float | None, on_output: Callable[[str, bytes], None]
) -> StepResult:
    doing: Coroutine[Any, Any, StepResult] = step.do(seconds, on_output)
    return await doing


def _size(item: dict[str, Any]) -> int:
    """Return the length of the output in an item."""
    return len(item.get("text") or item.get("data") or "") if item["kind"] == "output" else 0


def _finished(is_single: bool) -> EventKind:
    return EventKind.COMMAND_FINISHED if is_single else EventKind.WORKFLOW_FINISHED


def _ended_how(left: Unfinished, ending: dict[str, Any] | None) -> str:
    """Return what became of a step while there was no supervisor."""
    if left.run_id is None:
        return "goes on unwatched"
    if ending is None:
        return "did not end"
    if ending.get("signal"):
        return f"was ended by {signal_name(ending['signal'])}"
    code = ending.get("code")
    return "ended, exit code unknown" if code is None else f"had ended with exit code {code}"


def _ending(result: StepResult) -> dict[str, Any]:
    """Return how a step ended, without its output."""
    return {
        "exit_code": result.exit_code,
        "signal": result.signal,
        "seconds": result.seconds,
        "reason": redact(result.reason) if result.reason else None,
    }


def _reason(failed: StepResult | None, *, is_single: bool) -> str | None:
    if failed is None:
        return None
    reason = redact(failed.reason or failed.outcome)
    return reason if is_single else f"{failed.what}: {reason}"
