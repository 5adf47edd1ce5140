"""Framing: bytes in pieces, descriptors with their own message."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from holdfast.keeper.protocol import wire

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    left, right = socket.socketpair()
    left.setblocking(False)
    right.setblocking(False)
    yield left, right
    left.close()
    right.close()


def test_message_in_pieces() -> None:
    """A line may come byte by byte."""
    inbox = wire.Inbox()
    line = wire.encode({"id": 1, "text": "täglich\udcff"})
    found = [message for byte in line for message in inbox.feed(bytes([byte]))]
    assert found == [({"id": 1, "text": "täglich\udcff"}, [])]


def test_many_messages_in_one_piece() -> None:
    """One piece may hold many lines and the start of another."""
    inbox = wire.Inbox()
    data = b"".join(wire.encode({"id": number}) for number in range(3))
    assert [m["id"] for m, _ in inbox.feed(data + b'{"id"')] == [0, 1, 2]
    assert [m["id"] for m, _ in inbox.feed(b": 3}\n")] == [3]


def test_each_message_takes_its_own_descriptors(pair: Pair) -> None:
    """Descriptors glued together are told apart by what each message says."""
    left, right = pair
    outbox = wire.Outbox()
    read_end, write_end = os.pipe()
    outbox.put({"id": 1})
    outbox.put({"id": 2}, [read_end])
    outbox.put({"id": 3})
    outbox.put({"id": 4}, [read_end, write_end])
    assert outbox.flush(left)
    inbox = wire.Inbox()
    found: list[tuple[wire.Message, list[int]]] = []
    while len(found) < 4:
        found += inbox.feed(*wire.receive(right))
    assert [len(fds) for _, fds in found] == [0, 1, 0, 2]
    os.write(found[3][1][1], b"x")
    assert os.read(found[1][1][0], 1) == b"x"
    for fd in [read_end, write_end, *found[1][1], *found[3][1]]:
        os.close(fd)


def test_small_messages_travel_together(pair: Pair) -> None:
    """A burst of answers wakes its reader once, and each keeps its own descriptors."""
    left, right = pair
    outbox, inbox = wire.Outbox(), wire.Inbox()
    ends = [os.pipe() for _ in range(20)]
    for number, both in enumerate(ends):
        outbox.put({"id": number}, both)
    assert outbox.flush(left)
    found = inbox.feed(*wire.receive(right))
    assert [message["id"] for message, _ in found] == list(range(20))
    for number, (_, [read_end, write_end]) in enumerate(found):
        os.write(ends[number][1], b"%d" % number)
        assert os.read(read_end, 9) == b"%d" % number
        os.close(read_end)
        os.close(write_end)
    for both in ends:
        os.close(both[0])
        os.close(both[1])


def test_253_descriptors_in_a_message(pair: Pair) -> None:
    """A message may carry as many descriptors as the kernel lets through at once."""
    left, right = pair
    fd = os.open(os.devnull, os.O_RDONLY)
    outbox = wire.Outbox()
    assert outbox.send_now(left, {"id": 1}, [fd] * wire.MAX_DESCRIPTORS)
    [(message, fds)] = wire.Inbox().feed(*wire.receive(right))
    assert message["fds"] == len(fds) == 253
    for copy in [fd, *fds]:
        os.close(copy)


def test_full_socket_keeps_order_and_descriptors(pair: Pair) -> None:
    """What does not fit now is sent later, in order, with its descriptors."""
    left, right = pair
    fd = os.open(os.devnull, os.O_RDONLY)
    outbox = wire.Outbox()
    for number in range(400):
        outbox.send_now(left, {"id": number, "fill": "x" * 5000}, [fd] if number % 3 == 0 else [])
    os.close(fd)
    assert not outbox.is_empty
    inbox = wire.Inbox()
    found: list[tuple[wire.Message, list[int]]] = []
    while len(found) < 400:
        outbox.flush(left)
        found += inbox.feed(*wire.receive(right))
    assert [message["id"] for message, _ in found] == list(range(400))
    assert all(len(fds) == (message["id"] % 3 == 0) for message, fds in found)
    for _, fds in found:
        for copy in fds:
            os.close(copy)


@pytest.mark.parametrize("line", [b"nonsense\n", b"[1]\n", b'{"fds": "x"}\n', b'{"fds": -1}\n'])
def test_broken_framing(line: bytes) -> None:
    """A peer that breaks the framing is told apart from one that asks for nonsense."""
    with pytest.raises(wire.WireError):
        wire.Inbox().feed(line)


def test_descriptors_that_the_kernel_dropped() -> None:
    """A message whose descriptors did not come is taken without them."""
    assert wire.Inbox().feed(b'{"fds": 2}\n') == [({"fds": 2}, [])]


def test_endless_line() -> None:
    """A line without an end does not fill the memory."""
    inbox = wire.Inbox(max_line=1000)
    for _ in range(10):
        inbox.feed(b"x" * 100)
    with pytest.raises(wire.WireError):
        inbox.feed(b"x")


def test_state_is_what_a_successor_needs(pair: Pair) -> None:
    """Half-read and half-sent bytes can be carried to another inbox and outbox."""
    first, second = wire.Inbox(), wire.Inbox()
    line = wire.encode({"id": 1})
    first.feed(line[:4])
    second.feed(*first.state())
    assert second.feed(line[4:]) == [({"id": 1}, [])]
