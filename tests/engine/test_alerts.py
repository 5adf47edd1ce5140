"""Alerts over the deaths of supervisors, and deliveries: a real history, no processes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.adapters.store.state_store import StateStore
from holdfast.engine.alerts import delivery
from holdfast.engine.alerts.alerts import ALERT_KINDS, OpenAlerts
from holdfast.engine.alerts.delivery import Deliveries, DeliveryContext, DeliveryResult
from holdfast.engine.event_bus import EventBus
from holdfast.engine.runner.environment import Clock
from holdfast.rules.alerts import delivery as delivery_rules
from holdfast.rules.alerts import folding as rules
from holdfast.rules.alerts.folding import applied
from holdfast.rules.alerts.notices import Notice
from holdfast.vocabulary.alerts import TargetSpec
from holdfast.vocabulary.events import Event, EventKind
from holdfast.vocabulary.specs.settings import Settings


class Life:
    """One supervisor's stay: its store, its alerts, its deliveries."""

    def __init__(self, path: Path, *targets: TargetSpec, clock: Clock | None = None) -> None:
        self.bus = EventBus()
        self.store = StateStore(
            str(path),
            asyncio.get_running_loop(),
            publish=self.bus.publish,
            forget=lambda runs: None,
            reserve=lambda seq: None,
            on_replaced=lambda: None,
        )
        loaded = self.store.load(0, [])
        self.bus.last_seq = self.store.last_seq
        self.alerts = OpenAlerts(self.store, self.bus)
        self.alerts.restore(loaded.meta.get("alerts"), self.store.last_seq)
        around = DeliveryContext(
            lambda name: None, lambda: None, lambda: 0.5, clock or Clock(), "/srv/p"
        )
        self.deliveries = Deliveries(self.store, self.alerts, None, around)  # type: ignore[arg-type]
        self.deliveries.restore(loaded.meta)
        self.deliveries.on_settings(Settings(alerts=targets))
        self.alerts.start()
        self.deliveries.start()

    def crash(self, service: str = "web") -> None:
        data = {"to": "failed", "cause": "exited with a failure", "reason": "exit code 1"}
        self.store.event(EventKind.TRANSITION, service, "run-1", **data)

    def recover(self, service: str = "web") -> None:
        self.store.event(EventKind.STABLE, service, "run-1")

    async def settle(self) -> None:
        """Until all that was recorded is folded."""
        while not await self.store.written() or self.alerts.stored_seq < self.store.last_seq:
            await self.bus.newer_than(self.alerts.stored_seq)
            await asyncio.sleep(0)

    def die(self) -> None:
        """As if killed: what was not handed to the disk yet is lost."""
        self.deliveries.close()
        self.alerts.close()
        self.store.database.close()

    async def alert_events(self) -> list[dict[str, Any]]:
        return await self.store.events_of(ALERT_KINDS, 0, 10_000)


@pytest.mark.parametrize("seed", range(8))
def test_killed_at_any_moment_no_alert_is_lost_or_doubled(tmp_path: Path, seed: int) -> None:
    """Over many deaths, exactly the alerts of the stored events are raised and cleared."""
    chance = random.Random(seed)
    path = tmp_path / "history.db"

    async def live() -> None:
        life = Life(path)
        for _ in range(chance.randrange(1, 12)):
            service = chance.choice(["a", "b", "c"])
            chance.choice([life.crash, life.crash, life.recover])(service)
            for _ in range(chance.randrange(0, 4)):
                await asyncio.sleep(chance.choice([0, 0, 0.002]))
        life.die()

    async def check() -> None:
        life = Life(path)
        life.store.event(EventKind.SUPERVISOR_STARTED)
        await life.settle()
        await life.settle()
        stored = await life.store.events_after(0, 100_000, [])
        told = [(it["kind"], it["data"]["id"]) for it in stored if it["kind"] in ALERT_KINDS]
        state: dict[Any, Any] = {}
        wanted = []
        for fields in stored:
            changes = rules.fold(state, Event(**fields))
            state = applied(state, changes)
            kinds = {"raised": "alert:raised", "cleared": "alert:cleared"}
            wanted += [(kinds[it.what], it.alert.id) for it in changes if it.what in kinds]
        assert sorted(told) == sorted(wanted)
        assert life.alerts.open == state
        life.die()

    for _ in range(6):
        asyncio.run(live())
    asyncio.run(check())


