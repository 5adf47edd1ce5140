"""Ctrl-C while a verb waits for frames."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

from holdfast.cli.terminal import signals
from holdfast.client.connection import Connection


def test_a_signal_just_before_the_wait_ends_it(tmp_path: Path) -> None:
    """A signal whose handler ran before the wait began is not waited over."""
    path = str(tmp_path / "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    connection = Connection(path)
    came: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: came.append(number))
    try:
        with signals.interruptible() as wait:
            os.kill(os.getpid(), signal.SIGUSR1)
            assert wait.receive(connection) is None
        assert came == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)
        connection.close()
        listener.close()
