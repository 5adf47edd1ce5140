"""What the commands about git answer."""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.vocabulary.results import Result


class GitFile(Result, frozen=True, kw_only=True, omit_defaults=True):
    """A file that differs. `change`: added, modified, deleted, renamed, copied, type changed."""

    path: str
    change: str
    old_path: str | None = None
    """Where it was, if it was renamed or copied."""


class GitConflict(Result, frozen=True, kw_only=True):
    """A file that could not be merged. `kind`: both modified, deleted by us …"""

    path: str
    kind: str


class GitStatusResult(Result, frozen=True, kw_only=True):
    """The state of a work tree. Lists are cut at `limit`; the counts are true."""

    repository: str
    """Its folder, as paths are given here."""
    branch: str | None
    """None: no branch is checked out."""
    head: str | None
    """None: there is no commit yet."""
    upstream: str | None = None
    ahead: int | None = None
    behind: int | None = None
    clean: bool
    """Nothing is staged, changed or in conflict; there may be untracked files."""
    staged: list[GitFile] = []
    changed: list[GitFile] = []
    untracked: list[str] = []
    conflicts: list[GitConflict] = []
    counts: dict[str, int] = {}
    stashes: int = 0
    under_way: str | None = None
    """merge, rebase, cherry-pick, revert or bisect, if one was begun."""
    next: str | None = None
    """What can be done about conflicts or what is under way."""
    complete: bool = True


class GitTextResult(Result, frozen=True, kw_only=True):
    """Text of git, cut at the end of a line if it is long."""

    repository: str
    text: str
    complete: bool
    cursor: str | None = None
    """Where to go on; give it with the same request."""
    stat: str | None = None
    """What changed in which file, if the text did not fit."""
    revision: str | None = None
    """The commit that was meant."""
    notes: list[str] = []


class GitCommitInfo(Result, frozen=True, kw_only=True):
    """A commit; `time` is unix seconds."""

    commit: str
    author: str
    email: str
    time: float
    subject: str
    parents: list[str]
    names: list[str] = []
    """Branches and tags that point to it."""


class GitLogResult(Result, frozen=True, kw_only=True):
    repository: str
    commits: list[GitCommitInfo]
    complete: bool
    cursor: str | None = None


class GitBranch(Result, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    commit: str
    subject: str
    time: float
    current: bool = False
    remote: bool = False
    upstream: str | None = None
    track: str | None = None
    """How far from its upstream: `ahead 1, behind 2`, or `gone`."""


class GitBranchesResult(Result, frozen=True, kw_only=True):
    repository: str
    branches: list[GitBranch]
    complete: bool


class GitChangeResult(Result, frozen=True, kw_only=True):
    """What a change did, or would do."""

    repository: str
    changed: bool
    """Whether anything is, or would be, other than before."""
    message: str
    dry_run: bool = False
    commit: str | None = None
    branch: str | None = None
    files: list[GitFile] = []
    conflicts: list[GitConflict] = []
    next: str | None = None
    """What can be done about conflicts."""
    checkpoint: str | None = None
    """A checkpoint with what was there before."""
    notes: list[str] = []


class Checkpoint(Result, frozen=True, kw_only=True):
    """The files of a work tree as they were, kept as a commit that no branch leads to."""

    id: str
    commit: str
    time: float
    note: str = ""
    session: str | None = None
    repository: str = ""
    head: str | None = None
    """The commit that was checked out."""
    branch: str | None = None
    skipped: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Files that it does not hold because they are too large."""


class CheckpointsResult(Result, frozen=True, kw_only=True):
    checkpoints: list[Checkpoint]


class RestoredResult(Result, frozen=True, kw_only=True):
    """What was brought back; `saved` is the checkpoint of what was there before."""

    restored: Checkpoint
    saved: Checkpoint | None
    changed: bool
    dry_run: bool = False
    files: list[GitFile] = []
    message: str = ""


Stash = Literal["push", "pop", "apply", "drop", "list"]
