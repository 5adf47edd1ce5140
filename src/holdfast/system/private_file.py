"""A file that only its owner may read, replaced as a whole: a reader sees the old or the new."""

from __future__ import annotations

import os


def replace(path: str, data: bytes, *, is_synced: bool = True) -> None:
    """Mode 0600; on disk when this returns, unless the loss of power does not matter."""
    temporary = f"{path}.{os.getpid()}.new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if is_synced:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
