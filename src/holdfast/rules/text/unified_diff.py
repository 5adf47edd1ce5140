"""Parses a unified diff: which files, which of their lines. Pure; looks at no file.

Takes what `diff -u` and `git diff` write: several files, creation, deletion, renames, copies,
modes, quoted names, a missing line end at the end of a file. Refuses what it cannot carry out
exactly: binary patches, links, wrong counts of lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from holdfast.rules.authority.path_scopes import shown
from holdfast.vocabulary.errors import UsageError

NOWHERE = "/dev/null"
NO_NEWLINE = "\\"
MOST_FILES = 1000
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(rb'\\([abtnvfr"\\]|[0-7]{3})')
_ESCAPED = {
    b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r",
    b'"': b'"', b"\\": b"\\",
}  # fmt: skip
_GIT = re.compile(
    r"(old mode|new mode|new file mode|deleted file mode|rename from|rename to|copy from|copy to|"
    r"similarity index|dissimilarity index|index) (.*)"
)
_USUAL_MODES = ("100644", "100755", "100664", "100600", "100700", "100775")


class Hunk(NamedTuple):
    """A part of a file: lines before and after, each with its line end if it has one."""

    number: int
    start: int
    """The line, from 1, where it begins by its header; for an empty part, the line before it."""
    old: list[str]
    new: list[str]
    added: int
    removed: int
    at: int
    """Its line in the patch."""


class FilePatch(NamedTuple):
    """What is to be done to one file."""

    old: str | None
    """None: it is created."""
    new: str | None
    """None: it is deleted."""
    hunks: list[Hunk]
    is_copy: bool = False
    executable: bool | None = None
    """None: its mode stays."""


def parse(patch: str) -> list[FilePatch]:
    """Return the files of a patch; raises UsageError with the line that cannot be parsed."""
    reader = _Reader(patch)
    found = list(reader.files())
    if not found:
        raise UsageError(
            "this is no unified diff: no file is named in it", "send what `git diff` prints"
        )
    return found


class _Header:
    """What the lines before the first part say."""

    def __init__(self) -> None:
        self.old: str | None = None
        self.new: str | None = None
        self.git: dict[str, str] = {}
        self.is_git = False
        self.names: tuple[str | None, str | None] = (None, None)


class _Reader:
    def __init__(self, patch: str) -> None:
        self._lines = patch.split("\n")
        if self._lines and not self._lines[-1]:
            self._lines.pop()
        self._place = 0

    def files(self) -> Iterator[FilePatch]:
        count = 0
        while (header := self._header()) is not None:
            hunks = self._hunks()
            yield _file_patch(header, hunks, self._place)
            count += 1
            if count > MOST_FILES:
                raise UsageError(f"a patch changes at most {MOST_FILES} files")

    def _peek(self, ahead: int = 0) -> str | None:
        place = self._place + ahead
        return self._lines[place] if place < len(self._lines) else None

    def _header(self) -> _Header | None:
        """Return the next file's header; text before it is skipped, as `patch` does."""
        header = _Header()
        while (line := self._peek()) is not None:
            plain = line.rstrip("\r")
            if plain.startswith("diff --git "):
                if header.is_git:
                    return header  # a file without parts: only its mode or its name changes
                header.is_git = True
                header.names = _git_names(plain[len("diff --git ") :])
            elif plain.startswith("--- ") and (self._peek(1) or "").startswith("+++ "):
                old, new = _name(plain[4:]), _name((self._peek(1) or "").rstrip("\r")[4:])
                if not _belongs(header, old, new):
                    return header  # a plain header begins another file
                header.old, header.new = old, new
                self._place += 2
                return header
            elif header.is_git:
                if plain.startswith(("GIT binary patch", "Binary files ")):
                    self._fail("binary content cannot be patched", "use write_file with base64")
                if (known := _GIT.fullmatch(plain)) is not None:
                    header.git[known[1]] = known[2]
            elif plain.startswith("@@ -"):
                self._fail("a part stands before any file", "begin with --- and +++ lines")
            self._place += 1
        return header if header.is_git else None

    def _hunks(self) -> list[Hunk]:
        hunks: list[Hunk] = []
        while (line := self._peek()) is not None and line.startswith("@@"):
            hunks.append(self._hunk(line, len(hunks) + 1))
        return hunks

    def _hunk(self, header: str, number: int) -> Hunk:
        found = _HUNK.match(header)
        if found is None:
            self._fail("this is no header of a part", "write @@ -1,3 +1,4 @@")
        at = self._place + 1
        start, before, _, after = (int(text) if text else 1 for text in found.groups())
        self._place += 1
        old: list[str] = []
        new: list[str] = []
        added = removed = 0
        while len(old) < before or len(new) < after:
            line = self._peek()
            mark = line[:1] if line else " "  # some tools cut the space of an empty line
            if line is None or mark not in " +-":
                says = f"-{before} +{after}, but has -{len(old)} +{len(new)}"
                self._fail(f"part {number} (line {at}) says {says}", "count its lines again")
            text = line[1:] + "\n"
            self._place += 1
            following = self._peek()
            if following is not None and following.startswith(NO_NEWLINE):
                text = text[:-1]
                self._place += 1
            if mark != "+":
                old.append(text)
            if mark != "-":
                new.append(text)
            added += mark == "+"
            removed += mark == "-"
        if len(old) != before or len(new) != after:
            says = f"-{before} +{after}, but has -{len(old)} +{len(new)}"
            self._fail(f"part {number} (line {at}) says {says}", "count its lines again")
        line = self._peek()
        is_more = line is not None and line[:1] in ("+", "-", " ") and line.rstrip() != "--"
        if is_more and not self._is_header():
            says = f"part {number} (line {at}) has more lines than -{before} +{after}"
            self._fail(says, "count its lines again")
        return Hunk(number, start, old, new, added, removed, at)

    def _is_header(self) -> bool:
        """Return whether the next lines begin another file."""
        line, following = self._peek() or "", self._peek(1) or ""
        return line.startswith("--- ") and following.startswith("+++ ")

    def _fail(self, message: str, hint: str) -> NoReturn:
        raise UsageError(f"line {self._place + 1} of the patch: {message}", hint)


