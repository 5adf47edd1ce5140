"""Keys of a keyboard as the bytes that a terminal sends for them."""

from __future__ import annotations

import re

from holdfast.vocabulary.errors import UsageError

_ESC = "\x1b"
_PLAIN = {
    "enter": "\r",
    "return": "\r",
    "tab": "\t",
    "shift-tab": f"{_ESC}[Z",
    "escape": _ESC,
    "esc": _ESC,
    "space": " ",
    "backspace": "\x7f",
    "delete": f"{_ESC}[3~",
    "insert": f"{_ESC}[2~",
    "pageup": f"{_ESC}[5~",
    "pagedown": f"{_ESC}[6~",
    **{f"f{number}": f"{_ESC}O{letter}" for number, letter in enumerate("PQRS", 1)},
    **{
        f"f{number}": f"{_ESC}[{code}~"
        for number, code in enumerate((15, 17, 18, 19, 20, 21, 23, 24), 5)
    },
}
_CURSOR = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
_MODIFIERS = {"shift": 1, "alt": 2, "ctrl": 4}
_CONTROLS = {"space": "\x00", "@": "\x00", "[": _ESC, "\\": "\x1c", "]": "\x1d", "_": "\x1f"}
KNOWN = (
    "enter tab shift-tab escape space backspace delete insert up down left right home end pageup "
    "pagedown f1…f12, ctrl-LETTER, alt-KEY"
)


def bytes_of(key: str, *, is_application: bool = False) -> str:
    """Return what a terminal sends for a key. Programs may ask for cursor keys in the form of
    applications. Raises UsageError for an unknown key."""
    name = re.sub(r"[\s_+]+", "-", key.strip().lower()) if len(key) > 1 else key
    name = name.replace("page-", "page").replace("control-", "ctrl-")
    name = re.sub(r"^arrow-?(?=[udlr])", "", name)
    if len(name) == 1:
        return key
    if name in _PLAIN:
        return _PLAIN[name]
    if name in _CURSOR:
        return f"{_ESC}{'O' if is_application else '['}{_CURSOR[name]}"
    *modifiers, last = name.split("-")
    if modifiers and all(one in _MODIFIERS for one in modifiers):
        if last in _CURSOR:
            number = 1 + sum(_MODIFIERS[one] for one in modifiers)
            return f"{_ESC}[1;{number}{_CURSOR[last]}"
        if modifiers == ["alt"] and (len(last) == 1 or last in _PLAIN):
            return _ESC + _PLAIN.get(last, last)
        if modifiers == ["ctrl"] and len(last) == 1 and last.isascii() and last.isalpha():
            return chr(ord(last) & 0x1F)
        if modifiers == ["ctrl"] and last in _CONTROLS:
            return _CONTROLS[last]
    raise UsageError(f'no key "{key[:40]}"', f"known: {KNOWN}")
