"""Which repository a folder belongs to, looked for below its root only. Blocking: use a thread.

A repository whose data lie elsewhere (a `.git` file, a link, a common folder, borrowed objects)
is refused if that is below no root, unless the configuration allows it: reading it would tell of
files that nobody offered.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.rules.file_access import Located, Root
from holdfast.vocabulary.errors import NotFound, Refused

_LONGEST_POINTER = 4096
_DEEPEST_ALTERNATES = 5
_MOST_ALTERNATES = 100
UNDER_WAY = (
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
)
_HINT = "`git: {allow_outside: true}` admits it"


class Repository(NamedTuple):
    """A work tree with its repository."""

    place: Located
    git_dir: str
    common_dir: str
    signature: tuple[object, ...]
    """Other than before if its configuration may be."""

    @property
    def work_tree(self) -> str:
        return self.place.absolute

    @property
    def root(self) -> Root:
        return self.place.root

    def inside(self, located: Located) -> str:
        """A path below it, as git names it."""
        depth = len(self.place.parts)
        is_below = located.root == self.place.root and located.parts[:depth] == self.place.parts
        if not is_below:
            raise Refused(
                f'"{located.relative or "."}" is not in the repository',
                f"it is in {self.place.absolute}",
            )
        return "/".join(located.parts[depth:])

    def place_of(self, path: str) -> Located:
        """Where a path that git names is."""
        parts = tuple(part for part in path.split("/") if part not in ("", "."))
        return Located(self.place.root, (*self.place.parts, *parts))


def find(start: Located, roots: Sequence[Root], *, allow_outside: bool = False) -> Repository:
    """The repository that a folder of a root is in; raises NotFound if there is none."""
    for depth in range(len(start.parts), -1, -1):
        place = Located(start.root, start.parts[:depth])
        try:
            found = os.lstat(f"{place.absolute}/.git")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise Refused(f"{place.absolute}/.git: {error.strerror}") from None
        _refuse_links(place)
        return _open(place, found, roots, allow_outside)
    shown = start.relative or start.root.path
    raise NotFound(
        f'"{shown}" is in no git repository of its root',
        f"a repository is looked for up to {start.root.path}, not above",
    )


def _refuse_links(place: Located) -> None:
    if place.parts and os.path.realpath(place.absolute) != place.absolute:
        raise Refused(f'"{place.relative}" is reached through a link', "name the folder itself")


def _open(
    place: Located, found: os.stat_result, roots: Sequence[Root], allow_outside: bool
) -> Repository:
    pointer = f"{place.absolute}/.git"
    git_dir = pointer if stat.S_ISDIR(found.st_mode) else _pointed_at(pointer, found)
    git_dir = os.path.realpath(git_dir)
    common_dir = _common_dir(git_dir)
    for needed in (f"{git_dir}/HEAD", f"{common_dir}/objects", f"{common_dir}/config"):
        if not os.path.lexists(needed):
            raise NotFound(f"{pointer} is no git repository: it has no {os.path.basename(needed)}")
    if not allow_outside:
        _check_inside(git_dir, common_dir, roots, pointer)
    return as_it_is(Repository(place, git_dir, common_dir, ()))


def _pointed_at(pointer: str, found: os.stat_result) -> str:
    if stat.S_ISLNK(found.st_mode):
        return pointer
    if not stat.S_ISREG(found.st_mode) or found.st_size > _LONGEST_POINTER:
        raise NotFound(f"{pointer} is no git repository")
    text = _read(pointer)
    if not text.startswith("gitdir:"):
        raise NotFound(f"{pointer} is no git repository")
    return os.path.join(os.path.dirname(pointer), text[len("gitdir:") :].strip())


def _common_dir(git_dir: str) -> str:
    try:
        text = _read(f"{git_dir}/commondir").strip()
    except (FileNotFoundError, NotADirectoryError):
        return git_dir
    return os.path.realpath(os.path.join(git_dir, text))


def _check_inside(git_dir: str, common_dir: str, roots: Sequence[Root], pointer: str) -> None:
    for folder in {git_dir, common_dir}:
        _check(folder, roots, f"the data of {pointer} are in {folder}, below no root")
        for entry in [*_links(folder), *_links(f"{folder}/info"), *_links(f"{folder}/objects")]:
            _check(os.path.realpath(entry), roots, f"{entry} is a link to below no root")
    _check_alternates(f"{common_dir}/objects", roots, _DEEPEST_ALTERNATES)


def _links(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_symlink()]
    except OSError:
        return []


def _check_alternates(objects: str, roots: Sequence[Root], depth: int) -> None:
    """Objects that are borrowed from another repository."""
    try:
        lines = _read(f"{objects}/info/alternates").splitlines()[:_MOST_ALTERNATES]
    except (FileNotFoundError, NotADirectoryError):
        return
    for line in lines:
        text = line.strip().strip('"')
        if not text or text.startswith("#"):
            continue
        other = os.path.realpath(os.path.join(objects, text))
        _check(other, roots, f"it borrows objects from {other}, below no root")
        if depth > 0:
            _check_alternates(other, roots, depth - 1)


def _check(path: str, roots: Sequence[Root], why: str) -> None:
    real = os.path.realpath(path) + "/"
    if not any(real.startswith(os.path.realpath(root.path).rstrip("/") + "/") for root in roots):
        raise Refused(f"this repository is refused: {why}", _HINT)


def as_it_is(repository: Repository) -> Repository:
    """The same repository with its present signature: its configuration may have been changed
    since it was found."""
    files = f"{repository.common_dir}/config", f"{repository.git_dir}/config.worktree"
    signature = (repository.git_dir, *map(_signature, files))
    return repository._replace(signature=signature)


def _signature(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read(_LONGEST_POINTER * 16)


def is_ours(repository: Repository) -> bool:
    """Whether nobody else could have written its configuration."""
    owners = {os.geteuid(), 0}
    return all(os.stat(folder).st_uid in owners for folder in (repository.git_dir,))


def under_way_in(repository: Repository) -> str | None:
    """What was begun and is not finished."""
    for name, what in UNDER_WAY:
        if os.path.lexists(f"{repository.git_dir}/{name}"):
            return what
    return None
