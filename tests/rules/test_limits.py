"""Limits: refused with both values, reached once, cleared well below."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules import limits
from holdfast.rules.limits import HostLoad, LimitState, ResourceUse
from holdfast.vocabulary.specs.resources import HostLimits, LimitAction, MemoryLimit
from holdfast.vocabulary.specs.services import ServiceSpec

MB = 1_000_000
percents = st.floats(0, 100)


def spec(action: LimitAction = "restart", **fields: object) -> ServiceSpec:
    memory = MemoryLimit(size=100 * MB, action=action)
    return ServiceSpec(
        name="web",
        argv=("x",),
        working_dir="/",
        memory_limit=memory,
        **fields,  # type: ignore[arg-type]
    )


def test_the_words_name_both_values_and_the_key() -> None:
    """A refusal can be understood and acted on."""
    words = limits.obstacle(HostLimits(max_cpu=80), HostLoad(3, cpu=93.2))
    assert words == "CPU limit exceeded: it is at 93 %, at most 80 % allowed (limits.max_cpu)"
    words = limits.obstacle(HostLimits(max_memory=50), HostLoad(3, memory=50.3))
    assert words == (
        "Memory limit exceeded: it is at 50.30 %, at most 50 % allowed (limits.max_memory)"
    )
    words = limits.obstacle(HostLimits(max_processes=3), HostLoad(3))
    assert words == (
        "Process limit exceeded: 3 services run, at most 3 allowed (limits.max_processes)"
    )


@given(percents, percents, st.integers(1, 50), st.integers(0, 60))
def test_a_start_is_refused_exactly_beyond_a_limit(
    most: float, found: float, allowed: int, live: int
) -> None:
    """No limit refuses below itself, none lets pass above; the unknown refuses nobody."""
    most = max(most, 0.1)
    host = HostLimits(max_cpu=most)
    assert (limits.obstacle(host, HostLoad(0, cpu=found)) is not None) == (found > most)
    assert limits.obstacle(host, HostLoad(0)) is None
    count = HostLimits(max_processes=allowed)
    assert (limits.obstacle(count, HostLoad(live)) is not None) == (live >= allowed)
    assert limits.obstacle(HostLimits(), HostLoad(live, found, found)) is None


@given(st.lists(st.tuples(percents, st.floats(0.1, 30)), min_size=1, max_size=40))
def test_smoothing_stays_between_what_was_seen(samples: list[tuple[float, float]]) -> None:
    """An average never leaves the range of its values, and a peak of a second changes little."""
    value = None
    for sample, seconds in samples:
        before = value
        value = limits.smooth(value, sample, seconds)
        low, high = sorted((sample, before if before is not None else sample))
        assert low - 1e-6 <= value <= high + 1e-6
    assert limits.smooth(10.0, 100.0, 1.0) < 20
    assert limits.smooth(10.0, 100.0, 30.0) > 90


@given(st.lists(st.integers(0, 300), min_size=1, max_size=60))
def test_a_limit_is_reached_once_and_cleared_once(megabytes: list[int]) -> None:
    """Breach and clearing alternate, whatever the numbers do at the edge."""
    standing, told = LimitState(), list[str]()
    for size in megabytes:
        verdict = limits.judge(spec(), standing, ResourceUse(size * MB, 0.0, 1))
        standing = verdict.standing
        told += [breach.limit for breach in verdict.breaches]
        told += [f"-{name}" for name in verdict.cleared]
        if verdict.breaches:
            assert size > 100
        if verdict.cleared:
            assert size <= 90
    assert told == [("memory", "-memory")[place % 2] for place in range(len(told))]


def test_what_the_kernel_enforces_is_not_judged_twice() -> None:
    """A run in a cgroup with its limits is the kernel's affair."""
    use = ResourceUse(500 * MB, 400.0, 99)
    service = spec(cpu_limit=100.0, process_limit=10)
    everything = frozenset({"memory", "cpu", "processes"})
    assert limits.judge(service, LimitState(), use, everything).breaches == ()
    found = limits.judge(service, LimitState(cpu_looks=2), use)
    assert [(it.limit, it.action) for it in found.breaches] == [
        ("memory", "restart"),
        ("cpu", "warn"),
        ("processes", "kill"),
    ]


def test_one_peak_of_cpu_is_no_breach() -> None:
    """Three looks in a row count."""
    service, standing = spec(cpu_limit=100.0), LimitState()
    told = []
    for cpu in (150, 150, 50, 150, 150, 150, 150, 80):
        verdict = limits.judge(service, standing, ResourceUse(0, float(cpu), 1))
        standing = verdict.standing
        told.append((len(verdict.breaches), verdict.cleared))
    assert [count for count, _ in told] == [0, 0, 0, 0, 0, 1, 0, 0]
    assert told[-1][1] == ("cpu",)
