"""The recorders, one for each service, kept while the service is likely to run again.

Knows which logs are watched, and forwards `grew` and `gap`. The recorder moves the bytes.
"""

from __future__ import annotations

from holdfast.keeper.recording.log_directory import log_directory_of
from holdfast.keeper.recording.recorder import Recorder
from holdfast.logbook import segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from holdfast.keeper.loop import Loop, Timer
    from holdfast.keeper.protocol.messages import GapState, LogSettings

_IDLE_SECONDS = 60.0


class ServiceLogs:
    """Recorders by service."""

    def __init__(
        self,
        directory: str,
        loop: Loop,
        on_grew: Callable[[str, int], None],
        on_gap: Callable[[str, GapState, int | None, str], None],
    ) -> None:
        self._directory = directory
        self._loop = loop
        self._on_grew = on_grew
        self._on_gap = on_gap
        self._recorders: dict[str, Recorder] = {}
        self._users: dict[str, int] = {}
        self._idle: dict[str, Timer] = {}
        self._watched: set[str] = set()

    def use(self, service: str, log: LogSettings, state: dict[str, int] | None = None) -> Recorder:
        """The recorder of a service. To be given back with `leave`."""
        if timer := self._idle.pop(service, None):
            timer.cancel()
        self._users[service] = self._users.get(service, 0) + 1
        recorder = self._recorders.get(service)
        if recorder is None:
            recorder = self._make(service, log, state)
            self._recorders[service] = recorder
        else:
            recorder.limits(log["max_size"], log["total_size"])
        return recorder

    def leave(self, service: str) -> None:
        self._users[service] -= 1
        if self._users[service] <= 0:
            del self._users[service]
            self._idle[service] = self._loop.call_later(_IDLE_SECONDS, lambda: self._close(service))

    def watch(self, services: set[str]) -> None:
        """Let the logs of these services, and no others, announce that they grew."""
        self._watched = services
        for service, recorder in self._recorders.items():
            recorder.watching = service in services

    def prune(
        self,
        service: str,
        keep_segments: int | None,
        before: float | None,
        live: Collection[int] = (),
    ) -> tuple[int, int]:
        """Delete old segments, but none with output of `live` runs. Returns the bytes and the
        number of segments that were deleted."""
        recorder = self._recorders.get(service)
        if recorder is not None:
            is_over = service not in self._users
            return recorder.prune(keep_segments, before, live=None if is_over else live)
        recorder = self._make(service, {"max_size": 0, "total_size": 0}, None)
        deleted = recorder.prune(keep_segments, before, live=None)
        recorder.close()
        return deleted

    def forget(self, service: str, live: Collection[int] = ()) -> tuple[int, int]:
        """Delete the whole log of a service, except for the output of its `live` runs."""
        if service in self._users:
            return self.prune(service, 1, None, live)
        if timer := self._idle.get(service):
            timer.cancel()
        self._close(service)
        numbers = log_directory_of(self._directory).take(service)
        return sum(segments.remove(self._directory, service, n) for n in numbers), len(numbers)

    def flush(self) -> None:
        for recorder in self._recorders.values():
            recorder.flush()

    def states(self) -> dict[str, dict[str, int]]:
        """What the recorders of running services know and their files do not tell."""
        return {service: self._recorders[service].state() for service in self._users}

    def close(self) -> None:
        for recorder in self._recorders.values():
            recorder.close()
        self._recorders.clear()

    def _make(self, service: str, log: LogSettings, state: dict[str, int] | None) -> Recorder:
        recorder = Recorder(
            self._directory,
            service,
            log["max_size"],
            log["total_size"],
            self._loop,
            self._on_grew,
            self._on_gap,
            state,
        )
        recorder.watching = service in self._watched
        return recorder

    def _close(self, service: str) -> None:
        self._idle.pop(service, None)
        if recorder := self._recorders.pop(service, None):
            recorder.close()