def test_what_was_before_alerts_is_not_their_business(tmp_path: Path) -> None:
    """A history written by a version without alerts raises none."""

    async def scene() -> None:
        first = Life(tmp_path / "h.db")
        first.crash()
        await first.settle()
        first.store.set_meta("alerts", "")
        await first.store.written()
        first.die()
        second = Life(tmp_path / "h.db")
        assert second.alerts.open == {}
        await second.settle()
        assert second.alerts.open == {}
        second.die()

    asyncio.run(scene())


class Post:
    """Stands for the outside: takes notices, or fails as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.got: list[tuple[str, str, str]] = []
        self.answer: Callable[[TargetSpec, Notice], DeliveryResult] = lambda spec, notice: (
            DeliveryResult(True)
        )
        self.attempts = 0
        monkeypatch.setattr(delivery, "send", self._send)
        monkeypatch.setattr(delivery_rules, "retry_delay", lambda failures, random: 0.005)

    async def _send(self, spec: TargetSpec, notice: Notice, *_: Any) -> DeliveryResult:
        self.attempts += 1
        sent = self.answer(spec, notice)
        if sent.is_done:
            self.got.append((spec.name, notice.what, notice.alert.message))
        return sent


@pytest.fixture
def post(monkeypatch: pytest.MonkeyPatch) -> Post:
    return Post(monkeypatch)


async def until(condition: Callable[[], Any], seconds: float = 30.0) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "not in time"
        await asyncio.sleep(0.002)


T = TargetSpec(name="t")


def test_told_in_order_and_once(tmp_path: Path, post: Post) -> None:
    """Every raising and clearing arrives, and a second supervisor does not tell it again."""

    async def scene() -> None:
        life = Life(tmp_path / "h.db", T)
        life.crash()
        life.crash()
        life.recover()
        await until(lambda: len(post.got) == 2)
        await life.settle()
        life.die()
        again = Life(tmp_path / "h.db", T)
        again.crash("db")
        await until(lambda: len(post.got) == 3)
        again.die()

    asyncio.run(scene())
    assert [what for _, what, _ in post.got] == ["raised", "cleared", "raised"]


def test_told_although_the_supervisor_died_before(tmp_path: Path, post: Post) -> None:
    """What was stored and not delivered is delivered by the next supervisor."""

    async def scene() -> None:
        post.answer = lambda spec, notice: DeliveryResult(False, "nobody there")
        life = Life(tmp_path / "h.db", T)
        life.crash()
        await until(lambda: post.attempts >= 2)
        life.die()
        post.answer = lambda spec, notice: DeliveryResult(True)
        again = Life(tmp_path / "h.db", T)
        await until(lambda: post.got)
        target = again.deliveries.targets["t"]
        assert (target.memory.failures, target.memory.reason) == (0, None)
        again.die()

    asyncio.run(scene())
    assert post.got == [("t", "raised", "web crashed: exit code 1")]


def test_one_that_fails_holds_up_nobody(tmp_path: Path, post: Post) -> None:
    """A target that fails is tried on while the others are told."""

    async def scene() -> None:
        post.answer = lambda spec, notice: DeliveryResult(spec.name != "bad", "refused")
        life = Life(tmp_path / "h.db", TargetSpec(name="bad"), T)
        for service in ("a", "b", "c"):
            life.crash(service)
        await until(lambda: len(post.got) == 3)
        # Each target has its own pace: the first try of this one may still be under way.
        await until(lambda: life.deliveries.targets["bad"].memory.failures > 0)
        assert len(post.got) == 3
        life.die()

    asyncio.run(scene())


def test_failing_for_long_is_one_alert(
    tmp_path: Path, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is raised once, told to the others only, and cleared when the target works again."""
    monkeypatch.setattr(delivery_rules, "PATIENCE_SECONDS", 0.02)

    async def scene() -> None:
        post.answer = lambda spec, notice: DeliveryResult(spec.name != "bad", "refused")
        life = Life(tmp_path / "h.db", TargetSpec(name="bad"), T)
        life.crash()
        attempts = post.attempts
        await until(lambda: any("do not reach bad" in text for _, _, text in post.got))
        await until(lambda: post.attempts > attempts + 20)
        assert [it.cause for it in life.alerts.open.values()] == ["crash", "delivery"]
        post.answer = lambda spec, notice: DeliveryResult(True)
        await until(lambda: len(life.alerts.open) == 1)
        await until(lambda: ("t", "cleared") in [it[:2] for it in post.got])
        life.die()

    asyncio.run(scene())
    assert [it for it in post.got if it[0] == "bad"] == [
        ("bad", "raised", "web crashed: exit code 1")
    ]
    assert len([it for it in post.got if "do not reach" in it[2]]) == 2


