"""Texts of others on a terminal or in our log: no character of theirs moves the cursor, changes
colours, begins a line of ours or turns the direction of reading. Standard library only."""

from __future__ import annotations

_CONTROLS = (
    *range(0x20),
    *range(0x7F, 0xA0),
    *(0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)),
)
_TABLE = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _CONTROLS}
_TABLE.update({0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"})
_LINES = {code: text for code, text in _TABLE.items() if code not in (0x09, 0x0A)}
_COLOURS = frozenset({"\x1b[0m", "\x1b[1m", "\x1b[2m", *(f"\x1b[{n}m" for n in range(31, 37))})


def printable(text: str) -> str:
    """On one line: every control character as it is written in programs."""
    return text if text.isprintable() else text.translate(_TABLE)


def printable_lines(text: str) -> str:
    """The same where line ends and tabs are meant."""
    return text if text.isprintable() else text.translate(_LINES)


def printable_colours(text: str) -> str:
    """The same for what we have painted: colours may be in it, and nothing else."""
    if "\x1b" not in text:
        return printable_lines(text)
    first, *rest = text.split("\x1b")
    shown = [printable_lines(first)]
    for part in rest:
        code, end, after = f"\x1b{part}".partition("m")
        is_ours = code + end in _COLOURS
        shown.append(code + end + printable_lines(after) if is_ours else "\\x1b")
        if not is_ours:
            shown.append(printable_lines(part))
    return "".join(shown)


def json_text(text: str) -> str:
    """JSON of which a terminal cannot take anything for a control sequence."""
    return text if text.isprintable() else text.translate(_ESCAPES)


_ESCAPES = {code: f"\\u{code:04x}" for code in _CONTROLS if code >= 0x7F}
