"""What a runner needs of the outside, so that tests replay histories with fakes.

The real ones are `adapters.keeper_link`, `adapters.store.state_store` and the event loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from holdfast.adapters.store.state_tables import OpenRun, ServiceRecord
from holdfast.engine.runner.observers import RunObservers
from holdfast.vocabulary.events import Kind
from holdfast.vocabulary.specs.workflows import RecoverySpec

Reply = dict[str, Any]


class Keeper(Protocol):
    """The one who holds processes. Replies come back in the order of the requests."""

    def request(self, message: dict[str, Any], then: Callable[[Reply], None]) -> None: ...

    def keep(self, key: str, value: str | None) -> None: ...

    @property
    def kept(self) -> Mapping[str, str]:
        """What was put into its memory, by this supervisor or an earlier one."""

    @property
    def boot_id(self) -> str: ...


class Recorder(Protocol):
    """Where facts go; one turn of the loop is one transaction."""

    def event(
        self, kind: Kind, service: str | None = None, run_id: str | None = None, **data: Any
    ) -> None: ...

    def save_service(self, name: str, record: Callable[[], ServiceRecord]) -> None: ...

    def remove_service(self, name: str) -> None: ...

    def run_started(self, run: OpenRun) -> None: ...

    def run_ended(self, facts: dict[str, Any], signal: str | None, reason: str) -> None: ...

    def forget(self, run_id: str) -> None: ...


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock:
    """Monotonic time for durations, wall time for what people read."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time(self) -> float:
        return time.time()


class Admission(Protocol):
    """Who says when a start may begin: what it needs is there, and the host has room."""

    def admit(self, service: Any, begin: Callable[[], None]) -> None:
        """Call `begin` now or later; asked again, only the newest counts."""

    def withdraw(self, service: Any) -> None:
        """It is not to be started any more."""


class AdmitAll:
    """Everybody may start at once."""

    def admit(self, service: Any, begin: Callable[[], None]) -> None:
        begin()

    def withdraw(self, service: Any) -> None:
        """Nobody waits."""


class Remedies(Protocol):
    """Who runs the commands of a service's `recovery:`."""

    def run(self, service: Any, cause: str, recovery: RecoverySpec, reason: str) -> None: ...


class NoRemedies:
    """Nobody does."""

    def run(self, service: Any, cause: str, recovery: RecoverySpec, reason: str) -> None:
        """Nothing is run."""


class Environment(msgspec.Struct, frozen=True):
    keeper: Keeper
    recorder: Recorder
    clock: Clock
    random: Callable[[], float]
    call_later: Callable[[float, Callable[[], None]], Timer]
    admission: Admission
    observers: RunObservers
    remedies: Remedies = NoRemedies()
