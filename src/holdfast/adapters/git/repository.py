"""Finds the repository of a folder, and opens it beneath its root. Blocking: use a thread.

From then on the repository is reached through descriptors: a folder that is renamed, or swapped for
a link, leads neither us nor git elsewhere. Without `/proc` it is reached by the verified names, and
the caller that runs git compares them before and afterwards.

The data of a repository may lie elsewhere (a `.git` file, a link, a common folder, borrowed
objects). Below no root that is refused, unless the configuration allows it: reading it would reveal
files that nobody offered.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import ExitStack
from typing import NamedTuple

from holdfast.adapters.files.beneath import FILE, FOLDER, Opener
from holdfast.adapters.files.roots import Roots
from holdfast.rules.files import REPOSITORIES, LocatedPath, Root
from holdfast.vocabulary.errors import NotFound, Refused

_LONGEST_POINTER = 4096
_LONGEST_LIST = 65536
_DEEPEST_ALTERNATES = 5
_MOST_ALTERNATES = 100
_MOST_LINKS = 200
UNDER_WAY = (
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
)
_LINKED = ("", "info", "refs", "logs", "objects", "objects/info", "objects/pack")
"""Folders of a repository's data in which links are looked for."""
_HINT = "`git: {allow_outside: true}` admits it"
_ANYTHING = getattr(os, "O_PATH", os.O_NONBLOCK) | os.O_NOFOLLOW
_HAS_PROC = os.path.isdir("/proc/self/fd")


class Anchor(NamedTuple):
    """A folder that is held open, and the name by which it was found."""

    descriptor: int
    name: str

    @property
    def path(self) -> str:
        """The path that reaches this folder, whatever has its name by now."""
        return f"/proc/{os.getpid()}/fd/{self.descriptor}" if _HAS_PROC else self.name

    def is_same(self) -> bool:
        """Return whether the name still means this folder."""
        try:
            found = os.stat(self.name, follow_symlinks=False)
        except OSError:
            return False
        held = os.fstat(self.descriptor)
        return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)


class Repository(NamedTuple):
    """A work tree with its repository, while it is open."""

    place: LocatedPath
    tree: Anchor
    data: Anchor
    common: Anchor
    """The data that several work trees share; the same as `data` if there is only one."""
    store: Anchor
    """The folder of its objects."""
    roots: Roots
    """The root beneath which it was opened."""
    beside: tuple[Anchor, ...] = ()
    """More places that belong to it: targets of its links, and objects that it borrows."""
    signature: tuple[object, ...] = ()
    """Changes whenever its configuration may have changed."""

    @property
    def work_tree(self) -> str:
        return self.tree.path

    @property
    def git_dir(self) -> str:
        return self.data.path

    @property
    def common_dir(self) -> str:
        return self.common.path

    @property
    def anchors(self) -> tuple[Anchor, ...]:
        return (self.tree, self.data, self.common, self.store, *self.beside)

    @property
    def root(self) -> Root:
        return self.place.root

    def inside(self, located: LocatedPath) -> str:
        """Return a path below it as git names it."""
        depth = len(self.place.parts)
        is_below = located.root == self.place.root and located.parts[:depth] == self.place.parts
        if not is_below:
            raise Refused(
                f'"{located.relative or "."}" is not in the repository',
                f"it is in {self.place.absolute}",
            )
        return "/".join(located.parts[depth:])

    def place_of(self, path: str) -> LocatedPath:
        """Return the place of a path that git names."""
        parts = tuple(part for part in path.split("/") if part not in ("", "."))
        return LocatedPath(self.place.root, (*self.place.parts, *parts))

    def check_same(self) -> None:
        """Raise Refused if one of its folders was moved or replaced."""
        if not all(anchor.is_same() for anchor in self.anchors):
            raise Refused(
                "a folder of this repository was replaced while git was at work",
                "ask once more when nobody moves it",
            )


