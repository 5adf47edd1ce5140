"""Finds tools by a few words: BM25 over names, titles, descriptions and arguments. Pure.

Models search with a verb, an object and the service («create github issue»), so the name of a tool
counts most. A query that is a tool's exact name finds that tool first. The index of 200 tools is
made in about 20 ms and answers in less than one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_SATURATION = 1.2
_LENGTH = 0.6
_NAME, _TITLE, _SERVER, _TEXT, _ARGUMENTS = 3.0, 2.0, 1.0, 1.0, 0.5
LONGEST_SIGNATURE = 220
_MOST_ARGUMENTS = 8
_STOP_WORDS = frozenset({
    *("a", "an", "the", "of", "to", "in", "on", "at", "for", "from", "by", "with", "and", "or"),
    *("is", "are", "be", "it", "this", "that", "as", "into", "my", "me", "i", "you", "your", "we"),
    *("our", "which", "what", "who", "how", "can", "could", "please"),
})  # fmt: skip


class Searchable(NamedTuple):
    """A tool as it is found."""

    name: str
    server: str
    tool: str
    title: str
    text: str
    arguments: str

    @classmethod
    def of(cls, name: str, server: str, definition: Mapping[str, Any]) -> Searchable:
        properties = _properties(definition)
        described = (
            str(part.get("description") or "") if isinstance(part, dict) else ""
            for part in properties.values()
        )
        annotations = definition.get("annotations")
        title = definition.get("title")
        if not title and isinstance(annotations, dict):
            title = annotations.get("title")
        return cls(
            name,
            server,
            str(definition.get("name") or ""),
            str(title or ""),
            str(definition.get("description") or ""),
            " ".join([*properties, *described]),
        )


class Finder:
    """An index of tools."""

    def __init__(self, tools: Sequence[Searchable], more: Mapping[str, str] | None = None) -> None:
        """`more` are further search words by tool; no model ever sees them."""
        self.tools = tools
        self._documents = [_weigh(tool, (more or {}).get(tool.name, "")) for tool in tools]
        lengths = [sum(document.values()) for document in self._documents]
        self._average = sum(lengths) / len(lengths) if lengths else 1.0
        self._lengths = lengths
        self._postings: dict[str, list[int]] = {}
        for number, document in enumerate(self._documents):
            for word in document:
                self._postings.setdefault(word, []).append(number)

    def find(self, query: str, limit: int, among: set[str] | None = None) -> list[str]:
        """Return the names of the best tools, the best first; `among`: only of these."""
        scores: dict[int, float] = {}
        for word, times in Counter(words_of(query)).items():
            found = self._postings.get(word, ())
            if not found:
                continue
            count = len(self._documents)
            weight = math.log(1 + (count - len(found) + 0.5) / (len(found) + 0.5))
            for number in found:
                often = self._documents[number][word]
                length = 1 - _LENGTH + _LENGTH * self._lengths[number] / self._average
                share = often * (_SATURATION + 1) / (often + _SATURATION * length)
                scores[number] = scores.get(number, 0.0) + min(times, 2) * weight * share
        exact = query.strip().lower()
        for number, tool in enumerate(self.tools):
            if exact in (tool.name.lower(), tool.tool.lower()):
                scores[number] = scores.get(number, 0.0) + 1e6 + (exact == tool.name.lower())
        ranked = sorted(scores, key=lambda number: (-scores[number], self.tools[number].name))
        names = (self.tools[number].name for number in ranked)
        return [name for name in names if among is None or name in among][:limit]


def _weigh(tool: Searchable, more: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for text, weight in (
        (tool.tool, _NAME),
        (tool.title, _TITLE),
        (tool.server, _SERVER),
        (tool.text, _TEXT),
        (tool.arguments, _ARGUMENTS),
        (more, _TEXT),
    ):
        for word in words_of(text):
            weights[word] = weights.get(word, 0.0) + weight
    return weights


def words_of(text: str) -> list[str]:
    """Return the words of a text as they are compared: in lower case, without endings."""
    words = (word.lower() for word in _WORD.findall(text))
    return [_stem(word) for word in words if word not in _STOP_WORDS]


def _stem(word: str) -> str:
    """Remove the endings of English plurals and verbs; «files», «filing» and «filed» are one."""
    if len(word) <= 3:
        return word
    for ending, least in (("ies", 4), ("sses", 5), ("ing", 6), ("ed", 5), ("es", 5), ("s", 4)):
        if word.endswith(ending) and len(word) >= least and not word.endswith("ss"):
            word = word[: -len(ending)] + ("y" if ending == "ies" else "")
            if ending in ("ing", "ed") and len(word) > 3 and word[-1] == word[-2] != "l":
                word = word[:-1]
            break
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


def signature(name: str, definition: Mapping[str, Any]) -> str:
    """Return a tool on one line: name, arguments, and the first sentence of its description."""
    properties = _properties(definition)
    schema = definition.get("inputSchema") or {}
    required = [one for one in schema.get("required") or () if one in properties]
    optional = [one for one in properties if one not in required]
    shown = [f"{one}: {_kind(properties[one])}" for one in required]
    shown += [f"{one}?: {_kind(properties[one])}" for one in optional]
    if len(shown) > _MOST_ARGUMENTS:
        shown = [*shown[: max(_MOST_ARGUMENTS, len(required))], "…"]
    line = f"{name}({', '.join(shown)})"
    first = first_sentence(str(definition.get("description") or definition.get("title") or ""))
    room = max(40, LONGEST_SIGNATURE - len(line))
    if first:
        line += " - " + (first if len(first) <= room else first[: room - 1].rstrip() + "…")
    return line


def first_sentence(text: str) -> str:
    line = " ".join(text.split())
    end = re.search(r"(?<=[.!?])\s", line)
    return (line[: end.start()] if end else line).rstrip(".")


def tokens_of(definitions: Iterable[Any]) -> int:
    """Return about how many tokens definitions take of a model's context: a quarter of their
    characters as JSON."""
    import json

    return (
        sum(len(json.dumps(one, separators=(",", ":"), ensure_ascii=False)) for one in definitions)
        // 4
    )


def _properties(definition: Mapping[str, Any]) -> dict[str, Any]:
    schema = definition.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}


_SHORT = {"string": "str", "integer": "int", "number": "num", "boolean": "bool", "object": "obj"}


def _kind(part: Any) -> str:
    if not isinstance(part, dict):
        return "any"
    kind = part.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), None)
    if kind is None:
        choices = part.get("anyOf") or part.get("oneOf") or ()
        plain = [one for one in choices if isinstance(one, dict) and one.get("type") != "null"]
        return _kind(plain[0]) if plain else "any"
    if kind == "array":
        items = part.get("items")
        return f"[{_kind(items)}]" if isinstance(items, dict) else "list"
    return _SHORT.get(str(kind), str(kind))
