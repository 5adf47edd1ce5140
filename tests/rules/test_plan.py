"""What a changed configuration does to each service, as a pure decision."""

from __future__ import annotations

from typing import Any, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules import plan
from holdfast.rules.plan import Action, CurrentService, Trace, applies, differences, make
from holdfast.vocabulary.specs.services import (
    Applies,
    Dependency,
    LogSpec,
    RestartSpec,
    ServiceSpec,
    StopSpec,
)

WEB = ServiceSpec(name="web", argv=("web", "--port", "1"), working_dir="/srv", env={"A": "1"})
OTHER: dict[str, Any] = {
    "argv": ("web",),
    "command_words": 2,
    "working_dir": "/",
    "env": {"A": "2"},
    "terminal": True,
    "user": "nobody",
    "restart_policy": "always",
    "restart": RestartSpec(delay=1),
    "stop": StopSpec(signal="SIGINT"),
    "log": LogSpec(max_size=8192),
    "autostart": False,
    "essential": True,
}
changed_fields = st.lists(st.sampled_from(sorted(OTHER)), unique=True)
services = st.dictionaries(
    st.sampled_from("abcd"), st.dictionaries(st.sampled_from(sorted(OTHER)), st.just(0)), max_size=4
)


def but(spec: ServiceSpec = WEB, **fields: Any) -> ServiceSpec:
    return msgspec.structs.replace(spec, **fields)


def step(known: CurrentService, wanted: ServiceSpec) -> plan.ServiceStep:
    return make({"web": known}, {"web": wanted}).steps[0]


def test_every_field_of_a_service_declares_when_it_applies() -> None:
    """Whoever adds a field to ServiceSpec decides when a change of it takes effect."""
    undecided = {
        name
        for name, hint in get_type_hints(ServiceSpec, include_extras=True).items()
        if not any(isinstance(mark, Applies) for mark in getattr(hint, "__metadata__", ()))
    }
    assert not undecided, f"declare as ByRestart, InPlace or Identity: {undecided}"
    assert list(applies()) == list(ServiceSpec.__struct_fields__)


def test_same_values_are_unchanged() -> None:
    """Equal declarations are no change, whatever became of the file's text."""
    assert step(CurrentService(WEB, WEB, True), but()).action is Action.UNCHANGED
    assert make({"web": CurrentService(WEB, WEB, True)}, {"web": but()}).is_empty


@pytest.mark.parametrize("field", ["argv", "working_dir", "env", "terminal", "user"])
def test_what_makes_the_process_needs_a_restart(field: str) -> None:
    """A field that the process was made from restarts what runs, and nothing that rests."""
    wanted = but(**{field: OTHER[field]})
    running = step(CurrentService(WEB, WEB, True), wanted)
    assert running.action is Action.RESTART
    stopped = step(CurrentService(WEB, None, False), wanted)
    assert (stopped.action, stopped.at_next_start) == (Action.CHANGE, True)


@pytest.mark.parametrize("field", ["restart_policy", "restart", "stop", "log", "essential"])
def test_what_is_about_the_process_changes_in_place(field: str) -> None:
    """What Holdfast does with a process changes without ending it."""
    found = step(CurrentService(WEB, WEB, True), but(**{field: OTHER[field]}))
    assert (found.action, found.at_next_start) == (Action.CHANGE, False)


def test_values_are_never_in_a_plan() -> None:
    """Of variables a plan says the names that differ, of blocks the fields; no value at all."""
    secret = but(env={"A": "hunter2", "B": "hunter3"}, stop=StopSpec(grace=1))
    found = make({"web": CurrentService(WEB, WEB, True)}, {"web": secret})
    assert found.steps[0].fields == ("env.A", "env.B", "stop.grace")
    assert "hunter" not in repr(found)


def test_what_runs_counts_not_what_was_declared_meanwhile() -> None:
    """A declaration that `up` left for later is in the plan until it runs."""
    wanted = but(argv=("web", "--port", "2"))
    assert step(CurrentService(wanted, WEB, True), wanted).action is Action.RESTART
    assert step(CurrentService(wanted, wanted, True), wanted).action is Action.UNCHANGED
    back = step(CurrentService(wanted, WEB, True), WEB)
    assert back.action is Action.UNCHANGED


def test_added_and_removed() -> None:
    """What is only in the file is added, what is only known is removed, overrides are told."""
    found = make(
        {"old": CurrentService(but(name="old"), None, False, True)}, {"new": but(name="new")}
    )
    assert [(it.service, it.action, it.is_overridden) for it in found.steps] == [
        ("old", Action.REMOVE, True),
        ("new", Action.ADD, False),
    ]
    assert not make({}, {}, ["log_level"]).is_empty


