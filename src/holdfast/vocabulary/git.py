"""Git: what a repository says, changes that stay in it, and checkpoints of its files.

Nothing is pushed or fetched. Programs that the repository's own configuration and hooks name are
not run, unless this Holdfast's configuration allows it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.vocabulary.command import Command, Effect, Permission, Result
from holdfast.vocabulary.search import DEFAULT_BYTES, check_bounds


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
    """The effect of a change, done or planned."""

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
    """A checkpoint of the state before."""
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
    """The files that were brought back; `saved` is the checkpoint of the state before."""

    restored: Checkpoint
    saved: Checkpoint | None
    changed: bool
    dry_run: bool = False
    files: list[GitFile] = []
    message: str = ""


Stash = Literal["push", "pop", "apply", "drop", "list"]
LONGEST_MESSAGE = 64_000
MOST_PATHS = 1000


class GitRead(Command, frozen=True, kw_only=True):
    """Fields of every command about git. `repository` is a folder below a root; without it, the
    first root."""

    toolset = "git"
    permission = Permission.VIEW
    effect = Effect.READS
    reads_content = True
    about_files = True
    is_recursive = True
    leaves_out = True
    repository: str | None = None


class GitChange(Command, frozen=True, kw_only=True):
    toolset = "git"
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    changes_files = True
    about_files = True
    is_recursive = True
    leaves_out = True
    repository: str | None = None
    dry_run: bool = False


class GitStatus(GitRead, frozen=True, kw_only=True):
    """Tell what is staged, changed, untracked or in conflict, and where the branch stands."""

    name = "git_status"
    answers = GitStatusResult
    route = ("GET", "/api/git/status")
    limit: int = 200

    def __post_init__(self) -> None:
        check_bounds(self.limit, DEFAULT_BYTES)


class GitDiff(GitRead, frozen=True, kw_only=True):
    """Show differences: of the work tree to the index, or to a commit (`rev`), of the index
    (`staged`) to HEAD or to `rev`, or between two commits (`rev` as `a..b` or `a...b`).

    What does not fit comes with a summary of all files (`stat`) and a cursor.
    """

    name = "git_diff"
    answers = GitTextResult
    route = ("GET", "/api/git/diff")
    rev: str | None = None
    staged: bool = False
    paths: list[str] = []
    context: int = 3
    max_bytes: int = DEFAULT_BYTES
    cursor: str | None = None

    def __post_init__(self) -> None:
        check_bounds(1, self.max_bytes)
        check_paths(self.paths)
        if not 0 <= self.context <= 100:
            raise ValueError("`context` lies between 0 and 100")


class GitLog(GitRead, frozen=True, kw_only=True):
    """List commits, the newest first: of HEAD, of a branch or a range (`rev`), of some paths."""

    name = "git_log"
    answers = GitLogResult
    route = ("GET", "/api/git/log")
    rev: str | None = None
    paths: list[str] = []
    limit: int = 20
    cursor: str | None = None

    def __post_init__(self) -> None:
        check_bounds(self.limit, DEFAULT_BYTES)
        check_paths(self.paths)


class GitShow(GitRead, frozen=True, kw_only=True):
    """Show a commit: author, time, message and differences."""

    name = "git_show"
    answers = GitTextResult
    route = ("GET", "/api/git/show")
    rev: str = "HEAD"
    paths: list[str] = []
    max_bytes: int = DEFAULT_BYTES
    cursor: str | None = None

    def __post_init__(self) -> None:
        check_bounds(1, self.max_bytes)
        check_paths(self.paths)


class GitBlame(GitRead, frozen=True, kw_only=True):
    """Tell for each line of a file which commit it comes from; `line` is the first one."""

    name = "git_blame"
    answers = GitTextResult
    route = ("GET", "/api/git/blame")
    path: str
    rev: str | None = None
    line: int = 1
    limit: int = 200
    max_bytes: int = DEFAULT_BYTES
    cursor: str | None = None

    def __post_init__(self) -> None:
        check_bounds(self.limit, self.max_bytes)
        check_paths([self.path])
        if self.line < 1:
            raise ValueError("lines are counted from 1")


class GitBranches(GitRead, frozen=True, kw_only=True):
    """List branches, those used last first; with `remote` also what is known of remotes."""

    name = "git_branches"
    answers = GitBranchesResult
    route = ("GET", "/api/git/branches")
    remote: bool = False
    limit: int = 100

    def __post_init__(self) -> None:
        check_bounds(self.limit, DEFAULT_BYTES)


class GitAdd(GitChange, frozen=True, kw_only=True):
    """Stage paths as they are: new, changed and deleted files; `.` is everything."""

    name = "git_add"
    answers = GitChangeResult
    route = ("POST", "/api/git/add")
    paths: list[str]

    def __post_init__(self) -> None:
        check_paths(self.paths, least=1)


class GitCommit(GitChange, frozen=True, kw_only=True):
    """Record a commit: with `paths`, these files as they are and nothing else; without, what is
    staged. With nothing to commit it answers so and is no failure. A merge is committed as a whole:
    there `paths` are files whose conflicts are resolved.
    """

    name = "git_commit"
    answers = GitChangeResult
    route = ("POST", "/api/git/commit")
    message: str
    paths: list[str] = []

    def __post_init__(self) -> None:
        check_paths(self.paths)
        check_message(self.message)


class GitAbort(GitChange, frozen=True, kw_only=True):
    """Leave a merge that is under way: files and index become as they were before it. A checkpoint
    of the files is made first. Without a merge it answers so and is no failure.
    """

    name = "git_abort"
    answers = GitChangeResult
    route = ("POST", "/api/git/abort")


class GitRestore(GitChange, frozen=True, kw_only=True):
    """Bring paths back: in the work tree as they are staged, or as in `rev`; with `staged`, the
    index as in HEAD or `rev`, and the work tree stays. What was changed there is lost, so a
    checkpoint is made first.
    """

    name = "git_restore"
    answers = GitChangeResult
    route = ("POST", "/api/git/restore")
    paths: list[str]
    rev: str | None = None
    staged: bool = False

    def __post_init__(self) -> None:
        check_paths(self.paths, least=1)


class GitSwitch(GitChange, frozen=True, kw_only=True):
    """Check out a branch, or with `create` make it at `rev` (else here) and check it out. With
    `rev` and no `branch`, that commit. Files with changes that would be lost are named instead.
    """

    name = "git_switch"
    answers = GitChangeResult
    route = ("POST", "/api/git/switch")
    branch: str | None = None
    create: bool = False
    rev: str | None = None

    def __post_init__(self) -> None:
        if self.branch is None and (self.create or self.rev is None):
            raise ValueError("name a `branch`, or a commit with `rev`")
        if self.branch is not None and self.rev is not None and not self.create:
            raise ValueError("`rev` goes with `create`, or without `branch`")


class GitStash(GitChange, frozen=True, kw_only=True):
    """Put changes aside (`push`, untracked files too), list them, or bring them back (`pop`,
    `apply`); `drop` forgets them. `number` counts from 0, the newest.
    """

    name = "git_stash"
    answers = GitChangeResult
    route = ("POST", "/api/git/stash")
    action: Stash = "push"
    number: int = 0
    paths: list[str] = []
    message: str | None = None

    def __post_init__(self) -> None:
        check_paths(self.paths)
        if self.paths and self.action != "push":
            raise ValueError("`paths` goes with `push`")
        if not 0 <= self.number < 10_000:
            raise ValueError("`number` counts from 0")
        if self.message is not None:
            check_message(self.message)


class GitTag(GitChange, frozen=True, kw_only=True):
    """Make a tag at `rev`, or here; with a `message` an annotated one."""

    name = "git_tag"
    answers = GitChangeResult
    route = ("POST", "/api/git/tag")
    tag: str
    rev: str | None = None
    message: str | None = None

    def __post_init__(self) -> None:
        if self.message is not None:
            check_message(self.message)


def check_paths(paths: list[str], least: int = 0) -> None:
    if len(paths) < least:
        raise ValueError("`paths` names at least one path; `.` is everything")
    if len(paths) > MOST_PATHS:
        raise ValueError(f"at most {MOST_PATHS} paths")
    if any(not path or "\0" in path or len(path) > 4096 for path in paths):
        raise ValueError("a path is a text without NUL, at most 4096 characters long")


def check_message(message: str) -> None:
    if not message.strip():
        raise ValueError("the message is empty")
    if len(message.encode("utf-8", "surrogatepass")) > LONGEST_MESSAGE or "\0" in message:
        raise ValueError(f"the message is longer than {LONGEST_MESSAGE} bytes, or has a NUL")


class MakeCheckpoint(Command, frozen=True, kw_only=True):
    """Keep all files of a work tree as they are now, untracked ones too, as a commit that no
    branch leads to. Work tree and index stay as they are. Ignored files, files that the
    configuration denies and repositories inside are not in it.

    Before the first change of an assistant's session one is made by itself.
    """

    name = "checkpoint"
    rest_tag = "checkpoints"
    toolset = "git"
    is_recursive = True
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    answers = Checkpoint
    route = ("POST", "/api/checkpoints")
    about_files = True
    repository: str | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if len(self.note) > 500:
            raise ValueError("the note is longer than 500 characters")


class Checkpoints(Command, frozen=True, kw_only=True):
    """List checkpoints, the newest first."""

    name = "checkpoints"
    rest_tag = "checkpoints"
    toolset = "git"
    is_recursive = True
    permission = Permission.VIEW
    effect = Effect.READS
    answers = CheckpointsResult
    route = ("GET", "/api/checkpoints")
    about_files = True
    repository: str | None = None
    session: str | None = None
    limit: int = 50


class RestoreCheckpoint(Command, frozen=True, kw_only=True):
    """Bring the files of a work tree back as they were at a checkpoint.

    What is there now is kept in a further checkpoint first, so nothing is lost. Branches,
    commits and the index stay. Without `checkpoint`, the newest of this session is meant, else
    the newest of all.
    """

    name = "restore_checkpoint"
    rest_tag = "checkpoints"
    toolset = "git"
    is_recursive = True
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    changes_files = True
    answers = RestoredResult
    route = ("POST", "/api/checkpoints/restore")
    about_files = True
    checkpoint: str | None = None
    repository: str | None = None
    dry_run: bool = False
