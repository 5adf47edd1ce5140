"""The loop: timers, turns, signals, and faults that stay where they are."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator

import pytest

from holdfast.keeper.loop import Loop
from holdfast.keeper.protocol import wire
from holdfast.keeper.protocol.connections import PeerConnection


@pytest.fixture
def loop() -> Iterator[Loop]:
    before = signal.getsignal(signal.SIGUSR1)
    made = Loop()
    yield made
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGUSR1, before)
    made._selector.close()
    made._wake.close()
    made._waker.close()


def test_timers_in_order(loop: Loop) -> None:
    """Timers fire in the order of their time; a cancelled one never does."""
    seen: list[int] = []
    loop.call_later(0.02, loop.stop)
    loop.call_later(0.01, lambda: seen.append(2))
    loop.call_later(0.0, lambda: seen.append(1))
    loop.call_later(0.005, lambda: seen.append(3)).cancel()
    loop.run()
    assert seen == [1, 2]


@pytest.mark.parametrize("seconds", [30 * 86400.0, 1e18, float("inf")])
def test_a_timer_in_a_far_future(loop: Loop, seconds: float) -> None:
    """A lease or a grace of many days ends nobody: no system can wait so long in one call."""
    reader, writer = os.pipe()
    loop.watch(reader, loop.stop)
    loop.call_later(seconds, loop.stop)
    os.write(writer, b"x")
    loop.run()
    assert len(loop._timers) == 1
    loop.unwatch(reader)
    os.close(reader)
    os.close(writer)


def test_cancelled_timers_do_not_pile_up(loop: Loop) -> None:
    """A lease that is renewed for ever costs no memory."""
    for _ in range(10_000):
        loop.call_later(3600, loop.stop).cancel()
    assert len(loop._timers) <= 1100


def test_signal_arrives_in_the_loop(loop: Loop) -> None:
    """A signal is handled between callbacks, never inside one."""
    loop.on_signal(signal.SIGUSR1, loop.stop)
    loop.call_later(0, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    loop.run()


def test_fault_is_written_down_and_the_loop_goes_on(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callback that fails neither ends the loop nor spins it."""
    faults: list[object] = []
    monkeypatch.setattr(sys, "excepthook", lambda *fault: faults.append(fault[1]))
    reader, writer = os.pipe()
    os.write(writer, b"x")

    def fail() -> None:
        raise ValueError("broken")

    loop.watch(reader, fail)
    loop.call_later(0.05, loop.stop)
    loop.run()
    assert len(faults) == 1
    os.close(reader)
    os.close(writer)


def test_unwatched_in_the_same_turn(loop: Loop) -> None:
    """A descriptor that an earlier callback of this turn unwatched is not called."""
    first, second = os.pipe(), os.pipe()
    seen: list[int] = []

    def take(own: int, other: int) -> None:
        seen.append(own)
        loop.unwatch(other)
        loop.stop()

    loop.watch(first[0], lambda: take(first[0], second[0]))
    loop.watch(second[0], lambda: take(second[0], first[0]))
    os.write(first[1], b"x")
    os.write(second[1], b"x")
    loop.run()
    assert len(seen) == 1
    for fd in (*first, *second):
        os.close(fd)


def test_last_words_count(loop: Loop) -> None:
    """What a peer said before it died is heard, though nothing can be told it any more."""
    ours, theirs = socket.socketpair()
    heard: list[str] = []
    connection = PeerConnection(
        ours, "supervisor", loop, lambda _, it, __: heard.append(it["do"]), lambda _: loop.stop()
    )
    theirs.sendall(wire.encode({"do": "keep"}))
    theirs.close()
    connection.send({"notice": "exit"})
    connection.send({"notice": "exit"})
    loop.call_later(5.0, loop.stop)
    loop.run()
    assert (heard, connection.is_open) == (["keep"], False)
