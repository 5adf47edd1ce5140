"""Waiting for a frame, or a key, so that Ctrl-C is never missed.

A signal that comes just before a blocking read would wait for the read to end; here every
signal also makes a descriptor readable, and the wait ends with it.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.client.connection import Connection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def heed_sigterm() -> None:
    """Take SIGTERM as Ctrl-C, so that what was begun is ended in order. The first process of a
    container would not even hear it."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, _: object) -> None:
    raise KeyboardInterrupt(number)


class Patience:
    """Waits until there is something to read, or for a signal."""

    __slots__ = ("_wake",)

    def __init__(self, wake: int) -> None:
        self._wake = wake

    def receive(self, connection: Connection) -> dict[str, Any] | None:
        """The next frame; None when a signal came that did not raise."""
        if connection.has_frame or self.is_readable(connection.fileno()):
            return connection.receive()
        return None

    def is_readable(self, fd: int, seconds: float | None = None) -> bool:
        """Whether there is something, in time and before a signal comes that does not raise."""
        ready = select.select([fd, self._wake], [], [], seconds)[0]
        if self._wake in ready:
            os.read(self._wake, 4096)
        return fd in ready


@contextmanager
def patience() -> Iterator[Patience]:
    """For as long as something is waited for; only in the main thread."""
    wake, wake_end = os.pipe()
    for fd in (wake, wake_end):
        os.set_blocking(fd, False)
    before = signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
    try:
        yield Patience(wake)
    finally:
        signal.set_wakeup_fd(before)
        os.close(wake)
        os.close(wake_end)
