"""What the files of a configuration hold: bounded, and without waiting for anybody."""

from __future__ import annotations

import errno
import os
import stat
from hashlib import sha256


def content_of(path: str, most: int) -> bytes:
    """The bytes of a file, one more than `most` of a larger one; raises OSError.

    A pipe without a writer would be waited for, so a pipe is refused.
    """
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is a pipe, not a file")
        return file.read(most + 1)


ABSENT = "absent"
"""Instead of the digest of a file that may be absent, and is."""


def note_source(sources: dict[str, str], path: str, data: bytes | None) -> None:
    """Put down what a file held. One that held something else a moment ago is not known."""
    digest = ABSENT if data is None else sha256(data).hexdigest()
    if sources.setdefault(path, digest) != digest:
        sources[path] = "changed while it was read"


def remedy_for(error: OSError) -> str:
    """What to do about a file that cannot be read."""
    match error:
        case IsADirectoryError():
            return "name a file in this folder"
        case PermissionError():
            return "allow yourself to read it, with chmod"
        case _:
            return "name another file"
