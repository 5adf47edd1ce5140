"""The facts of a service: one list of them, and their way through the database."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

import msgspec
import pytest

from holdfast.adapters.store.state_tables import ServiceRecord
from holdfast.engine.runner import facts
from holdfast.rules.plan import Trace
from holdfast.vocabulary.states import Desired, ErrorType, State
from tests.engine.stage import Stage

RECORD = ServiceRecord(
    desired=Desired.RUNNING,
    stopped_by_hand=True,
    state=State.BACKOFF,
    since=11.0,
    reason="exit code 3",
    restarts=4,
    failures=5,
    start_failures=6,
    all_restarts={"failure": 8},
    next_start_at=12.0,
    number=7,
    run_id="r-7",
    code=3,
    signal="SIGTERM",
    seconds=1.5,
    log_bytes=99,
    accounted="r-7",
    scheduled_until=13.0,
    error_type=next(iter(ErrorType)),
    trace=Trace("r-7", "digest"),
)
LASTING = {"number", "accounted", "stopped_by_hand", "scheduled_until", "trace", "all_restarts"}
"""The fields that a service keeps when no keeper knows it any more."""


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.close()


def _differing(before: ServiceRecord, after: ServiceRecord) -> set[str]:
    names = [field.name for field in msgspec.structs.fields(ServiceRecord)]
    return {name for name in names if getattr(before, name) != getattr(after, name)}


def test_the_example_has_another_value_in_every_field(stage: Stage) -> None:
    """A field that is added to the record must be added here, or nothing below is told of it."""
    assert _differing(RECORD, stage.runner.record()) == set(ServiceRecord.__struct_fields__)


def test_the_next_supervisor_takes_every_fact_of_a_record(stage: Stage) -> None:
    """A field that is written and not read again would be lost with a supervisor."""
    stage.runner._restore_record(RECORD)
    # The keeper's memory has what its run was started with.
    assert _differing(RECORD, stage.runner.record()) == {"trace"}


def test_the_next_up_takes_what_lasts(stage: Stage) -> None:
    """Counters, state and the last exit begin anew; numbers of runs and wishes of people do not."""
    before = stage.runner.record()
    stage.runner.recollect(RECORD)
    assert _differing(before, stage.runner.record()) == LASTING
    assert _differing(RECORD, stage.runner.record()).isdisjoint(LASTING)


def test_a_change_is_typed_like_the_facts() -> None:
    """`FactChanges` names every fact but the version, with the same type."""
    classes = {
        node.name: {
            field.target.id: ast.unparse(field.annotation)
            for field in node.body
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        }
        for node in ast.walk(ast.parse(inspect.getsource(facts)))
        if isinstance(node, ast.ClassDef)
    }
    known = classes["Facts"]
    assert known.pop("version") == "int"
    assert classes["FactChanges"] == known
