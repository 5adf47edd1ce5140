"""Makes foreign text safe for a terminal and for our log. Standard library only.

No character of it can move the cursor, change colours, begin a line of ours or turn the direction
of reading.
"""

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
    """Return the text on one line, with every control character escaped."""
    return text if text.isprintable() else text.translate(_TABLE)


def printable_lines(text: str) -> str:
    """Do the same, but keep line ends and tabs."""
    return text if text.isprintable() else text.translate(_LINES)


def printable_colours(text: str) -> str:
    """Do the same for text of ours that may hold colours and no other sequences."""
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
    """Return JSON that holds no control sequence for a terminal."""
    return text if text.isprintable() else text.translate(_ESCAPES)


_ESCAPES = {code: f"\\u{code:04x}" for code in _CONTROLS if code >= 0x7F}
