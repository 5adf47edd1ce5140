"""The keys about commands: named commands, their policy, workflows and recovery.

`rules.authority.commands` decides what a caller may run. Here it is only read. A name of a command
or a service that does not exist is a problem with its place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from holdfast.adapters.config.document import ListNode, Node, Scalar, Table, TableEntry, find_node
from holdfast.adapters.config.kinds.blocks import Block, Key, Values, default_of
from holdfast.adapters.config.kinds.command_lines import (
    CommandLine,
    FurtherArguments,
    Variables,
    split_words,
)
from holdfast.adapters.config.kinds.kind import Kind, Reading, Schema
from holdfast.adapters.config.kinds.scalars import (
    Boolean,
    Choice,
    Duration,
    ListOf,
    SignalName,
    Text,
)
from holdfast.adapters.config.sources import resolve_path
from holdfast.rules.lifecycle.recovery import LIVE_CAUSES
from holdfast.rules.workflows import SHELL_WORDS
from holdfast.vocabulary.names import closest
from holdfast.vocabulary.specs.services import ServiceSpec
from holdfast.vocabulary.specs.workflows import (
    CommandPolicy,
    CommandSpec,
    RecoverySpec,
    StepSpec,
    WorkflowSpec,
)
from holdfast.vocabulary.workflows import BINARY, SHELL, TOOLS

SECONDS = Duration("s", is_zero_allowed=False)
TYPES = Choice(SHELL, BINARY, *TOOLS)
COMMAND = Block(
    [
        Key("command", CommandLine(), "What to run: words as a shell would split them, or a list."),
        Key("args", FurtherArguments(), "Further words, put behind the command."),
        Key("command_type", TYPES, "The program that it is for: make, npm …; or shell, binary."),
        Key("shell", Boolean(), "Run it with /bin/sh -c.", False),
        Key("working_dir", Text(), "Where it runs, relative to this file.", "."),
        Key("env", Variables(), "Its environment variables."),
        Key("timeout", SECONDS, "How long it may take."),
        Key("description", Text(), "What it is for."),
        Key("is_safe", Boolean(), "False: it is never run."),
        Key("allowed_in_production", Boolean(), "Run it in production, too."),
    ],
    spec=CommandSpec,
    definition="command",
    synonyms={"run": "command", "cwd": "working_dir", "type": "command_type"},
)
COMMAND_POLICY = Block(
    [
        Key("allow_shell", Boolean(), "The owner may have shell commands run."),
        Key("allow_terminals", Boolean(), "Operators may open a shell beside a service."),
        Key(
            "allowed_types",
            ListOf(TYPES),
            "The types of command that may be run without being named here, by all doors.",
        ),
        Key(
            "allowed_programs",
            ListOf(CommandLine()),
            "What such a command must begin with: words, or a list of words.",
        ),
        Key("timeout", SECONDS, "How long a command may take that says nothing."),
    ],
    spec=CommandPolicy,
    definition="command_policy",
)
CONDITION = r"running|ready|healthy|exited|log:.+|silent:[0-9.]+"
CONDITION_WORDS = "a condition; write running, ready, healthy, exited, log:REGEX or silent:SECONDS"
ACTIONS = ("run", "command", "start", "stop", "restart", "rolling_restart", "wait")


class CommandToRun(Kind):
    """A command as words, or as a block."""

    wanted = "a command"

    def read(self, node: Node, key: str, reading: Reading) -> CommandSpec | None:
        entries = node.entries if isinstance(node, Table) else {}
        if not isinstance(node, Table):
            entries = {"command": TableEntry(Scalar("command", True, node.line, node.column), node)}
        values = COMMAND.read_entries(node, entries, key, reading)
        if "command" not in values:
            if "command" not in values.refused:
                reading.note(node, key, "there is no command", "add command: …")
            return None
        argv = _build_argv(values, reading)
        if not argv or values.refused:
            return None
        folder = resolve_path(values.get("working_dir", "."), reading.folder, reading.environ)
        return CommandSpec(**{**COMMAND.fill(values), "argv": argv, "working_dir": folder})

    def schema(self) -> Schema:
        return {"anyOf": [*COMMAND.keys["command"].kind.schema()["anyOf"], COMMAND.schema()]}


def _build_argv(values: Values, reading: Reading) -> tuple[str, ...]:
    node, path = values["command"], values.path_of("command")
    kind = values.get("command_type", BINARY)
    if values.get("shell") or kind == SHELL:
        if not isinstance(node, Scalar) or "args" in values:
            reading.note(node, path, "for a shell the command is one text, without args")
            return ()
        text = reading.expand(node, path)
        return () if text is None else (*SHELL_WORDS, text)
    words = split_words(node, path, reading, is_command=True)
    more: list[str] | None = []
    if "args" in values:
        more = split_words(values["args"], values.path_of("args"), reading, is_command=False)
    if words is None or more is None:
        return ()
    return (*([TOOLS[kind]] if kind in TOOLS else ()), *words, *more)


class NamedCommands(Kind):
    """Named commands. The keys of the policy stand beside them."""

    wanted = "a mapping of commands"

    def read(self, node: Node, key: str, reading: Reading) -> dict[str, Any] | None:
        if not isinstance(node, Table):
            self.refuse(node, key, reading)
            return None
        of_policy = {
            name: entry for name, entry in node.entries.items() if name in COMMAND_POLICY.keys
        }
        policy = COMMAND_POLICY.read_entries(node, of_policy, key, reading)
        if "allowed_programs" in policy:
            path = policy.path_of("allowed_programs")
            found = [
                split_words(one, path, reading, is_command=True)
                for one in policy["allowed_programs"]
            ]
            policy["allowed_programs"] = tuple(tuple(words) for words in found if words)
        commands: dict[str, CommandSpec] = {}
        for name, entry in node.entries.items():
            if name in COMMAND_POLICY.keys:
                continue
            path = f"{key}.{name}"
            if guess := closest(name, list(COMMAND_POLICY.keys)):
                hint = f'did you mean "{guess}"? a command needs another name'
                reading.note(entry.key, path, "this is too much like a key of the policy", hint)
                continue
            command = CommandToRun().read(entry.node, path, reading)
            if command is not None:
                commands[name] = command
        return {"commands": commands, "policy": CommandPolicy(**policy)}

    def schema(self) -> Schema:
        return {
            "type": ["object", "null"],
            "properties": COMMAND_POLICY.full_schema()["properties"],
            "additionalProperties": CommandToRun().schema(),
        }


SERVICES = ListOf(Text())
WAIT = Block(
    [
        Key("service", Text(), "Whom to wait for."),
        Key(
            "for",
            Text(CONDITION, CONDITION_WORDS),
            "running, exited or log:REGEX …",
            default_of(StepSpec, "condition"),
        ),
        Key("timeout", SECONDS, "How long.", "30s"),
    ],
    definition="workflow_wait",
)


class WaitFor(Kind):
    """A service, or a block about what to wait for."""

    wanted = "a service to wait for"

    def read(self, node: Node, key: str, reading: Reading) -> Values | None:
        if isinstance(node, Scalar):
            values = Values(key, node)
            text = reading.expand(node, key)
            if text is None:
                return None
            values["service"] = text
            return values
        found = WAIT.read(node, key, reading)
        if found is not None and "service" not in found:
            reading.note(node, key, "it does not say for whom", "add service: NAME")
            return None
        return found

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "string"}, WAIT.schema()]}


STEP = Block(
    [
        Key("run", CommandToRun(), "A command to run to its end."),
        Key("command", Text(), "A command of `commands:`, by its name."),
        Key("start", SERVICES, "Services to start."),
        Key("stop", SERVICES, "Services to stop."),
        Key("restart", SERVICES, "Services to restart."),
        Key("rolling_restart", SERVICES, "Services to restart one instance after the other."),
        Key("wait", WaitFor(), "A service to wait for."),
        Key("timeout", SECONDS, "How long a command may take."),
        Key("description", Text(), "What progress calls it."),
    ],
    definition="workflow_step",
)


class StepBlock(Kind):
    """One step: a command to run, or a block with one action."""

    wanted = "a step"

    def read(self, node: Node, key: str, reading: Reading) -> StepSpec | None:
        if not isinstance(node, Table):
            run = CommandToRun().read(node, key, reading)
            return None if run is None else StepSpec(action="run", run=run)
        values = STEP.read(node, key, reading)
        if values is None or values.refused:
            return None
        chosen = [name for name in ACTIONS if name in values]
        if len(chosen) != 1:
            hint = f"write one of {', '.join(ACTIONS)}"
            reading.note(node, key, "a step does one thing", hint)
            return None
        action, value = chosen[0], values[chosen[0]]
        fields: dict[str, Any] = {
            name: values[name] for name in ("timeout", "description") if name in values
        }
        if action in ("run", "command"):
            fields[action] = value
        elif action == "wait":
            fields["services"] = (value["service"],)
            if "for" in value:
                fields["condition"] = value["for"]
            if "timeout" in value:
                fields["timeout"] = value["timeout"]
        else:
            fields["services"] = value
        return StepSpec(action=action, **fields)  # type: ignore[arg-type]

    def schema(self) -> Schema:
        return {"anyOf": [*COMMAND.keys["command"].kind.schema()["anyOf"], STEP.schema()]}


WORKFLOW = Block(
    [
        Key("description", Text(), "What it is for."),
        Key("steps", ListOf(StepBlock()), "What is done, in this order."),
        Key("on_failure", Choice("stop", "continue"), "What a failed step means."),
        Key("timeout", SECONDS, "How long the whole may take."),
        Key("allowed_in_production", Boolean(), "Do it in production, too."),
    ],
    spec=WorkflowSpec,
    definition="workflow",
)


class Workflow(Kind):
    """A workflow, or its steps alone."""

    wanted = "a workflow"

    def read(self, node: Node, key: str, reading: Reading) -> WorkflowSpec | None:
        if isinstance(node, ListNode):
            here = Scalar("steps", True, node.line, node.column)
            values = WORKFLOW.read_entries(node, {"steps": TableEntry(here, node)}, key, reading)
        else:
            found = WORKFLOW.read(node, key, reading)
            if found is None:
                return None
            values = found
        if not values.get("steps"):
            if "steps" not in values.refused:
                reading.note(node, key, "this workflow has no steps", "add steps: [make build]")
            return None
        return WorkflowSpec(**values)

    def hint(self) -> str:
        return "write it as indented keys: steps, description, on_failure, timeout"

    def schema(self) -> Schema:
        steps = WORKFLOW.keys["steps"].kind.schema()["anyOf"][0]
        return {"anyOf": [steps, WORKFLOW.schema()]}


class RecoveryStep(Kind):
    """What is done about one cause of trouble: a word, or a block with a command or a signal."""

    wanted = "an action"

    def __init__(self, cause: str) -> None:
        self.cause = cause
        words = ["restart", "stop", "notify"]
        if cause == "suppressed":
            words.remove("restart")
        self.word = Choice(*words)
        keys = [Key("command", CommandToRun(), "A command, by its name or in words.")]
        if cause in LIVE_CAUSES:
            keys.append(Key("signal", SignalName(), "Sent to its main process."))
        self.block = Block(keys)

    def read(self, node: Node, key: str, reading: Reading) -> RecoverySpec | None:
        if isinstance(node, Scalar):
            action = self.word.read(node, key, reading)
            return None if action is None else RecoverySpec(action=action)
        if not isinstance(node, Table) or len(node.entries) != 1:
            self.refuse(node, key, reading)
            return None
        ((name, entry),) = node.entries.items()
        if name == "command" and isinstance(entry.node, Scalar) and _is_name(entry.node.text):
            return RecoverySpec(action="command", command=entry.node.text.strip())
        values = self.block.read(node, key, reading)
        if not values:
            if values is not None and not values.refused and name in self.block.keys:
                reading.note(node, key, f"says no {name}", self.hint())
            return None
        if name == "signal":
            return RecoverySpec(action="signal", signal=values["signal"])
        return RecoverySpec(action="command", run=values["command"])

    def hint(self) -> str:
        more = ", {signal: SIGHUP}" if self.cause in LIVE_CAUSES else ""
        return f"write {', '.join(self.word.words)}{more} or {{command: NAME}}"

    def schema(self) -> Schema:
        return {"anyOf": [self.word.schema(), self.block.full_schema()]}


def _is_name(text: str) -> bool:
    """Return whether a text is one word and no path, so that it names a command."""
    return len(text.split()) == 1 and "/" not in text and "$" not in text


RECOVERY = Block(
    [
        Key("unhealthy", RecoveryStep("unhealthy"), "When its liveness probe fails.", "restart"),
        Key("memory", RecoveryStep("memory"), "When it uses more than its memory_limit."),
        Key("timeout", RecoveryStep("timeout"), "When a run takes longer than its timeout."),
        Key("crash", RecoveryStep("crash"), "When it ended with a failure."),
        Key("start_failure", RecoveryStep("start_failure"), "When it did not start up."),
        Key(
            "suppressed", RecoveryStep("suppressed"), "When it failed too often and is left failed."
        ),
    ],
    definition="recovery",
)


class Recovery(Kind):
    """Actions by cause."""

    wanted = "a mapping of causes"

    def read(self, node: Node, key: str, reading: Reading) -> dict[str, RecoverySpec] | None:
        values = RECOVERY.read(node, key, reading)
        return None if values is None else dict(values)

    def schema(self) -> Schema:
        return RECOVERY.schema()


def build_command_settings(
    reading: Reading,
    values: Values,
    services: Mapping[str, ServiceSpec],
    more_names: Collection[str],
) -> dict[str, Any]:
    """Check the names in commands, workflows and recovery, and return the settings.

    `more_names` are further names that a step may use, such as groups.
    """
    given = values.get("commands") or {"commands": {}, "policy": CommandPolicy()}
    commands: dict[str, CommandSpec] = given["commands"]
    workflows: dict[str, WorkflowSpec] = values.get("workflows", {})
    _check_workflows(reading, values, workflows, commands, {*services, *more_names})
    _check_recovery(reading, values, services, commands)
    _check_targets(
        reading, values, {*services, *(service.template for service in services.values())}
    )
    default = values.get("default_service")
    if default is not None and default not in services:
        hint = _suggest(default, services)
        path = values.path_of("default_service")
        reading.note(values.at("default_service"), path, f'there is no service "{default}"', hint)
    fields = {"commands": commands, "command_policy": given["policy"]}
    if "production" in values:
        fields["is_production"] = values["production"]
    return fields


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
            node = find_node(block, name, "steps", number)
            if step.command is not None and step.command not in commands:
                message = f'there is no command "{step.command}"'
                reading.note(node, path, message, _suggest(step.command, commands))
            for service in step.services:
                is_selector = service.startswith(("tag:", "group:"))
                if service not in names and not is_selector:
                    message = f'there is no service "{service}"'
                    reading.note(node, path, message, _suggest(service, names))


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
                node = find_node(block, spec.template or name, "recovery", cause)
                reading.note(node, path, message, _suggest(recovery.command, commands) + hint)


def _check_targets(reading: Reading, values: Values, names: Collection[str | None]) -> None:
    """Check the services of alert targets. A misspelt name would silently get no alerts."""
    for number, target in enumerate(values.get("alerts", ())):
        for service in target.services:
            if service not in names:
                path = values.path_of(f"alerts[{number}].services")
                hint = _suggest(service, [name for name in names if name])
                node = find_node(values.at("alerts"), number, "services")
                reading.note(node, path, f'there is no service "{service}"', hint)


def _suggest(name: str, known: Collection[str]) -> str:
    guess = closest(name, list(known))
    listed = ", ".join(sorted(known)) or "none"
    return f'did you mean "{guess}"?' if guess else f"known: {listed}"
