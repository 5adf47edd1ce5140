"""The folder through which git sees a work tree byte for byte. Blocking: use a thread.

A checkpoint must restore exactly what was there, and must run nothing. So git gets a repository of
ours with its own index and configuration, in which no attribute changes a file. Objects go to the
store of the real repository.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

from holdfast.adapters.files.beneath import FILE, Opener
from holdfast.adapters.git.repository import Repository
from holdfast.rules.files import Denials

LARGEST_FILE = 32 * 1024 * 1024
_AS_IT_IS = "* -text -filter -ident -working-tree-encoding -merge -diff\n"
_CONFIG = """[core]
\trepositoryformatversion = 1
\tbare = false
\tautocrlf = false
\tsafecrlf = false
\tsymlinks = true
\tlogAllRefUpdates = false
\tpreloadIndex = true
[extensions]
\tobjectFormat = {format}
"""


class Shadow(NamedTuple):
    """The folder, and the environment that leads git there."""

    folder: str
    env: dict[str, str]


def prepare(repository: Repository, state: str, objects: str, *, may_seed: bool) -> Shadow:
    """Make the folder, or bring it up to date.

    `may_seed` says that no attribute changes any file, so the real index is a good start.
    """
    key = f"{repository.data.name}\0{repository.tree.name}".encode("utf-8", "surrogateescape")
    folder = os.path.join(state, "git", blake2b(key, digest_size=12).hexdigest())
    os.makedirs(f"{folder}/refs", mode=0o700, exist_ok=True)
    os.makedirs(f"{folder}/info", mode=0o700, exist_ok=True)
    _write(f"{folder}/HEAD", "ref: refs/heads/none\n")
    _write(f"{folder}/config", _CONFIG.format(format=objects))
    _write(f"{folder}/info/attributes", _AS_IT_IS)
    _write(f"{folder}/info/exclude", _excluded(repository))
    if not os.path.exists(f"{folder}/index") and may_seed:
        try:
            copy_index(repository, f"{folder}/index")
        except OSError:
            free(f"{folder}/index")
    free(f"{folder}/index.lock")
    env = {
        "GIT_DIR": folder,
        "GIT_COMMON_DIR": folder,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Holdfast",
        "GIT_AUTHOR_EMAIL": "holdfast@localhost",
        "GIT_COMMITTER_NAME": "Holdfast",
        "GIT_COMMITTER_EMAIL": "holdfast@localhost",
    }
    return Shadow(folder, env)


def copy_index(repository: Repository, path: str) -> None:
    """Copy the index with its time.

    Only that time tells git to look into a file that changed in the same second.
    """
    with open(f"{repository.git_dir}/index", "rb") as index, open(path, "wb") as copy:
        shutil.copyfileobj(index, copy)
        copy.flush()
        written = os.fstat(index.fileno())
        os.utime(copy.fileno(), ns=(written.st_atime_ns, written.st_mtime_ns))


def has_attributes(repository: Repository) -> bool:
    """Return whether there are attributes beside the work tree."""
    return os.path.exists(f"{repository.common_dir}/info/attributes")


def forget_index(shadow: Shadow) -> None:
    """Remove the index, so that git looks at every file."""
    free(f"{shadow.folder}/index")


class Candidates(NamedTuple):
    """The files that a checkpoint must leave out."""

    left_out: list[str]
    """Denied, in other repositories, or too large."""
    too_large: list[str]


def sift(repository: Repository, denials: Denials, paths: Iterable[str]) -> Candidates:
    left_out: list[str] = []
    too_large: list[str] = []
    for path in paths:
        if path.endswith("/") or denials.reason(repository.place_of(path)) is not None:
            left_out.append(path)
        elif _size(f"{repository.work_tree}/{path}") > LARGEST_FILE:
            left_out.append(path)
            too_large.append(path)
    return Candidates(left_out, too_large)


def leave_out(shadow: Shadow, paths: Iterable[str]) -> None:
    """Exclude untracked files by patterns that match exactly them."""
    lines = "".join(f"/{_escaped(path)}\n" for path in paths if "\n" not in path)
    path = f"{shadow.folder}/info/exclude"
    with open(path, "a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(lines)


def in_the_way(work_tree: str, paths: Iterable[str]) -> list[str]:
    """Return what stands where files are to be made: the files themselves, or a file in place of
    one of their folders.
    """
    found: dict[str, None] = {}
    for path in paths:
        while path and not os.path.lexists(f"{work_tree}/{path}"):
            path = path.rpartition("/")[0]
            if os.path.isdir(f"{work_tree}/{path}") and not os.path.islink(f"{work_tree}/{path}"):
                path = ""
        if path:
            found[path] = None
    return list(found)


def modes_of(work_tree: str, paths: Iterable[str]) -> dict[str, int]:
    """Return the modes of files that are about to be replaced."""
    found: dict[str, int] = {}
    for path in paths:
        try:
            mode = os.lstat(f"{work_tree}/{path}").st_mode
        except OSError:
            continue
        if stat.S_ISREG(mode):
            found[path] = mode
    return found


def keep_modes(repository: Repository, opener: Opener, modes: Mapping[str, int]) -> None:
    """Restore the modes: git only knows whether a file is executable, but a private file must stay
    private.
    """
    for path, old in modes.items():
        try:
            descriptor = opener(repository.tree.descriptor, path.split("/"), FILE)
        except OSError:
            continue
        try:
            new = os.fstat(descriptor).st_mode
            if stat.S_ISREG(new):
                readers = (old & 0o444) >> 2
                os.fchmod(descriptor, (old & 0o666) | (new & 0o111 & readers))
        except OSError:
            continue  # it belongs to another user
        finally:
            os.close(descriptor)


def write_message(shadow: Shadow, text: str) -> str:
    """Write a message that is too long for a command line, and return its path."""
    path = f"{shadow.folder}/message"
    _write(path, text)
    return path


def write_paths(shadow: Shadow, paths: Iterable[str]) -> str:
    """Write paths that are too many for a command line, each ending with NUL, and return the file's
    path.
    """
    path = f"{shadow.folder}/paths"
    _write(path, "".join(f"{one}\0" for one in paths))
    return path


def free(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _escaped(path: str) -> str:
    return "".join(f"\\{letter}" if letter in "*?[]\\!# " else letter for letter in path)


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _excluded(repository: Repository) -> str:
    try:
        with open(
            f"{repository.common_dir}/info/exclude", encoding="utf-8", errors="surrogateescape"
        ) as file:
            return file.read(1 << 20).rstrip("\n") + "\n"
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
