"""What the first process of a container owes the others: it takes note of their ends.

Orphans become its children: those of `docker exec`, and services whose keeper was killed. The
kernel keeps each that ended, and its exit code from who waits for that, until it was asked.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.client.launch import KeeperProcess


def reap_others(keeper: KeeperProcess | None) -> None:
    """From now on, if this is the first process. The keeper's end is left to who waits for it."""
    if os.getpid() != 1:
        return

    def reap(*_: object) -> None:
        while (pid := _ended()) is not None:
            if keeper is None or pid != keeper.pid:
                _forget(pid)
            elif keeper.exit_code(0) is None:
                return

    signal.signal(signal.SIGCHLD, reap)
    reap()


def _forget(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass  # the end of another has interrupted us here, and this one was seen then, too


def _ended() -> int | None:
    """A child that has ended, which it stays."""
    if sys.platform == "darwin":  # where there are no containers
        return None
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return found.si_pid if found is not None else None
