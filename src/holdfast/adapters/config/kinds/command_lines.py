"""Command lines and environment variables.

The values of variables are never repeated in a problem, because they may be secrets.
"""

from __future__ import annotations

import os

from holdfast.adapters.config.document import ListNode, Node, Scalar, Table, TableEntry
from holdfast.adapters.config.interpolation import (
    CommandLineWords,
    InterpolationError,
    WordsError,
    expand_at,
)
from holdfast.adapters.config.kinds.kind import Kind, Reading, ScalarKind, Schema
from holdfast.adapters.config.problems import repeat_safely
from holdfast.adapters.config.sources import note_source, resolve_path
from holdfast.adapters.file_digests import read_content
from holdfast.rules.workflows import SHELL_WORDS

WORD: Schema = {"type": ["string", "number", "boolean"]}
LARGEST_SECRET = 64 * 1024
WORDS: Schema = {"type": "array", "items": WORD}


class CommandLine(Kind):
    """A command as one text, or as a list of words. It is split later, when `shell` is known."""

    wanted = "a command or a list of words"

    def read(self, node: Node, key: str, reading: Reading) -> Node | None:
        if isinstance(node, Table) or (isinstance(node, ListNode) and not node.items):
            self.refuse(node, key, reading)
            return None
        if isinstance(node, Scalar) and not node.text.strip():
            reading.note(node, key, "the command is empty", "write the program and its arguments")
            return None
        return node

    def hint(self) -> str:
        return 'write command: npm run dev, or command: ["npm", "run", "dev"]'

    def schema(self) -> Schema:
        return {"anyOf": [{**WORD, "minLength": 1}, {**WORDS, "minItems": 1}]}


class FurtherArguments(CommandLine):
    """Further words of a command."""

    wanted = "a list of words"

    def read(self, node: Node, key: str, reading: Reading) -> Node | None:
        if isinstance(node, Table):
            self.refuse(node, key, reading)
            return None
        return node

    def hint(self) -> str:
        return 'write args: ["--port", "8000"]'

    def schema(self) -> Schema:
        return {"anyOf": [WORDS, WORD]}


def split_words(node: Node, key: str, reading: Reading, *, is_command: bool) -> list[str] | None:
    """Return the words of a command or of arguments, with variables replaced."""
    if isinstance(node, ListNode):
        return _expand_words(node, key, reading)
    assert isinstance(node, Scalar)
    reading.check_placeholders(node, key)
    try:
        split = CommandLineWords(
            reading.instance_text(node), lambda text, at: expand_at(text, at, reading.environ)
        )
    except (WordsError, InterpolationError) as error:
        reading.note(node, key, str(error), error.suggestion, repeat_safely(node.text))
        return None
    if is_command and (needed := split.shell_needed()):
        shown = None if split.is_assignment else repeat_safely(node.text)
        reading.note(node, key, *needed, shown)
        return None
    if is_command and not split.words:
        reading.note(node, key, "the command is empty", "write the program and its arguments")
        return None
    if split.unexpanded:
        what = " and ".join(dict.fromkeys(split.unexpanded[:2]))
        message = f"without a shell the program gets {what} as it is written"
        reading.warn(node, key, message, "add shell: true, write ${NAME}, or put it in quotes")
    return split.words


def _expand_words(node: ListNode, key: str, reading: Reading) -> list[str] | None:
    words: list[str] = []
    for number, item in enumerate(node.items):
        if not isinstance(item, Scalar):
            found = "a list" if isinstance(item, ListNode) else "a mapping"
            hint = "put quotes around a word that contains ': ', '{' or '['"
            reading.note(item, f"{key}[{number}]", f"this is {found}, not a word", hint)
            continue
        word = reading.expand(item, f"{key}[{number}]")
        if word is not None:
            words.append(word)
    return words if len(words) == len(node.items) else None


def shell_words(node: Node, key: str, reading: Reading) -> tuple[str, ...]:
    """Return the words that run one text with a shell; none if there is a problem."""
    if not isinstance(node, Scalar):
        message = "with shell: true the command is one text, not a list"
        reading.note(node, key, message, "write it as one text")
        return ()
    text = reading.expand(node, key)
    return () if text is None else (*SHELL_WORDS, text)


class VariableName(ScalarKind):
    """The name of an environment variable."""

    wanted = "the name of a variable"

    def convert(self, text: str) -> str:
        if not is_variable_name(text):
            raise ValueError(f'"{text}" is not a name for a variable; write MY_MODE')
        return text

    def schema(self) -> Schema:
        return {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}


