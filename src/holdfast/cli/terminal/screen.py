"""Colours, tables and the width of the terminal.

Nothing here knows a verb. Without a terminal there is no colour and nothing is shortened.
"""

from __future__ import annotations

import os
import sys

from holdfast.vocabulary.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_CODES = {
    "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36",
    "dim": "2", "bold": "1",
}  # fmt: skip

STATE_COLOURS = {
    "running": "green",
    "starting": "cyan",
    "stopping": "cyan",
    "pending": "cyan",
    "paused": "blue",
    "backoff": "yellow",
    "failed": "red",
    "exited": "dim",
    "stopped": "dim",
}

PREFIX_COLOURS = ("cyan", "yellow", "green", "magenta", "blue", "red")


class Paint:
    """Colours text, if colours are on."""

    __slots__ = ("is_on",)

    def __init__(self, *, is_on: bool) -> None:
        self.is_on = is_on

    def __call__(self, text: str, colour: str | None) -> str:
        if not self.is_on or not colour or not text:
            return text
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m"

    def state(self, state: str) -> str:
        return self(state, STATE_COLOURS.get(state))


PLAIN = Paint(is_on=False)


def counted(number: int, noun: str) -> str:
    """«1 service», «3 services»."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def process_list(processes: Sequence[Mapping[str, Any]]) -> str:
    """Processes by name and pid: «sleep (4711), sh (4712)»."""
    return ", ".join(f"{printable(process['name'])} ({process['pid']})" for process in processes)


def state_phrase(state: str, paint: Paint = PLAIN) -> str:
    """A state as it follows «is»: `running`, but `in backoff`."""
    return f"in {paint.state(state)}" if state == "backoff" else paint.state(state)


def paint_for(when: str, environ: Mapping[str, str], *, is_terminal: bool) -> Paint:
    if when == "auto":
        is_dumb = environ.get("TERM") == "dumb"
        return Paint(is_on=is_terminal and not environ.get("NO_COLOR") and not is_dumb)
    return Paint(is_on=when == "always")


def width() -> int | None:
    """The columns of the terminal; None if standard output is no terminal."""
    if not sys.stdout.isatty():
        return None
    try:
        columns = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return None
    return columns or None


def table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    paint: Paint,
    columns: int | None,
    state_column: int | None = None,
) -> list[str]:
    """Aligned lines. The last column gets the rest of the width, or a line of its own if that is
    little."""
    rows = [[printable(text) for text in row] for row in rows]
    last = len(heads) - 1
    widths = [
        max(len(heads[i]), max((len(row[i]) for row in rows), default=0)) for i in range(last)
    ]
    left = sum(widths) + 2 * last
    room = None if columns is None else columns - left
    is_narrow = room is not None and room < 24 and any(len(row[last]) > room for row in rows)
    shown = [paint(_join(heads, widths, drop_last=is_narrow), "bold")]
    for row in rows:
        cells = [text.ljust(widths[i]) for i, text in enumerate(row[:last])]
        if state_column is not None:
            cells[state_column] = paint(
                cells[state_column], STATE_COLOURS.get(row[state_column].strip())
            )
        if is_narrow:
            shown.append("  ".join(cells).rstrip())
            if row[last]:
                shown.append("  " + paint(cut(row[last], columns and columns - 2), "dim"))
        else:
            shown.append("  ".join([*cells, cut(row[last], room)]).rstrip())
    return shown


def cut(text: str, room: int | None) -> str:
    if room is None or len(text) <= room:
        return text
    return text[: max(1, room - 1)] + "…"


def _join(texts: Sequence[str], widths: Sequence[int], *, drop_last: bool) -> str:
    cells = [text.ljust(widths[i]) for i, text in enumerate(texts[:-1])]
    if not drop_last:
        cells.append(texts[-1])
    return "  ".join(cells).rstrip()
