"""Reads small files and tells their digests, by which a changed file is recognised.

Reading is bounded and never waits for a writer.
"""

from __future__ import annotations

import errno
import os
import stat
from hashlib import sha256

ABSENT = "absent"
"""Stands for the digest of an optional file that does not exist."""


def read_content(path: str, most: int) -> bytes:
    """Return the bytes of a file, or `most` + 1 of a larger one; raises OSError.

    A pipe is refused, because reading it could wait for a writer.
    """
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is a pipe, not a file")
        return file.read(most + 1)


def digest_of(data: bytes | None) -> str:
    return ABSENT if data is None else sha256(data).hexdigest()


def digest_now(path: str, most: int) -> str:
    """Return the digest of a file as it is now."""
    try:
        return digest_of(read_content(path, most))
    except OSError:
        return ABSENT
