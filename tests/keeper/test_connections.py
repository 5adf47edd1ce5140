"""A peer of the keeper, when the kernel refuses to take what is said to it."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.keeper.loop import Loop
from holdfast.keeper.protocol import wire
from holdfast.keeper.protocol.connections import PeerConnection

Message = dict[str, Any]
SECONDS = 20.0


class Refusing(socket.socket):
    """A socket to which the kernel says no, as often as the list has errors."""

    refusals: list[int]

    def sendmsg(self, *args: Any) -> int:
        if self.refusals:
            number = self.refusals.pop(0)
            raise OSError(number, os.strerror(number))
        return super().sendmsg(*args)


class Scene:
    """One connection on a loop of its own; every request is answered with its number."""

    def __init__(self, peer: socket.socket, sock: Refusing) -> None:
        self.peer, self.sock = peer, sock
        self.loop = Loop()
        self.heard: list[int] = []
        self.is_closed = False
        self.connection = PeerConnection(
            sock, "supervisor", self.loop, self._on_message, self._on_closed
        )

    def _on_message(self, connection: PeerConnection, message: Message, fds: list[int]) -> None:
        self.heard.append(message["id"])
        connection.send({"id": message["id"], "ok": True})

    def _on_closed(self, connection: PeerConnection) -> None:
        self.is_closed = True
        self.loop.stop()

    def ask(self, *numbers: int) -> None:
        self.peer.sendall(b"".join(wire.encode({"id": number}) for number in numbers))

    def answers(self, count: int) -> list[int]:
        """What the peer is told, until it has been told so much or the connection is closed."""
        found: list[int] = []
        inbox = wire.Inbox()

        def read() -> None:
            data, _ = wire.receive(self.peer)
            found.extend(message["id"] for message, _ in inbox.feed(data))
            if len(found) >= count:
                self.loop.stop()
            if not data:
                self.loop.unwatch(self.peer.fileno())

        self.loop.watch(self.peer.fileno(), read)
        self.run()
        return found

    def run(self) -> None:
        """Until something stops the loop; a scene that hangs is a failure."""
        is_late: list[bool] = []

        def give_up() -> None:
            is_late.append(True)
            self.loop.stop()

        timer = self.loop.call_later(SECONDS, give_up)
        self.loop.run()
        timer.cancel()
        assert not is_late, "nothing came"


@pytest.fixture
def scene() -> Iterator[Scene]:
    ours, theirs = socket.socketpair()
    sock = Refusing(fileno=ours.detach())
    sock.refusals = []
    made = Scene(theirs, sock)
    yield made
    made.connection.close()
    theirs.close()
    signal.set_wakeup_fd(-1)
    made.loop._selector.close()
    made.loop._wake.close()
    made.loop._waker.close()


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.ENOBUFS, errno.ETOOMANYREFS])
def test_no_room_for_a_moment(scene: Scene, number: int) -> None:
    """A living peer gets its answers, in order, as soon as the kernel has room again."""
    scene.sock.refusals = [number] * 3
    scene.ask(1, 2, 3)
    assert scene.answers(3) == [1, 2, 3]
    assert not scene.is_closed


@pytest.mark.parametrize("number", [errno.EMSGSIZE, errno.EINVAL, errno.EBADF])
def test_an_answer_that_can_never_be_sent(scene: Scene, number: int) -> None:
    """The peer notices, since its connection ends: it would wait for ever otherwise."""
    scene.sock.refusals = [number]
    scene.ask(1)
    assert scene.answers(1) == []
    assert scene.is_closed
    assert scene.peer.recv(1) == b""


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ECONNRESET])
def test_last_words_of_a_peer_that_is_gone(scene: Scene, number: int) -> None:
    """What it asked for before it went is done, though nobody hears the answers."""
    scene.sock.refusals = [number]
    scene.ask(1, 2)
    scene.peer.shutdown(socket.SHUT_WR)
    scene.run()
    assert scene.is_closed
    assert scene.heard == [1, 2]
