"""How the services of a configuration relate: who needs whom, who is in which group.

Names that nobody has and services that wait for each other are problems, told with their
place; so is a condition that can never be met.
"""

from __future__ import annotations

from holdfast.adapters.config.blocks import Values
from holdfast.adapters.config.dependency_keys import Needed
from holdfast.adapters.config.document import Node, Table, within
from holdfast.adapters.config.instances import document_of
from holdfast.adapters.config.kinds import Reading
from holdfast.rules.admission.ordering import cycles
from holdfast.vocabulary.names import closest
from holdfast.vocabulary.specs.services import ServiceSpec, Template

SHARED = (
    *("enabled", "restart_policy", "restart", "stop", "log", "health_check"),
    *("environment", "env", "env_file"),
)
"""Keys of the configuration that every service of it is made from."""


def needs_of(values: Values) -> tuple[Needed, ...]:
    needs: tuple[Needed, ...] = values.get("depends_on", ())
    return needs


def check_dependencies(
    reading: Reading, services: dict[str, Values], built: dict[str, ServiceSpec]
) -> None:
    needs: dict[str, list[str]] = {}
    for name, values in services.items():
        path = values.path_of("depends_on")
        needs[name] = []
        for needed in needs_of(values):
            other = needed.service
            if other in services or other in built:
                needs[name].append(other if other in services else other.partition("@")[0])
                _check_condition(reading, needed, path, built)
                continue
            guess = closest(other, [n for n in services if n != name])
            hint = f'did you mean "{guess}"?' if guess else f"known: {', '.join(services)}"
            reading.note(needed.node, path, f'there is no service "{other}"', hint, other)
    for cycle in cycles(needs):
        values = services[cycle[0]]
        place = next(n.node for n in needs_of(values) if n.service.partition("@")[0] == cycle[1])
        message = f"services wait for each other: {' → '.join(cycle)}"
        reading.note(
            place, values.path_of("depends_on"), message, "remove one of these dependencies"
        )


def _check_condition(
    reading: Reading, needed: Needed, path: str, built: dict[str, ServiceSpec]
) -> None:
    name = needed.service
    spec = built.get(name) or built.get(f"{name}@1")
    if spec is None:
        return
    if needed.condition == "healthy" and not (spec.probes or spec.notify):
        message = f"{name} has no health check, so nobody can tell when it is healthy"
        hint = "give it a health_check, or write condition: ready"
        reading.note(needed.node, path, message, hint)
    if needed.condition == "completed" and spec.restart_policy == "always":
        message = f"{name} is started again whenever it ends (restart_policy: always)"
        hint = f"write restart_policy: on_failure for {name}"
        reading.note(needed.node, path, message, hint)


def groups_of(
    reading: Reading, values: Values, services: dict[str, Values], built: dict[str, ServiceSpec]
) -> dict[str, tuple[str, ...]]:
    """The groups, each with members that exist."""
    groups: dict[str, tuple[str, ...]] = values.get("groups", {})
    place = values.at("groups")
    for name, members in groups.items():
        path = f"{values.path_of('groups')}.{name}"
        if name in services:
            assert isinstance(place, Table)
            message = f'a service is called "{name}", too'
            reading.note(place.entries[name].key, path, message, "give the group another name")
        for number, member in enumerate(members):
            if member in services or member in built:
                continue
            guess = closest(member, list(services))
            hint = f'did you mean "{guess}"?' if guess else f"known: {', '.join(services)}"
            node = within(place, name, number)
            reading.note(node, path, f'there is no service "{member}"', hint, member)
    return groups


def templates_of(
    reading: Reading, values: Values, services: dict[str, Values]
) -> dict[str, Template]:
    """Of every service with `instances`, what makes one more of them."""
    shared: dict[str, Node] = {key: values.where[key] for key in SHARED if key in values.where}
    return {
        name: Template(
            instances=len(service.instances),
            document=document_of(shared, name, service.source),
            folder=reading.folder,
        )
        for name, service in services.items()
        if service.instances is not None
    }
