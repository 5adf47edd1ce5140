"""A gate that does not answer is ended as a failure, and only such a gate."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.engine.gate.watch import AGAIN_SECONDS, INTERVAL_SECONDS, GateWatch, ask
from holdfast.vocabulary.states import State
from tests.harness import PYTHON

SERVE = 'import http.server as s; x = s.HTTPServer(("127.0.0.1", 0), s.SimpleHTTPRequestHandler); '
SERVE += "print(x.server_port, flush=True); x.serve_forever()"


class FakeGate:
    """The gate's runner, as far as its watch sees it."""

    def __init__(self) -> None:
        self.state = State.RUNNING
        self.run = SimpleNamespace(run_id="run-1")
        self.ended: list[str] = []

    def end_as_failure(self, cause: str, reason: str, grace: float | None = None) -> bool:
        self.ended.append(f"{cause}: {reason}, {grace}")
        return True


class Times:
    """Calls that wait for their time."""

    def __init__(self) -> None:
        self.waiting: list[tuple[float, Any]] = []
        self.is_called = asyncio.Event()

    def call_later(self, seconds: float, call: Any) -> Any:
        entry = (seconds, call)
        self.waiting.append(entry)
        self.is_called.set()
        return SimpleNamespace(cancel=lambda: self.waiting.remove(entry))


def watched(story: list[Any], *, gate: FakeGate | None = None) -> tuple[FakeGate, list[float]]:
    """Ask once for each answer: None, a reason, or a function that changes the gate first."""
    gate, times, waits = gate or FakeGate(), Times(), []

    async def tell() -> None:
        answers = iter(story)

        async def question(_: str) -> str | None:
            answer = next(answers)
            why: str | None = answer(gate) if callable(answer) else answer
            return why

        watch = GateWatch(times.call_later, lambda: "http://127.0.0.1:1", question)
        watch.begin(gate)  # type: ignore[arg-type]
        for _ in story:
            seconds, look = times.waiting.pop()
            times.is_called.clear()
            waits.append(seconds)
            look()
            await times.is_called.wait()
        watch.stop()
        assert times.waiting == []

    asyncio.run(tell())
    return gate, waits


def test_two_questions_without_an_answer_end_it() -> None:
    """The second question comes soon after the first, and its end has no grace."""
    gate, waits = watched([None, "silence", "silence"])
    assert gate.ended == ["health: it does not answer: silence, 0.0"]
    assert waits == [INTERVAL_SECONDS, INTERVAL_SECONDS, AGAIN_SECONDS]


def test_an_answer_between_begins_anew() -> None:
    """A busy gate that answers late is left alone."""
    gate, _ = watched(["silence", None, "silence", None])
    assert gate.ended == []


def test_another_run_is_not_blamed() -> None:
    """What one run did not answer does not count against the next."""

    def replaced(gate: FakeGate) -> str:
        gate.run = SimpleNamespace(run_id="run-2")
        return "silence"

    gate, _ = watched(["silence", replaced, "silence"])
    assert gate.ended == []


@pytest.mark.parametrize("state", [State.STARTING, State.BACKOFF, State.STOPPING])
def test_a_gate_that_is_not_up_is_not_asked(state: State) -> None:
    """Nobody can answer yet, or any more."""
    gate = FakeGate()
    gate.state = state
    times = Times()

    async def tell() -> None:
        async def question(_: str) -> str | None:
            raise AssertionError("asked")

        watch = GateWatch(times.call_later, lambda: "http://127.0.0.1:1", question)
        watch.begin(gate)  # type: ignore[arg-type]
        times.is_called.clear()
        times.waiting.pop()[1]()
        await times.is_called.wait()

    asyncio.run(tell())
    assert gate.ended == []


def test_a_stopped_process_does_not_answer() -> None:
    """Its socket still takes connections, but no answer comes; any answer is a good one."""
    with subprocess.Popen([PYTHON, "-c", SERVE], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = f"http://127.0.0.1:{int(process.stdout.readline())}"
            assert asyncio.run(ask(address, 30)) is None
            os.kill(process.pid, signal.SIGSTOP)
            why = asyncio.run(ask(address, 0.3))
            assert why is not None
            assert "did not answer" in why
        finally:
            process.kill()
