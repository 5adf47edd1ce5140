"""The outside of a runner, as far as it needs one. Tests replace it with fakes to replay histories.

The real ones are `adapters.keeper_link`, `adapters.store.state_store`, the event loop, and the
rest of the engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, overload

import msgspec

from holdfast.adapters.store.state_tables import OpenRun, ServiceRecord
from holdfast.engine.runner.observers import RunObservers
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.specs.workflows import RecoverySpec

if TYPE_CHECKING:
    from holdfast.engine.runner.runner import Runner
    from holdfast.keeper.protocol.messages import Reply, Request, SpawnReply, SpawnRequest


class KeeperApi(Protocol):
    """The process that holds all others. Replies come in the order of the requests."""

    @overload
    def request(self, message: SpawnRequest, then: Callable[[SpawnReply], None]) -> None: ...
    @overload
    def request(self, message: Request, then: Callable[[Reply], None]) -> None: ...

    def keep(self, key: str, value: str | None) -> None: ...

    @property
    def kept(self) -> Mapping[str, str]:
        """The values in its memory, from this supervisor and earlier ones."""

    @property
    def boot_id(self) -> str: ...


class HistoryRecorder(Protocol):
    """The history. Everything recorded in one turn of the loop is one transaction."""

    def event(
        self, kind: EventKind, service: str | None = None, run_id: str | None = None, **data: Any
    ) -> None: ...

    def save_service(self, name: str, record: Callable[[], ServiceRecord]) -> None: ...

    def remove_service(self, name: str) -> None: ...

    def run_started(self, run: OpenRun) -> None: ...

    def run_compared(self, run_id: str, changes: Iterable[str]) -> None: ...

    def run_ended(self, facts: Mapping[str, Any], signal: str | None, reason: str) -> None: ...

    def forget(self, run_id: str) -> None: ...


class PendingCall(Protocol):
    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], PendingCall]


class Clock:
    """Monotonic time for durations, wall time for people, and steady time for moments that are
    stored and waited for."""

    def __init__(self) -> None:
        self._began, self._began_mono = self.time(), self.monotonic()

    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        return time.time()

    def steady(self) -> float:
        """The wall time as it would be if nobody had set the clock in this supervisor's life. A set
        clock changes no delay and no timeout, and a stored moment still means something to the next
        supervisor."""
        return self._began + (self.monotonic() - self._began_mono)


class Admission(Protocol):
    """Decides when a start may begin: its dependencies are there, and the host has room."""

    def admit(self, runner: Runner, begin: Callable[[], None]) -> None:
        """Call `begin` now or later. When this is asked again, only the newest request counts."""

    def withdraw(self, runner: Runner) -> None:
        """The service is not to be started any more."""


class AdmitAll:
    """Lets every start begin at once."""

    def admit(self, runner: Runner, begin: Callable[[], None]) -> None:
        begin()

    def withdraw(self, runner: Runner) -> None:
        """Nothing waits."""


class Remedies(Protocol):
    """Runs the commands of a service's `recovery:`."""

    def run(self, runner: Runner, cause: str, recovery: RecoverySpec, reason: str) -> None: ...


class NoRemedies:
    """Runs no command."""

    def run(self, runner: Runner, cause: str, recovery: RecoverySpec, reason: str) -> None:
        """Nothing is run."""


class RunnerEnvironment(msgspec.Struct, frozen=True):
    """Everything outside of a runner that it may use."""

    keeper: KeeperApi
    recorder: HistoryRecorder
    clock: Clock
    random: Callable[[], float]
    call_later: CallLater
    admission: Admission
    observers: RunObservers
    remedies: Remedies = NoRemedies()
