"""Turns git's output into values.

Every format is one that git keeps stable: -z and porcelain v2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.vocabulary.git import GitBranch, GitCommitInfo, GitConflict, GitFile

CHANGES = {
    "A": "added",
    "M": "modified",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "T": "type changed",
    "U": "unmerged",
}
CONFLICTS = {
    "DD": "both deleted",
    "AU": "added by us",
    "UD": "deleted by them",
    "UA": "added by them",
    "DU": "deleted by us",
    "AA": "both added",
    "UU": "both modified",
}
LOG_FORMAT = "%H%x00%an%x00%ae%x00%at%x00%P%x00%D%x00%s%x00%x01"
BRANCH_FORMAT = (
    "%(refname)%00%(objectname)%00%(committerdate:unix)%00%(HEAD)"
    "%00%(upstream:short)%00%(upstream:track,nobracket)%00%(symref)%00%(contents:subject)%00"
)
_BRANCH_FIELDS = 8
_MOST_LINES = 200


class WorkTree(NamedTuple):
    """What `git status` says, with paths as git names them."""

    branch: str | None
    head: str | None
    upstream: str | None
    ahead: int | None
    behind: int | None
    stashes: int
    staged: list[GitFile]
    changed: list[GitFile]
    untracked: list[str]
    conflicts: list[GitConflict]


def text_of(data: bytes) -> str:
    """Decode a name; bytes that are no UTF-8 survive."""
    return data.decode("utf-8", "surrogateescape")


def shown(text: str) -> str:
    """Return such a name as readable text in one line."""
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if text.isprintable():
        return text
    escaped = (letter.encode("unicode_escape").decode() for letter in text)
    return "".join(a if a.isprintable() else b for a, b in zip(text, escaped, strict=True))


def parse_status(data: bytes) -> WorkTree:
    """Parse the output of `git status --porcelain=v2 -z --branch --show-stash`."""
    head: dict[str, str] = {}
    staged: list[GitFile] = []
    changed: list[GitFile] = []
    untracked: list[str] = []
    conflicts: list[GitConflict] = []
    items = iter(text_of(data).split("\0"))
    for item in items:
        kind = item[:1]
        if kind == "#":
            _, name, value = item.split(" ", 2)
            head[name] = value
        elif kind == "?":
            untracked.append(item[2:])
        elif kind == "1":
            _, states, *_, path = item.split(" ", 8)
            _add(staged, changed, states, path, None)
        elif kind == "2":
            _, states, *_, path = item.split(" ", 9)
            _add(staged, changed, states, path, next(items, None))
        elif kind == "u":
            _, states, *_, path = item.split(" ", 10)
            conflicts.append(GitConflict(path=path, kind=CONFLICTS.get(states, states)))
    branch, oid = head.get("branch.head"), head.get("branch.oid")
    ahead, _, behind = head.get("branch.ab", "").partition(" ")
    return WorkTree(
        None if branch == "(detached)" else branch,
        None if oid == "(initial)" else oid,
        head.get("branch.upstream"),
        int(ahead) if ahead else None,
        -int(behind) if behind else None,
        int(head.get("stash", "0")),
        staged,
        changed,
        untracked,
        conflicts,
    )


def _add(
    staged: list[GitFile], changed: list[GitFile], states: str, path: str, old: str | None
) -> None:
    in_index, in_tree = states[:1], states[1:2]
    if in_index != ".":
        name = CHANGES.get(in_index, in_index)
        moved = old if in_index in "RC" else None
        staged.append(GitFile(path=path, change=name, old_path=moved))
    if in_tree != ".":
        name = CHANGES.get(in_tree, in_tree)
        moved = old if in_tree in "RC" else None
        changed.append(GitFile(path=path, change=name, old_path=moved))


def parse_name_status(data: bytes) -> list[GitFile]:
    """Parse the output of `--name-status -z`."""
    found = []
    items = iter(text_of(data).split("\0"))
    for item in items:
        if not item:
            continue
        change = CHANGES.get(item[0], item[0])
        old = next(items, None) if item[0] in "RC" else None
        found.append(GitFile(path=next(items, ""), change=change, old_path=old))
    return found


class RawChange(NamedTuple):
    """A path that differs between two states, as `--raw` has it."""

    path: str
    change: str
    old_mode: str
    old_blob: str
    mode: str
    """`000000`: it is not there afterwards."""
    blob: str

    @property
    def is_link(self) -> bool:
        """Return whether it is a symbolic link afterwards."""
        return self.mode == "120000"

    @property
    def file(self) -> GitFile:
        return GitFile(path=self.path, change=self.change)


def parse_raw(data: bytes) -> list[RawChange]:
    """Parse the output of `--raw -z --no-abbrev --no-renames`.

    A path in conflict occurs once or twice.
    """
    found = []
    items = iter(text_of(data).split("\0"))
    for item in items:
        if item.startswith(":"):
            old_mode, mode, old_blob, blob, state = item[1:].split(" ")
            change = CHANGES.get(state[0], state)
            found.append(RawChange(next(items, ""), change, old_mode, old_blob, mode, blob))
    return found


def parse_names(data: bytes) -> list[str]:
    """Parse paths that each end with NUL."""
    return [path for path in text_of(data).split("\0") if path]


class Counted(NamedTuple):
    """Lines added and removed in a file; None: it is binary."""

    path: str
    old_path: str | None
    added: int | None
    removed: int | None


def parse_numstat(data: bytes) -> list[Counted]:
    """Parse the output of `--numstat -z`."""
    found = []
    items = iter(text_of(data).split("\0"))
    for item in items:
        if item.count("\t") < 2:
            continue
        added, removed, path = item.split("\t", 2)
        old = None
        if not path:
            old, path = next(items, ""), next(items, "")
        found.append(Counted(path, old, _number(added), _number(removed)))
    return found


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def stat_of(files: list[Counted]) -> str:
    """Return a summary of all files, one line each."""
    lines = []
    for one in files[:_MOST_LINES]:
        name = one.path if one.old_path is None else f"{one.old_path} => {one.path}"
        size = "binary" if one.added is None else f"+{one.added} -{one.removed}"
        lines.append(f"{size}\t{shown(name)}")
    if len(files) > _MOST_LINES:
        lines.append(f"… {len(files) - _MOST_LINES} more files")
    added = sum(one.added or 0 for one in files)
    removed = sum(one.removed or 0 for one in files)
    lines.append(f"{len(files)} files, +{added} -{removed}")
    return "\n".join(lines)


def parse_log(data: bytes) -> list[GitCommitInfo]:
    """Parse the output of `git log --format=LOG_FORMAT`."""
    found = []
    for entry in data.split(b"\0\x01"):
        fields = entry.strip(b"\n").decode("utf-8", "replace").split("\0")
        if len(fields) < 7:
            continue
        commit, author, email, time, parents, names, subject = fields[:7]
        found.append(
            GitCommitInfo(
                commit=commit,
                author=author,
                email=email,
                time=float(time or 0),
                subject=subject,
                parents=parents.split(),
                names=_names(names),
            )
        )
    return found


def _names(text: str) -> list[str]:
    """Return the refs of a commit, without our own."""
    found = []
    for word in text.split(", "):
        name = word.removeprefix("HEAD -> ").removeprefix("tag: ")
        if name and not name.startswith("refs/holdfast/"):
            found.append(name)
    return found


def parse_branches(data: bytes) -> Iterator[GitBranch]:
    """Parse the output of `git for-each-ref --format=BRANCH_FORMAT`."""
    for line in data.split(b"\0\n"):
        fields = line.strip(b"\n").decode("utf-8", "replace").split("\0")
        if len(fields) < _BRANCH_FIELDS:
            continue
        ref, commit, time, head, upstream, track, symref, subject = fields[:_BRANCH_FIELDS]
        if symref:
            continue
        is_remote = ref.startswith("refs/remotes/")
        yield GitBranch(
            name=ref.split("/", 2)[2],
            commit=commit,
            subject=subject,
            time=float(time or 0),
            current=head == "*",
            remote=is_remote,
            upstream=upstream or None,
            track=track or None,
        )


def named_files(text: str) -> list[str]:
    """Return the files that an error of git lists, one after each tab."""
    return [line[1:] for line in text.splitlines() if line.startswith("\t")]
