"""How answers read: for a model, so short, plain and bounded, and never cut in silence.

Owns what is done to text that came from elsewhere: escape sequences go, a progress bar is what
it showed last, equal lines are told once, secrets are hidden, and content is fenced.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from holdfast.secrets.redaction import redact

DEFAULT_BYTES = 8_000
MOST_BYTES = 64_000
FRAME_BYTES = 1_000
"""Room for what stands around content: head, fence, cursor."""
LONGEST_LINE = 2_000
_FOLD_AT = 3

# Sequences that move a cursor or set a colour, strings for the terminal, and lone escapes.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_FENCE = re.compile(r"`{3,}")


class Answer(NamedTuple):
    """What a tool says, and the same for programs where that is worth the words."""

    text: str
    structured: dict[str, Any] | None = None
    is_error: bool = False


def waits(notice: dict[str, Any]) -> Answer:
    """That something is done only when somebody approves it, and how."""
    text = f"{notice['message']}\nIt waits on, and is done when it is approved."
    return Answer(text, is_error=True)


def told(lines: Iterable[dict[str, Any]]) -> list[str]:
    """Lines of a log as they are shown. Secrets are hidden while it is whole: half of one, or
    a key of several lines, would not be recognised."""
    text = redact("\n".join(text_of(line) for line in lines))
    return folded(shortened(line) for line in text.split("\n")) if text else []


def in_one_line(name: str) -> str:
    """A name of a file, which may hold anything: no line and no direction of ours is its own."""
    if name.isprintable():
        return name
    escaped = (letter.encode("unicode_escape").decode() for letter in name)
    return "".join(a if a.isprintable() else b for a, b in zip(name, escaped, strict=True))


def older(lines: Iterable[dict[str, Any]]) -> int:
    """How many lines before these were left out, as their note says."""
    notes = (str(line["text"]) for line in lines if line.get("note") == "cut")
    return sum(int(text.split()[0]) for text in notes if text[:1].isdigit())


def cleaned(text: str) -> str:
    """A line as one would have read it on a screen."""
    if not text.isprintable():
        text = _CONTROLS.sub("", _overwritten(_ESCAPES.sub("", text)))
    return text


def _overwritten(text: str) -> str:
    """What stays of a line that was written over: its last state."""
    parts = [part for part in text.split("\r") if part.strip()]
    return parts[-1] if parts else ""


def text_of(line: dict[str, Any]) -> str:
    """A line of a log; bytes that are no text are shown as such."""
    text = str(line["text"])
    if line.get("encoding") == "base64":
        data = base64.b64decode(text[: len(text) // 4 * 4])
        text = data.decode("utf-8", "replace")
    if line.get("note"):
        return f"-- {text}"
    return cleaned(text)


def shortened(text: str, longest: int = LONGEST_LINE) -> str:
    """A line without its end, which is told."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]} … (at least {len(text) - longest} more characters)"


def folded(lines: Iterable[str]) -> list[str]:
    """Equal lines that follow each other, once and with their number."""
    told: list[str] = []
    last: str | None = None
    times = 0

    def tell() -> None:
        if last is None:
            return
        if times >= _FOLD_AT:
            told.extend((last, f"… x{times}"))
        else:
            told.extend([last] * times)

    for line in lines:
        if line == last:
            times += 1
            continue
        tell()
        last, times = line, 1
    tell()
    return told


def newest(lines: Sequence[str], max_bytes: int) -> tuple[list[str], int]:
    """The last lines that have room, and how many there were before them."""
    size = 0
    for count, line in enumerate(reversed(lines)):
        size += len(line.encode("utf-8", "replace")) + 1
        if size > max_bytes and count:
            return list(lines[-count:]), len(lines) - count
    return list(lines), 0


def oldest(lines: Sequence[str], max_bytes: int) -> list[str]:
    """The first lines that have room, but at least one."""
    size = 0
    for count, line in enumerate(lines):
        size += len(line.encode("utf-8", "replace")) + 1
        if size > max_bytes and count:
            return list(lines[:count])
    return list(lines)


def head_and_tail(lines: Sequence[str], max_bytes: int) -> list[str]:
    """The beginning and, twice as long, the end; what lies between is told."""
    if sum(len(line.encode("utf-8", "replace")) + 1 for line in lines) <= max_bytes:
        return list(lines)
    head: list[str] = []
    size = 0
    for line in lines:
        size += len(line.encode("utf-8", "replace")) + 1
        if size > max_bytes // 3:
            break
        head.append(line)
    tail, left_out = newest(lines[len(head) :], max_bytes - max_bytes // 3)
    return [*head, f"-- {left_out} lines left out --", *tail] if left_out else [*head, *tail]


def bounded(asked: int | None) -> int:
    """How many bytes an answer may have."""
    return max(200, min(asked or DEFAULT_BYTES, MOST_BYTES - FRAME_BYTES))


def capped(text: str, most: int = MOST_BYTES) -> str:
    """Whatever happens, no more than this; it is cut at a line, and told. A last line of ours,
    which says how to go on, stays."""
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


def fitting(structured: dict[str, Any]) -> dict[str, Any]:
    """What programs are told, no longer than what people are; if it was cut, that is told."""
    while len(json.dumps(structured, ensure_ascii=False).encode("utf-8", "replace")) > MOST_BYTES:
        name, longest = max(
            ((name, it) for name, it in structured.items() if isinstance(it, list)),
            key=lambda pair: len(pair[1]),
            default=("", []),
        )
        if not longest:
            return {"truncated": True}
        structured = {**structured, name: longest[: len(longest) // 2], "truncated": True}
    return structured


def fenced(lines: Sequence[str]) -> str:
    """What others wrote, between marks that it cannot contain."""
    text = "\n".join(lines)
    longest = max((len(mark) for mark in _FENCE.findall(text)), default=2)
    mark = "`" * (longest + 1)
    return f"{mark}\n{text}\n{mark}"


def seconds(value: float | None) -> str:
    """A duration as people say it."""
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