def test_a_refused_message_does_not_block_the_next(tmp_path: Path, post: Post) -> None:
    """An alert that a target will not have is given up after some tries, and counted."""

    async def scene() -> None:
        post.answer = lambda spec, notice: (
            DeliveryResult(False, "422", is_refused=True)
            if notice.alert.service == "odd"
            else DeliveryResult(True)
        )
        life = Life(tmp_path / "h.db", T)
        life.crash("odd")
        life.crash("web")
        await until(lambda: post.got)
        assert life.deliveries.targets["t"].memory.skipped == 1
        life.die()

    asyncio.run(scene())
    assert post.attempts == delivery_rules.MOST_REFUSALS + 1


def test_reminders_come_while_it_is_open(tmp_path: Path, post: Post) -> None:
    """What is still open is told again after `repeat`, and no more when it is over."""

    async def scene() -> None:
        life = Life(tmp_path / "h.db", msgspec.structs.replace(T, repeat=0.05))
        life.crash()
        await until(lambda: len([it for it in post.got if it[1] == "reminder"]) == 2)
        life.recover()
        await until(lambda: post.got[-1][1] == "cleared")
        life.die()

    asyncio.run(scene())


def test_another_declaration_is_tried_at_once(tmp_path: Path, post: Post) -> None:
    """Who mends the address need not wait for the back-off, and loses nothing."""

    async def scene() -> None:
        post.answer = lambda spec, notice: DeliveryResult(
            spec.webhook == "http://right/", "refused"
        )
        delivery_rules.retry_delay = lambda failures, random: 60.0
        wrong = TargetSpec(name="t", webhook="http://wrong/")
        life = Life(tmp_path / "h.db", wrong)
        life.crash()
        await until(lambda: post.attempts == 1)
        right = TargetSpec(name="t", webhook="http://right/")
        life.deliveries.on_settings(Settings(alerts=(right,)))
        await until(lambda: post.got)
        life.deliveries.on_settings(Settings())
        assert life.deliveries.targets == {}
        life.die()

    asyncio.run(scene())


def test_a_new_target_does_not_get_old_alerts(tmp_path: Path, post: Post) -> None:
    """And one that was removed and is named again begins anew."""

    async def scene() -> None:
        life = Life(tmp_path / "h.db")
        life.crash("old")
        await life.settle()
        life.deliveries.on_settings(Settings(alerts=(T,)))
        life.crash("new")
        await until(lambda: post.got)
        life.deliveries.on_settings(Settings())
        life.crash("between")
        await life.settle()
        life.deliveries.on_settings(Settings(alerts=(T,)))
        life.crash("last")
        await until(lambda: len(post.got) == 2)
        life.die()

    asyncio.run(scene())
    assert [text for _, _, text in post.got] == [
        "new crashed: exit code 1",
        "last crashed: exit code 1",
    ]


def test_far_behind_it_is_told_of_the_newest(
    tmp_path: Path, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a long failure a target is not flooded; what was left out is counted."""
    monkeypatch.setattr(delivery_rules, "MOST_BEHIND", 10)

    async def scene() -> None:
        life = Life(tmp_path / "h.db", T)
        await life.settle()
        life.deliveries.close()
        for number in range(35):
            life.crash(f"s{number}")
        await life.settle()
        await life.settle()
        life.die()
        again = Life(tmp_path / "h.db", T)
        await until(lambda: len(post.got) == 10)
        assert again.deliveries.targets["t"].memory.skipped == 25
        again.die()

    asyncio.run(scene())
    assert post.got[-1][2].startswith("s34 ")
