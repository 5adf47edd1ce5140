"""A copy of a log's file as it is shown, without control sequences, for ripgrep to read. Blocking.

Each line of the copy begins at the same offset as in the file, so a match needs no translation.
Behind a line stands a filler as long as what was removed: one carriage return, or a line of zero
bytes. A shown line has no zero byte, so a filler is never taken for output.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from typing import BinaryIO

from holdfast.logbook.plain_text import is_shown_whole, shown

LONGEST_LINE = 64 * 1024
"""A longer line may be copied as it is."""
_PREFIX = "search-"
_PIECE_BYTES = 64 * 1024


def write_copy(path: str, folder: str) -> str | None:
    """Return the path of the copy of a file; None if the file is gone."""
    try:
        source = open(path, "rb")  # noqa: SIM115
    except FileNotFoundError:
        return None
    with source:
        descriptor, copy = make_file(folder)
        try:
            with os.fdopen(descriptor, "wb") as target:
                _copy(source, target)
        except BaseException:
            os.unlink(copy)
            raise
    return copy


def make_file(folder: str) -> tuple[int, str]:
    """Open a file for the time of a search; return its descriptor and its path."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return tempfile.mkstemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=folder)


def remove_left(folder: str) -> None:
    """Remove the files of a process that was killed while it searched."""
    own = f"{_PREFIX}{os.getpid()}-"
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if name.startswith(_PREFIX) and not name.startswith(own):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))


def is_filler(line: bytes) -> bool:
    """Return whether a line of a copy only stands for removed bytes."""
    return line.startswith(b"\0")


def _copy(source: BinaryIO, target: BinaryIO) -> None:
    rest, is_long = b"", False
    while piece := source.read(_PIECE_BYTES):
        data = rest + piece
        end = data.rfind(b"\n") + 1
        if is_long:
            # The line that is copied as it is ends here, or goes on.
            first = data.find(b"\n") + 1 or len(data)
            target.write(data[:first])
            is_long, data, end = not data.endswith(b"\n", 0, first), data[first:], end - first
        if end > 0:
            target.write(aligned(data[:end]))
            data = data[end:]
        if len(data) > LONGEST_LINE:
            target.write(data)
            is_long, data = True, b""
        rest = data
    target.write(shown(rest))


def aligned(lines: bytes) -> bytes:
    """Return whole lines as they are shown, each at the offset where it was."""
    if is_shown_whole(lines):
        return lines
    pairs = zip(lines[:-1].split(b"\n"), shown(lines)[:-1].split(b"\n"), strict=True)
    return b"\n".join([*(text + _filler(len(line) - len(text)) for line, text in pairs), b""])


def _filler(removed: int) -> bytes:
    if removed < 2:
        return b"\r" * removed
    return b"\n" + b"\0" * (removed - 1)
