"""Which port a service gets: sticky, never given twice, and not one that a stranger has."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules import ports as rules
from holdfast.rules.ports import (
    AUTO,
    LeaseHolder,
    NoPortFree,
    PortLease,
    PortRequest,
    PortUnavailable,
)

SPAN = (8082, 8089)


def asked(service: str = "web", state: str = "/one", **ports: int) -> PortRequest:
    return PortRequest(LeaseHolder(state, service), f"/project{state}", ports, SPAN, 1.0)


def assign(
    leases: list[PortLease],
    wanted: PortRequest,
    busy: frozenset[int] = frozenset(),
    there: frozenset[str] = frozenset({"/one", "/two"}),
) -> tuple[dict[str, int], list[PortLease]]:
    return rules.assign(leases, wanted, lambda port: port not in busy, there.__contains__)


STARTS = st.tuples(
    st.sampled_from(["/one", "/two"]),
    st.sampled_from(["web", "db", "api"]),
    st.dictionaries(st.sampled_from(["port", "debug"]), st.just(AUTO), min_size=1),
    st.frozensets(st.sampled_from(range(8082, 8085)), max_size=2),
)


@given(st.lists(STARTS, max_size=20))
def test_no_port_is_leased_twice(
    starts: list[tuple[str, str, dict[str, int], frozenset[int]]],
) -> None:
    """Whoever starts in whatever order, and whatever strangers hold meanwhile."""
    leases: list[PortLease] = []
    for state, service, ports, busy in starts:
        before = {one.name: one.port for one in leases if one.holder == LeaseHolder(state, service)}
        try:
            found, leases = assign(leases, asked(service, state, **ports), busy)
        except NoPortFree:
            continue
        assert len({one.port for one in leases}) == len(leases)
        assert not set(found.values()) & busy
        for name, port in found.items():
            assert SPAN[0] <= port <= SPAN[1]
            if name in before and before[name] not in busy:
                assert port == before[name]


def test_a_fixed_port_is_that_port_or_an_error() -> None:
    """Held by a stranger, or leased to a service that runs: told. One that rests gives way."""
    assert assign([], asked(port=3000))[0] == {"port": 3000}
    with pytest.raises(PortUnavailable) as caught:
        assign([], asked(port=3000), busy=frozenset({3000}))
    assert caught.value.lease is None
    _, leases = assign([], asked("web", "/two", port=3000))
    with pytest.raises(PortUnavailable) as caught:
        assign(leases, asked("db", "/one", port=3000))
    assert caught.value.lease == leases[0]
    assert assign(leases, asked("db", port=3000), there=frozenset({"/one"}))[0] == {"port": 3000}
    rested = rules.rested(leases, LeaseHolder("/two", "web"))
    assert assign(rested, asked("db", port=3000))[0] == {"port": 3000}


def test_when_all_are_leased_the_absent_give_way() -> None:
    """The oldest lease of a Holdfast that does not run; those of one that does are kept."""
    leases: list[PortLease] = []
    for number in range(8):
        wanted = PortRequest(
            LeaseHolder("/two", f"s{number}"), "/p", {"port": AUTO}, SPAN, 10.0 - number
        )
        _, leases = assign(leases, wanted)
    with pytest.raises(NoPortFree):
        assign(leases, asked(port=AUTO))
    assert assign(leases, asked(port=AUTO), there=frozenset())[0] == {"port": 8089}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("--port={{ port }}", "--port=80"),
        ("{{port}}:{{ ports.api }}", "80:81"),
        ("{{ ports.other }}", "{{ ports.other }}"),
        ("{{ index }} {x}", "{{ index }} {x}"),
    ],
)
def test_a_port_goes_where_it_is_asked_for(text: str, filled: str) -> None:
    """And nowhere else."""
    assert rules.fill(text, {"port": 80, "api": 81}) == filled
    assert rules.fill(rules.compact(text), {"port": 80, "api": 81}) == rules.compact(filled)


def test_variables() -> None:
    """PORT for the only one, PORT_NAME for others."""
    assert [rules.variable(name) for name in ("port", "api", "a-b")] == [
        "PORT",
        "PORT_API",
        "PORT_A_B",
    ]
