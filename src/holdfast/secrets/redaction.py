"""Redaction: what a secret is replaced by, in bytes, texts, arguments, values and addresses.

Code that shows an environment, arguments, an address or a line of output passes it through here.
To *redact* puts the word `[hidden]` in the place of a secret. To *mask* overwrites it, so that
every byte and every line stays where it is. Each process sets the values that are configured as
secrets and keeps them in its memory only. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from holdfast.secrets.finder import Finder
from holdfast.secrets.private_keys import KeyBlock, Span
from holdfast.system.patterns import pattern

HIDDEN = "[hidden]"
SHORTEST_VALUE = 6
"""Shorter values would hide half of what is printed."""
SECRET_NAME = pattern(
    r"secret|token|passw|pwd|api_?key|apikey|access_?key|private|credential|auth|cookie"
    r"|signature|salt|dsn|(^|_)key($|_)|database_url|connection|webhook",
    re.IGNORECASE,
)
_HIDDEN = HIDDEN.encode()
_MASK = pattern(re.escape(_HIDDEN) + rb"\*+")
_SHORTEST_FIELD = 10
_LEAST_BEGINNING = 3
_FLAG = pattern(r"-{1,2}[\w.-]+")
_SHOWN_VARIABLES = frozenset({
    "CI", "COLUMNS", "DEBUG", "DISPLAY", "HOME", "HOST", "HOSTNAME", "LANG", "LANGUAGE", "LINES",
    "LOGNAME", "NODE_ENV", "OLDPWD", "PATH", "PORT", "PWD", "PYTHONPATH", "PYTHONUNBUFFERED",
    "RAILS_ENV", "RUST_LOG", "SHELL", "SHLVL", "TERM", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV",
    "WAYLAND_DISPLAY",
})  # fmt: skip
_SHOWN_PREFIXES = ("LC_", "XDG_", "HOLDFAST_")


class Redactor:
    """Redacts bytes: secrets of a known format or name, and these values wherever they are."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        known = {value.encode("utf-8", "surrogatepass") for value in values}
        self._values = sorted(
            (value for value in known if len(value) >= SHORTEST_VALUE), key=len, reverse=True
        )
        self._finder: Finder | None = None

    def redact(self, data: bytes) -> bytes:
        """Put a word in the place of each secret. Returns the same object if there is none."""
        spans = self._find(data)
        if not spans:
            return data
        parts, place = list[bytes](), 0
        for start, end in spans:
            parts += [data[place:start], _HIDDEN]
            place = end
        return b"".join((*parts, data[place:]))

    def redact_lines(self, lines: bytes, block: KeyBlock | None = None) -> bytes:
        """Put a word in the place of each secret; the lines stay lines. `block` is the private key
        that is open where they begin. Returns the same object if there is no secret."""
        spans = self._find(lines, block=block)
        if not spans:
            return lines
        parts, place = list[bytes](), 0
        for span in spans:
            for start, end in _within_lines(lines, *span):
                parts += [lines[place:start], _HIDDEN]
                place = end
        return b"".join((*parts, lines[place:]))

    def mask(
        self, data: bytes, *, is_terminal: bool = False, block: KeyBlock | None = None
    ) -> bytes:
        """Overwrite secrets: as many bytes as before, and as many lines. Returns the same object if
        there is none. `block` is the private key that is open where the bytes begin."""
        spans = self._find(data, is_terminal=is_terminal, block=block)
        if not spans:
            return data
        masked = bytearray(data)
        for start, end in spans:
            for begin, stop in _within_lines(data, start, end):
                masked[begin:stop] = _mask(stop - begin)
        return bytes(masked)

    def unfinished_value(self, data: bytes) -> int:
        """Return how many bytes at the end are the beginning of a value, but not all of it."""
        longest = 0
        for value in self._values:
            most = min(len(value) - 1, len(data))
            place = max(0, len(data) - most)
            # Where the first bytes of the value are near the end, all that follows must be of it.
            while (place := data.find(value[:_LEAST_BEGINNING], place)) >= 0:
                if value.startswith(data[place:]):
                    longest = max(longest, len(data) - place)
                    break
                place += 1
        return longest

    def _find(
        self, data: bytes, *, is_terminal: bool = False, block: KeyBlock | None = None
    ) -> list[Span]:
        if self._finder is None:
            self._finder = Finder(self._values)
        return self._finder.find(data, is_terminal=is_terminal, block=block)


def shorten_masks(masked: bytes) -> bytes:
    """Replace each mask by the word alone, where the number of bytes need not stay."""
    return _MASK.sub(_HIDDEN, masked) if _HIDDEN + b"*" in masked else masked


def _mask(size: int) -> bytes:
    return _HIDDEN + b"*" * (size - len(_HIDDEN)) if size >= len(_HIDDEN) else b"*" * size


def _within_lines(data: bytes, start: int, end: int) -> Iterator[Span]:
    """Yield the parts of a span that contain no line end."""
    while (stop := data.find(b"\n", start, end)) >= 0:
        if stop > start:
            yield start, stop
        start = stop + 1
    if end > start:
        yield start, end


class _Current:
    """The redactor of this process, with the configured values."""

    redactor = Redactor()


def set_values(values: Iterable[str]) -> None:
    """Redact these values, wherever they are, from now on."""
    _Current.redactor = Redactor(values)


def redactor() -> Redactor:
    """Return the redactor of this process. Ask again for each piece: the values may change."""
    return _Current.redactor


def is_secret_name(name: str) -> bool:
    """Return whether a value under this name is a secret."""
    return SECRET_NAME.search(name) is not None


def redact(text: str) -> str:
    """Redact a text."""
    data = text.encode("utf-8", "surrogatepass")
    shown = _Current.redactor.redact(data)
    return text if shown is data else shown.decode("utf-8", "surrogatepass")


def redact_arguments(words: Iterable[str]) -> list[str]:
    """Redact the words of a command, also the word behind a flag such as `--token`."""
    shown: list[str] = []
    is_next = False
    for word in words:
        shown.append(HIDDEN if is_next and not _FLAG.fullmatch(word) else redact(word))
        is_next = bool(_FLAG.fullmatch(word)) and is_secret_name(word.replace("-", "_"))
    return shown


def redact_value(value: Any) -> Any:
    """Redact all texts in a value of any type, and every text under the name of a secret."""
    match value:
        case str():
            return redact(value)
        case Mapping():
            return {
                key: HIDDEN
                if isinstance(key, str) and isinstance(item, str) and is_secret_name(key)
                else redact_value(item)
                for key, item in value.items()
            }
        case list() | tuple():
            return [redact_value(item) for item in value]
        case _:
            return value


def redact_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Redact the fields of an event in place, except texts too short to contain a secret."""
    for name, value in fields.items():
        if isinstance(value, str):
            if len(value) >= _SHORTEST_FIELD:
                fields[name] = redact(value)
        elif isinstance(value, (list, dict, tuple)):
            fields[name] = redact_value(value)
    return fields


def shown_address(url: str) -> str:
    """Return scheme and host of a URL. Its path and query often contain the secret."""
    found = re.match(r"([a-z][a-z0-9+.-]*)://(?:[^/?#@]*@)?([^/?#@]*)", url, re.IGNORECASE)
    return f"{found[1]}://{found[2]}" if found else HIDDEN


def shown_environment(environ: Mapping[str, str]) -> dict[str, str | None]:
    """Return every name, with its value if that is surely no secret, else with None."""
    return {
        name: redact(value) if _is_shown(name) else None for name, value in sorted(environ.items())
    }


def _is_shown(name: str) -> bool:
    if name in _SHOWN_VARIABLES:
        return True
    return name.startswith(_SHOWN_PREFIXES) and not is_secret_name(name)
