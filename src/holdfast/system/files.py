"""Files and folders of the keeper itself: private, and replaced as a whole or not at all.

Lets every refusal of the file system through as OSError.
"""

from __future__ import annotations

import errno
import os

from holdfast.system import lean_json
from holdfast.system.private_files import open_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def make_folder(path: str) -> None:
    """A folder of ours, or one that was there; not where another user could replace it."""
    os.makedirs(path, 0o700, exist_ok=True)
    for folder in (path, os.path.dirname(path)):
        if os.stat(folder).st_uid not in (os.geteuid(), 0):
            raise OSError(errno.EPERM, "it belongs to another user", folder)


def replace_file(path: str, data: bytes) -> None:
    """Readers see the old content or the new, also when the disk is full."""
    fresh = path + ".new"
    fd = open_plain(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        if os.write(fd, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
    finally:
        os.close(fd)
    os.rename(fresh, path)


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def json_lines(data: bytes) -> Iterator[dict[str, Any]]:
    """The objects of a file with one on each line. Anything else is passed over, such as a torn
    line, whose writer died inside it."""
    for line in data.split(b"\n"):
        try:
            entry = lean_json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry
