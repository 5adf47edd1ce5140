"""Starts that wait for what the service needs, and go on by themselves."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

from holdfast.vocabulary.specs.services import RestartSpec
from holdfast.vocabulary.states import State
from tests.engine.cast import Cast, need


@pytest.fixture
def cast() -> Iterator[Cast]:
    made = Cast()
    yield made
    made.close()


def test_what_needs_nothing_starts_in_the_same_turn(cast: Cast) -> None:
    """No task, no timer, no detour: the spawn is asked for before anything else happens."""
    cast.declare("db")
    cast.loop.create_task(cast.roster.start(["db"], wait=False))
    cast.turn()
    assert [message["do"] for message, _ in cast.keeper._inbox].count("spawn") == 1


def test_started_waits_for_the_process_alone(cast: Cast) -> None:
    """With `started`, a dependent begins as soon as its dependency has a process."""
    cast.declare("db")
    cast.declare("api", need("db"))
    started = cast.start("api")
    assert cast.spawned() == ["db", "api"]
    cast.advance(1.0)
    assert {name: it.outcome for name, it in started.result().items()} == {
        "db": "started",
        "api": "started",
    }


def test_ready_waits_until_it_stays_up_and_says_so(cast: Cast) -> None:
    """With `ready`, it begins when the other has stayed up; until then status says so."""
    cast.declare("db")
    cast.declare("api", need("db", "ready"))
    started = cast.start("api")
    assert cast.spawned() == ["db"]
    assert cast["api"].waiting_for == ("db to become ready (starting)",)
    assert cast["api"].status().waiting_for == ["db to become ready (starting)"]
    cast.advance(1.0)
    assert cast.spawned() == ["db", "api"]
    assert cast["api"].waiting_for == ()
    cast.advance(1.0)
    assert started.result()["api"].outcome == "started"


def test_readiness_and_health_are_what_probes_say(cast: Cast) -> None:
    """Probes decide when `ready` and `healthy` are met."""
    cast.declare("db")
    cast.declare("api", need("db", "ready"))
    cast.declare("web", need("db", "healthy"))
    cast.start("api", "web")
    cast.judge("db", is_ready=False, health="unknown")
    cast.advance(5.0)
    assert cast.spawned() == ["db"]
    assert cast["web"].waiting_for == ("db to become healthy (not ready)",)
    cast.judge("db", is_ready=True, health="unknown")
    assert cast.spawned() == ["db", "api"]
    assert cast["web"].waiting_for == ("db to become healthy (its health is unknown)",)
    cast.judge("db", is_ready=True, health="healthy")
    assert cast.spawned() == ["db", "api", "web"]


def test_completed_is_exit_zero(cast: Cast) -> None:
    """A failed migration starts nobody; the next that succeeds does."""
    cast.declare("migrate", restart_policy="never")
    cast.declare("api", need("migrate", "completed"))
    started = cast.start("api")
    cast.keeper.exit("migrate", code=1)
    cast.advance(0)
    assert cast.spawned() == ["migrate"]
    outcome = started.result()["api"]
    assert outcome.outcome == "failed"
    assert "waiting for migrate to complete (failed: exit code 1" in (outcome.reason or "")
    cast.start("migrate")
    cast.keeper.exit("migrate", code=0)
    cast.advance(0)
    assert cast.spawned() == ["migrate", "migrate", "api"]


def test_what_has_completed_is_not_run_again(cast: Cast) -> None:
    """Starting a dependent does not repeat a migration that is done."""
    cast.declare("migrate", restart_policy="never")
    cast.declare("api", need("migrate", "completed"))
    cast.start("api")
    cast.keeper.exit("migrate", code=0)
    cast.advance(1.0)
    cast.keeper.exit("api")
    cast.advance(0)
    cast.start("api")
    assert cast.spawned() == ["migrate", "api", "api"]


def test_a_line_counts_for_its_run(cast: Cast) -> None:
    """A line that an earlier run printed does not count for the next one."""
    cast.declare("db", restart=RestartSpec(delay=1.0))
    cast.declare("api", need("db", "log", pattern="up"))
    cast.start("api")
    cast.advance(2.0)
    assert cast["api"].waiting_for == ('db to print "up" (running)',)
    cast.prints("db", "up")
    assert cast.spawned() == ["db", "api"]
    cast.keeper.exit("db")
    cast.keeper.exit("api")
    cast.advance(6.0)
    assert cast.spawned() == ["db", "api", "db"]
    cast.prints("db", "up")
    assert cast.spawned()[-1] == "api"


def test_a_dependent_waits_through_a_crash(cast: Cast) -> None:
    """Never skipped: who asked is told the truth, and the start comes by itself."""
    cast.declare("db", restart=RestartSpec(delay=2.0, jitter=0.0))
    cast.declare("api", need("db", "ready"))
    started = cast.start("api")
    cast.keeper.exit("db", code=3)
    cast.advance(0)
    outcome = started.result()["api"]
    assert outcome.outcome == "waiting"
    assert "db to become ready (failed and is tried again)" in (outcome.reason or "")
    assert cast["api"].desired.value == "running"
    cast.advance(2.0)
    cast.advance(1.0)
    assert cast.spawned() == ["db", "db", "api"]


def test_a_dependent_survives_the_end_of_what_it_needs(cast: Cast) -> None:
    """A dependency that fails for good, or is stopped, is waited for, and answered at once."""
    cast.declare("db", start_retries=0)
    cast.declare("api", need("db", "ready"))
    cast.declare("web", need("api"))
    started = cast.start("web")
    cast.keeper.exit("db", code=3)
    cast.advance(0)
    assert {name: it.outcome for name, it in started.result().items()} == dict.fromkeys(
        ("db", "api", "web"), "failed"
    )
    assert cast["web"].waiting_for == ("api to be started (waiting itself)",)
    again = cast.start("api")
    cast.roster.runners["db"].stop()
    cast.advance(0)
    assert again.done()
    assert "db to become ready (" in (again.result()["api"].reason or "")
    cast.start("db")
    cast.advance(1.0)
    assert cast.spawned() == ["db", "db", "db", "api", "web"]


def test_impatient_clients_are_not_kept(cast: Cast) -> None:
    """Who does not want to wait is told that the start waits, unless it is a matter of moments."""
    cast.declare("db")
    cast.declare("api", need("db"))
    cast.declare("web", need("api", "ready"))
    cast.declare("edge", need("web"))
    started = cast.start("edge", wait=False)
    assert started.done()
    assert {name: it.outcome for name, it in started.result().items()} == {
        "db": "started",
        "api": "started",
        "web": "waiting",
        "edge": "waiting",
    }
    cast.advance(1.0)
    assert cast.spawned() == ["db", "api", "web", "edge"]


def test_who_needs_what_never_becomes_ready_is_told(cast: Cast) -> None:
    """A dependency that failed its checks often enough keeps no client; the start still waits."""
    cast.declare("db")
    cast.declare("api", need("db", "ready"))
    cast.start("db")
    cast.judge("db", is_ready=False)
    cast.advance(1.0)
    started = cast.start("api", wait=True)
    assert not started.done()
    cast.judge("db", is_ready=False, failures=3, is_overdue=True)
    cast["db"].tell_unready("exit code 1")
    cast.turn()
    assert started.result()["api"].outcome == "waiting"
    cast.judge("db", is_ready=True)
    assert cast.spawned() == ["db", "api"]


def test_a_stopped_start_leaves_the_line(cast: Cast) -> None:
    """Who is stopped while it waits is not started later."""
    cast.declare("db")
    cast.declare("api", need("db", "ready"))
    started = cast.start("api")
    assert cast["api"].stop().result().outcome == "stopped"
    cast.advance(5.0)
    assert cast.spawned() == ["db"]
    assert started.result()["api"].reason == "a later request stopped it"
    assert cast["api"].waiting_for == ()
    assert cast.state("api") is State.STOPPED


def test_a_restart_after_a_crash_waits_too(cast: Cast) -> None:
    """Also the restart after a crash needs what the service needs."""
    cast.declare("db")
    cast.declare("api", need("db", "healthy"), restart=RestartSpec(delay=1.0, jitter=0.0))
    cast.start("api")
    cast.judge("db", health="healthy")
    cast.advance(2.0)
    cast.judge("db", health="unhealthy")
    cast.keeper.exit("api")
    cast.advance(5.0)
    assert cast.spawned() == ["db", "api"]
    assert cast["api"].waiting_for == ("db to become healthy (unhealthy)",)
    cast.judge("db", health="healthy")
    assert cast.spawned() == ["db", "api", "api"]


def test_health_that_flaps_moves_nobody(cast: Cast) -> None:
    """In the same run, losing and regaining health restarts no dependent, whatever its edge."""
    cast.declare("db")
    cast.declare("api", need("db", "healthy", restart=True))
    cast.start("api")
    cast.judge("db", health="healthy")
    cast.advance(2.0)
    for health in ("unhealthy", "healthy") * 5:
        cast.judge("db", health=health)
        cast.advance(1.0)
    assert cast.spawned() == ["db", "api"]


@pytest.mark.parametrize("follows", [True, False])
def test_a_new_run_restarts_who_wants_it(cast: Cast, follows: bool) -> None:
    """Once the new run meets the condition, not before, and once."""
    cast.declare("db", restart=RestartSpec(delay=1.0, jitter=0.0))
    cast.declare("api", need("db", "healthy", restart=follows))
    cast.start("api")
    cast.judge("db", health="healthy")
    cast.advance(2.0)
    cast.keeper.exit("db")
    cast.advance(1.5)
    cast.judge("db", health="unknown")
    cast.advance(2.0)
    assert cast.spawned() == ["db", "api", "db"]
    cast.judge("db", health="healthy")
    cast.advance(2.0)
    cast.judge("db", health="unhealthy")
    cast.judge("db", health="healthy")
    cast.advance(2.0)
    assert cast.spawned() == ["db", "api", "db", *(["api"] if follows else [])]
    assert ("service:follows" in cast.recorder.kinds()) is follows


def test_every_instance_is_needed(cast: Cast) -> None:
    """A dependency on a service with instances is one on each of them."""
    cast.declare("web@1", template="web", index=1)
    cast.declare("web@2", template="web", index=2)
    cast.declare("edge", need("web", "ready"))
    cast.start("edge")
    assert sorted(cast.spawned()) == ["web@1", "web@2"]
    assert len(cast["edge"].waiting_for) == 2
    cast.keeper.exit("web@2")
    cast.advance(1.0)
    assert cast["edge"].waiting_for == ("web@2 to become ready (failed and is tried again)",)
    cast["web@2"].stop()
    cast.roster.remove("web@2")
    cast.advance(0)
    assert "edge" in cast.spawned(), "an instance that is gone is waited for no more"


def test_an_instance_that_leaves_is_not_waited_for(cast: Cast) -> None:
    """Who starts while there is one instance less in a moment needs the others alone."""
    for index in (1, 2):
        cast.declare(f"web@{index}", template="web", index=index)
    cast.declare("edge", need("web", "started"))
    cast.start("web@1", "web@2")
    cast["web@2"].set_leaving(True)
    cast["web@2"].stop()
    cast.start("edge")
    assert cast.spawned() == ["web@1", "web@2", "edge"]


def test_who_waits_goes_on_waiting_under_the_next_supervisor(cast: Cast) -> None:
    """After kill -9: a waiting service still waits and starts; what is settled stays settled."""
    cast.declare("db")
    cast.declare("done", restart_policy="never")
    cast.declare("broken", start_retries=0)
    cast.declare("api", need("db", "log", pattern="up"))
    cast.declare("retried", need("db", "log", pattern="up"), start_retries=0)
    cast.start("db", "done", "broken")
    cast.keeper.exit("done", code=0)
    cast.keeper.exit("broken", code=1)
    cast.advance(2.0)
    cast.prints("db", "up")
    cast.start("retried")
    cast.keeper.exit("retried", code=1)
    cast.printed.clear()
    cast.advance(0)
    assert cast.state("retried") is State.FAILED
    cast.start("api", "retried")
    before = cast.spawned()
    cast.lose_supervisor()
    cast.advance(1.0)
    assert cast["api"].waiting_for == ('db to print "up" (running)',)
    assert cast["retried"].waiting_for == ('db to print "up" (running)',)
    cast.prints("db", "up")
    assert cast.spawned() == [*before, "api", "retried"]
    assert cast.state("done") is State.EXITED
    assert cast.state("broken") is State.FAILED


def test_a_restart_edge_survives_the_supervisor(cast: Cast) -> None:
    """What began before the old supervisor died is known; what begins after it is new."""
    cast.declare("db", restart=RestartSpec(delay=1.0, jitter=0.0))
    cast.declare("api", need("db", "ready", restart=True))
    cast.start("api")
    cast.advance(5.0)
    cast.lose_supervisor()
    cast.advance(5.0)
    assert cast.spawned() == ["db", "api"]
    cast.keeper.exit("db")
    cast.advance(1.2)
    assert cast.spawned() == ["db", "api", "db"]
    cast.lose_supervisor()
    cast.advance(5.0)
    assert cast.spawned() == ["db", "api", "db", "api"]


def check_order(order: list[str], needs: dict[str, list[str]]) -> None:
    place = {name: number for number, name in enumerate(order)}
    assert len(place) == len(needs)
    for name, needed in needs.items():
        assert all(place[other] < place[name] for other in needed), name


def test_a_thousand_in_a_chain(cast: Cast) -> None:
    """Each after the one before it; no recursion and no stall, also when the first one fails."""
    names = [f"s{number}" for number in range(1000)]
    needs = {"s0": [], **{name: [before] for before, name in itertools.pairwise(names)}}
    shuffled = list(needs)
    random.Random(3).shuffle(shuffled)
    cast.declare_all({name: needs[name] for name in shuffled})
    cast.keeper.refuse_spawn = {"code": "spawn_failed", "message": "no"}
    failed = cast.start(*shuffled)
    assert {it.outcome for it in failed.result().values()} == {"failed", "waiting"}
    cast.keeper.refuse_spawn = None
    cast.advance(10.0)
    check_order(cast.spawned(), needs)
    assert all(runner.state is State.STARTING for runner in cast.roster.runners.values())


@pytest.mark.parametrize("most", [5, 60])
def test_a_thousand_in_a_graph(cast: Cast, most: int) -> None:
    """Any graph without a cycle starts in its order, however dense it is."""
    choose = random.Random(most)
    names = [f"s{number}" for number in range(1000)]
    needs = {
        name: choose.sample(names[:number], min(number, choose.randrange(most)))
        for number, name in enumerate(names)
    }
    for name, needed in needs.items():
        conditions = {other: choose.choice(["started", "ready"]) for other in needed}
        cast.declare(name, *(need(other, word) for other, word in conditions.items()))
    started = cast.start(*names)
    for _ in range(1000):
        if started.done():
            break
        cast.advance(1.0)
    check_order(cast.spawned(), needs)
    assert {it.outcome for it in started.result().values()} == {"started"}
