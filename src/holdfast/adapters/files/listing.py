"""Lists folders in order, without what ignore files name; bounded, and able to continue."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.adapters.files.beneath import FOLDER, kind_of, open_file
from holdfast.adapters.files.roots import Roots
from holdfast.rules.files import LocatedPath
from holdfast.rules.text import ignore_files
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.files import FileEntry

MOST_ENTRIES = 10_000
MOST_NAMES = 20_000
MOST_DEPTH = 30
MOST_LOOKED_AT = 200_000
LARGEST_IGNORE_FILE = 256 * 1024
_Rules = tuple[tuple[int, tuple[ignore_files.IgnorePattern, ...]], ...]
"""The ignore patterns in force, nearest last, each with the depth of its file's folder."""


class ListingQuery(NamedTuple):
    """What is asked for."""

    depth: int = 1
    hidden: bool = False
    ignored: bool = False
    limit: int = 1000
    after: tuple[str, ...] | None = None
    """Names below the folder: continue after this."""


class FolderListing(NamedTuple):
    """What was found."""

    entries: list[FileEntry]
    ignored: int
    last: tuple[str, ...] | None
    """Where a cut listing ended."""


class Lister:
    """One listing."""

    def __init__(self, roots: Roots, folder: LocatedPath, look: ListingQuery) -> None:
        if look.depth < 1 or look.limit < 1:
            raise UsageError("depth and limit are at least 1")
        self._roots = roots
        self._folder = folder
        self._look = look._replace(
            depth=min(look.depth, MOST_DEPTH), limit=min(look.limit, MOST_ENTRIES)
        )
        self._ignored = 0
        self._seen = 0
        self._is_cut = False
        self._last: tuple[str, ...] = ()
        """The names of the entry that was looked at last."""

    def look(self) -> FolderListing:
        entries: list[FileEntry] = []
        roots, folder = self._roots, self._folder
        with roots.opened_root(folder.root) as root, roots.explained(folder):
            rules = self._rules_above(root)
            os.close(roots.opener(root, folder.parts, FOLDER))
            for entry in self._walk(root, (), rules, self._look.after):
                entries.append(entry)
                if len(entries) == self._look.limit:
                    self._is_cut = True
                    break
        return FolderListing(entries, self._ignored, self._last if self._is_cut else None)

    def _rules_above(self, root: int) -> _Rules:
        rules: _Rules = ()
        if self._look.ignored:
            return rules
        for depth in range(len(self._folder.parts)):
            rules = self._with_own(root, self._folder.parts[:depth], rules)
        return rules

    def _with_own(self, root: int, parts: tuple[str, ...], rules: _Rules) -> _Rules:
        for name in ignore_files.NAMES:
            try:
                opened, facts = open_file(self._roots.opener, root, (*parts, name))
            except OSError:
                continue
            try:
                data = os.pread(opened, min(facts.st_size, LARGEST_IGNORE_FILE), 0)
            finally:
                os.close(opened)
            patterns = ignore_files.read(data.decode("utf-8", "surrogateescape"))
            if patterns:
                rules = (*rules, (len(parts), patterns))
        return rules

    def _walk(
        self, root: int, below: tuple[str, ...], rules: _Rules, after: tuple[str, ...] | None
    ) -> Iterator[FileEntry]:
        parts = (*self._folder.parts, *below)
        if self._seen > MOST_LOOKED_AT and after is None:  # where a cursor leads is still looked at
            self._is_cut = True
            return
        try:
            folder = self._roots.opener(root, parts, FOLDER)
        except OSError:
            return  # it is gone, was swapped for a link, is on another mount, or not readable
        try:
            if not self._look.ignored:
                rules = self._with_own(root, parts, rules)
            names = self._names(folder, after[0] if after else "")
            for name, is_folder in names[:MOST_NAMES]:
                rest = after[1:] if after and name == after[0] else None
                here = self._last = (*below, name)
                if self._is_left_out((*self._folder.parts, *here), rules, is_folder=is_folder):
                    self._ignored += 1
                    continue
                entry = self._entry(folder, here, is_folder=is_folder)
                if entry is None:
                    continue
                if rest is None:
                    yield entry
                if is_folder and not entry.denied and len(here) < self._look.depth:
                    yield from self._walk(root, here, rules, rest)
                if self._is_cut:
                    return
            self._is_cut = len(names) > MOST_NAMES
        finally:
            os.close(folder)

    def _names(self, folder: int, least: str) -> list[tuple[str, bool]]:
        """Return the next names of a folder in order, in bounded memory however many it has."""
        with os.scandir(folder) as found:
            return heapq.nsmallest(MOST_NAMES + 1, self._wanted(found, least))

    def _wanted(self, found: Iterator[os.DirEntry[str]], least: str) -> Iterator[tuple[str, bool]]:
        for one in found:
            self._seen += 1
            if one.name < least or (one.name.startswith(".") and not self._look.hidden):
                continue
            yield one.name, one.is_dir(follow_symlinks=False)

    def _is_left_out(self, parts: tuple[str, ...], rules: _Rules, *, is_folder: bool) -> bool:
        for depth, patterns in reversed(rules):
            said = ignore_files.verdict(patterns, parts[depth:], is_folder=is_folder)
            if said is not None:
                return said
        return False

    def _entry(self, folder: int, below: tuple[str, ...], *, is_folder: bool) -> FileEntry | None:
        located = LocatedPath(self._folder.root, (*self._folder.parts, *below))
        path = self._roots.told(located)
        is_denied = self._roots.denials.reason(located) is not None
        try:
            facts = os.stat(below[-1], dir_fd=folder, follow_symlinks=False)
            kind = kind_of(facts.st_mode)
            target = _readable(os.readlink(below[-1], dir_fd=folder)) if kind == "link" else None
        except OSError:
            return None
        return FileEntry(
            path=path,
            kind=kind if kind in ("file", "directory", "link") else "other",
            size=facts.st_size if kind == "file" else None,
            modified=facts.st_mtime,
            target=target,
            denied=is_denied,
        )


def _readable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
