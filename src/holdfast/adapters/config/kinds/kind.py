"""The base of every kind of value, and the state of one pass over a document.

A kind reads a node of the document and describes itself as JSON Schema. When it cannot read a
node, it notes a problem that says what was found and what is wanted, and returns None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from holdfast.adapters.config.document import ListNode, Node, Scalar, Table
from holdfast.adapters.config.interpolation import (
    InterpolationError,
    expand,
    fill_index,
    undouble,
    unknown_placeholder,
)
from holdfast.adapters.config.problems import Problem, quote_value
from holdfast.rules.ports import compact

if TYPE_CHECKING:
    from holdfast.adapters.config.kinds.blocks import Values

Schema = dict[str, Any]
SERVICE_KEYS = ("services.", "supervisor.services.")
"""How the keys begin in which `{{ … }}` stands for a number."""
INTERPOLATED: Schema = {"$ref": "#/$defs/interpolated"}


class OverrideOrigin(NamedTuple):
    """Where a setting was given that overrides the file: an option or a variable."""

    source: Literal["command_line", "environment"]
    name: str
    text: str


class Reading:
    """One pass over a document, with its environment and the problems found so far."""

    def __init__(
        self,
        file: str,
        folder: str,
        environ: Mapping[str, str],
        sources: dict[str, str] | None = None,
    ) -> None:
        self.file = file
        self.folder = folder
        self.environ = environ
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        """What can be done as it is written, but is surely not meant so."""
        self.sources: dict[str, str] = {} if sources is None else sources
        """The files that were read, each with the digest of its content."""
        self.converted: dict[tuple[ScalarKind, str], Any] = {}
        """Values of texts without variables. Large files repeat the same texts many times."""
        self.root: Values | None = None
        """The keys at the top of the document, once they are read."""
        self.overridden: dict[str, OverrideOrigin] = {}
        """Settings that the command line or the environment gives."""
        self.profiles: tuple[str, ...] | None = None
        """The profiles that are wanted now; None: as the document says."""
        self.dotenv: dict[str, str] = {}
        """The variables of `.env`."""
        self.index: int | None = None
        """The number of the instance that is being read."""

    def instance_text(self, node: Scalar) -> str:
        """Return the text of a scalar for this instance."""
        text = compact(node.text)
        return undouble(text if self.index is None else fill_index(text, self.index))

    def check_placeholders(self, node: Scalar, key: str) -> None:
        """Note a `{{ … }}` in a service that means nothing."""
        if key.startswith(SERVICE_KEYS):
            problem = unknown_placeholder(node.text, has_index=self.index is not None)
            if problem is not None:
                self.note(node, key, *problem)

    def note(
        self, node: Node, key: str, message: str, suggestion: str = "", value: str | None = None
    ) -> None:
        where = (node.file or self.file, node.line, node.column)
        self.problems.append(Problem(*where, key, value, message, suggestion))

    def warn(self, node: Node, key: str, message: str, suggestion: str) -> None:
        where = (self.file, node.line, node.column)
        self.warnings.append(Problem(*where, key, None, message, suggestion))

    def expand(self, node: Scalar, key: str) -> str | None:
        """Return the text of a scalar with its variables replaced; None after a problem."""
        if is_literal(node.text):
            return node.text
        self.check_placeholders(node, key)
        try:
            text = expand(self.instance_text(node), self.environ)
        except InterpolationError as error:
            self.note(node, key, str(error), error.suggestion)
            return None
        if "\0" in text:
            self.note(node, key, "contains a NUL character", "remove it")
            return None
        return text


def is_literal(text: str) -> bool:
    """Return whether a text holds no variable, no placeholder and no NUL."""
    return "$" not in text and "{{" not in text and "\0" not in text


class Kind:
    """One kind of value."""

    wanted = "a value"

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        raise NotImplementedError

    def schema(self) -> Schema:
        raise NotImplementedError

    def spell(self, value: Any) -> Any:
        """Return a value as a user would write it."""
        return value

    def refuse(self, node: Node, key: str, reading: Reading) -> None:
        reading.note(node, key, f"this is {describe(node)}, not {self.wanted}", f"{self.hint()}")

    def hint(self) -> str:
        return f"write {self.wanted}"


def describe(node: Node) -> str:
    match node:
        case Scalar():
            return "empty" if node.is_null else quote_value(node.text)
        case ListNode():
            return "a list"
        case Table():
            return "a mapping"


class ScalarKind(Kind):
    """A kind that is written as a single value.

    `convert` raises ValueError with «problem; remedy».
    """

    is_secret = False

    def convert(self, text: str) -> Any:
        raise NotImplementedError

    def read(self, node: Node, key: str, reading: Reading) -> Any:
        if not isinstance(node, Scalar):
            return self.refuse(node, key, reading)
        known = (self, node.text)
        if known in reading.converted:
            return reading.converted[known]
        text = reading.expand(node, key)
        if text is None:
            return None
        try:
            value = self.convert(text)
            if is_literal(node.text):
                reading.converted[known] = value
            return value
        except ValueError as error:
            # The value of a variable may be a secret. The report repeats the written text instead.
            shown = str(error).replace(f'"{text}"', quote_value(node.text))
            message, _, suggestion = shown.partition("; ")
            repeated = None if self.is_secret else node.text[:200]
            reading.note(node, key, message, suggestion, repeated)
            return None
