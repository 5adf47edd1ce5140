"""Calls of tools that are under way: remembered over the death of a supervisor, not for ever."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.engine.mcp_servers.calls import FORGET_SECONDS, Calls
from tests.engine.stage import FakeClock


class Memory(dict[str, str]):
    """What the keeper remembers."""

    def keep(self, key: str, text: str | None) -> None:
        if text is None:
            self.pop(key, None)
        else:
            self[key] = text


class SetClock(FakeClock):
    """A clock whose time of day can be set."""

    offset = 0.0

    def time(self) -> float:
        return super().time() + self.offset


@pytest.mark.parametrize("offset", [86_400.0, -86_400.0])
def test_a_clock_that_is_set_forgets_no_call(offset: float) -> None:
    """Only as much time as really passed makes a call old that nobody asks for again."""
    clock, memory = SetClock(), Memory()
    keeper: Any = memory
    before = Calls(keeper, clock)
    before.note_sent(before.begin("call-one"), "db", "run-1", "db__write")
    clock.offset = offset
    after = Calls(keeper, clock)
    after.restore(memory)
    after.begin("call-two")
    assert after.begin("call-one").sent is not None
    clock.advance(FORGET_SECONDS + 1)
    after.begin("call-three")
    assert "call-one" not in after.open
    assert not memory
