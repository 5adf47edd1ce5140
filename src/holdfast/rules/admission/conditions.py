"""Whether a service has what it needs of another one, and if not, what it waits for. Pure.

Decided from plain facts of the needed service. An obstacle says in words what is missing, and how
soon it may be gone. That prospect decides how long the caller of a start waits. The start itself is
never given up.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from holdfast.rules.health import HEALTHY, UNHEALTHY, Condition
from holdfast.vocabulary.specs.services import Dependency
from holdfast.vocabulary.states import State


class Prospect(IntEnum):
    """How soon an obstacle will be gone, from «at once» to «not unless somebody acts»."""

    BRIEF = 0
    """It is on its way."""
    LASTING = 1
    """It takes as long as the needed service takes."""
    TROUBLED = 2
    """The needed service is in trouble, and is tried again."""
    NONE = 3
    """It has failed or is stopped: nothing happens by itself."""


class Provider(msgspec.Struct, frozen=True):
    """The facts of a needed service that conditions ask for."""

    name: str
    state: State
    is_up: bool
    """Whether its main process is there."""
    is_wanted: bool
    condition: Condition
    has_line: bool = False
    """Whether its newest run printed the awaited line."""
    waits: Prospect | None = None
    """The prospect of what it waits for itself."""
    reason: str | None = None


class Obstacle(msgspec.Struct, frozen=True):
    """Why a start cannot begin: «db to become healthy (starting)»."""

    words: str
    prospect: Prospect


def obstacle(needed: Dependency, provider: Provider) -> Obstacle | None:
    """Return what is missing of this service; None if the condition is met."""
    if is_met(needed, provider):
        return None
    situation, prospect = _situation(needed, provider)
    return Obstacle(f"{provider.name} {_wish(needed)} ({situation})", prospect)


def missing(needed: Dependency) -> Obstacle:
    """Return the obstacle of a service that is not declared."""
    return Obstacle(f"{needed.service} {_wish(needed)} (there is no such service)", Prospect.NONE)


def is_met(needed: Dependency, provider: Provider) -> bool:
    state, condition = provider.state, provider.condition
    # A service that is about to run again, or to stop, offers nothing any more.
    is_done = state is State.EXITED and provider.waits is None
    is_there = is_done or (provider.is_up and state is not State.STOPPING)
    match needed.condition:
        case "started":
            return is_there
        case "ready":
            return state is State.RUNNING and condition.is_ready is not False
        case "healthy":
            if state is not State.RUNNING or condition.is_ready is False:
                return False
            # Without a liveness probe, readiness is all that is asked of its health.
            return condition.health == HEALTHY or (
                condition.health is None and condition.is_ready is True
            )
        case "completed":
            return is_done
        case "log":
            return provider.has_line and is_there


def _wish(needed: Dependency) -> str:
    match needed.condition:
        case "started":
            return "to be started"
        case "ready" | "healthy" as word:
            return f"to become {word}"
        case "completed":
            return "to complete"
        case "log":
            return f'to print "{needed.pattern}"'


def _situation(needed: Dependency, provider: Provider) -> tuple[str, Prospect]:
    """Return what the service does instead, and whether that leads anywhere."""
    is_brief = needed.condition == "started"
    if provider.waits is not None and provider.is_wanted:
        waits = provider.waits if is_brief else max(provider.waits, Prospect.LASTING)
        return "waiting itself", waits
    match provider.state:
        case State.PENDING | State.STOPPED:
            if provider.is_wanted:
                return "about to start", Prospect.BRIEF if is_brief else Prospect.LASTING
            return "stopped", Prospect.NONE
        case State.STARTING:
            if provider.condition.is_overdue and not is_brief:
                return "starting, and fails its checks", Prospect.TROUBLED
            return "starting", Prospect.BRIEF if is_brief else Prospect.LASTING
        case State.RUNNING:
            return _shortcoming(needed, provider.condition)
        case State.PAUSED:
            return "paused", Prospect.TROUBLED
        case State.STOPPING:
            if provider.is_wanted:
                return "being restarted", Prospect.LASTING
            return "being stopped", Prospect.NONE
        case State.BACKOFF:
            return "failed and is tried again", Prospect.TROUBLED
        case State.FAILED:
            why = f": {provider.reason}" if provider.reason else ""
            return f"failed{why}", Prospect.NONE
        case State.EXITED:
            return "ended", Prospect.NONE


def _shortcoming(needed: Dependency, condition: Condition) -> tuple[str, Prospect]:
    if needed.condition in ("ready", "healthy") and condition.is_ready is False:
        return "not ready", Prospect.TROUBLED if condition.is_overdue else Prospect.LASTING
    if needed.condition == "healthy":
        if condition.health == UNHEALTHY:
            return "unhealthy", Prospect.TROUBLED
        return "its health is unknown", Prospect.LASTING
    return "running", Prospect.LASTING
