"""Tells whether a work tree changed, by the times of its files, as git itself does.

An answer of `git status` holds as long as everything that it depends on has the same time, size and
inode: tracked files, folders that git looks into, ignore files, HEAD, index and the refs in play. A
very recent change cannot be told apart, so it is not relied on. A work tree that is too large or
has repositories inside is not tried. Blocking: use a thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import NamedTuple

from holdfast.adapters.git.repository import Repository

MOST_ENTRIES = 2000
RACY_NANOSECONDS = 2_000_000_000
"""File systems have such coarse times; two changes within this time may look like one."""
_GITLINK = "160000"
_facts: Callable[[os.stat_result], tuple[int, ...]] = attrgetter(
    "st_ino", "st_dev", "st_mode", "st_size", "st_mtime_ns", "st_ctime_ns"
)
_RULES = (".gitignore", ".gitattributes")

Mark = tuple[int, ...] | None
"""The facts that identify the state of a file; None: it is not there."""


class Scope(NamedTuple):
    """What has to be looked at."""

    key: tuple[Mark, ...]
    """The state of index, HEAD and configuration for which it was learned."""
    folders: list[str]
    """The folders that git looks into, from the top of the work tree."""
    rules: list[str]
    """Files that say what is ignored."""
    files: list[str]
    """Files that git tracks."""
    marks: list[Mark]
    """The marks of folders and rules when it was learned."""


class ScopeState(NamedTuple):
    """The state of a scope at one time."""

    marks: list[Mark]
    """The marks of folders and rules."""
    files: list[Mark]


def marks_of(folder: int, paths: Iterable[str]) -> list[Mark]:
    """Return the marks of paths below an open folder."""
    found: list[Mark] = []
    for path in paths:
        try:
            found.append(_facts(os.stat(path, dir_fd=folder, follow_symlinks=False)))
        except OSError:
            found.append(None)
    return found


def _mark(path: str) -> Mark:
    try:
        return _facts(os.stat(path))
    except OSError:
        return None


def key_of(repository: Repository, more: Iterable[str] = ()) -> tuple[Mark, ...]:
    """Return the marks of index, HEAD and configuration, and of the user's files in `more`.

    Of a link its target counts, because that is what git reads.
    """
    common, own = repository.common_dir, repository.git_dir
    names = (
        f"{own}/index", f"{own}/HEAD", f"{common}/shallow", f"{common}/packed-refs",
        f"{common}/info/exclude", f"{common}/info/attributes", f"{common}/config",
        f"{own}/config.worktree", f"{own}/info/sparse-checkout", f"{common}/refs/stash",
        f"{common}/logs/refs/stash", f"{common}/info/grafts", f"{common}/reftable/tables.list",
        f"{own}/reftable/tables.list",
    )  # fmt: skip
    return tuple(_mark(path) for path in (*names, *more))


def refs_of(branch: str | None, upstream: str | None) -> list[str]:
    """Return the files of the refs that a status depends on, below the common data."""
    found = [f"refs/heads/{branch}"] if branch else []
    # Everything that a short name can stand for.
    found += [f"refs/{kind}{upstream}" for kind in ("", "tags/", "heads/", "remotes/") if upstream]
    found += [f"refs/remotes/{upstream}/HEAD"] if upstream else []
    return found


def learn(
    repository: Repository, key: tuple[Mark, ...], staged: str, listed: str, began: int
) -> Scope | None:
    """Learn the scope from `ls-files --stage -z` and `status --ignored=matching -z`.

    None: this work tree is too large, not simple enough, or changed too recently.
    """
    files = []
    for entry in staged.split("\0"):
        head, tab, path = entry.partition("\t")
        if tab:
            if head.startswith(_GITLINK) or not head.endswith(" 0"):
                return None
            files.append(path)
    ignored = {
        entry[2:-1] for entry in listed.split("\0") if entry[:2] == "! " and entry[-1] == "/"
    }
    found = _walk(repository, ignored, MOST_ENTRIES - len(files))
    if found is None:
        return None
    folders, rules, marks = found
    if newest_in([*key, *marks]) >= began - RACY_NANOSECONDS:
        return None
    return Scope(key, folders, rules, files, marks)


def _walk(
    repository: Repository, ignored: set[str], most: int
) -> tuple[list[str], list[str], list[Mark]] | None:
    """Return folders and rule files, each with its mark from before it was read."""
    top = repository.tree.descriptor
    folders: list[str] = []
    rules: list[str] = []
    marks: list[Mark] = []
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        folders.append(folder or ".")
        marks += marks_of(top, [folder or "."])
        if len(folders) > most:
            return None
        try:
            with os.scandir(f"{repository.work_tree}/{folder}") as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.name in _RULES:
                        rules.append(path)
                    if entry.name == ".git":
                        if folder:
                            return None
                    elif path not in ignored and entry.is_dir(follow_symlinks=False):
                        waiting.append(path)
        except OSError:
            return None
    return folders, rules, [*marks, *marks_of(top, rules)]


def look(repository: Repository, scope: Scope) -> ScopeState:
    top = repository.tree.descriptor
    return ScopeState(marks_of(top, [*scope.folders, *scope.rules]), marks_of(top, scope.files))


def newest_in(marks: Iterable[Mark]) -> int:
    """Return the time of the latest change of any of them, in nanoseconds."""
    return max((max(one[4], one[5]) for one in marks if one is not None), default=0)
