"""What an activity remembers for those who follow it later."""

from __future__ import annotations

import asyncio

from holdfast.engine.workflows.workflows import MOST_TOLD_BYTES, Activity, Procedure


def test_what_it_remembers_is_bounded() -> None:
    """Much small output, then large: every step stays, and of the output only the newest."""
    loop = asyncio.new_event_loop()
    try:
        activity = Activity(Procedure(name="long", steps=[], by="test"), 0.0, loop)
        activity.tell({"kind": "step", "step": 1, "outcome": "begun"})
        for _ in range(5000):
            activity.on_output("out", b"x")
        for number in range(20):
            activity.on_output("out", bytes([65 + number]) * (MOST_TOLD_BYTES // 2))
        told = list(activity.told())
    finally:
        loop.close()
    kept = [item["text"] for item in told if item["kind"] == "output"]
    assert told[0]["kind"] == "step"
    assert "".join(kept) == "S" * (MOST_TOLD_BYTES // 2) + "T" * (MOST_TOLD_BYTES // 2)
