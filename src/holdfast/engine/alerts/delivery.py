"""Delivers alerts to targets, each at least once, from the durable events.

There is no queue: what a target has not got yet is read from the history, after a position that is
saved with every success. A failing target is tried again, ever more slowly, and delays no other
target. Addresses and headers may be secrets and are never shown.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.own_log import facts, logger
from holdfast.adapters.store.state_store import StateStore
from holdfast.engine.alerts.alerts import ALERT_KINDS, OpenAlerts, alert_of
from holdfast.engine.roster import Roster
from holdfast.engine.runner.environment import Clock, RunnerEnvironment
from holdfast.engine.tasks import Task, Tasks
from holdfast.rules.alerts import delivery, notices
from holdfast.rules.alerts.delivery import TargetProgress
from holdfast.rules.alerts.notices import Notice
from holdfast.secrets.redaction import redact
from holdfast.system import deadlines
from holdfast.vocabulary.alerts import Alert, TargetSpec
from holdfast.vocabulary.errors import HoldfastError
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.specs.settings import Settings

SAVED_AS = "alert_target:"
_BATCH = 200
_log = logger("alert_delivery")


class DeliveryResult(msgspec.Struct, frozen=True):
    """How one attempt went; `is_refused` says that the target rejects this very message."""

    is_done: bool
    reason: str = ""
    is_refused: bool = False


class DeliveryContext(msgspec.Struct, frozen=True):
    """The parts of the supervisor that deliveries use."""

    spec_of: Callable[[str], ServiceSpec | None]
    environ_key: Callable[[], str | None]
    """Returns the key of the environment that commands start with."""
    random: Callable[[], float]
    clock: Clock
    project: str


def delivery_context(
    roster: Roster, environment: RunnerEnvironment, project: str
) -> DeliveryContext:
    def spec_of(name: str) -> ServiceSpec | None:
        runner = roster.runners.get(name)
        return None if runner is None else runner.declaration.spec

    def environ_key() -> str | None:
        """Return that of the newest declaration: the environment of the last `up`."""
        keys = [
            keeper_memory.environ(runner.declaration.environ_key)
            for runner in roster.runners.values()
        ]
        return keys[-1] if keys else None

    return DeliveryContext(spec_of, environ_key, environment.random, environment.clock, project)


class Deliveries:
    """All targets of the configuration in force."""

    def __init__(
        self, store: StateStore, alerts: OpenAlerts, tasks: Tasks, around: DeliveryContext
    ) -> None:
        self.store = store
        self.alerts = alerts
        self.tasks = tasks
        self.around = around
        self.targets: dict[str, TargetDelivery] = {}
        self._saved: dict[str, str] = {}
        self._specs: tuple[TargetSpec, ...] = ()
        self._is_started = False
        alerts.listen(self._ring)

    def restore(self, meta: Mapping[str, str]) -> None:
        """Take the positions that an earlier supervisor saved."""
        self._saved = {
            key.removeprefix(SAVED_AS): value
            for key, value in meta.items()
            if key.startswith(SAVED_AS) and value
        }

    def start(self) -> None:
        self._is_started = True
        self._use(self._specs)
        for name in set(self._saved) - set(self.targets):
            self.save(name, None)

    def on_settings(self, settings: Settings) -> None:
        self._specs = settings.alerts
        if self._is_started:
            self._use(settings.alerts)

    def close(self) -> None:
        for target in self.targets.values():
            target.close()

    def save(self, name: str, memory: TargetProgress | None) -> None:
        text = "" if memory is None else msgspec.json.encode(memory).decode()
        if memory is None:
            self._saved.pop(name, None)
        self.store.set_meta(SAVED_AS + name, text)

    def _use(self, specs: Iterable[TargetSpec]) -> None:
        wanted = {spec.name: spec for spec in specs}
        for name, target in list(self.targets.items()):
            if name not in wanted:
                target.close()
                del self.targets[name]
                self.save(name, None)
                target.forgive("it is no longer configured")
            elif target.spec != wanted[name]:
                target.use(wanted[name])
        for name, spec in wanted.items():
            if name not in self.targets:
                self.targets[name] = TargetDelivery(self, spec, self._memory(name))

    def _memory(self, name: str) -> TargetProgress:
        saved = self._saved.pop(name, None)
        if saved:
            try:
                return msgspec.json.decode(saved, type=TargetProgress)
            except msgspec.MsgspecError as error:
                _log.error("where %s was is not understood: %s", name, error)
        # A new target does not get older alerts.
        memory = TargetProgress(seq=self.store.last_seq)
        self.save(name, memory)
        return memory

    def _ring(self) -> None:
        for target in self.targets.values():
            target.ring()


class TargetDelivery:
    """One target, and the task that delivers to it."""

    def __init__(self, all_: Deliveries, spec: TargetSpec, memory: TargetProgress) -> None:
        self.spec = spec
        self.memory = memory
        self._all = all_
        self._place = memory.seq
        self._refusals = 0
        self._bell = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._deliver_for_ever())

    def use(self, spec: TargetSpec) -> None:
        """Continue with another declaration, at once if the old one failed."""
        self.spec = spec
        self.ring()

    def ring(self) -> None:
        self._bell.set()

    def close(self) -> None:
        self._task.cancel()

    def forgive(self, why: str) -> None:
        """Clear the alert about its failing."""
        if self.memory.is_reported:
            self._all.store.event(EventKind.ALERT_DELIVERED, target=self.spec.name, reason=why)

    async def _deliver_for_ever(self) -> None:
        while True:
            try:
                await self._deliver_all()
            except HoldfastError as error:
                # The history cannot be read just now; the history itself reports that.
                _log.warning("%s: %s", self.spec.name, error.message)
                await self._pause(delivery.LONGEST_DELAY_SECONDS)
            except Exception:  # noqa: BLE001 - one target must not end the others
                _log.exception("%s: deliveries are interrupted", self.spec.name)
                await self._pause(delivery.LONGEST_DELAY_SECONDS)

    async def _deliver_all(self) -> None:
        store = self._all.store
        while True:
            self._bell.clear()
            newest = self._all.alerts.stored_seq
            behind = await store.events_of(ALERT_KINDS, self._place, delivery.MOST_BEHIND + 1)
            if len(behind) > delivery.MOST_BEHIND:
                await self._skip_oldest()
                continue
            for event in behind:
                await self._deliver(event)
            self._place = max(self._place, newest)
            wait = await self._remind()
            await self._wait(wait)

    async def _deliver(self, event: dict[str, Any]) -> None:
        alert, seq = alert_of(event), event["seq"]
        around = self._all.around
        while True:
            is_told = self._is_meant(alert) and delivery.is_told(
                self.spec, self.memory, alert, around.clock.time()
            )
            if not is_told:
                self.memory = delivery.passed_over(self.memory, seq)
                break
            if await self._attempt(alert, seq, notices.what_of(alert)):
                break
            if self._refusals >= delivery.MOST_REFUSALS:
                _log.error("%s refuses %s; it is not told", self.spec.name, alert.id)
                self._remember(delivery.passed_over(self.memory, seq, is_lost=True))
                break
            await self._pause(delivery.retry_delay(self.memory.failures, around.random()))
        self._place, self._refusals = max(self._place, seq), 0

    async def _attempt(self, alert: Alert, seq: int, what: str) -> bool:
        around = self._all.around
        notice = Notice(alert, seq, what, around.project, _host())
        sent = await send(self.spec, notice, self._all.tasks, around)
        now = around.clock.time()
        if sent.is_done:
            self.forgive("alerts reach it again")
            self._remember(delivery.after_success(self.memory, alert, seq, now))
            about = facts(service=alert.service, alert=alert.id, cause=alert.cause)
            _log.info("%s is told: %s", self.spec.name, what, extra=about)
            return True
        self._refusals = self._refusals + 1 if sent.is_refused else 0
        memory = delivery.after_failure(self.memory, redact(sent.reason), now)
        if delivery.is_failing_for_long(memory, now):
            memory = msgspec.structs.replace(memory, is_reported=True)
            self._all.store.event(
                EventKind.ALERT_UNDELIVERED, target=self.spec.name, reason=memory.reason
            )
        self._remember(memory)
        about = facts(alert=alert.id, attempt=memory.failures, error=memory.reason)
        _log.warning("%s is not told", self.spec.name, extra=about)
        return False

    async def _remind(self) -> float | None:
        """Repeat open alerts that are due; return in how many seconds the next one is."""
        clock = self._all.around.clock
        soonest: float | None = None
        for alert in list(self._all.alerts.open.values()):
            due = delivery.reminder_at(self.spec, self.memory, alert)
            if due is None or not self._is_meant(alert):
                continue
            left = delivery.seconds_until(due, clock.time(), self.spec.repeat)
            if left <= 0:
                if await self._attempt(alert, 0, "reminder"):
                    left = self.spec.repeat
                else:
                    left = delivery.retry_delay(self.memory.failures, 0.5)
            soonest = left if soonest is None else min(soonest, left)
        return soonest

    async def _skip_oldest(self) -> None:
        """Skip the oldest alerts of a target that is too far behind."""
        seqs = await self._all.store.seqs_of(ALERT_KINDS, self._place)
        first = delivery.first_seq(seqs)
        lost = sum(1 for seq in seqs if seq < first)
        _log.warning("%s is far behind: %d alerts are not told", self.spec.name, lost)
        memory = delivery.passed_over(self.memory, first - 1)
        self._remember(msgspec.structs.replace(memory, skipped=memory.skipped + lost))
        self._place = max(self._place, first - 1)

    def _is_meant(self, alert: Alert) -> bool:
        spec = self._all.around.spec_of(alert.service) if alert.service else None
        tags = getattr(spec, "tags", ())
        template = getattr(spec, "template", None)
        return delivery.is_meant(self.spec, alert, tags, template)

    def _remember(self, memory: TargetProgress) -> None:
        self.memory = memory
        self._all.save(self.spec.name, memory)

    async def _wait(self, seconds: float | None) -> None:
        """Wait until there may be something new, or for so many seconds."""
        try:
            await deadlines.wait_for(self._bell.wait(), seconds)
        except TimeoutError:
            pass

    async def _pause(self, seconds: float) -> None:
        """Wait before another attempt. A new declaration ends the pause, a new alert does not."""
        spec, deadline = self.spec, self._all.around.clock.monotonic() + seconds
        while spec == self.spec:
            left = deadline - self._all.around.clock.monotonic()
            if left <= 0:
                break
            self._bell.clear()
            await self._wait(left)
        # A new alert may have come meanwhile: look again afterwards.
        self._bell.set()


async def send(
    spec: TargetSpec, notice: Notice, tasks: Tasks, around: DeliveryContext
) -> DeliveryResult:
    """Make one attempt."""
    if spec.webhook is not None:
        return await _post(spec, spec.webhook, notice)
    argv = spec.command if not spec.desktop else notices.desktop_argv(notice, sys.platform)
    env = notices.variables(notice)
    environ = around.environ_key()
    if environ is None:
        env["PATH"] = os.environ.get("PATH", os.defpath)
    folder = around.project or "/"
    result = await tasks.run(
        Task("alert", argv, folder, timeout=spec.timeout, env=env, environ=environ)
    )
    if result.is_success:
        return DeliveryResult(True)
    said = result.err.decode(errors="replace").strip().splitlines()[-1:]
    return DeliveryResult(False, ": ".join([result.reason, *said])[:300])


async def _post(spec: TargetSpec, url: str, notice: Notice) -> DeliveryResult:
    headers = {
        "content-type": "application/json; charset=utf-8",
        "idempotency-key": notice.key,
        **{name.lower(): value for name, value in spec.headers.items()},
    }
    body = notices.body(notice, spec.format)
    from holdfast.adapters import http_client

    try:
        answer = await http_client.request(
            url, method="POST", headers=headers, body=body, timeout_seconds=spec.timeout
        )
    except http_client.HttpError as error:
        return DeliveryResult(False, str(error))
    if answer.is_success:
        return DeliveryResult(True)
    return DeliveryResult(False, f"it answered {answer.status}", delivery.is_refusal(answer.status))


def _host() -> str:
    return socket.gethostname()
