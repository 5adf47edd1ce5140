"""Services that have several instances: commands and their answers."""

from __future__ import annotations

from holdfast.vocabulary.command import Command, Effect, Permission, Result
from holdfast.vocabulary.services import Outcome


class ScaleResult(Result, frozen=True, kw_only=True):
    """The outcome of each instance that was added or removed."""

    services: dict[str, Outcome]
    instances: dict[str, int]
    """How many there are now, by service."""


class RollingResult(Result, frozen=True, kw_only=True):
    """The outcome of each service, in the order in which they were restarted."""

    services: dict[str, Outcome]
    remaining: list[str] = []
    """Those that were not touched, because one before them failed."""
    reason: str | None = None
    """Why it ended early."""


class Scale(Command, frozen=True, kw_only=True):
    """Run another number of instances of services: `{"web": 4}`.

    More are started like their siblings; of fewer, those with the highest index are stopped
    and forgotten, and their logs stay. It holds until the configuration says another number.
    """

    name = "scale"
    repeatable = True
    permission = Permission.OPERATE
    effect = Effect.DISRUPTS
    route = ("POST", "/api/services/scale")
    answers = ScaleResult
    instances: dict[str, int]
    wait: bool = True


class RollingRestart(Command, frozen=True, kw_only=True):
    """Restart services one at a time, each only when the one before it is up and ready.

    With `overlap: true` in a service's configuration, its new run is started beside the old
    one, which is stopped when the new one is ready. The first that fails ends it: the rest
    stays as it is, and of an overlapping one the old run goes on. `timeout` is how long each
    may take to become ready after it has stayed up.
    """

    name = "rolling_restart"
    permission = Permission.OPERATE
    effect = Effect.DISRUPTS
    route = ("POST", "/api/services/rolling_restart")
    answers = RollingResult
    services: list[str]
    timeout: float = 60.0