class Variables(Kind):
    """Environment variables as a mapping, or as a list of NAME=VALUE.

    A name without a value takes the caller's value.
    """

    wanted = "a mapping of variables"

    def read(self, node: Node, key: str, reading: Reading) -> dict[str, str] | None:
        variables: dict[str, str] = {}
        match node:
            case Table():
                for name, entry in node.entries.items():
                    self.enter(variables, name, entry, f"{key}.{name}", reading)
            case ListNode():
                for number, item in enumerate(node.items):
                    self.enter_item(variables, item, f"{key}[{number}]", reading)
            case Scalar():
                if node.is_null:
                    return {}
                hint = "write each variable on its own indented line, NAME: value"
                reading.note(node, key, "this is not a mapping of variables", hint)
                return None
        return variables

    def enter(
        self, variables: dict[str, str], name: str, entry: TableEntry, key: str, reading: Reading
    ) -> None:
        if not is_variable_name(name):
            hint = "use letters, digits and underscores"
            reading.note(entry.key, key, "this is not a name for a variable", hint)
            return
        node = entry.node
        if isinstance(node, Table) and set(node.entries) == {"file"}:
            value = read_secret(node.entries["file"].node, f"{key}.file", reading)
            if value is not None:
                variables[name] = value
        elif not isinstance(node, Scalar):
            found = "a list" if isinstance(node, ListNode) else "a mapping"
            hint = "write one value, or {file: PATH} of a secret; put quotes around JSON"
            reading.note(node, key, f"the value is {found}, not text", hint)
        elif node.is_null:
            if name in reading.environ:
                variables[name] = reading.environ[name]
        else:
            value = reading.expand(node, key)
            if value is not None:
                variables[name] = value

    def enter_item(self, variables: dict[str, str], item: Node, key: str, reading: Reading) -> None:
        if not isinstance(item, Scalar):
            reading.note(item, key, "this is not a NAME=VALUE text", "write - NAME=value")
            return
        name, equals, rest = item.text.partition("=")
        if not is_variable_name(name):
            reading.note(item, key, "this is not a NAME=VALUE text", "write - NAME=value")
            return
        value = Scalar(rest, not equals, item.line, item.column)
        self.enter(
            variables, name, TableEntry(item, value), f"{key[: key.rindex('[')]}.{name}", reading
        )

    def schema(self) -> Schema:
        file = {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]}
        value = {"anyOf": [{"type": ["string", "number", "boolean", "null"]}, file]}
        return {
            "anyOf": [
                {"type": ["object", "null"], "additionalProperties": value},
                {"type": "array", "items": {"type": "string"}},
            ]
        }


def variables_table(node: ListNode) -> Table:
    """Return a list of NAME=VALUE as a mapping."""
    entries: dict[str, TableEntry] = {}
    for item in node.items:
        if isinstance(item, Scalar):
            name, equals, rest = item.text.partition("=")
            place = (item.line, item.column, item.file)
            entries[name] = TableEntry(item, Scalar(rest, not equals, *place))
    return Table(entries, node.line, node.column, node.file)


def read_secret(node: Node, key: str, reading: Reading) -> str | None:
    """Return what is in a file that only its owner can read, without the line end."""
    written = reading.expand(node, key) if isinstance(node, Scalar) else None
    if written is None:
        if not isinstance(node, Scalar):
            reading.note(node, key, "this is no path", "write {file: ~/.secrets/name}")
        return None
    path = resolve_path(written, reading.folder, reading.environ)
    try:
        data = read_content(path, LARGEST_SECRET)
        is_open = bool(os.stat(path).st_mode & 0o077)
    except OSError as error:
        why = f"the file {path} cannot be read: {error.strerror}"
        reading.note(node, key, why, "write {file: PATH} of a file with the secret", written)
        return None
    note_source(reading.sources, path, data)
    if is_open:
        message = f"the file {path} can be read by others than you"
        reading.note(node, key, message, f"chmod 600 {written}", written)
    elif len(data) > LARGEST_SECRET:
        reading.note(node, key, f"the file {path} is larger than 64 KiB", "name another", written)
    elif b"\0" in data:
        reading.note(node, key, f"the file {path} contains a NUL character", "remove it", written)
    else:
        try:
            return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            reading.note(node, key, f"the file {path} is no UTF-8 text", "name another", written)
    return None


def is_variable_name(name: str) -> bool:
    return bool(name) and not any(c.isspace() or c in "=\0" for c in name)