def _file_patch(header: _Header, hunks: list[Hunk], place: int) -> FilePatch:
    git = header.git
    for name in ("new file mode", "deleted file mode", "new mode", "old mode"):
        mode = git.get(name)
        if mode is not None and mode not in _USUAL_MODES:
            what = {"120000": "a link", "160000": "a submodule"}.get(mode, f"mode {mode}")
            raise UsageError(f"the patch concerns {what}; only files can be patched")
    old, new = _names(header)
    if "new file mode" in git:
        old = None
    if "deleted file mode" in git:
        new = None
    if old is None and new is None:
        raise UsageError(f"line {place} of the patch: this file has no name")
    for given in (old, new):
        if given is not None and (given.startswith("/") or ".." in given.split("/")):
            raise UsageError(
                f'the patch names "{shown(given)}"',
                "paths in a patch are relative and do not climb",
            )
    made = git.get("new file mode") or git.get("new mode")
    executable = None if made is None else bool(int(made, 8) & 0o100)
    return FilePatch(old, new, hunks, "copy from" in git, executable)


def _belongs(header: _Header, *given: str) -> bool:
    """Return whether the `---` and `+++` lines are about the file that git's lines are about."""
    git = header.git
    ways = ("rename from", "rename to", "copy from", "copy to")
    known = {_name(git[way]) for way in ways if way in git} | {*header.names} - {None}
    return not known or all(
        name == NOWHERE or name in known or name.partition("/")[2] in known for name in given
    )


def _names(header: _Header) -> tuple[str | None, str | None]:
    git = header.git
    for kind in ("rename", "copy"):
        if f"{kind} from" in git and f"{kind} to" in git:
            return _name(git[f"{kind} from"]), _name(git[f"{kind} to"])
    if header.old is None and header.new is None:
        return header.names
    old = None if header.old == NOWHERE else header.old
    new = None if header.new == NOWHERE else header.new
    strips = (old is None or old.startswith("a/")) and (new is None or new.startswith("b/"))
    if strips:
        old = None if old is None else old[2:]
        new = None if new is None else new[2:]
    if old is not None and new is not None and old != new:
        raise UsageError(
            f'the patch names "{shown(old)}" and "{shown(new)}" as one file',
            "a rename is said by git's lines «rename from» and «rename to»",
        )
    return old, new


def _name(text: str) -> str:
    """Return a name from a header: perhaps quoted, perhaps with a time after a tab."""
    if text.startswith('"') and (end := text.rfind('"')) > 0:
        data = text[1:end].encode("utf-8", "surrogateescape")
        return _ESCAPE.sub(_unescaped, data).decode("utf-8", "surrogateescape")
    return text.partition("\t")[0].rstrip("\r")


def _unescaped(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return _ESCAPED.get(code) or bytes([int(code, 8) & 0xFF])


def _git_names(text: str) -> tuple[str | None, str | None]:
    """Return the names in `a/x b/x`, needed only if neither parts nor renames name the file."""
    if text.startswith('"'):
        old, _, new = text[1:].partition('" ')
        names = _name(f'"{old}"'), _name(new)
    else:
        half = len(text) // 2
        names = text[:half], text[half + 1 :]
    if names[0].startswith("a/") and names[1].startswith("b/"):
        names = names[0][2:], names[1][2:]
    return names if names[0] == names[1] else (None, None)