@given(changed_fields)
def test_exactly_the_changed_fields_are_named(names: list[str]) -> None:
    """Every changed field is told once, as its key and under the way it applies; no other is."""
    wanted = but(**{name: OTHER[name] for name in names})
    told = differences(WEB, wanted, Applies.BY_RESTART) + differences(WEB, wanted, Applies.IN_PLACE)
    keys = {"command" if name in ("argv", "command_words") else name for name in names}
    assert sorted({name.partition(".")[0] for name in told}) == sorted(keys)
    assert len(set(told)) == len(told)
    found = step(CurrentService(WEB, WEB, True), wanted)
    by_restart = any(applies()[name] is Applies.BY_RESTART for name in names)
    expected = Action.RESTART if by_restart else Action.CHANGE if names else Action.UNCHANGED
    assert found.action is expected
    assert plan.is_outdated(WEB, wanted) is by_restart


@given(services, services, st.booleans())
def test_doing_what_the_plan_says_leaves_nothing_to_do(
    before: dict[str, dict[str, int]], after: dict[str, dict[str, int]], is_up: bool
) -> None:
    """A plan made after the first was carried out is empty."""
    known = {
        name: CurrentService(spec, spec if is_up else None, is_up)
        for name, spec in _specs(before).items()
    }
    wanted = _specs(after)
    first = make(known, wanted)
    assert {it.service for it in first.steps} == {*known, *wanted}
    then: dict[str, CurrentService] = {}
    for it in first.steps:
        if it.action is Action.REMOVE:
            continue
        spec = wanted[it.service]
        is_new = it.action in (Action.ADD, Action.RESTART)
        launched = known[it.service].launched if it.service in known else None
        then[it.service] = CurrentService(
            spec, spec if is_new else launched, is_new or launched is not None
        )
    assert make(then, wanted).is_empty


def _specs(drawn: dict[str, dict[str, int]]) -> dict[str, ServiceSpec]:
    return {
        name: but(name=name, **{field: OTHER[field] for field in fields})
        for name, fields in drawn.items()
    }


def test_who_restarts_with_what_it_needs_is_told() -> None:
    """A dependent that wants it, and who depends on that one so; nobody who rests or does not."""
    follow, stay = Dependency(service="web", restart=True), Dependency(service="web")
    specs = {
        "web": WEB,
        "api": but(name="api", depends_on=(follow,)),
        "edge": but(name="edge", depends_on=(Dependency(service="api", restart=True),)),
        "calm": but(name="calm", depends_on=(stay,)),
        "rests": but(name="rests", depends_on=(follow,)),
    }
    known = {name: CurrentService(spec, spec, True) for name, spec in specs.items()}
    known["rests"] = CurrentService(specs["rests"])
    made = make(known, {**specs, "web": but(argv=("other",))})
    assert {it.service: it.follows for it in made.steps if it.follows} == {
        "api": ("web",),
        "edge": ("api",),
    }
    assert not any(it.follows for it in make(known, specs).steps)


def test_an_instance_more_is_a_new_run_to_follow() -> None:
    """Who restarts with the instances of a service does so for one that is added."""
    one, two = (but(name=f"web@{it}", template="web", index=it) for it in (1, 2))
    api = but(name="api", depends_on=(Dependency(service="web", restart=True),))
    known = {it.name: CurrentService(it, it, True) for it in (one, api)}
    made = make(known, {it.name: it for it in (one, two, api)})
    assert {it.service: it.follows for it in made.steps if it.follows} == {"api": ("web@2",)}


def test_a_trace_knows_a_declaration_again() -> None:
    """Where only a trace is left of what runs, what fits stays and what does not is restarted."""
    old, new = but(env={"A": "1"}), but(env={"A": "2"})
    trace = Trace.of("run-1", old)
    known = CurrentService(new, None, is_wanted_up=True, trace=trace)
    assert step(known, old).action is not Action.RESTART
    assert step(known, new)[1:3] == (Action.RESTART, ("declaration",))
    assert step(CurrentService(old, None, is_wanted_up=True, trace=trace), new).fields == ("env.A",)


def test_a_trace_tells_nothing() -> None:
    """It differs from run to run, though the declaration is the same; what applies in place
    is not in it."""
    assert Trace.of("run-1", but()).digest != Trace.of("run-2", but()).digest
    assert Trace.of("run-1", but()).fits(but(start_seconds=9.0))
