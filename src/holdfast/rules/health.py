"""What probes say of a run, and what follows from it. Pure; no clock, no I/O."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.vocabulary.service_spec import ServiceSpec


class Condition(NamedTuple):
    """What is known of a live run beyond that it lives. None: nobody asks."""

    is_started: bool | None = None
    """Whether its startup probe has succeeded."""
    is_ready: bool | None = None
    health: str | None = None
    """healthy, unhealthy, or unknown as long as no probe has answered."""
    said: str | None = None
    """What the service says of itself."""


def initial(spec: ServiceSpec) -> Condition:
    """The condition of a run that has just begun."""
    return Condition()