def find(
    start: LocatedPath,
    roots: Roots,
    stack: ExitStack,
    *,
    allow_outside: bool = False,
    may_be_missing: bool = False,
) -> Repository:
    """Return the repository of a folder, open until the stack is closed; raises NotFound if there
    is none.
    """
    opening = _Opening(roots, stack, allow_outside)
    with roots.explained(start):
        top = opening.root(start.root)
        for depth in range(len(start.parts), -1, -1):
            place = LocatedPath(start.root, start.parts[:depth])
            is_named = depth == len(start.parts) and not may_be_missing
            folder = opening.below(top, place, may_be_missing=not is_named)
            if folder is None:
                continue
            try:
                found = os.stat(".git", dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                continue
            return opening.repository(place, folder, found)
    shown = start.relative or start.root.path
    raise NotFound(
        f'"{shown}" is in no git repository of its root',
        f"a repository is looked for up to {start.root.path}, not above",
    )


class _Opening:
    """Opens the folders of one repository, each beneath a root."""

    def __init__(self, roots: Roots, stack: ExitStack, allow_outside: bool) -> None:
        self._roots = roots
        self._open: Opener = roots.opener
        self._stack = stack
        self._allow_outside = allow_outside
        self._tops: dict[str, int] = {}

    def root(self, root: Root) -> int:
        if root.path not in self._tops:
            self._tops[root.path] = self._stack.enter_context(self._roots.opened_root(root))
        return self._tops[root.path]

    def below(self, top: int, place: LocatedPath, *, may_be_missing: bool) -> int | None:
        """Return the descriptor of a folder; None: there is none, but there may be one above."""
        try:
            return self._keep(self._open(top, place.parts, FOLDER))
        except OSError as error:
            if error.errno == errno.ELOOP and not may_be_missing:
                raise Refused(
                    f'"{place.relative}" is reached through a link', "name the folder itself"
                ) from None
            is_file = error.errno == errno.ENOTDIR
            if is_file and os.path.lexists(place.absolute):
                return None
            if error.errno == errno.ENOENT and not may_be_missing:
                raise NotFound(f'no folder "{place.relative}"') from None
            if may_be_missing and error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
            raise

    def repository(self, place: LocatedPath, folder: int, found: os.stat_result) -> Repository:
        tree = Anchor(folder, place.absolute)
        pointer = f"{place.absolute}/.git"
        if stat.S_ISDIR(found.st_mode):
            data = self._within(tree, ".git")
        else:
            name = self._pointed_at(tree, pointer, found)
            data = self._elsewhere(name, f"the data of {pointer} are in {name}")
        common = self._common(data, pointer)
        for anchor, needed in ((data, "HEAD"), (common, "objects"), (common, "config")):
            if not _is_there(anchor, needed):
                raise NotFound(f"{pointer} is no git repository: it has no {needed}")
        store = self._store(common)
        beside = [
            *self._links(data),
            *(self._links(common) if common != data else ()),
            *self._alternates(store, _DEEPEST_ALTERNATES),
        ]
        return as_it_is(Repository(place, tree, data, common, store, self._roots, tuple(beside)))

    def _pointed_at(self, tree: Anchor, pointer: str, found: os.stat_result) -> str:
        if stat.S_ISLNK(found.st_mode):
            return os.path.realpath(pointer)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LONGEST_POINTER:
            raise NotFound(f"{pointer} is no git repository")
        text = self._text(tree, ".git") or ""
        if not text.startswith("gitdir:"):
            raise NotFound(f"{pointer} is no git repository")
        return os.path.realpath(os.path.join(tree.name, text[len("gitdir:") :].strip()))

    def _common(self, data: Anchor, pointer: str) -> Anchor:
        text = self._text(data, "commondir")
        if text is None:
            return data
        name = os.path.realpath(os.path.join(data.name, text.strip()))
        return self._elsewhere(name, f"the common data of {pointer} are in {name}")

    def _store(self, common: Anchor) -> Anchor:
        found = os.stat("objects", dir_fd=common.descriptor, follow_symlinks=False)
        if not stat.S_ISLNK(found.st_mode):
            return self._within(common, "objects")
        link = f"{common.name}/objects"
        return self._elsewhere(os.path.realpath(link), f"{link} is a link")

    def _links(self, folder: Anchor) -> list[Anchor]:
        """Return the targets of links in the data of a repository."""
        found = []
        for inner in _LINKED:
            for name in self._links_in(folder, inner):
                link = "/".join(filter(None, (folder.name, inner, name)))
                try:
                    target = os.path.realpath(link)
                except OSError as error:  # it was a link a moment ago
                    raise Refused(f"{link}: {error.strerror}", "ask once more") from None
                anchor = self.anything(target, f"{link} is a link to {target}")
                if anchor is not None:
                    found.append(anchor)
        if len(found) > _MOST_LINKS:
            raise Refused("this repository is refused: its data are links, too many of them")
        return found

    def _links_in(self, folder: Anchor, inner: str) -> list[str]:
        try:
            opened = self._open(folder.descriptor, tuple(filter(None, inner.split("/"))), FOLDER)
        except OSError:
            return []  # it is not there, or is a link itself, and counts as such
        try:
            with os.scandir(opened) as entries:
                return [entry.name for entry in entries if entry.is_symlink()]
        finally:
            os.close(opened)

    def _alternates(self, store: Anchor, depth: int) -> list[Anchor]:
        """Return the object folders that are borrowed from other repositories."""
        text = self._text(store, "info/alternates") or ""
        found: list[Anchor] = []
        for line in text.splitlines()[:_MOST_ALTERNATES]:
            given = line.strip().strip('"')
            if not given or given.startswith("#"):
                continue
            name = os.path.realpath(os.path.join(store.name, given))
            other = self.anything(name, f"it borrows objects from {name}", FOLDER)
            if other is None:
                continue
            found.append(other)
            if depth > 0:
                found += self._alternates(other, depth - 1)
        return found

    def _within(self, folder: Anchor, name: str) -> Anchor:
        """Open a folder in a folder."""
        try:
            opened = self._open(folder.descriptor, (name,), FOLDER)
        except OSError as error:
            if error.errno == errno.ELOOP:
                what = f"{folder.name}/{name} became a link"
                raise Refused(f"this repository is refused: {what}", "ask once more") from None
            raise Refused(f"{folder.name}/{name}: {error.strerror}") from None
        return Anchor(self._keep(opened), f"{folder.name}/{name}")

    def _elsewhere(self, name: str, why: str) -> Anchor:
        """Open the folder that a pointer or a link leads to, by its real name."""
        found = self.anything(name, why, FOLDER)
        if found is None:
            raise NotFound(f"{name} is no git repository: it is not there")
        return found

    def anything(self, name: str, why: str, flags: int = _ANYTHING) -> Anchor | None:
        """Open a folder or file by its real name; None: there is nothing."""
        within = [root for root in self._roots.roots if _is_below(name, root.path)]
        try:
            if within:
                root = max(within, key=lambda one: len(one.path))
                rest = name[len(root.path.rstrip("/")) :]
                parts = tuple(part for part in rest.split("/") if part)
                self._refuse_denied(LocatedPath(root, parts), why)
                return Anchor(self._keep(self._open(self.root(root), parts, flags)), name)
            if not self._allow_outside:
                raise Refused(f"this repository is refused: {why}, below no root", _HINT)
            return Anchor(self._keep(os.open(name, flags | os.O_CLOEXEC)), name)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused(f"this repository is refused: {why}: {error.strerror}") from None

    def _refuse_denied(self, located: LocatedPath, why: str) -> None:
        """Refuse a denied place, because git quotes files that it does not understand.

        Data of one repository may be reached from another.
        """
        if any(part.casefold() in REPOSITORIES for part in located.parts):
            return
        reason = self._roots.denials.reason(located)
        if reason is not None:
            raise Refused(f"this repository is refused: {why}, which is denied: {reason}")

    def _text(self, folder: Anchor, name: str) -> str | None:
        """Return the text of a file; None: there is no file."""
        try:
            opened = self._open(folder.descriptor, tuple(name.split("/")), FILE)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ENOTDIR:
                return None
            if error.errno == errno.ELOOP:
                return self._linked_text(f"{folder.name}/{name}")
            raise Refused(f"{folder.name}/{name}: {error.strerror}") from None
        with open(opened, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_LONGEST_LIST)

    def _linked_text(self, link: str) -> str | None:
        name = os.path.realpath(link)
        folder, _, last = name.rpartition("/")
        anchor = self._elsewhere(folder or "/", f"{link} is a link to {name}")
        try:
            opened = self._open(anchor.descriptor, (last,), FILE)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused(f"{link}: {error.strerror}") from None
        with open(opened, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_LONGEST_LIST)

    def _keep(self, descriptor: int) -> int:
        self._stack.callback(os.close, descriptor)
        return descriptor


def _is_below(name: str, folder: str) -> bool:
    return f"{name}/".startswith(folder.rstrip("/") + "/")


def _is_there(folder: Anchor, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False)
    except OSError:
        return False
    return True


def check_file(repository: Repository, path: str, why: str, *, allow_outside: bool) -> None:
    """Raise Refused for a file that git reads, if it is below no root or denied."""
    with ExitStack() as stack:
        _Opening(repository.roots, stack, allow_outside).anything(os.path.realpath(path), why)


def as_it_is(repository: Repository) -> Repository:
    """Return the repository with its present signature: its configuration may have changed."""
    files = f"{repository.common_dir}/config", f"{repository.git_dir}/config.worktree"
    signature = (repository.data.name, *map(_signature, files))
    return repository._replace(signature=signature)


def _signature(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)


def is_ours(repository: Repository) -> bool:
    """Return whether nobody else could have written its configuration."""
    return os.fstat(repository.data.descriptor).st_uid in {os.geteuid(), 0}


def under_way_in(repository: Repository) -> str | None:
    """Return which operation was begun and is not finished."""
    for name, what in UNDER_WAY:
        if _is_there(repository.data, name):
            return what
    return None
