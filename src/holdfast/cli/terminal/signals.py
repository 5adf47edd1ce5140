"""Signals of this process: waits that Ctrl-C ends, SIGTERM, and children of a first process.

A signal that comes just before a blocking read would wait until the read ends. Here every signal
also makes a descriptor readable, so that the wait ends with it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.client.connection import Connection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.client.launch import KeeperProcess


def treat_sigterm_as_interrupt() -> None:
    """Raise KeyboardInterrupt at SIGTERM, too, so that work is ended in order. The first process of
    a container would ignore SIGTERM otherwise."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, _: object) -> None:
    raise KeyboardInterrupt(number)


class InterruptibleWait:
    """Waits until there is something to read or a signal comes."""

    __slots__ = ("_wake",)

    def __init__(self, wake: int) -> None:
        self._wake = wake

    def receive(self, connection: Connection) -> dict[str, Any] | None:
        """The next frame; None if a signal came whose handler did not raise."""
        if connection.has_frame or self.is_readable(connection.fileno()):
            return connection.receive()
        return None

    def is_readable(self, fd: int, seconds: float | None = None) -> bool:
        """Wait; returns True if there is something to read, False after `seconds` or after a signal
        whose handler did not raise."""
        ready = select.select([fd, self._wake], [], [], seconds)[0]
        if self._wake in ready:
            os.read(self._wake, 4096)
        return fd in ready


@contextmanager
def interruptible() -> Iterator[InterruptibleWait]:
    """Make waits interruptible for a while; only in the main thread."""
    wake, wake_end = os.pipe()
    for fd in (wake, wake_end):
        os.set_blocking(fd, False)
    before = signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
    try:
        yield InterruptibleWait(wake)
    finally:
        signal.set_wakeup_fd(before)
        os.close(wake)
        os.close(wake_end)


def reap_orphans(keeper: KeeperProcess | None) -> None:
    """From now on reap every child that ends, if this is the first process of a container.

    Orphans become its children: those of `docker exec`, and services whose keeper was killed. The
    kernel keeps each ended child, and hides its exit code from other waiters, until it is reaped.
    The keeper's exit code is kept for `keeper.exit_code`.
    """
    if os.getpid() != 1:
        return

    def reap(*_: object) -> None:
        while (pid := _ended_child()) is not None:
            if keeper is None or pid != keeper.pid:
                _reap(pid)
            elif keeper.exit_code(0) is None:
                return

    signal.signal(signal.SIGCHLD, reap)
    reap()


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass  # another SIGCHLD interrupted us here, and its handler reaped this one, too


def _ended_child() -> int | None:
    """The pid of a child that has ended; it is not reaped yet."""
    if sys.platform == "darwin":  # there are no containers
        return None
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return found.si_pid if found is not None else None
