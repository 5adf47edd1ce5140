"""Replaces pieces of a text; each must occur exactly once, unless all are meant. Pure.

All edits or none. For a piece that does not occur the error has the nearest region and its line
numbers; for one that occurs several times, the lines.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from holdfast.rules.text import encoding
from holdfast.vocabulary.errors import Conflict, Refused, UsageError

MOST_LINES_TOLD = 10
MOST_LINES_COMPARED = 20_000
MOST_LIKENESSES = 300
"""So many lines are compared letter by letter, which is slow."""
LONGEST_LINE_TOLD = 200
LARGEST_TEXT = 16 * 1024 * 1024
"""The most letters of a text after an edit; no larger file is written."""
MOST_PASSED = 2_000_000_000
"""The most letters that all edits of one call may pass over together: a few seconds."""


class Replacement(Protocol):
    """One edit."""

    @property
    def old(self) -> str: ...
    @property
    def new(self) -> str: ...
    @property
    def all(self) -> bool: ...


class Edited(NamedTuple):
    """The text afterwards, and how many places each edit changed."""

    text: str
    replaced: list[int]


def apply(text: str, form: encoding.Form, edits: Sequence[Replacement]) -> Edited:
    """Apply the edits; raises Conflict, with nothing changed, if a piece does not occur exactly
    once.
    """
    if not edits:
        raise UsageError("no edit is given", '{"edits": [{"old": "…", "new": "…"}]}')
    replaced = []
    passed = 0
    for number, edit in enumerate(edits, 1):
        passed += len(text)
        if passed > MOST_PASSED:
            raise Refused("so many edits of so large a file take too long", "send them in parts")
        if not edit.old:
            raise UsageError(
                f"edit {number}: old is empty", "write_file makes or replaces a whole file"
            )
        old, new = _in_form(text, form, edit)
        if old == new:
            raise UsageError(f"edit {number} changes nothing: old and new are the same")
        places = _places(text, old, MOST_LINES_TOLD + 1)
        if not places:
            raise _missing(text, number, len(edits), old)
        if len(places) > 1 and not edit.all:
            raise _ambiguous(text, number, len(edits), places)
        count = text.count(old) if edit.all else 1
        if len(text) + count * (len(new) - len(old)) > LARGEST_TEXT:
            raise Refused(f"edit {number} makes the file larger than {LARGEST_TEXT >> 20} MiB")
        replaced.append(count)
        text = text.replace(old, new) if edit.all else text.replace(old, new, 1)
    return Edited(text, replaced)


def _in_form(text: str, form: encoding.Form, edit: Replacement) -> tuple[str, str]:
    """Return the edit with the line ends of the file: its author need not know them."""
    if form.ending == "crlf":
        return encoding.with_crlf(edit.old), encoding.with_crlf(edit.new)
    if form.ending == "mixed" and "\n" in edit.old and edit.old not in text:
        old = encoding.with_crlf(edit.old)
        if old in text:
            return old, encoding.with_crlf(edit.new)
    return edit.old, edit.new


def _places(text: str, old: str, most: int) -> list[int]:
    """Return where it begins, overlapping places included: those are ambiguous, too."""
    found: list[int] = []
    place = text.find(old)
    while place >= 0 and len(found) < most:
        found.append(place)
        place = text.find(old, place + 1)
    return found


def _ambiguous(text: str, number: int, of: int, places: list[int]) -> Conflict:
    lines = [text.count("\n", 0, place) + 1 for place in places]
    more = " and more" if len(places) > MOST_LINES_TOLD else ""
    told = ", ".join(map(str, lines[:MOST_LINES_TOLD]))
    return Conflict(
        f"{_which(number, of)} matches {len(places)} places{more}: lines {told}{more}",
        "give more of what is around it, or all: true",
        {"edit": number, "lines": lines[:MOST_LINES_TOLD]},
    )


def _missing(text: str, number: int, of: int, old: str) -> Conflict:
    details: dict[str, Any] = {"edit": number}
    message = f"{_which(number, of)}: old is not in the file"
    region = nearest(text, old)
    if region is not None:
        details |= {"nearest": region.told, "first_line": region.first, "why": region.why}
        message += f"; {region.why}, lines {region.first} to {region.last}:\n{region.told}"
    return Conflict(message, "take the piece from the file as it is now", details)


def _which(number: int, of: int) -> str:
    return "the edit" if of == 1 else f"edit {number} of {of}"


class Region(NamedTuple):
    """Lines of a text, with their numbers."""

    first: int
    last: int
    why: str
    told: str


def nearest(text: str, old: str) -> Region | None:
    """Return the lines that resemble a piece most."""
    lines = text.split("\n")
    wanted = [line.strip() for line in old.strip("\n").split("\n")]
    stripped = [line.strip() for line in lines[:MOST_LINES_COMPARED]]
    folded, sought = ([line.casefold() for line in some] for some in (stripped, wanted))
    start = _by_equal_lines(folded, sought)
    why = "the nearest is"
    if start is None:
        start = _by_likeness(folded, sought)
    if start is None:
        return None
    first = max(0, start)
    last = min(len(lines), max(start + len(wanted), first + 1))
    if stripped[first:last] == wanted:
        why = "only its white space differs"
    elif folded[first:last] == sought:
        why = "only upper and lower case differ"
    return Region(first + 1, last, why, numbered(lines[first:last], first + 1))


def _by_equal_lines(lines: list[str], wanted: list[str]) -> int | None:
    """Return the beginning on which most of the wanted lines agree; blank ones do not count."""
    where: dict[str, list[int]] = {}
    for number, line in enumerate(wanted):
        if line:
            where.setdefault(line, []).append(number)
    votes: Counter[int] = Counter()
    for number, line in enumerate(lines):
        for offset in where.get(line, ())[:50]:
            votes[number - offset] += 1
    return max(votes, key=lambda start: (votes[start], -start)) if votes else None


def _by_likeness(lines: list[str], wanted: list[str]) -> int | None:
    """Return the line that is most like the longest wanted one."""
    number = max(range(len(wanted)), key=lambda n: len(wanted[n]))
    longest = wanted[number][:LONGEST_LINE_TOLD]
    if not longest:
        return None
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(longest)
    best, found, compared = 0.6, None, 0
    for place, line in enumerate(lines):
        matcher.set_seq1(line[:LONGEST_LINE_TOLD])
        if matcher.real_quick_ratio() <= best or matcher.quick_ratio() <= best:
            continue
        if (ratio := matcher.ratio()) > best:
            best, found = ratio, place - number
        compared += 1
        if compared == MOST_LIKENESSES:
            break
    return found


def numbered(lines: Sequence[str], first: int) -> str:
    """Return lines with their numbers, neither too many nor too long."""
    told = []
    for number, line in enumerate(lines[:MOST_LINES_TOLD], first):
        line = line.rstrip("\r\n").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        cut = f"{line[:LONGEST_LINE_TOLD]}…" if len(line) > LONGEST_LINE_TOLD else line
        told.append(f"{number}: {cut}")
    if len(lines) > MOST_LINES_TOLD:
        told.append(f"… {len(lines) - MOST_LINES_TOLD} more lines")
    return "\n".join(told)
