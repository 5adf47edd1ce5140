"""Turns bytes of a file into text and back without loss: encoding, byte order mark, line ends.

Pure.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

LOOKED_AT = 8192
"""A NUL among so many bytes at the beginning means that a file is no text."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LONE_LF = re.compile(r"(?<!\r)\n")


class NotText(ValueError):
    """These bytes are no text."""


class Form(NamedTuple):
    """How a text is written."""

    encoding: str = "utf-8"
    mark: bytes = b""
    ending: str | None = None
    """lf, crlf or mixed; None: it has one line at most."""


def mark_of(data: bytes) -> tuple[bytes, str]:
    """Return the byte order mark at the beginning, and the encoding that it means."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return mark, encoding
    return b"", "utf-8"


def is_binary(data: bytes) -> bool:
    mark, encoding = mark_of(data)
    return encoding == "utf-8" and b"\0" in data[len(mark) : LOOKED_AT]


def decode(data: bytes) -> tuple[str, Form]:
    """Return the text without its mark, and its form; bytes that are no UTF-8 survive."""
    if is_binary(data):
        raise NotText("it looks binary")
    mark, encoding = mark_of(data)
    if encoding == "utf-8":
        text = data[len(mark) :].decode(encoding, "surrogateescape")
    else:
        try:
            text = data[len(mark) :].decode(encoding)
        except UnicodeDecodeError as error:
            raise NotText(f"it is no valid {encoding}: {error.reason}") from None
    return text, Form(encoding, mark, ending_of(text))


def encode(text: str, form: Form) -> bytes:
    if form.encoding == "utf-8":
        return form.mark + text.encode("utf-8", "surrogateescape")
    return form.mark + text.encode(form.encoding)


def ending_of(text: str) -> str | None:
    both = text.count("\r\n")
    alone = text.count("\n") - both
    if both and alone:
        return "mixed"
    return "crlf" if both else "lf" if alone else None


def with_crlf(text: str) -> str:
    return _LONE_LF.sub("\r\n", text)


def in_form_of(text: str, form: Form) -> str:
    """Return a text with simple line ends in the form of the file."""
    return with_crlf(text) if form.ending == "crlf" else text


def lines_of(text: str) -> list[str]:
    """Return lines with their ends, split at line feeds only."""
    lines = text.split("\n")
    last = lines.pop()
    found = [line + "\n" for line in lines]
    return [*found, last] if last else found
