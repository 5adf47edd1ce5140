"""The keeper's event loop: descriptors, timers and signals in one thread.

Owns the selector and the clock. Knows nothing of runs. No callback may block.
"""

from __future__ import annotations

import heapq
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable

Callback = Callable[[], None]

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE

_CROWD = 1024
_SUSPENSION_SECONDS = 1.0
# No selector can wait for 25 days, and a turn without work costs nothing.
_LONGEST_WAIT_SECONDS = 24 * 3600.0


class Timer:
    """A callback that is due at a monotonic time, unless it is cancelled."""

    __slots__ = ("callback", "due")

    def __init__(self, due: float, callback: Callback) -> None:
        self.due = due
        self.callback: Callback | None = callback

    def cancel(self) -> None:
        self.callback = None

    def __lt__(self, other: Timer) -> bool:
        return self.due < other.due


class Loop:
    """Waits for descriptors, timers and signals, and calls back."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        # The selector has these keys too, but looking them up there is slow.
        self._watched: dict[int, selectors.SelectorKey] = {}
        self._timers: list[Timer] = []
        self._crowded_at = _CROWD
        self._turn_ends: list[Callback] = []
        self._signals: dict[int, Callback] = {}
        self._is_running = True
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        self.watch(self._wake.fileno(), self._on_signals)

    def now(self) -> float:
        return time.monotonic()

    def watch(self, fd: int, callback: Callback, events: int = READ) -> None:
        """Call back whenever the descriptor is ready; a second call replaces the first."""
        known = self._watched.pop(fd, None)
        put = self._selector.register if known is None else self._selector.modify
        self._watched[fd] = put(fd, events, callback)

    def unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            self._selector.unregister(fd)

    def call_later(self, seconds: float, callback: Callback) -> Timer:
        timer = Timer(self.now() + seconds, callback)
        if len(self._timers) >= self._crowded_at:
            # Drop cancelled timers: leases that are renewed for ever leave many.
            self._timers = [timer for timer in self._timers if timer.callback is not None]
            heapq.heapify(self._timers)
            self._crowded_at = max(_CROWD, 2 * len(self._timers))
        heapq.heappush(self._timers, timer)
        return timer

    def at_turn_end(self, callback: Callback) -> None:
        """Call back once, at the end of this turn, after its descriptors and timers."""
        self._turn_ends.append(callback)

    def on_signal(self, number: int, callback: Callback) -> None:
        """Call back from the loop, never inside the signal handler."""
        self._signals[number] = callback
        signal.signal(number, lambda *_: None)

    def stop(self) -> None:
        self._is_running = False

    def run(self) -> None:
        while self._is_running:
            for key, _ in self._selector.select(self._wait_seconds()):
                # A callback of this turn may have unwatched a later descriptor.
                if self._watched.get(key.fd) is key and not guarded(key.data):
                    self._suspend(key)
            self._run_timers()
            while self._turn_ends:
                ends, self._turn_ends = self._turn_ends, []
                for callback in ends:
                    guarded(callback)

    def _suspend(self, key: selectors.SelectorKey) -> None:
        """Stop watching a descriptor whose callback failed, for a second. It would fail again at
        once, for ever."""
        if self._watched.get(key.fd) is key:
            self.unwatch(key.fd)
            self.call_later(_SUSPENSION_SECONDS, lambda: self._readmit(key))

    def _readmit(self, key: selectors.SelectorKey) -> None:
        if key.fd not in self._watched:
            self.watch(key.fd, key.data, key.events)

    def _wait_seconds(self) -> float | None:
        if self._turn_ends:
            return 0
        while self._timers and self._timers[0].callback is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return None
        return min(max(0.0, self._timers[0].due - self.now()), _LONGEST_WAIT_SECONDS)

    def _run_timers(self) -> None:
        now = self.now()
        while self._timers and self._timers[0].due <= now:
            timer = heapq.heappop(self._timers)
            if timer.callback is not None:
                callback, timer.callback = timer.callback, None
                guarded(callback)

    def _on_signals(self) -> None:
        try:
            numbers = set(self._wake.recv(4096))
        except BlockingIOError:
            return
        for number in numbers:
            if callback := self._signals.get(number):
                guarded(callback)


def guarded(call: Callable[..., object], *facts: object) -> bool:
    """Call it and log any exception instead of raising: a crash here would lose exits that cannot
    be reaped again. Returns True on success."""
    try:
        call(*facts)
        return True
    except Exception:  # noqa: BLE001 - the border that protects every run
        sys.excepthook(*sys.exc_info())
        return False
