"""The difference of two texts as a unified diff, for people. Pure, and bounded in time."""

from __future__ import annotations

import difflib

from holdfast.rules.text.encoding import lines_of

CONTEXT = 3
MOST_LINES = 2000
"""So many lines between the first and the last difference are compared."""
LONGEST = 32_768


def unified(before: str, after: str, path: str) -> str:
    """Return the diff; a long one is cut, and says so."""
    old, new = lines_of(before), lines_of(after)
    start = _same(old, new)
    end = _same(old[start:][::-1], new[start:][::-1])
    first = max(0, start - CONTEXT)
    behind = max(0, end - CONTEXT)
    old, new = old[first : len(old) - behind], new[first : len(new) - behind]
    if max(len(old), len(new)) > MOST_LINES:
        became = f"about {len(old)} lines became {len(new)}: too many to compare"
        return f"--- {path}\n+++ {path}\n({became})\n"
    told: list[str] = []
    size = 0
    for line in difflib.unified_diff(old, new, path, path, n=CONTEXT):
        piece = _shifted(line, first) if line.startswith("@@") else line
        if not piece.endswith("\n"):
            piece += "\n\\ No newline at end of file\n"
        size += len(piece)
        if size > LONGEST:
            told.append("… (cut: the difference is long)\n")
            break
        told.append(piece)
    return "".join(told).encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _same(one: list[str], other: list[str]) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _shifted(header: str, by: int) -> str:
    """Return a header `@@ -l,n +l,n @@` with lines counted from the beginning of the file."""
    words = header.split()
    for place in (1, 2):
        start, comma, length = words[place][1:].partition(",")
        words[place] = f"{words[place][0]}{int(start) + by}{comma}{length}"
    return " ".join(words) + "\n"
