"""The text of answers: for a model, so it is short, plain and bounded, and every cut is marked.

Text of services and files is cleaned here: escape sequences are removed, a progress bar becomes
its last state, repeated lines become one, secrets are redacted, and content is fenced. Hints are
written for every door, with names of commands and verbs; here they are rewritten for tools.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

from holdfast.logbook.plain_text import shown
from holdfast.secrets.redaction import redact
from holdfast.vocabulary.command import Effect
from holdfast.vocabulary.commands import COMMANDS

DEFAULT_BYTES = 8_000
MOST_BYTES = 64_000
FRAME_BYTES = 1_000
"""Room for the text around content: head, fence, cursor."""
LONGEST_LINE = 2_000
_MARK = "-- at "
_MARK_SECONDS = 60.0
_FOLD_AT = 3

_FENCE = re.compile(r"`{3,}")

_FILES = {"list_files": "read", "read_file": "read", "write_file": "write", "edit_file": "edit"}
_ACTIONS = ("start", "stop", "restart", "pause", "resume")
_VERBS = {
    "status": "`status`",
    "logs": "`logs`",
    "explain": "`status` with detail",
    **{verb: f"`control` with action {verb}" for verb in _ACTIONS},
}
_COMMAND = re.compile(rf"`?\b(git_(?:stash drop|[a-z]+)|{'|'.join(_FILES)})\b`?")
_VERB = re.compile(r"`holdfast ([a-z]+)[^`]*`")
_USELESS = "see the reference of"


class Image(NamedTuple):
    """A picture, which clients show to their model as one."""

    base64: str
    kind: str
    """Its media type."""


class Answer(NamedTuple):
    """A tool's answer. It has no structured content beside its text: clients disagree about which
    of the two their model sees, and one form cannot say less than the other."""

    text: str
    is_error: bool = False
    image: Image | None = None


def awaits_approval(notice: dict[str, Any]) -> Answer:
    """Say that a command waits for approval, and how to approve it."""
    more = (
        "It waits on, and is done when it is approved. status with names "
        f'["{notice["approval"]}"] tells what became of it; the same call again joins it.'
    )
    return Answer(f"{notice['message']}\n{more}", is_error=True)


def show_lines(lines: Iterable[dict[str, Any]]) -> list[str]:
    """Return lines of a log as a model sees them. They are redacted as a whole, because half of
    a secret, or one line of a key, would not be recognised."""
    text = redact("\n".join(line_text(line) for line in lines))
    return fold_repeats(shorten(line) for line in text.split("\n")) if text else []


def marked_lines(lines: Iterable[dict[str, Any]]) -> list[str]:
    """Return lines as `show_lines` does, with marks: when they were printed, and in which run."""
    shown: list[str] = []
    group: list[dict[str, Any]] = []
    marked: tuple[int, float] | None = None
    for line in lines:
        run, time = line.get("run") or 0, line.get("time") or 0.0
        is_due = marked is None or run != marked[0] or time >= marked[1] + _MARK_SECONDS
        if is_due and not line.get("note"):
            shown += show_lines(group)
            group, marked = [], (run, time)
            shown.append(f"{_MARK}{format_moment(time)}, run {run}")
        group.append(line)
    return [*shown, *show_lines(group)]


def is_mark(line: str) -> bool:
    return line.startswith(_MARK)


def newest_marked(lines: Sequence[str], max_bytes: int) -> tuple[list[str], int]:
    """Return the newest lines that fit, begun by their mark, and how many lines are left out."""
    kept, left_out = newest_lines(lines, max_bytes - len(_MARK) - 40)
    before = lines[:left_out]
    if before and not is_mark(kept[0]):
        kept = [next(filter(is_mark, reversed(before))), *kept]
    return kept, sum(not is_mark(line) for line in before)


def escape_name(name: str) -> str:
    """Escape the name of a file, which may hold line ends and control characters."""
    if name.isprintable():
        return name
    escaped = (letter.encode("unicode_escape").decode() for letter in name)
    return "".join(a if a.isprintable() else b for a, b in zip(name, escaped, strict=True))


def count_older(lines: Iterable[dict[str, Any]]) -> int:
    """Return how many older lines were left out, as their note says."""
    notes = (str(line["text"]) for line in lines if line.get("note") == "cut")
    return sum(int(text.split()[0]) for text in notes if text[:1].isdigit())


def clean(text: str) -> str:
    """Return a line as a screen would show it."""
    if not text.isprintable():
        text = shown(text.encode("utf-8", "replace")).decode("utf-8", "replace")
    return text


def line_text(line: dict[str, Any]) -> str:
    """Return the text of a log line; bytes that are no text become U+FFFD."""
    text = str(line["text"])
    if line.get("encoding") == "base64":
        data = base64.b64decode(text[: len(text) // 4 * 4])
        text = data.decode("utf-8", "replace")
    if line.get("note"):
        return f"-- {text}"
    return clean(text)


def shorten(text: str, longest: int = LONGEST_LINE) -> str:
    """Cut a long line, and say how much is missing."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]} … (at least {len(text) - longest} more characters)"


