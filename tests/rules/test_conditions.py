"""What is awaited of a needed service, and how much hope there is for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from msgspec.structs import replace

from holdfast.rules.admission.conditions import (
    Obstacle,
    Prospect,
    Provider,
    is_met,
    missing,
    obstacle,
)
from holdfast.rules.health import Condition
from holdfast.vocabulary.specs.services import Dependency
from holdfast.vocabulary.states import State

CONDITIONS = ("started", "ready", "healthy", "completed", "log")
providers = some.builds(
    Provider,
    name=some.just("db"),
    state=some.sampled_from(State),
    is_up=some.booleans(),
    is_wanted=some.booleans(),
    condition=some.builds(
        Condition,
        is_started=some.sampled_from([None, True, False]),
        is_ready=some.sampled_from([None, True, False]),
        health=some.sampled_from([None, "healthy", "unhealthy", "unknown"]),
    ),
    has_line=some.booleans(),
    waits=some.sampled_from([None, *Prospect]),
    reason=some.sampled_from([None, "exit code 1"]),
)


def edge(condition: Any) -> Dependency:
    return Dependency(service="db", condition=condition, pattern="x")


def db(state: State, **fields: Any) -> Provider:
    is_up = state in (State.RUNNING, State.PAUSED)
    given_: dict[str, Any] = {"is_up": is_up, "is_wanted": True, "condition": Condition()}
    return Provider("db", state, **{**given_, **fields})


@given(some.sampled_from(CONDITIONS), providers)
def test_an_obstacle_is_told_exactly_when_it_is_not_met(condition: str, provider: Provider) -> None:
    """Every combination is decided, and has words."""
    found = obstacle(edge(condition), provider)
    assert (found is None) == is_met(edge(condition), provider)
    if found is not None:
        assert found.words.startswith("db to ")
        assert found.words.endswith(")")


@given(some.sampled_from(CONDITIONS), providers)
def test_what_ends_or_runs_again_offers_nothing(condition: str, provider: Provider) -> None:
    """A run that is on its way out, or was, counts no more when another one is to come."""
    leaving = replace(provider, state=State.STOPPING)
    again = replace(
        provider, state=State.EXITED, is_up=False, is_wanted=True, waits=Prospect.LASTING
    )
    assert not is_met(edge(condition), leaving)
    assert not is_met(edge(condition), again)


@given(providers)
def test_conditions_are_a_ladder(provider: Provider) -> None:
    """Healthy includes ready, and ready needs a service that runs."""
    if is_met(edge("healthy"), provider):
        assert is_met(edge("ready"), provider)
    if is_met(edge("ready"), provider):
        assert provider.state is State.RUNNING


@given(some.sampled_from(CONDITIONS), providers)
def test_hope_ends_only_where_nothing_happens_by_itself(condition: str, provider: Provider) -> None:
    """A service that is on its way, or tried again, is never called hopeless."""
    found = obstacle(edge(condition), replace(provider, waits=None))
    on_its_way = (State.STARTING, State.RUNNING, State.PAUSED, State.BACKOFF)
    if found is not None and provider.state in on_its_way:
        assert found.prospect < Prospect.NONE


@pytest.mark.parametrize(
    ("condition", "provider", "words", "prospect"),
    [
        ("started", db(State.STARTING), "db to be started (starting)", Prospect.BRIEF),
        ("ready", db(State.STARTING), "db to become ready (starting)", Prospect.LASTING),
        (
            "ready",
            db(State.RUNNING, condition=Condition(is_ready=False)),
            "db to become ready (not ready)",
            Prospect.LASTING,
        ),
        (
            "healthy",
            db(State.RUNNING, condition=Condition(health="unhealthy")),
            "db to become healthy (unhealthy)",
            Prospect.TROUBLED,
        ),
        (
            "ready",
            db(State.RUNNING, condition=Condition(is_ready=False, is_overdue=True)),
            "db to become ready (not ready)",
            Prospect.TROUBLED,
        ),
        (
            "ready",
            db(State.STARTING, condition=Condition(is_started=False, is_overdue=True)),
            "db to become ready (starting, and fails its checks)",
            Prospect.TROUBLED,
        ),
        ("ready", db(State.PAUSED), "db to become ready (paused)", Prospect.TROUBLED),
        (
            "healthy",
            db(State.STOPPING),
            "db to become healthy (being restarted)",
            Prospect.LASTING,
        ),
        (
            "log",
            db(State.BACKOFF),
            'db to print "x" (failed and is tried again)',
            Prospect.TROUBLED,
        ),
        (
            "completed",
            db(State.FAILED, reason="exit code 2"),
            "db to complete (failed: exit code 2)",
            Prospect.NONE,
        ),
        ("ready", db(State.EXITED), "db to become ready (ended)", Prospect.NONE),
        (
            "ready",
            db(State.STOPPED, is_wanted=False),
            "db to become ready (stopped)",
            Prospect.NONE,
        ),
        (
            "started",
            db(State.PENDING, waits=Prospect.TROUBLED),
            "db to be started (waiting itself)",
            Prospect.TROUBLED,
        ),
    ],
)
def test_words(condition: str, provider: Provider, words: str, prospect: Prospect) -> None:
    """The obstacle says who is awaited, for what, and what it does instead."""
    assert obstacle(edge(condition), provider) == Obstacle(words, prospect)


def test_readiness_stands_in_for_health_that_nobody_asks() -> None:
    """With a readiness probe alone, ready is healthy; with no probe nobody can tell."""
    ready = db(State.RUNNING, condition=Condition(is_ready=True))
    assert is_met(edge("healthy"), ready)
    assert not is_met(edge("healthy"), db(State.RUNNING))


def test_a_service_that_does_not_exist() -> None:
    """A dependency on nobody is hopeless, and says why."""
    assert missing(edge("ready")) == Obstacle(
        "db to become ready (there is no such service)", Prospect.NONE
    )
