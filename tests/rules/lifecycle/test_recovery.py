"""What is done about trouble, by cause."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from holdfast.adapters.config.keys.commands import RECOVERY
from holdfast.rules.lifecycle import restart
from holdfast.rules.lifecycle.recovery import ENDING_CAUSES, LIVE_CAUSES, action_for, after_ending
from holdfast.rules.lifecycle.restart import Counters, Ending, NoRestart, RestartAfter
from holdfast.vocabulary.specs.services import RestartPolicy, ServiceSpec
from holdfast.vocabulary.specs.workflows import RecoveryAction, RecoverySpec

actions = st.builds(RecoverySpec, action=st.sampled_from(get_args(RecoveryAction)))
specs = st.builds(
    ServiceSpec,
    name=st.just("web"),
    argv=st.just(("web",)),
    working_dir=st.just("/"),
    restart_policy=st.sampled_from(get_args(RestartPolicy)),
    recovery=st.dictionaries(st.sampled_from([*LIVE_CAUSES, *ENDING_CAUSES]), actions),
)
endings = st.builds(
    Ending,
    seconds=st.floats(0, 100),
    code=st.none() | st.integers(0, 3),
    signal=st.none() | st.just(9),
    spawn_error=st.none() | st.just("no such file"),
    verdict=st.none() | st.just("unhealthy"),
    is_start=st.booleans(),
)
counters = st.builds(
    Counters, restarts=st.integers(0, 20), failures=st.integers(0, 20),
    start_failures=st.integers(0, 20),
)  # fmt: skip


def test_every_cause_is_of_one_kind() -> None:
    """A cause that can be configured is found in a live run or by its end, never both."""
    assert {*LIVE_CAUSES, *ENDING_CAUSES} == set(RECOVERY.keys)
    assert not {*LIVE_CAUSES} & {*ENDING_CAUSES}


def test_by_default_a_live_run_in_trouble_is_restarted() -> None:
    """Without `recovery:`, unhealthy is a failure like any other."""
    spec = ServiceSpec(name="web", argv=("web",), working_dir="/")
    assert {action_for(spec, cause).action for cause in LIVE_CAUSES} == {"restart"}


@given(specs, endings, counters, st.floats(0, 0.999))
def test_the_restart_policy_goes_on_unless_the_action_is_stop(
    spec: ServiceSpec, ending: Ending, before: Counters, random: float
) -> None:
    """Only `stop` changes what follows an end, and only from «again» to «stay»."""
    decision = restart.decide(spec, before, ending, random)
    after, remedy = after_ending(spec, ending, decision)
    if after != decision:
        assert remedy is not None
        assert remedy.recovery.action == "stop"
        assert isinstance(decision, RestartAfter)
        assert isinstance(after, NoRestart)
        assert not after.is_suppressed
    if remedy is not None:
        assert remedy.recovery is spec.recovery[remedy.cause]
        assert remedy.recovery.action != "restart"
        assert not restart.is_success(spec, ending)


@given(specs, endings, counters)
def test_an_end_as_a_failure_is_no_crash(
    spec: ServiceSpec, ending: Ending, before: Counters
) -> None:
    """A run that we ended for its health does not trigger the action for crashes as well."""
    decision = restart.decide(spec, before, ending, 0.5)
    _, remedy = after_ending(spec, ending, decision)
    if ending.verdict is not None and remedy is not None:
        assert remedy.cause == "suppressed"
