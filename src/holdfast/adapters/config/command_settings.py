"""From what was read about commands and workflows to settings; names that lead nowhere are
problems, told with their place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from holdfast.adapters.config.blocks import Values
from holdfast.adapters.config.document import within
from holdfast.adapters.config.kinds import Reading
from holdfast.vocabulary.names import closest
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.specs.workflows import CommandPolicy, CommandSpec, WorkflowSpec


def settings_of(
    reading: Reading,
    values: Values,
    services: Mapping[str, ServiceSpec],
    more_names: Collection[str],
) -> dict[str, Any]:
    """`more_names`: what else a step may name, such as groups."""
    given = values.get("commands") or {"commands": {}, "policy": CommandPolicy()}
    commands: dict[str, CommandSpec] = given["commands"]
    workflows: dict[str, WorkflowSpec] = values.get("workflows", {})
    _check_workflows(reading, values, workflows, commands, {*services, *more_names})
    _check_recovery(reading, values, services, commands)
    _check_targets(reading, values, {*services, *(it.template for it in services.values())})
    default = values.get("default_service")
    if default is not None and default not in services:
        hint = _guess(default, services)
        path = values.path_of("default_service")
        reading.note(values.at("default_service"), path, f'there is no service "{default}"', hint)
    return {
        "is_production": values.get("production", False),
        "default_service": default,
        "commands": commands,
        "command_policy": given["policy"],
        "workflows": workflows,
    }


def _check_workflows(
    reading: Reading,
    values: Values,
    workflows: Mapping[str, WorkflowSpec],
    commands: Mapping[str, CommandSpec],
    names: Collection[str],
) -> None:
    block = values.at("workflows")
    for name, spec in workflows.items():
        for number, step in enumerate(spec.steps):
            path = values.path_of(f"workflows.{name}.steps[{number}]")
            node = within(block, name, "steps", number)
            if step.command is not None and step.command not in commands:
                message = f'there is no command "{step.command}"'
                reading.note(node, path, message, _guess(step.command, commands))
            for service in step.services:
                is_selector = service.startswith(("tag:", "group:"))
                if service not in names and not is_selector:
                    message = f'there is no service "{service}"'
                    reading.note(node, path, message, _guess(service, names))


def _check_recovery(
    reading: Reading,
    values: Values,
    services: Mapping[str, ServiceSpec],
    commands: Mapping[str, CommandSpec],
) -> None:
    block = values.at("services")
    for name, spec in services.items():
        for cause, recovery in spec.recovery.items():
            if recovery.command is not None and recovery.command not in commands:
                path = values.path_of(f"services.{name}.recovery.{cause}.command")
                message = f'there is no command "{recovery.command}"'
                hint = "; a program is written as a path or a list of words"
                node = within(block, spec.template or name, "recovery", cause)
                reading.note(node, path, message, _guess(recovery.command, commands) + hint)


def _check_targets(reading: Reading, values: Values, names: Collection[str | None]) -> None:
    """Who waits for alerts of a service that is written wrong is never told."""
    for number, target in enumerate(values.get("alerts", ())):
        for service in target.services:
            if service not in names:
                path = values.path_of(f"alerts[{number}].services")
                hint = _guess(service, [name for name in names if name])
                node = within(values.at("alerts"), number, "services")
                reading.note(node, path, f'there is no service "{service}"', hint)


def _guess(name: str, known: Collection[str]) -> str:
    guess = closest(name, list(known))
    listed = ", ".join(sorted(known)) or "none"
    return f'did you mean "{guess}"?' if guess else f"known: {listed}"
