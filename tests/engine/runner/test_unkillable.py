"""Processes that cannot be killed: whoever asks is told, also by a later supervisor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.vocabulary.states import State
from tests.engine.cast import Cast


@pytest.fixture
def cast() -> Iterator[Cast]:
    made = Cast()
    made.keeper.gives_up, made.keeper.obeys = True, False
    made.declare("web")
    made.start("web")
    made.advance(2.0)
    yield made
    made.close()


def stop(cast: Cast) -> str | None:
    future = cast["web"].stop()
    cast.advance(0)
    assert future.done(), "nobody waits for ever"
    return str(future.result().reason)


@pytest.mark.parametrize("is_main_left", [True, False])
def test_a_stop_is_answered_again(cast: Cast, is_main_left: bool) -> None:
    """By every supervisor, whatever the keeper told the one before; nothing is started beside."""
    if not is_main_left:
        cast.keeper.exit("web", code=0, leftovers=1)
        cast.advance(0)
    assert "could not be killed" in str(stop(cast))
    for _ in range(2):
        cast.lose_supervisor()
        assert "could not be killed" in str(stop(cast))
    assert cast.state("web") in (State.FAILED, State.EXITED)
    assert cast.spawned() == ["web"]


def test_an_unkillable_run_that_ended_after_all_is_followed_by_another(cast: Cast) -> None:
    """Nothing is left of it, so a start works again."""
    stop(cast)
    cast.keeper.exit("web", code=0)
    cast.advance(0)
    assert cast["web"].run is None
    cast.start("web")
    cast.advance(2.0)
    assert cast.state("web") is State.RUNNING
    assert cast.spawned() == ["web", "web"]
