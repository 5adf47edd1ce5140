"""In which order services start and stop, from what each one needs. Pure.

`needs` maps every service to the names it depends on. A layer holds services that may start at
once. Unknown names and cycles are errors that name them; nothing is dropped to make it fit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

Needs = Mapping[str, Collection[str]]


class DependencyCycle(ValueError):
    """Services that wait for each other; `cycle` begins and ends with the same name."""

    def __init__(self, cycle: tuple[str, ...]) -> None:
        super().__init__(f"dependency cycle: {' → '.join(cycle)}")
        self.cycle = cycle


class UnknownDependency(ValueError):
    """A service needs a name that does not exist."""

    def __init__(self, service: str, needed: str) -> None:
        super().__init__(f'{service} depends on "{needed}", which does not exist')
        self.service = service
        self.needed = needed


def start_layers(needs: Needs) -> tuple[tuple[str, ...], ...]:
    """Return layers in starting order, each service as early as possible, declared order within."""
    level = dict.fromkeys(needs, 0)
    missing = {name: len(set(needed)) for name, needed in needs.items()}
    waiting = dependents(needs)
    ready = [name for name, count in missing.items() if not count]
    # It grows while it is walked: each edge is looked at once.
    for name in ready:
        for dependent in waiting[name]:
            level[dependent] = max(level[dependent], level[name] + 1)
            missing[dependent] -= 1
            if not missing[dependent]:
                ready.append(dependent)
    if len(ready) < len(needs) or len(waiting) > len(needs):
        check(needs)
    layers: list[list[str]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for name, depth in level.items():
        layers[depth].append(name)
    return tuple(tuple(layer) for layer in layers)


def stop_layers(needs: Needs) -> tuple[tuple[str, ...], ...]:
    """Return layers in stopping order: dependents stop before what they depend on."""
    return start_layers(dependents(needs))


def start_order(needs: Needs) -> tuple[str, ...]:
    return tuple(name for layer in start_layers(needs) for name in layer)


def check(needs: Needs) -> None:
    """Raise for the first unknown name, otherwise for the first cycle."""
    for service, needed in needs.items():
        for name in needed:
            if name not in needs:
                raise UnknownDependency(service, name)
    for cycle in cycles(needs):
        raise DependencyCycle(cycle)


def cycles(needs: Needs) -> tuple[tuple[str, ...], ...]:
    """Return one cycle of each connected group, as (a, b, a); unknown names are skipped."""
    found: list[tuple[str, ...]] = []
    done: set[str] = set()
    for start in needs:
        path: dict[str, None] = {}
        rest = [iter((start,))]
        while rest:
            name = next(rest[-1], None)
            if name is None:
                rest.pop()
                if path:
                    done.add(path.popitem()[0])
            elif name in path:
                walked = list(path)
                found.append((*walked[walked.index(name) :], name))
            elif name in needs and name not in done:
                path[name] = None
                rest.append(iter(needs[name]))
    return tuple(found)


def dependents(needs: Needs) -> dict[str, list[str]]:
    """Return the reversed graph: the dependents of each service."""
    turned: dict[str, list[str]] = {name: [] for name in needs}
    for service, needed in needs.items():
        for name in dict.fromkeys(needed):
            turned.setdefault(name, []).append(service)
    return turned


def with_dependencies(names: Iterable[str], needs: Needs) -> tuple[str, ...]:
    """Return these services and all they need, in starting order."""
    wanted = _reachable(names, needs)
    return tuple(name for name in start_order(needs) if name in wanted)


def _reachable(names: Iterable[str], edges: Needs) -> set[str]:
    reached: set[str] = set()
    rest = list(names)
    while rest:
        name = rest.pop()
        if name not in reached:
            reached.add(name)
            rest.extend(edges.get(name, ()))
    return reached
