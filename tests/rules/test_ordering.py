"""Services start after what they need and stop before it; impossible orders are named."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as some

from holdfast.rules.admission.ordering import (
    DependencyCycle,
    UnknownDependency,
    cycles,
    start_layers,
    start_order,
    stop_layers,
    with_dependencies,
)

SHOP = {"web": ["api"], "api": ["db", "cache"], "db": [], "cache": [], "mail": ["db"]}


def test_layers_start_together() -> None:
    """Everything independent is in the same layer, in declared order."""
    assert start_layers(SHOP) == (("db", "cache"), ("api", "mail"), ("web",))


def test_stop_is_reverse() -> None:
    """A service stops only after everything that depends on it."""
    order = [name for layer in stop_layers(SHOP) for name in layer]
    for service, needed in SHOP.items():
        for name in needed:
            assert order.index(service) < order.index(name)


def test_stop_layers_are_as_early_as_possible() -> None:
    """What nothing depends on stops at once, whenever it started."""
    assert stop_layers(SHOP)[0] == ("web", "mail")


def test_nothing_to_order() -> None:
    """No service gives no layer."""
    assert start_layers({}) == ()
    assert stop_layers({}) == ()


def test_unknown_name() -> None:
    """A dependency that does not exist is named with who wants it."""
    with pytest.raises(UnknownDependency, match='web depends on "dbb"'):
        start_layers({"web": ["dbb"], "db": []})


@pytest.mark.parametrize(
    ("needs", "shown"),
    [
        ({"a": ["a"]}, "a → a"),
        ({"a": ["b"], "b": ["c"], "c": ["b"]}, "b → c → b"),
        ({"x": [], "a": ["x", "b"], "b": ["c"], "c": ["a"]}, "a → b → c → a"),
    ],
)
def test_cycle_is_named(needs: dict[str, list[str]], shown: str) -> None:
    """A cycle is reported by walking it, without the services that merely lead to it."""
    with pytest.raises(DependencyCycle, match=shown):
        start_order(needs)


def test_every_knot_is_found() -> None:
    """Two separate cycles are both reported."""
    needs = {"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c", "nowhere"]}
    assert cycles(needs) == (("a", "b", "a"), ("c", "d", "c"))


def test_starting_one_brings_its_needs() -> None:
    """The needs of a service come along, in starting order, and nothing else."""
    assert with_dependencies(["web"], SHOP) == ("db", "cache", "api", "web")


def test_a_long_chain_is_no_recursion() -> None:
    """Thousands of services in a chain are ordered without exhausting the stack."""
    chain = {f"s{i}": [f"s{i - 1}"] if i else [] for i in range(2000)}
    assert start_order(chain)[-1] == "s1999"


@some.composite
def graphs(draw: some.DrawFn) -> dict[str, list[str]]:
    """Any graph without a cycle, declared in any order."""
    names = [f"s{number}" for number in range(draw(some.integers(0, 12)))]
    needs = {
        name: draw(some.lists(some.sampled_from(names[:number]), max_size=4)) if number else []
        for number, name in enumerate(names)
    }
    return {name: needs[name] for name in draw(some.permutations(names))}


@given(graphs())
def test_layers_respect_every_need_and_are_as_early_as_possible(
    needs: dict[str, list[str]],
) -> None:
    """Everybody is in exactly one layer: the one right after the latest of its needs."""
    layers = start_layers(needs)
    level = {name: number for number, layer in enumerate(layers) for name in layer}
    assert sorted(level) == sorted(needs)
    for name, needed in needs.items():
        assert level[name] == max((level[other] + 1 for other in needed), default=0)


@given(graphs())
def test_stopping_turns_the_order_around(needs: dict[str, list[str]]) -> None:
    """Whoever needs another stops before it."""
    order = [name for layer in stop_layers(needs) for name in layer]
    place = {name: number for number, name in enumerate(order)}
    assert all(place[name] < place[other] for name in needs for other in needs[name])


@given(graphs(), some.data())
def test_any_cycle_is_found(needs: dict[str, list[str]], data: some.DataObject) -> None:
    """One edge back along a way makes a cycle, and what is named is one."""
    ways = [(name, other) for name in needs for other in needs[name]]
    if not ways:
        return
    name, other = data.draw(some.sampled_from(ways))
    needs[other] = [*needs[other], name]
    with pytest.raises(DependencyCycle) as caught:
        start_layers(needs)
    cycle = caught.value.cycle
    assert cycle[0] == cycle[-1]
    assert all(after in needs[before] for before, after in itertools.pairwise(cycle))


def test_large_graphs_take_one_look_at_each_edge() -> None:
    """Tens of thousands of services in a chain are no matter of squares."""
    chain = {f"s{i}": [f"s{i - 1}"] if i else [] for i in range(50_000)}
    assert len(start_layers(chain)) == len(stop_layers(chain)) == 50_000
