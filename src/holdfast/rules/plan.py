"""What a new configuration would change, service by service. Pure.

It compares values, not texts: comments, the order of keys and «5s» for «5000ms» are no change. A
plan names fields and variables. It never holds a value, because values may be secrets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cache
from typing import NamedTuple, get_args, get_type_hints

import msgspec

from holdfast.vocabulary.specs.services import Applies, ServiceSpec


@cache
def applies() -> dict[str, Applies]:
    """Return when a change of each field of ServiceSpec takes effect, as the field declares.

    A field that declares nothing counts as part of the process: a restart is always right.
    """
    hints = get_type_hints(ServiceSpec, include_extras=True)
    return {
        name: next(
            (mark for mark in get_args(hints[name])[1:] if isinstance(mark, Applies)),
            Applies.BY_RESTART,
        )
        for name in ServiceSpec.__struct_fields__
    }


@cache
def restart_fields() -> tuple[str, ...]:
    """Return the fields of which a run is made."""
    return tuple(name for name, when in applies().items() if when is Applies.BY_RESTART)


BLOCKS = ("restart", "stop", "log", "watch", "schedule")
"""Fields whose own fields a plan names: `stop.grace` says more than `stop`."""


class Action(str, Enum):
    ADD = "add"
    REMOVE = "remove"
    RESTART = "restart"
    CHANGE = "change"
    UNCHANGED = "unchanged"


class Trace(msgspec.Struct, frozen=True):
    """A digest of the declaration that a run was started with, so that it can be recognised.

    It reveals nothing about the declaration, because it may be stored on a disk.
    """

    run_id: str
    digest: str

    @classmethod
    def of(cls, run_id: str, spec: ServiceSpec) -> Trace:
        """Make the digest without empty fields, so that a new field changes no digest."""
        fields = {name: getattr(spec, name) for name in restart_fields()}
        given = {name: value for name, value in fields.items() if value not in (None, (), {})}
        text = msgspec.json.encode((run_id, given), order="deterministic")
        return cls(run_id, hashlib.sha256(text).hexdigest()[:32])

    def fits(self, spec: ServiceSpec) -> bool:
        return Trace.of(self.run_id, spec) == self


class CurrentService(msgspec.Struct, frozen=True):
    """A service as it is now."""

    spec: ServiceSpec
    """Its declaration."""
    launched: ServiceSpec | None = None
    """The declaration that its live run was started with; None if there is none, or unknown."""
    is_wanted_up: bool = False
    """Whether it runs, or failed and should run. Then a changed command is started."""
    is_overridden: bool = False
    """Whether a restart gave it other arguments or variables."""
    trace: Trace | None = None
    """The digest of that declaration, where only the digest is known."""


class ServiceStep(NamedTuple):
    """What happens to one service, and which fields are the reason."""

    service: str
    action: Action
    fields: tuple[str, ...] = ()
    """Names of the fields that differ; of a variable `env.NAME`."""
    at_next_start: bool = False
    """It is not started now. The new values take effect at its next start."""
    is_overridden: bool = False
    follows: tuple[str, ...] = ()
    """Services whose new runs restart it, because its dependencies say so."""


class ReloadPlan(msgspec.Struct, frozen=True):
    """One step for every service, the current services first."""

    steps: tuple[ServiceStep, ...]
    settings: tuple[str, ...] = ()
    """Names of the settings that differ."""

    @property
    def is_empty(self) -> bool:
        return not self.settings and all(step.action is Action.UNCHANGED for step in self.steps)

    def about(self, services: Iterable[str]) -> ReloadPlan:
        """Return the part of the plan about these services."""
        wanted = set(services)
        return ReloadPlan(tuple(step for step in self.steps if step.service in wanted))

    def replaced(self) -> list[str]:
        """Return the services that get a new process, also because of a dependency."""
        actions = (Action.ADD, Action.RESTART)
        return [step.service for step in self.steps if step.action in actions or step.follows]

    def names(self, *actions: Action) -> list[str]:
        """Return the services with one of these actions."""
        return [step.service for step in self.steps if step.action in actions]


def make(
    current: Mapping[str, CurrentService],
    wanted: Mapping[str, ServiceSpec],
    settings: Iterable[str] = (),
) -> ReloadPlan:
    """Make the plan that leads from the current services to the wanted ones.

    `current` holds services that come from configurations. A service that was run or adopted by
    hand is in it only if the configuration declares its name now.
    """
    steps = [
        _step(name, service, wanted[name])
        if name in wanted
        else ServiceStep(name, Action.REMOVE, is_overridden=service.is_overridden)
        for name, service in current.items()
    ]
    steps += [ServiceStep(name, Action.ADD) for name in wanted if name not in current]
    return ReloadPlan(tuple(_with_followers(steps, current, wanted)), tuple(settings))


def _with_followers(
    steps: list[ServiceStep],
    current: Mapping[str, CurrentService],
    wanted: Mapping[str, ServiceSpec],
) -> list[ServiceStep]:
    """Add to each step the services that it restarts with, over any number of dependencies."""
    replaced = {
        name
        for name, action, *_ in steps
        if action is Action.RESTART or (action is Action.ADD and starts_with_up(wanted[name]))
    }
    if not replaced:
        return steps
    candidates = {
        name: {needed.service for needed in wanted[name].depends_on if needed.restart}
        for name, service in current.items()
        if name in wanted and service.is_wanted_up and service.launched is not None
    }
    follows: dict[str, tuple[str, ...]] = {}
    fresh = replaced
    while fresh:
        for name, needed in candidates.items():
            found = [new for new in fresh if new in needed or wanted[new].template in needed]
            if found:
                follows[name] = (*follows.get(name, ()), *sorted(found))
        fresh = set(follows) - replaced
        replaced = replaced | fresh
    return [step._replace(follows=follows.get(step.service, ())) for step in steps]


def starts_with_up(spec: ServiceSpec) -> bool:
    """Return whether `up` starts it, as the configuration says."""
    return spec.autostart and spec.enabled and spec.schedule is None


def is_outdated(launched: ServiceSpec | None, declared: ServiceSpec) -> bool:
    """Return whether a run with one declaration would differ from a run with the other."""
    if launched is None or launched is declared:
        return False
    return any(getattr(launched, name) != getattr(declared, name) for name in restart_fields())


def differences(one: ServiceSpec, other: ServiceSpec, when: Applies) -> tuple[str, ...]:
    """Return the names of the keys that differ and take effect in this way; never values."""
    found: list[str] = []
    for name, applied in applies().items():
        if applied is not when:
            continue
        before, after = getattr(one, name), getattr(other, name)
        if before == after or (name == "command_words" and one.argv != other.argv):
            continue
        if name == "env":
            found += [f"env.{key}" for key in _keys_that_differ(before, after)]
        elif name in BLOCKS and before is not None and after is not None:
            found += [f"{name}.{key}" for key in struct_differences(before, after)]
        else:
            found.append("command" if name in ("argv", "command_words") else name)
    return tuple(found)


def struct_differences(one: msgspec.Struct, other: msgspec.Struct) -> list[str]:
    """Return the names of the fields in which two structs of a type differ."""
    names = one.__struct_fields__
    return [name for name in names if getattr(one, name) != getattr(other, name)]


def _step(name: str, current: CurrentService, wanted: ServiceSpec) -> ServiceStep:
    # The running process counts, not a later declaration: `up` declares without restarting.
    before = current.launched or current.spec
    by_restart = differences(before, wanted, Applies.BY_RESTART)
    if current.launched is None and current.trace is not None:
        by_restart = () if current.trace.fits(wanted) else by_restart or ("declaration",)
    in_place = differences(current.spec, wanted, Applies.IN_PLACE)
    if not by_restart and not in_place:
        return ServiceStep(name, Action.UNCHANGED, is_overridden=current.is_overridden)
    if by_restart and current.is_wanted_up:
        return ServiceStep(
            name, Action.RESTART, by_restart + in_place, False, current.is_overridden
        )
    return ServiceStep(
        name, Action.CHANGE, by_restart + in_place, bool(by_restart), current.is_overridden
    )


def _keys_that_differ(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key))
