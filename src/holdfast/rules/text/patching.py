"""Whether the parts of a patch fit a text, and the text afterwards. Pure.

Every line must be there as the patch says; nothing is guessed. A part that does not fit at its line
may fit at exactly one other place after the part before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.rules.text import encoding
from holdfast.rules.text.edits import nearest, numbered
from holdfast.rules.text.unified_diff import Hunk

MOST_PLACES = 5
MOST_COMPARED = 20_000_000
"""So many lines are compared at most to find where the parts of a patch fit: about two seconds."""
_A_PLACE = 50
_A_REGION = 4_000_000
"""The cost of looking at a place, or for the nearest region, in lines."""


class Effort:
    """How much work is left to find where the parts of one patch fit."""

    def __init__(self, most: int = MOST_COMPARED) -> None:
        self._left = most

    def spend(self, lines: int) -> bool:
        """Return whether that much was left."""
        self._left -= lines
        return self._left >= 0


class Misfit(Exception):
    """Why a part does not fit."""

    def __init__(self, hunk: Hunk, reason: str, region: str = "") -> None:
        super().__init__(reason)
        self.hunk = hunk
        self.reason = reason
        self.region = region


class Patched(NamedTuple):
    """The text afterwards, and the largest distance between a part's line and its place."""

    text: str
    offset: int


def apply(text: str, form: encoding.Form, hunks: list[Hunk], effort: Effort) -> Patched:
    """Apply the parts; raises Misfit for the first that does not fit."""
    if form.ending == "crlf" and not any(_has_crlf(hunk) for hunk in hunks):
        hunks = [_with_crlf(hunk) for hunk in hunks]
    lines = encoding.lines_of(text)
    result: list[str] = []
    done = offset = furthest = 0
    for hunk in hunks:
        wanted = hunk.start - 1 if hunk.old else hunk.start
        place = _place(lines, hunk, wanted + offset, done, effort)
        offset = place - wanted
        furthest = max(furthest, abs(offset))
        result += lines[done:place]
        result += hunk.new
        done = place + len(hunk.old)
    result += lines[done:]
    if any(not line.endswith("\n") for line in result[:-1]):
        raise Misfit(hunks[-1], "it leaves a line without its end in the middle of the file")
    return Patched("".join(result), furthest)


def _place(lines: list[str], hunk: Hunk, expected: int, done: int, effort: Effort) -> int:
    if done <= expected <= len(lines) and _fits(lines, hunk.old, expected):
        return expected
    if not hunk.old:
        raise Misfit(hunk, f"there is no line {hunk.start} to insert after ({len(lines)} lines)")
    places = _elsewhere(lines, hunk.old, done, effort)
    if places is None:
        why = "it does not fit at line {}, and to look for another place takes too long"
        raise Misfit(hunk, why.format(hunk.start))
    if len(places) == 1:
        return places[0]
    if places:
        told = ", ".join(str(place + 1) for place in places[:MOST_PLACES])
        raise Misfit(hunk, f"it does not fit at line {hunk.start}, but at lines {told}")
    raise _misfit(lines, hunk, expected, effort)


def _fits(lines: list[str], old: list[str], place: int) -> bool:
    return lines[place : place + len(old)] == old


def _elsewhere(lines: list[str], old: list[str], done: int, effort: Effort) -> list[int] | None:
    """Return where else it fits; None if that takes too long to find out."""
    found: list[int] = []
    end = len(lines) - len(old) + 1
    if not effort.spend(len(lines) - done):
        return None
    for place in _all_of(lines, old[0], done, end):
        if not effort.spend(_A_PLACE + len(old)):
            return None
        if _fits(lines, old, place):
            found.append(place)
            if len(found) > MOST_PLACES:
                break
    return found


def _all_of(lines: list[str], line: str, begin: int, end: int) -> Iterator[int]:
    while begin < end:
        try:
            begin = lines.index(line, begin, end) + 1
        except ValueError:
            return
        yield begin - 1


def _misfit(lines: list[str], hunk: Hunk, expected: int, effort: Effort) -> Misfit:
    """Return what differs, at the line that the patch names or at the nearest region."""
    is_sought = effort.spend(_A_REGION)
    region = nearest("".join(lines), "".join(hunk.old)) if is_sought else None
    place = region.first - 1 if region is not None else max(0, min(expected, len(lines)))
    here = lines[place : place + len(hunk.old)]
    for number, (is_there, wanted) in enumerate(zip(here, hunk.old, strict=False)):
        if is_there != wanted:
            reason = f"line {place + number + 1} is {_quoted(is_there)}, not {_quoted(wanted)}"
            return Misfit(hunk, reason, numbered(here, place + 1))
    return Misfit(hunk, f"the file ends at line {len(lines)}", numbered(here, place + 1))


def _quoted(line: str) -> str:
    bare = line.rstrip("\n").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    cut = f"{bare[:100]}…" if len(bare) > 100 else bare
    return f'"{cut}"' + ("" if line.endswith("\n") else " without a line end")


def _has_crlf(hunk: Hunk) -> bool:
    return any(line.endswith("\r\n") for line in (*hunk.old, *hunk.new))


def _with_crlf(hunk: Hunk) -> Hunk:
    old, new = ([encoding.with_crlf(line) for line in lines] for lines in (hunk.old, hunk.new))
    return hunk._replace(old=old, new=new)
