"""A file that only its owner may read, replaced as a whole: a reader sees the old or the new."""

from __future__ import annotations

import os


def replace(path: str, data: bytes) -> None:
    """On disk when this returns; mode 0600."""
    temporary = f"{path}.{os.getpid()}.new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
