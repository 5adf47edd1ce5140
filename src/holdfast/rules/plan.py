"""What a configuration would change, service by service. Pure.

Compares values, never spellings: comments, key order and «5s» for «5000ms» are no change.
A plan names fields and variables; it never holds a value, because values may be secrets.
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
"""Fields whose own fields are named: `stop.grace` says more than `stop`."""


class Action(str, Enum):
    ADD = "add"
    REMOVE = "remove"
    RESTART = "restart"
    CHANGE = "change"
    UNCHANGED = "unchanged"


class Trace(msgspec.Struct, frozen=True):
    """What is left of the declaration by which a run was started: enough to know it again.

    Tells nobody what was in it, because it may lie on a disk.
    """

    run_id: str
    digest: str

    @classmethod
    def of(cls, run_id: str, spec: ServiceSpec) -> Trace:
        """Without what is empty: a field of a later version changes nothing."""
        fields = {name: getattr(spec, name) for name in restart_fields()}
        said = {name: value for name, value in fields.items() if value not in (None, (), {})}
        text = msgspec.json.encode((run_id, said), order="deterministic")
        return cls(run_id, hashlib.sha256(text).hexdigest()[:32])

    def fits(self, spec: ServiceSpec) -> bool:
        return Trace.of(self.run_id, spec) == self


class Known(msgspec.Struct, frozen=True):
    """A service as it is now."""

    spec: ServiceSpec
    """What is declared."""
    launched: ServiceSpec | None = None
    """What its live run was started with; None: nothing runs, or that is not known."""
    is_wanted_up: bool = False
    """Whether it runs, or failed and should run: a changed command is started then."""
    is_overridden: bool = False
    """Whether a restart gave it other arguments or variables."""
    trace: Trace | None = None
    """What is left of what its live run was started with, where that is not known."""


class Step(NamedTuple):
    """What happens to one service, and because of which fields."""

    service: str
    action: Action
    fields: tuple[str, ...] = ()
    """Names of what differs; of variables `env.NAME`."""
    at_next_start: bool = False
    """It is not started now; what differs counts when it is."""
    is_overridden: bool = False
    follows: tuple[str, ...] = ()
    """New runs of these restart it, because it wants that: its process does not stay."""


class Plan(msgspec.Struct, frozen=True):
    """What would be done: one step for every service, the known ones first."""

    steps: tuple[Step, ...]
    settings: tuple[str, ...] = ()
    """Names of what differs beyond the services."""

    @property
    def is_empty(self) -> bool:
        return not self.settings and all(it.action is Action.UNCHANGED for it in self.steps)

    def about(self, services: Iterable[str]) -> Plan:
        """The part of it that is about these services."""
        wanted = set(services)
        return Plan(tuple(step for step in self.steps if step.service in wanted))

    def renewed(self) -> list[str]:
        """Those that get another process, also for the sake of what they need."""
        actions = (Action.ADD, Action.RESTART)
        return [step.service for step in self.steps if step.action in actions or step.follows]

    def names(self, *actions: Action) -> list[str]:
        return [step.service for step in self.steps if step.action in actions]


def make(
    known: Mapping[str, Known], wanted: Mapping[str, ServiceSpec], settings: Iterable[str] = ()
) -> Plan:
    """The plan that leads from what is known to what is wanted.

    `known` holds what comes from configurations; a service that was run or adopted by hand is
    in it only if the configuration declares its name now.
    """
    steps = [
        _step(name, service, wanted[name])
        if name in wanted
        else Step(name, Action.REMOVE, is_overridden=service.is_overridden)
        for name, service in known.items()
    ]
    steps += [Step(name, Action.ADD) for name in wanted if name not in known]
    return Plan(tuple(_with_followers(steps, known, wanted)), tuple(settings))


def _with_followers(
    steps: list[Step], known: Mapping[str, Known], wanted: Mapping[str, ServiceSpec]
) -> list[Step]:
    """Who restarts with what it needs, and who restarts with those."""
    renewed = {
        name
        for name, action, *_ in steps
        if action is Action.RESTART or (action is Action.ADD and _starts_now(wanted[name]))
    }
    if not renewed:
        return steps
    candidates = {
        name: {needed.service for needed in wanted[name].depends_on if needed.restart}
        for name, service in known.items()
        if name in wanted and service.is_wanted_up and service.launched is not None
    }
    follows: dict[str, tuple[str, ...]] = {}
    fresh = renewed
    while fresh:
        for name, needed in candidates.items():
            found = [it for it in fresh if it in needed or wanted[it].template in needed]
            if found:
                follows[name] = (*follows.get(name, ()), *sorted(found))
        fresh = set(follows) - renewed
        renewed = renewed | fresh
    return [step._replace(follows=follows.get(step.service, ())) for step in steps]


def _starts_now(spec: ServiceSpec) -> bool:
    return spec.autostart and spec.enabled and spec.schedule is None


def is_outdated(launched: ServiceSpec | None, declared: ServiceSpec) -> bool:
    """Whether a run that was started by one would be another if started by the other."""
    if launched is None or launched is declared:
        return False
    return any(getattr(launched, name) != getattr(declared, name) for name in restart_fields())


def differences(one: ServiceSpec, other: ServiceSpec, when: Applies) -> tuple[str, ...]:
    """Names of the keys that differ, among those that apply so; never their values."""
    found: list[str] = []
    for name, applied in applies().items():
        if applied is not when:
            continue
        before, after = getattr(one, name), getattr(other, name)
        if before == after:
            continue
        if name == "env":
            found += [f"env.{key}" for key in _keys_that_differ(before, after)]
        elif name in BLOCKS and before is not None and after is not None:
            found += [f"{name}.{key}" for key in struct_differences(before, after)]
        else:
            found.append("command" if name == "argv" else name)
    return tuple(found)


def struct_differences(one: msgspec.Struct, other: msgspec.Struct) -> list[str]:
    """Names of the fields in which two structs of a kind differ."""
    names = one.__struct_fields__
    return [name for name in names if getattr(one, name) != getattr(other, name)]


def _step(name: str, known: Known, wanted: ServiceSpec) -> Step:
    # What runs counts, not what was declared meanwhile: `up` declares without restarting.
    before = known.launched or known.spec
    by_restart = differences(before, wanted, Applies.BY_RESTART)
    if known.launched is None and known.trace is not None:
        by_restart = () if known.trace.fits(wanted) else by_restart or ("declaration",)
    in_place = differences(known.spec, wanted, Applies.IN_PLACE)
    if not by_restart and not in_place:
        return Step(name, Action.UNCHANGED, is_overridden=known.is_overridden)
    if by_restart and known.is_wanted_up:
        return Step(name, Action.RESTART, by_restart + in_place, False, known.is_overridden)
    return Step(name, Action.CHANGE, by_restart + in_place, bool(by_restart), known.is_overridden)


def _keys_that_differ(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key))
