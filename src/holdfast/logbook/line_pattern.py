"""A regular expression for lines as they are shown, and a quick search for the lines to try it on.

Most expressions contain a text without which no line matches. To find a text in many bytes takes a
hundredth of the time of a regular expression, so only lines that contain it are tried. Where no
such text is known, every line is tried: the result is always the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.logbook.plain_text import is_shown_whole, shown
from holdfast.system.patterns import pattern

_MOST_TEXTS = 8
_QUANTIFIERS = pattern(r"(?:[*+?]|\{(?:[0-9]+(?:,[0-9]*)?|,[0-9]*)\})+")
_ANYTHING = pattern(r"[.^$]|\\[bBdDsSwWAZ]|\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)
_LITERAL = pattern(r"[^\\.^$*+?\[()|]|\\[^A-Za-z0-9]", re.DOTALL)
_IN_GROUP = pattern(r"[^\\()\[]+|\\.|\[\^?\]?(?:[^\]\\]|\\.)*\]|(?P<open>\()|\)", re.DOTALL)
_FLAGS_OR_COMMENT = pattern(r"\(\?(?:[a-zA-Z-]+\)|#)")


class RequiredTexts(NamedTuple):
    """At least one of these texts is in everything that an expression matches."""

    texts: list[str]
    is_all: bool
    """Whether the expression matches just where one of them is."""
    ignores_case: bool


class LineTexts:
    """Selects the lines that an expression may match, for a caller that tries it elsewhere."""

    def __init__(self, expression: str) -> None:
        found = required_texts(expression)
        self.texts = [] if found is None else [text.encode() for text in found.texts]
        """One of them is in every line that matches; none if no such text is known."""
        self._is_text = found is not None and found.is_all and not found.ignores_case
        self._ignores_case = found is not None and found.ignores_case

    def matches(self, line: bytes) -> bool:
        return bool(self.candidates(line + b"\n"))

    def select(self, lines: bytes) -> bytes:
        """Return those of these lines that match. Each has its line end."""
        return self.candidates(lines)

    def candidates(self, lines: bytes) -> bytes:
        """Return those of these lines that may match. Each has its line end."""
        if not self.texts or (self._ignores_case and not lines.isascii()):
            return lines
        if is_shown_whole(lines):
            return _lines_with(self.texts, self._folded(lines), lines)
        every = zip(
            _split(lines),
            _split(self._folded(lines)),
            _split(self._folded(shown(lines))),
            strict=True,
        )
        found = [
            line
            for line, own, text in every
            if b"\r" in own or any(one in text or one in own for one in self.texts)
        ]
        return b"\n".join([*found, b""])

    def _folded(self, lines: bytes) -> bytes:
        return lines.lower() if self._ignores_case else lines


class LinePattern(LineTexts):
    """Selects the lines that an expression matches. Raises re.error for a text that is none."""

    def __init__(self, expression: str) -> None:
        super().__init__(expression)
        self._search = re.compile(expression).search

    def matches(self, line: bytes) -> bool:
        return self._search(shown(line).decode("utf-8", "replace")) is not None

    def select(self, lines: bytes) -> bytes:
        candidates = self.candidates(lines)
        if not candidates or (self._is_text and is_shown_whole(candidates)):
            return candidates
        texts = shown(candidates).decode("utf-8", "replace")[:-1].split("\n")
        found = [
            line
            for line, text in zip(_split(candidates), texts, strict=True)
            if self._search(text) is not None
        ]
        return b"\n".join([*found, b""])


def _split(lines: bytes) -> list[bytes]:
    return lines[:-1].split(b"\n")


def _lines_with(texts: list[bytes], searched: bytes, lines: bytes) -> bytes:
    """Return the lines that contain one of the texts."""
    spans: list[tuple[int, int]] = []
    for text in texts:
        place = searched.find(text)
        while place >= 0:
            end = searched.find(b"\n", place) + 1
            spans.append((searched.rfind(b"\n", 0, place) + 1, end))
            place = searched.find(text, end)
    if len(texts) > 1:
        spans = sorted(set(spans))
    return b"".join([lines[begin:end] for begin, end in _joined(spans)])


def _joined(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield spans, those that touch as one."""
    begin = end = 0
    for first, last in spans:
        if first != end:
            if end:
                yield begin, end
            begin = first
        end = last
    if end:
        yield begin, end


def required_texts(expression: str) -> RequiredTexts | None:
    """Read the texts from a valid expression; None if there are none or if it is not understood.
    Of each alternative the longest text is taken. Within groups nothing is looked for."""
    ignores_case = expression.startswith("(?i)")
    place = 4 if ignores_case else 0
    alternatives: list[list[str]] = [[""]]
    is_all = True
    while place < len(expression):
        if expression[place] == "|":
            alternatives.append([""])
            place += 1
            continue
        literal = _LITERAL.match(expression, place)
        after = literal.end() if literal else _behind_unknown(expression, place)
        if after is None:
            return None
        repetition = _QUANTIFIERS.match(expression, after)
        if literal and not repetition:
            alternatives[-1][-1] += literal[0][-1]
        else:
            alternatives[-1].append("")
            is_all = False
        place = repetition.end() if repetition else after
    texts = [max(alternative, key=len) for alternative in alternatives]
    if len(texts) > _MOST_TEXTS or not all(_is_searchable(text) for text in texts):
        return None
    if ignores_case:
        # Letters of other alphabets match some of ASCII without regard to case.
        if not all(text.isascii() for text in texts):
            return None
        texts = [text.lower() for text in texts]
    return RequiredTexts(texts, is_all, ignores_case)


def _is_searchable(text: str) -> bool:
    if not text or "\n" in text or "\ufffd" in text:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _behind_unknown(expression: str, place: int) -> int | None:
    """Return the place behind something that may match various texts; None if it is not
    understood."""
    if found := _ANYTHING.match(expression, place):
        return found.end()
    if expression[place] != "(" or _FLAGS_OR_COMMENT.match(expression, place):
        return None
    depth = 0
    while part := _IN_GROUP.match(expression, place):
        if expression.startswith("(?", place) and _FLAGS_OR_COMMENT.match(expression, place):
            return None
        place = part.end()
        if part["open"]:
            depth += 1
        elif part[0] == ")":
            depth -= 1
            if not depth:
                return place
    return None
