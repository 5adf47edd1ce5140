"""The keys of `backends`: AI agents and model servers."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.adapters.config.document import Node, Scalar, Table, TableEntry
from holdfast.adapters.config.keys.services import SERVICE
from holdfast.adapters.config.kinds.addresses import Url
from holdfast.adapters.config.kinds.blocks import Block, Key, MapOf, SpecOf, Values
from holdfast.adapters.config.kinds.command_lines import read_secret, split_words
from holdfast.adapters.config.kinds.kind import Kind, Reading, Schema
from holdfast.adapters.config.kinds.scalars import (
    Boolean,
    Choice,
    Duration,
    Integer,
    ListOf,
    Number,
    Text,
)
from holdfast.adapters.config.sources import resolve_path
from holdfast.vocabulary.specs.backends import BackendSpec, BudgetSpec, ToolRule
from holdfast.vocabulary.specs.services import ServiceSpec

NAME = r"[a-z0-9][a-z0-9-]{0,19}"
BUDGET = Block(
    [
        Key("tokens", Integer(1, 10**12), "Tokens of all its requests together."),
        Key("cost", Number(0, 1e9), "What it may cost, where the backend tells that."),
        Key("turns", Integer(1, 10**6), "Prompts that it may answer."),
        Key("seconds", Duration("s", is_zero_allowed=False), "The time of all turns together."),
    ],
    spec=BudgetSpec,
    definition="backend_budget",
)
RULE = Block(
    [
        Key("tool", Text(), "The tool, with `*`."),
        Key("on", Text(), "The command, path or address that it is used on, with `*`."),
        Key("then", Choice("allow", "deny", "ask"), "Whether it is allowed, refused or asked."),
    ],
    spec=ToolRule,
    definition="backend_rule",
)


class Command(Kind):
    """A program with its first arguments."""

    wanted = "a command"

    def read(self, node: Node, key: str, reading: Reading) -> tuple[str, ...] | None:
        if isinstance(node, Table):
            self.refuse(node, key, reading)
            return None
        words = split_words(node, key, reading, is_command=True)
        return None if words is None else tuple(words)

    def schema(self) -> Schema:
        return SERVICE.keys["command"].kind.schema()


class SecretText(Kind):
    """A secret: `${NAME}`, or the file that has it. No problem repeats it."""

    wanted = "${NAME} or {file: PATH}"

    def read(self, node: Node, key: str, reading: Reading) -> str | None:
        if isinstance(node, Table) and set(node.entries) == {"file"}:
            return read_secret(node.entries["file"].node, f"{key}.file", reading)
        if not isinstance(node, Scalar):
            reading.note(node, key, "this is no secret", "write ${NAME} or {file: ~/.secrets/key}")
            return None
        return reading.expand(node, key)

    def schema(self) -> Schema:
        file = {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]}
        return {"anyOf": [{"type": "string"}, file]}


BACKEND = Block(
    [
        Key(
            "kind",
            Text(r"[a-z][a-z0-9_]{0,39}", "a kind"),
            "claude, codex, gemini, opencode, acp, ollama, lm_studio, openai, or one of a plugin.",
        ),
        Key("command", Command(), "The program; by default the usual one of the kind, on PATH."),
        Key("args", ListOf(Text()), "Further arguments."),
        Key("model", Text(), "The model; by default the backend's own choice."),
        Key("mode", Choice("headless", "pty"), "Spoken to by its protocol, or in a terminal."),
        Key("url", Url(), "The address of a model server."),
        Key("service", Text(), "The service that runs it; started if it does not run."),
        Key("key", SecretText(), "Its key: ${NAME}, or {file: PATH}."),
        Key("env", SERVICE.keys["env"].kind, "Variables of its processes."),
        Key("working_dir", Text(), "Where its sessions work; by default the project."),
        Key("rules", ListOf(SpecOf(RULE)), "Which permissions are given without asking."),
        Key(
            "approve_within",
            Duration("s", is_zero_allowed=False),
            "A permission that nobody decides within this time is refused.",
        ),
        Key("budget", SpecOf(BUDGET), "What one session may use."),
        Key(
            "stall",
            Duration("s", is_zero_allowed=False),
            "A turn without a sign of life for so long is interrupted.",
        ),
        Key("start_timeout", Duration("s", is_zero_allowed=False), "Until it must be ready."),
        Key(
            "first_token",
            Duration("s", is_zero_allowed=False),
            "A model server must begin its answer within this time.",
        ),
        Key(
            "gap",
            Duration("s", is_zero_allowed=False),
            "So much time may pass between two pieces of its answer.",
        ),
        Key(
            "health",
            Choice("models", "answers"),
            "How far a model server is examined: its models, or an answer of one token.",
        ),
        Key("max_crashes", Integer(1, 100), "Crashes in a row until it is given up."),
        Key("mcp", Boolean(), "Give its agents Holdfast's own tools."),
        Key(
            "worktree_end",
            Choice("keep", "remove", "merge"),
            "What becomes of a session's own worktree; unsaved work is always kept.",
        ),
    ],
    spec=BackendSpec,
    definition="backend",
    synonyms={"cwd": "working_dir", "type": "kind", "api_key": "key", "environment": "env"},
)


class Backend(Kind):
    """The block of a backend, or its kind alone."""

    wanted = "a backend"

    def read(self, node: Node, key: str, reading: Reading) -> Values | None:
        if isinstance(node, Scalar) and not node.is_null:
            here = Scalar("kind", True, node.line, node.column)
            node = Table({"kind": TableEntry(here, node)}, node.line, node.column)
        return BACKEND.read(node, key, reading)

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "string"}, BACKEND.schema()]}


def build_backends(
    reading: Reading, written: Mapping[str, Values], services: Mapping[str, ServiceSpec]
) -> dict[str, BackendSpec]:
    """Return the backends by name."""
    backends: dict[str, BackendSpec] = {}
    for name, values in written.items():
        fields = BACKEND.fill(values)
        kind = fields.pop("kind", None)
        if kind is None:
            if "kind" not in values.refused:
                message = "a backend needs its kind"
                reading.note(values.node, values.path, message, "add kind: claude")
            continue
        service = fields.get("service")
        if service is not None and service not in services:
            message = f'there is no service "{service}"'
            place = values.at("service")
            reading.note(place, values.path_of("service"), message, "add it under services:")
        folder = fields.pop("working_dir", None)
        if folder is not None:
            fields["working_dir"] = resolve_path(folder, reading.folder, reading.environ)
        args = tuple(fields.pop("args", ()))
        rules = tuple(fields.pop("rules", ()))
        backends[name] = BackendSpec(name=name, kind=kind, args=args, rules=rules, **fields)
    return backends


KEY = Key("backends", MapOf(Backend(), NAME), "AI agents and model servers, by name.")
