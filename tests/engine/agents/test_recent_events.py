"""The events of a session that are in memory."""

from __future__ import annotations

from typing import Any

from holdfast.adapters.agents.records import encode_events
from holdfast.engine.agents.conversation import RECENT_BYTES, RECENT_EVENTS, RecentEvents


def test_recent_events_are_bounded() -> None:
    """However many or large they are, only the last ones are in memory, without a gap."""
    recent = RecentEvents()

    def add(first: int, count: int, text: str) -> None:
        events: list[dict[str, Any]] = [
            {"seq": seq, "text": text} for seq in range(first, first + count)
        ]
        recent.add(events, encode_events(events))

    add(1, 2 * RECENT_EVENTS, "two\nlines\u2028here")
    kept = [event["seq"] for event in recent.after(0)]
    assert kept == list(range(RECENT_EVENTS + 1, 2 * RECENT_EVENTS + 1))
    assert [event["seq"] for event in recent.after(998)] == [999, 1000]
    add(1001, 10, "x" * (RECENT_BYTES // 4))
    assert [event["seq"] for event in recent.after(0)] == [1008, 1009, 1010]
    add(1011, 1, "x" * RECENT_BYTES)
    assert recent.after(0) == []
    add(1012, 1, "small")
    assert [event["seq"] for event in recent.after(0)] == [1012]
