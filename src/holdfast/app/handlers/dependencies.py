"""The handler of `dependencies`: the graph of services, as far as it is declared."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from holdfast.app.context import Context
from holdfast.app.registry import handles
from holdfast.engine.admission.admission import facts_of
from holdfast.engine.runner.runner import Runner
from holdfast.rules.admission import conditions, ordering
from holdfast.vocabulary.dependencies import (
    Dependencies,
    DependenciesResult,
    Need,
    ServiceNeeds,
)
from holdfast.vocabulary.specs.services import Dependency


@handles(Dependencies)
def dependencies(context: Context, command: Dependencies) -> DependenciesResult:
    roster, asked = context.roster, context.roster.names(command.services)
    instances: dict[str, list[str]] = {}
    for name, runner in roster.runners.items():
        if (template := runner.declaration.spec.template) is not None:
            instances.setdefault(template, []).append(name)
    needs: dict[str, list[Need]] = {}
    needed_by: dict[str, list[str]] = {}
    for name, runner in roster.runners.items():
        needs[name] = list(_needs(context, runner, instances))
        for need in needs[name]:
            needed_by.setdefault(need.service, []).append(name)
    known = {
        name: [need.service for need in its_needs if need.service in needs]
        for name, its_needs in needs.items()
    }
    layers = {
        name: number for number, layer in enumerate(ordering.start_layers(known)) for name in layer
    }
    groups: dict[str, list[str]] = {}
    for group, members in context.settings.now.groups.items():
        for name in roster.names([f"group:{group}"]) if members else ():
            groups.setdefault(name, []).append(group)
    services = {}
    for name in asked:
        runner = roster.runners[name]
        spec = runner.declaration.spec
        services[name] = ServiceNeeds(
            status=runner.state.value,
            desired=runner.desired.value,
            needs=needs[name],
            needed_by=needed_by.get(name, []),
            layer=layers.get(name, 0),
            template=spec.template,
            groups=groups.get(name, []),
            tags=list(spec.tags),
        )
    return DependenciesResult(services=services)


def _needs(context: Context, runner: Runner, instances: dict[str, list[str]]) -> Iterator[Need]:
    runners = context.roster.runners
    for needed in runner.declaration.spec.depends_on:
        known = needed.service in runners
        for provider in (needed.service,) if known else instances.get(needed.service, ()):
            yield Need(
                service=provider,
                condition=needed.condition,
                is_met=_is_met(runner, needed, runners[provider]),
                restart=needed.restart,
            )


def _is_met(runner: Runner, needed: Dependency, provider: Runner) -> bool:
    # Whether a line was printed is known only while somebody waits for it.
    facts = replace(facts_of(provider), has_line=not runner.waiting_for)
    return conditions.is_met(needed, facts)
