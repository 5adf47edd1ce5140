"""Notices the exit of processes that are not the keeper's children.

Watches pidfds (on macOS a kqueue) in one nested poll object. Reads the exit status from the zombie,
or asks the kernel for it once the process is reaped. If neither tells it, the status is None.
"""

from __future__ import annotations

import select
import sys

from holdfast.system import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.keeper.loop import Loop

    OnDeath = Callable[[int | None], None]
    Watched = tuple[int | None, OnDeath, Callable[[], None], str]

_REAP_SECONDS = 2.0
_POLL_SECONDS = 1.0


class ExitWatch:
    """Calls back once per watched process, with its wait status or None."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._watched: dict[int, Watched] = {}
        self._by_pidfd: dict[int, int] = {}
        self._has_exit_info = bool(processes.facts()["pidfd_info"])
        if sys.platform == "linux":
            self._poll = select.epoll()
        else:
            self._poll = select.kqueue()
        loop.watch(self._poll.fileno(), self._on_ready)

    def watch(
        self,
        pid: int,
        pidfd: int | None,
        start_time: str,
        on_death: OnDeath,
        on_zombie: Callable[[], None],
    ) -> None:
        """Watch a process. The caller keeps the pidfd open until `on_death`. `on_zombie` is called
        if the process is dead and its parent has not reaped it yet."""
        self._watched[pid] = watched = (pidfd, on_death, on_zombie, start_time)
        if sys.platform == "linux":
            if pidfd is None:
                self._look(pid, start_time, watched)
                return
            self._by_pidfd[pidfd] = pid
            self._poll.register(pidfd, select.EPOLLIN | select.EPOLLET)
        else:
            flags = select.KQ_EV_ADD | select.KQ_EV_ONESHOT
            event = select.kevent(pid, select.KQ_FILTER_PROC, flags, select.KQ_NOTE_EXIT)
            try:
                self._poll.control([event], 0)
            except OSError:
                self._loop.call_later(0, lambda: self._dead(pid, watched))

    def unwatch(self, pid: int) -> None:
        pidfd, *_ = self._watched.pop(pid, (None,))
        if pidfd is not None and self._by_pidfd.pop(pidfd, None) is not None:
            self._forget_pidfd(pidfd)

    def _forget_pidfd(self, pidfd: int) -> None:
        if sys.platform == "linux":
            try:
                self._poll.unregister(pidfd)
            except OSError:
                return

    def _on_ready(self) -> None:
        if sys.platform != "linux":
            for event in self._poll.control(None, 64, 0):
                self._dead(event.ident)
            return
        for pidfd, events in self._poll.poll(0):
            pid = self._by_pidfd.get(pidfd)
            if pid is None:
                continue
            status = processes.zombie_exit_status(pid, self._watched[pid][3])
            if status is not None or events & select.EPOLLHUP or not self._has_exit_info:
                self._dead(pid, status=status)
            else:
                # The kernel tells its status once it is reaped.
                self._give_up_later(pid)
                self._watched[pid][2]()

    def _give_up_later(self, pid: int) -> None:
        watched = self._watched[pid]
        self._loop.call_later(_REAP_SECONDS, lambda: self._dead(pid, watched))

    def _look(self, pid: int, start_time: str, watched: Watched) -> None:
        """Look again every second: there is no pidfd (Linux before 5.3)."""
        if self._watched.get(pid) is not watched:
            return
        found = processes.process(pid)
        if found is None or found.start_time != start_time or not found.is_alive:
            self._dead(pid, status=processes.zombie_exit_status(pid, start_time))
        else:
            self._loop.call_later(_POLL_SECONDS, lambda: self._look(pid, start_time, watched))

    def _dead(self, pid: int, watched: Watched | None = None, status: int | None = None) -> None:
        """Call back. With `watched`, only if that is still the process watched under this pid."""
        if pid not in self._watched or watched not in (None, self._watched[pid]):
            return
        pidfd, on_death, *_ = self._watched[pid]
        self.unwatch(pid)
        if status is None and pidfd is not None:
            status = processes.pidfd_exit_status(pidfd)
        on_death(status)
