"""Replaces files within one open folder: atomically, and never through a hard link.

Works only on names beneath the descriptor of a folder, so a rename above it does not matter. The
new file gets the mode, owner and extended attributes of the old one.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
from contextlib import suppress
from typing import NamedTuple

from holdfast.adapters.files.beneath import FILE, NoFile, Opener, kind_of
from holdfast.adapters.files.change_store import FileState
from holdfast.adapters.files.reading import WHOLE
from holdfast.vocabulary.errors import Refused

NEW_MODE = 0o666
_KEPT_BITS = 0o777
"""Permissions. Setuid and setgid are dropped, as with any write."""
_CAPABILITIES = "security.capability"
"""Capabilities of the file; any write removes them, too."""
_MAKE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class FileSnapshot(NamedTuple):
    """A file as it was read, with enough facts to notice that it changed."""

    data: bytes
    facts: os.stat_result

    @property
    def state(self) -> FileState:
        facts = self.facts
        hashed = hashlib.sha256(self.data).hexdigest()
        return FileState(hashed, len(self.data), facts.st_mode & 0o7777, facts.st_uid, facts.st_gid)


def see(opener: Opener, folder: int, name: str) -> FileSnapshot | None:
    """Return the whole file; None if there is none. Raises if it is no file or too large."""
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _check(facts)
    try:
        opened = opener(folder, (name,), FILE)  # a file may be a mount, too
    except FileNotFoundError:
        return None
    try:
        facts = os.fstat(opened)
        _check(facts)
        with open(opened, "rb", closefd=False) as file:
            data = file.read(WHOLE + 1)
        if len(data) > WHOLE:
            raise _too_large()
        return FileSnapshot(data, facts)
    finally:
        os.close(opened)


def _check(facts: os.stat_result) -> None:
    if stat.S_ISLNK(facts.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if not stat.S_ISREG(facts.st_mode):
        raise NoFile(kind_of(facts.st_mode))
    if facts.st_size > WHOLE:
        raise _too_large()


def _too_large() -> Refused:
    return Refused(
        f"a file of more than {WHOLE // 1024**2} MiB is not changed",
        "its backup would be too large",
    )


def is_still(folder: int, name: str, seen: FileSnapshot | None) -> bool:
    """Return whether the file is the one that was read, unchanged."""
    try:
        now = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return seen is None
    if seen is None:
        return False
    was = seen.facts
    return (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns) == (
        was.st_dev, was.st_ino, was.st_size, was.st_mtime_ns, was.st_ctime_ns
    )  # fmt: skip


def prepare(
    folder: int,
    temporary: str,
    data: bytes,
    state: FileState | None,
    like: str | None,
    *,
    executable: bool | None = None,
) -> None:
    """Write the new file beside the old one, durably, with its mode, owner and attributes.

    Without a state it is a new file, with the usual mode of new files. If it cannot be written,
    nothing stays.
    """
    opened = os.open(temporary, _MAKE, NEW_MODE if state is None else 0o600, dir_fd=folder)
    try:
        with open(opened, "wb", closefd=False) as file:
            file.write(data)
        if state is not None:
            _keep_owner(opened, state)
            if like is not None:
                _copy_attributes(folder, like, opened)
            os.fchmod(opened, state.mode & _KEPT_BITS)
        if executable is not None:
            # By its descriptor, because the name may be a link by now.
            mode = os.fstat(opened).st_mode & _KEPT_BITS
            os.fchmod(opened, with_executable(mode, is_executable=executable))
        os.fsync(opened)
    except BaseException:
        drop(folder, temporary)
        raise
    finally:
        os.close(opened)


def with_executable(mode: int, *, is_executable: bool) -> int:
    """Return the mode as git sets it: everybody who may read may execute."""
    return mode | (mode & 0o444) >> 2 if is_executable else mode & ~0o111


def _keep_owner(opened: int, state: FileState) -> None:
    facts = os.fstat(opened)
    if (facts.st_uid, facts.st_gid) == (state.uid, state.gid):
        return
    try:
        os.fchown(opened, state.uid, state.gid)
    except PermissionError:
        owner = f"user {state.uid}, group {state.gid}"
        raise Refused(
            f"it belongs to {owner}, and replacing it would change that", "ask its owner"
        ) from None


def _copy_attributes(folder: int, name: str, opened: int) -> None:
    if sys.platform != "linux":
        return  # Python supports them only on Linux
    try:
        source = os.open(name, FILE, dir_fd=folder)
    except OSError:
        return
    try:
        for attribute in os.listxattr(source):
            if attribute == _CAPABILITIES:
                continue
            with suppress(OSError):
                os.setxattr(opened, attribute, os.getxattr(source, attribute))
    except OSError:
        pass
    finally:
        os.close(source)


def put_new(folder: int, temporary: str, name: str) -> None:
    """Give a prepared file its name; raises FileExistsError if the name is taken."""
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if not is_still(folder, name, None):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from None
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        os.unlink(temporary, dir_fd=folder)


def put_over(folder: int, temporary: str, name: str) -> None:
    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def sync(folder: int) -> None:
    """Make changed names durable, where the file system can."""
    with suppress(OSError):
        os.fsync(folder)


def drop(folder: int, name: str) -> None:
    """Remove a file that may be gone."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
