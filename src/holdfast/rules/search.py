"""How a search is passed to ripgrep, and how much of a line is shown. Pure.

What a caller gives stands after an option's own `=` or after `--`: it is never an option itself,
and no settings file is read.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.search import Search, SearchLogs

LONGEST_SHOWN = 400
"""So many bytes of a line are shown."""
_BEFORE = 120
_LONGEST_CURSOR = 8192
_ALWAYS = ("--no-config", "--color=never", "--no-follow", "--no-mmap", "--threads=1")
_AS_BYTES = ("--text", "--encoding=none", "--no-ignore", "--hidden")
_CONTROLS = r"(?-u:[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f])"
_CASES = {
    "smart": "--smart-case",
    "sensitive": "--case-sensitive",
    "ignore": "--ignore-case",
}
_MODES = {
    "content": ("--json",),
    "files": ("--files-with-matches", "--null"),
    "count": ("--count", "--null", "--with-filename"),
}


def words_for_files(command: Search, excluded: Sequence[str], target: str) -> list[str]:
    """Return the arguments; `excluded` are globs that nothing brings back."""
    words = [*_ALWAYS, "--sort=path", "--one-file-system", "--no-require-git"]
    words += [*_MODES[command.mode], *_pattern(command)]
    if command.mode == "content" and command.context:
        words.append(f"--context={command.context}")
    if command.hidden:
        words.append("--hidden")
    words += [f"--type={name}" for name in command.type]
    words += [f"--glob={glob}" for glob in command.glob]
    words += [f"--glob=!{glob}" for glob in excluded]
    return [*words, "--", target]


def words_for_proof(command: Search, paths: Sequence[str]) -> list[str]:
    """Return the arguments to count the matching lines of these very files."""
    return [*_ALWAYS, *_MODES["count"], *_pattern(command), "--", *paths]


def words_for_logs(command: SearchLogs, most: int | None, paths: Sequence[str]) -> list[str]:
    """Return the arguments; `most` is the number of lines of each file that can matter."""
    words = [*_ALWAYS, *_AS_BYTES, "--json", *([] if command.raw else ["--crlf"])]
    words += [*_pattern(command), *([] if most is None else [f"--max-count={most}"])]
    return [*words, "--", *paths]


def words_for_controls(paths: Sequence[str]) -> list[str]:
    """Return the arguments to list those of these files that are not shown byte for byte."""
    return [*_ALWAYS, *_AS_BYTES, *_MODES["files"], f"--regexp={_CONTROLS}", "--", *paths]


def _pattern(command: Search | SearchLogs) -> list[str]:
    literal = ["--fixed-strings"] if command.literal else []
    return [_CASES[command.case], *literal, f"--regexp={command.pattern}"]


class Shown(NamedTuple):
    text: str
    is_cut: bool


def shown_line(line: bytes, start: int, most: int = LONGEST_SHOWN) -> Shown:
    """Return a line, or the part of it around a place."""
    line = line.rstrip(b"\r\n")
    if len(line) <= most:
        return Shown(line.decode("utf-8", "replace"), False)
    first = max(0, min(start - _BEFORE, len(line) - most))
    last = min(len(line), first + most)
    while first > 0 and first < len(line) and line[first] & 0xC0 == 0x80:
        first += 1
    while last < len(line) and line[last] & 0xC0 == 0x80:
        last -= 1
    text = line[first:last].decode("utf-8", "replace")
    return Shown(("…" if first else "") + text + ("…" if last < len(line) else ""), True)


class FilePlace(NamedTuple):
    """The last line that was shown."""

    path: str
    line: int

    def key(self) -> tuple[list[bytes], int]:
        return path_key(self.path), self.line

    def encode(self) -> str:
        return _encoded([self.path.encode("utf-8", "surrogateescape").hex(), self.line])


def path_key(path: str) -> list[bytes]:
    """Return a key that sorts paths as ripgrep does: name by name."""
    return path.encode("utf-8", "surrogateescape").split(b"/")


def file_place(text: str | None) -> FilePlace | None:
    if text is None:
        return None
    match _decoded(text):
        case [str(path), int(line)]:
            try:
                name = bytes.fromhex(path).decode("utf-8", "surrogateescape")
            except ValueError:
                raise _no_cursor() from None
            return FilePlace(name, line)
    raise _no_cursor()


class LogPlace(NamedTuple):
    """The last line that was shown: a position in the log of a service."""

    service: str
    position: int

    def encode(self) -> str:
        return _encoded([self.service, self.position])


def log_place(text: str | None) -> LogPlace | None:
    if text is None:
        return None
    match _decoded(text):
        case [str(service), int(position)] if 0 <= position < 1 << 62:
            return LogPlace(service, position)
    raise _no_cursor()


def _encoded(value: list[object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _decoded(text: str) -> object:
    if len(text) > _LONGEST_CURSOR:
        raise _no_cursor()
    try:
        data = base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
        found: object = json.loads(data)
    except (binascii.Error, ValueError, RecursionError):
        raise _no_cursor() from None
    return found


def _no_cursor() -> UsageError:
    return UsageError("this is no cursor", "use the one that an answer gave")
