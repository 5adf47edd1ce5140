"""Files and folders of our own: readable by their owner only, plain, and replaced as a whole.

A folder, a FIFO, a socket or a device in the place of such a file is refused with an error that
names it. Opening one never blocks, as a FIFO would until somebody opens its other end. Every
refusal of the file system is raised as OSError. Standard library only.
"""

from __future__ import annotations

import errno
import os
import stat


class NotPlain(OSError):
    """Something else lies in the place of a file of ours."""


def open_plain(path: str, flags: int, mode: int = 0o600) -> int:
    """Open like `os.open`, close-on-exec. Raises NotPlain if this is no plain file."""
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise NotPlain(errno.EINVAL, "it is not a plain file; remove or rename it", path)


def read_plain(path: str, largest: int = -1) -> bytes:
    """Read the whole file, or at most `largest` bytes of it."""
    with open(open_plain(path, os.O_RDONLY), "rb") as file:
        return file.read(largest)


def replace_file(path: str, data: bytes, *, is_synced: bool = True) -> None:
    """Replace the content at once: readers see the old content or the new, also if the disk is
    full. The new content is on disk when this returns, unless `is_synced` is False."""
    temporary = f"{path}.{os.getpid()}.new"
    fd = open_plain(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            if is_synced:
                file.flush()
                os.fsync(fd)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def remove_torn(folder: str) -> None:
    """Remove what `replace_file` left in this folder when its process was killed. Never fails."""
    try:
        for name in os.listdir(folder):
            stem, _, pid = name.removesuffix(".new").rpartition(".")
            is_ours = name.endswith(".new") and stem and pid.isdecimal()
            if is_ours and not _is_there(int(pid)):
                os.unlink(os.path.join(folder, name))
    except OSError:
        return  # whoever comes next tries again


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def make_folder(path: str) -> None:
    """Make a private folder, or accept the one that is there. Raises OSError if another user could
    replace it."""
    os.makedirs(path, 0o700, exist_ok=True)
    for folder in (path, os.path.dirname(path)):
        if os.stat(folder).st_uid not in (os.geteuid(), 0):
            raise OSError(errno.EPERM, "it belongs to another user", folder)
