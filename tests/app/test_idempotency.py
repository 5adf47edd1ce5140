"""Keys: what is remembered of a command, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import msgspec
import pytest

from holdfast.app import idempotency
from holdfast.app.idempotency import Idempotency
from holdfast.keeper.protocol.messages import KeepRequest
from holdfast.vocabulary.actors import Actor, Role
from holdfast.vocabulary.command import Done
from holdfast.vocabulary.errors import Failed, OutcomeUnknown, Refused, UsageError
from holdfast.vocabulary.holdfast import Up
from holdfast.vocabulary.instances import Scale
from holdfast.vocabulary.services import Pause, Restart, Resume, Start, Stop
from tests.engine.stage import FakeClock

ME = Actor(Role.OWNER, "me")
RESTART = Restart(services=["web"])


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Memory:
    """The keeper's memory; what was not flushed is lost with the supervisor."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}
        self._unsent: dict[str, str | None] = {}

    def keep(self, key: str, value: str | None) -> None:
        self._unsent[key] = value

    def request(self, message: KeepRequest, then: Callable[[Any], None]) -> None:
        assert message == {"do": "keep"}

    def flush(self) -> None:
        for key, value in self._unsent.items():
            if value is None:
                self.kept.pop(key, None)
            else:
                self.kept[key] = value
        self._unsent = {}


class Stage:
    def __init__(self) -> None:
        self.memory, self.clock = Memory(), FakeClock()
        self.done = 0
        self.after_death()

    def after_death(self) -> None:
        self.memory._unsent = {}
        self.idempotency = Idempotency(self.memory, self.clock)
        self.idempotency.restore(self.memory.kept)

    def ask(
        self,
        key: object,
        command: Any = RESTART,
        do: Callable[[], Any] | None = None,
        actor: Actor = ME,
    ) -> Any:
        def work() -> Done:
            self.done += 1
            return Done(message=f"done {self.done}")

        return self.idempotency.answer(actor, command, key, do or work)


@on_a_loop
async def test_an_answer_is_told_again_after_a_death() -> None:
    """As it was written."""
    stage = Stage()
    assert stage.ask("k").message == "done 1"
    for _ in range(2):
        assert msgspec.json.decode(await stage.ask("k")) == {"message": "done 1"}
        stage.after_death()
    assert stage.done == 1


@on_a_loop
async def test_death_in_the_middle_is_unknown_unless_it_may_be_repeated() -> None:
    """That it was begun is in the keeper's hands before anything is done."""
    stage = Stage()

    def dies() -> Any:
        raise KeyboardInterrupt

    for key, command in (("r", RESTART), ("s", Start(services=["web"]))):
        with pytest.raises(KeyboardInterrupt):
            stage.ask(key, command, dies)
    stage.after_death()
    with pytest.raises(OutcomeUnknown, match="its outcome is unknown"):
        stage.ask("r")
    assert stage.ask("s", Start(services=["web"])).message == "done 1"


@on_a_loop
async def test_failures_are_remembered_and_refusals_are_not() -> None:
    """A refusal did nothing; a failure may have done half."""
    stage = Stage()

    def fails() -> Any:
        stage.done += 1
        raise Failed("half of it")

    def refuses() -> Any:
        raise Refused("no")

    with pytest.raises(Failed):
        stage.ask("f", do=fails)
    stage.after_death()
    with pytest.raises(Exception, match="half of it"):
        stage.ask("f")
    assert stage.done == 1
    with pytest.raises(Refused):
        stage.ask("x", do=refuses)
    assert stage.ask("x").message == "done 2"


@on_a_loop
async def test_who_leaves_does_not_end_it() -> None:
    """The work goes on, and the next who asks gets its answer."""
    stage, gate = Stage(), asyncio.Event()

    async def slow() -> Done:
        await gate.wait()
        return Done(message="slow")

    first = asyncio.ensure_future(stage.ask("k", do=slow))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(stage.ask("k", do=slow))
    first.cancel()
    gate.set()
    assert (await second).message == "slow"
    assert msgspec.json.decode(await stage.ask("k")) == {"message": "slow"}


@on_a_loop
async def test_memory_is_bounded_in_number_age_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go; a long answer is not kept, and that is said."""
    monkeypatch.setattr(idempotency, "MOST", 5)
    stage = Stage()
    for number in range(20):
        stage.ask(f"k{number}")
    assert len(stage.memory.kept) <= 6
    stage.clock.advance(idempotency.KEPT_SECONDS + 1)
    stage.ask("new")
    stage.memory.flush()
    assert len(stage.memory.kept) == 1
    long = Done(message="x" * (idempotency.LONGEST_ANSWER + 1))
    assert stage.ask("long", do=lambda: long) is long
    with pytest.raises(OutcomeUnknown, match="too long"):
        stage.ask("long")


@on_a_loop
async def test_nobody_pushes_out_what_another_was_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by their number, nor by their size, nor by what is under way; nor by sessions."""
    monkeypatch.setattr(idempotency, "MOST", 20)
    monkeypatch.setattr(idempotency, "MOST_OF_ONE", 10)
    monkeypatch.setattr(idempotency, "MOST_BYTES", 2000)
    stage = Stage()
    other = Actor(Role.OPERATOR, "token other", token="other")
    stage.ask("mine")
    large = Done(message="x" * 500)
    for number in range(100):
        session = Actor(Role.AGENT, "a", session=f"session-{number % 50}", behind=other)
        stage.ask(f"k{number}", actor=session)
        stage.ask(f"l{number}", do=lambda: large, actor=other)
    assert msgspec.json.decode(await stage.ask("mine")) == {"message": "done 1"}
    assert len(stage.memory.kept) <= 21
    waiting: list[asyncio.Future[Any]] = [asyncio.Future() for _ in range(10)]
    for number, future in enumerate(waiting):
        stage.ask(f"w{number}", do=lambda future=future: future, actor=other)  # type: ignore[misc]
    with pytest.raises(Refused, match="10 commands with keys"):
        stage.ask("one more", do=asyncio.Future, actor=other)
    stage.ask("mine too")
    for future in waiting:
        future.set_result(Done())


@on_a_loop
async def test_a_clock_that_is_set_back_repeats_nothing() -> None:
    """A correction of a second is no reason to do it once more."""
    stage = Stage()
    stage.ask("key")
    stage.clock.now -= 1.5
    stage.ask("key")
    assert stage.done == 1


@pytest.mark.parametrize("key", ["", 5, "x" * 500, ["a"]])
@on_a_loop
async def test_what_is_no_key(key: object) -> None:
    """Nothing is done."""
    stage = Stage()
    with pytest.raises(UsageError):
        stage.ask(key)
    assert stage.done == 0


@pytest.mark.parametrize(
    ("begun", "since", "is_done_again"),
    [
        (Stop(services=["web"]), [], True),
        (Stop(services=["web"]), [Up()], False),
        (Stop(services=["web"]), [Start(services=["web"])], False),
        (Stop(services=["web"]), [Restart(service="web")], False),
        (Stop(services=["web"]), [Start(services=["db"])], True),
        (Stop(services=["web"]), [Stop(services=["web"]), Stop()], True),
        (Stop(), [Start(services=["db"])], False),
        (Up(), [Up()], True),
        (Up(), [Stop(services=["web"])], False),
        (Start(services=["web"]), [Stop(services=["web"])], False),
        (Pause(services=["web"]), [Resume(services=["web"])], False),
        (Resume(services=["web"]), [Pause(services=["web"])], False),
        (Scale(instances={"web": 2}), [Scale(instances={"web": 2})], True),
        (Scale(instances={"web": 2}), [Scale(instances={"web": 5})], False),
        (Scale(instances={"web": 2}), [Scale(instances={"db": 5})], True),
        (Stop(services=["web"]), [Start(services=["db"])] * 100, False),
    ],
)
@on_a_loop
async def test_what_was_overtaken_is_not_done_again(
    begun: Any, since: list[Any], is_done_again: bool
) -> None:
    """A command of unknown outcome is done again only if that undoes nothing asked since."""
    stage = Stage()

    async def dies() -> Done:
        await asyncio.Event().wait()
        raise AssertionError

    def begin() -> Any:
        stage.idempotency.note(begun)
        return dies()

    first = asyncio.ensure_future(stage.ask("key", begun, begin))
    await asyncio.sleep(0)
    stage.after_death()
    for command in since:
        stage.idempotency.note(command)
        stage.memory.flush()
        stage.after_death()
    if is_done_again:
        assert stage.ask("key", begun).message == "done 1"
    else:
        with pytest.raises(OutcomeUnknown, match="not done again"):
            stage.ask("key", begun)
    first.cancel()