def fold_repeats(lines: Iterable[str]) -> list[str]:
    """Return repeated lines once, with their number."""
    found: list[str] = []
    last: str | None = None
    times = 0

    def add() -> None:
        if last is None:
            return
        if times >= _FOLD_AT:
            found.extend((last, f"… x{times}"))
        else:
            found.extend([last] * times)

    for line in lines:
        if line == last:
            times += 1
            continue
        add()
        last, times = line, 1
    add()
    return found


def newest_lines(lines: Sequence[str], max_bytes: int) -> tuple[list[str], int]:
    """Return the last lines that fit, and how many were left out before them."""
    size = 0
    for count, line in enumerate(reversed(lines)):
        size += len(line.encode("utf-8", "replace")) + 1
        if size > max_bytes and count:
            return list(lines[-count:]), len(lines) - count
    return list(lines), 0


def oldest_lines(lines: Sequence[str], max_bytes: int) -> list[str]:
    """Return the first lines that fit, but at least one."""
    size = 0
    for count, line in enumerate(lines):
        size += len(line.encode("utf-8", "replace")) + 1
        if size > max_bytes and count:
            return list(lines[:count])
    return list(lines)


def head_and_tail(lines: Sequence[str], max_bytes: int) -> list[str]:
    """Return the beginning and, twice as long, the end; say how much is missing between them."""
    if sum(len(line.encode("utf-8", "replace")) + 1 for line in lines) <= max_bytes:
        return list(lines)
    head: list[str] = []
    size = 0
    for line in lines:
        size += len(line.encode("utf-8", "replace")) + 1
        if size > max_bytes // 3:
            break
        head.append(line)
    tail, left_out = newest_lines(lines[len(head) :], max_bytes - max_bytes // 3)
    return [*head, f"-- {left_out} lines left out --", *tail] if left_out else [*head, *tail]


def bound_bytes(asked: int | None) -> int:
    """Return how many bytes an answer may have."""
    return max(200, min(asked or DEFAULT_BYTES, MOST_BYTES - FRAME_BYTES))


def cap(text: str, most: int = MOST_BYTES) -> str:
    """Cut a text at the end of a line, and say so. A last line of ours, which says how to
    continue, stays."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return data.decode()
    frame = min(FRAME_BYTES, most // 2)
    end = text[text.rfind("\n") :]
    if not end.startswith("\n-- ") or len(end.encode("utf-8", "replace")) > frame // 2:
        end = ""
    kept = data[: most - frame].decode("utf-8", "ignore")
    line_end = kept.rfind("\n")
    if line_end > most // 2:
        kept = kept[:line_end]
    left_out = len(data) - len((kept + end).encode("utf-8", "replace"))
    return f"{kept}\n-- cut: {left_out} bytes left out{end}"


def fence(lines: Sequence[str]) -> str:
    """Put text of others between marks that it cannot contain."""
    text = "\n".join(lines)
    longest = max((len(mark) for mark in _FENCE.findall(text)), default=2)
    mark = "`" * (longest + 1)
    return f"{mark}\n{text}\n{mark}"


def format_seconds(value: float | None) -> str:
    """Write a duration as people say it."""
    if value is None:
        return "-"
    if value < 10:
        return f"{value:.1f}s"
    if value < 120:
        return f"{value:.0f}s"
    minutes = int(value // 60)
    if minutes < 120:
        return f"{minutes}m"
    return f"{minutes // 60}h" if minutes < 48 * 60 else f"{minutes // 1440}d"


def format_moment(seconds: float) -> str:
    """Write a time of unix seconds so that it can be compared with others."""
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def rewrite_hint(hint: str) -> str:
    """Return a hint in words of the tools; mark what only the user can do."""
    if hint.startswith(_USELESS):
        return ""
    text = _VERB.sub(lambda found: _VERBS.get(found[1], found[0]), _COMMAND.sub(_tool, hint))
    return f"for the user: {text}" if "`holdfast " in text else text


def _tool(found: re.Match[str]) -> str:
    name = found[1]
    if name in _FILES:
        return f"`{_FILES[name]}`"
    operation = name.removeprefix("git_").replace(" ", "_")
    if operation == "change":
        return found[0]
    command = COMMANDS.get(name.partition(" ")[0])
    is_reading = command is not None and command.effect is Effect.READS
    tool = "git" if is_reading else "git_change"
    return f"`{tool}` with op {operation}"
