"""Handlers of the commands that read a repository."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from holdfast.adapters.files.roots import Roots
from holdfast.adapters.git import parsing
from holdfast.adapters.git.repository import Repository
from holdfast.app.authority.path_scopes import Denial, check_judged, denied_in_repository
from holdfast.app.context import Context
from holdfast.app.registry import handles
from holdfast.engine.git.git import failure_of
from holdfast.rules import git as safety
from holdfast.rules.files import Denials, LocatedPath
from holdfast.rules.text import excerpts
from holdfast.rules.text.excerpts import Excerpt
from holdfast.vocabulary.errors import Failed, NotFound, Refused, UsageError
from holdfast.vocabulary.git import (
    GitBlame,
    GitBranches,
    GitBranchesResult,
    GitConflict,
    GitDiff,
    GitFile,
    GitLog,
    GitLogResult,
    GitShow,
    GitStatus,
    GitStatusResult,
    GitTextResult,
)

PATCH = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty"),
    *("--submodule=short", "--find-renames", "--src-prefix=a/", "--dst-prefix=b/"),
)
SETTLE = "edit these files, then git_add them"
_STALE = "this text is another one by now"


@asynccontextmanager
async def chosen(
    context: Context, name: str | None, *, is_changed: bool = False, may_be_missing: bool = False
) -> AsyncIterator[Repository]:
    """The repository that is meant, while it is open; to be changed it must lie in a root that may
    be written."""
    roots = (await context.workspace.files.made_roots()).denying(denied_in_repository())
    located = roots.locate(name or ".")
    if is_changed and not located.root.is_writable:
        raise Refused(
            f'the root "{located.root.name}" is read-only',
            "`files: {roots: {NAME: {path: …, write: true}}}` lets it be changed",
        )
    opened = context.workspace.git.opened(located, roots, may_be_missing=may_be_missing)
    async with opened as repository:
        check_judged(repository.place)
        yield repository


def inside(context: Context, repository: Repository, paths: Sequence[str]) -> list[str]:
    """Return the paths of a request as git names them; raise for a denied or outer path."""
    return [repository.inside(repository.roots.locate(path)) for path in paths]


def told(context: Context, repository: Repository, path: str) -> str:
    end = "/" if path.endswith("/") else ""
    return context.workspace.files.roots.told(repository.place_of(path)) + end


def named(context: Context, repository: Repository) -> str:
    return context.workspace.files.roots.told(repository.place)


@handles(GitStatus)
async def git_status(context: Context, command: GitStatus) -> GitStatusResult:
    roots = await context.workspace.files.made_roots()
    located = roots.locate(command.repository or ".")
    repository, answer = await context.workspace.git_status.ask(located, roots, check_judged)
    tree, under_way, whole = answer
    seen = (
        tree if (denied := denied_in_repository()) is None else _without(tree, repository, denied)
    )
    result = status_of(context, repository, seen, command.limit, under_way, is_whole=whole)
    is_clean = not (tree.staged or tree.changed or tree.conflicts)
    return msgspec.structs.replace(result, clean=is_clean)


def _without(tree: parsing.WorkTree, repository: Repository, denied: Denial) -> parsing.WorkTree:
    """A status without the paths that a policy denies to its caller."""

    def is_seen(*paths: str | None) -> bool:
        return all(path is None or denied(repository.place_of(path)) is None for path in paths)

    return tree._replace(
        staged=[one for one in tree.staged if is_seen(one.path, one.old_path)],
        changed=[one for one in tree.changed if is_seen(one.path, one.old_path)],
        untracked=[path for path in tree.untracked if is_seen(path)],
        conflicts=[one for one in tree.conflicts if is_seen(one.path)],
    )


def status_of(
    context: Context,
    repository: Repository,
    tree: parsing.WorkTree,
    limit: int,
    under_way: str | None,
    *,
    is_whole: bool = True,
) -> GitStatusResult:
    counts = {
        "staged": len(tree.staged),
        "changed": len(tree.changed),
        "untracked": len(tree.untracked),
        "conflicts": len(tree.conflicts),
    }
    return GitStatusResult(
        repository=named(context, repository),
        branch=tree.branch,
        head=tree.head,
        upstream=tree.upstream,
        ahead=tree.ahead,
        behind=tree.behind,
        clean=not (tree.staged or tree.changed or tree.conflicts),
        staged=files_told(context, repository, tree.staged[:limit]),
        changed=files_told(context, repository, tree.changed[:limit]),
        untracked=[told(context, repository, path) for path in tree.untracked[:limit]],
        conflicts=conflicts_told(context, repository, tree.conflicts[:limit]),
        counts={name: number for name, number in counts.items() if number},
        stashes=tree.stashes,
        under_way=under_way,
        next=_next(tree, under_way),
        complete=is_whole and max(counts.values()) <= limit,
    )


def files_told(context: Context, repository: Repository, files: Sequence[GitFile]) -> list[GitFile]:
    return [
        GitFile(
            path=told(context, repository, one.path),
            change=one.change,
            old_path=None if one.old_path is None else told(context, repository, one.old_path),
        )
        for one in files
    ]


def conflicts_told(
    context: Context, repository: Repository, conflicts: Sequence[GitConflict]
) -> list[GitConflict]:
    return [
        GitConflict(path=told(context, repository, one.path), kind=one.kind) for one in conflicts
    ]


def _next(tree: parsing.WorkTree, under_way: str | None) -> str | None:
    if tree.conflicts:
        end = ", then git_commit; git_abort leaves the merge" if under_way == "merge" else ""
        return SETTLE + end
    if under_way == "merge":
        return "git_commit without paths finishes the merge, git_abort leaves it"
    return None if under_way is None else f"the {under_way} is finished or ended with git itself"


@handles(GitDiff)
async def git_diff(context: Context, command: GitDiff) -> GitTextResult:
    async with chosen(context, command.repository) as repository:
        return await _diff(context, repository, command)


async def _diff(context: Context, repository: Repository, command: GitDiff) -> GitTextResult:
    paths = inside(context, repository, command.paths)
    words, revision = await _compared(context, repository, command)
    first = ("diff", *PATCH, f"--unified={command.context}", *words)
    return await _patch(
        context, repository, first, paths, command.cursor, command.max_bytes, revision
    )


async def _compared(
    context: Context, repository: Repository, command: GitDiff
) -> tuple[list[str], str | None]:
    """Return the two commits that are compared. Names of the caller are resolved first."""
    staged = ["--cached"] if command.staged else []
    if command.rev is None:
        return staged, None
    ends = safety.split_range(command.rev)
    git = context.workspace.git
    if ends is None:
        commit = await git.commit_of(repository, command.rev)
        return [*staged, commit], commit
    if command.staged:
        raise UsageError("what is staged is compared with one commit, not with two")
    first, dots, second = ends
    one, other = await git.commit_of(repository, first), await git.commit_of(repository, second)
    return [f"{one}{dots}{other}"], f"{one}{dots}{other}"


@handles(GitShow)
async def git_show(context: Context, command: GitShow) -> GitTextResult:
    async with chosen(context, command.repository) as repository:
        return await _show(context, repository, command)


async def _show(context: Context, repository: Repository, command: GitShow) -> GitTextResult:
    paths = inside(context, repository, command.paths)
    commit = await context.workspace.git.commit_of(repository, command.rev)
    words = ("show", *PATCH, "--no-show-signature", "--no-mailmap", "--no-notes")
    first = (*words, "--format=fuller", "--date=iso-strict", "--decorate=no", commit)
    return await _patch(
        context, repository, first, paths, command.cursor, command.max_bytes, commit
    )


async def _patch(
    context: Context,
    repository: Repository,
    words: Sequence[str],
    paths: Sequence[str],
    cursor: str | None,
    most: int,
    revision: str | None,
) -> GitTextResult:
    """Differences without files that are denied, a piece at a time."""
    git = context.workspace.git
    # `--unified` would ask for the differences themselves, where conflicts hide the listing.
    listed = [word for word in words if not word.startswith(("--unified=", "--format="))]
    listed[1:1] = ["--numstat", "-z"]
    if words[0] == "show":
        # A merge is compared with each parent, so a rename from any of them counts.
        listed[1:1] = ["--format=", "-m"]
    output = await git.check(repository, *listed, "--", *safety.literal_paths(paths))
    if output.is_cut:
        raise Failed("these are too many files to be listed", "name `paths`")
    files = parsing.parse_numstat(output.out)
    hidden = _hidden(files, repository, repository.roots.denials)
    wanted = safety.literal_paths(paths, sorted(hidden))
    place = excerpts.decode(cursor)
    excerpt = Excerpt(place, most)
    await git.check(repository, *words, "--", *wanted, excerpt=excerpt)
    if excerpt.is_stale:
        raise UsageError(_STALE, "ask again without the cursor")
    data, after = excerpt.piece()
    seen = [
        file
        for file in {file.path: file for file in reversed(files)}.values()
        if file.path not in hidden
    ]
    seen.reverse()
    notes = [f"{len(hidden)} files are not shown: they are denied"] if hidden else []
    return GitTextResult(
        repository=named(context, repository),
        text=data.decode("utf-8", "replace"),
        complete=after is None,
        cursor=None if after is None else after.encode(),
        stat=parsing.stat_of(seen) if after is not None and place.offset == 0 else None,
        revision=revision,
        notes=notes,
    )


def _hidden(files: Sequence[parsing.Counted], repository: Repository, denials: Denials) -> set[str]:
    found: set[str] = set()
    for one in files:
        names = [name for name in (one.path, one.old_path) if name is not None]
        if any(denials.reason(repository.place_of(name)) is not None for name in names):
            found.update(names)
    return found


@handles(GitLog)
async def git_log(context: Context, command: GitLog) -> GitLogResult:
    async with chosen(context, command.repository) as repository:
        return await _log(context, repository, command)


async def _log(context: Context, repository: Repository, command: GitLog) -> GitLogResult:
    paths = inside(context, repository, command.paths)
    git = context.workspace.git
    skip, revision = 0, "HEAD" if command.rev is None else command.rev
    if command.cursor is not None:
        number, _, revision = command.cursor.partition(".")
        if not number.isdecimal() or len(number) > 9:
            raise UsageError("this is no cursor", "use the one that an answer gave")
        skip = int(number)
    ends = safety.split_range(revision)
    if ends is not None:
        first, dots, second = ends
        one, other = await git.commit_of(repository, first), await git.commit_of(repository, second)
        commit = f"{one}{dots}{other}"
    else:
        if command.rev is None and await _is_empty(context, repository):
            return GitLogResult(repository=named(context, repository), commits=[], complete=True)
        commit = await git.commit_of(repository, revision)
    words = ("log", f"--format={parsing.LOG_FORMAT}", "--no-show-signature", "--no-mailmap")
    bounds = (f"--skip={skip}", f"--max-count={command.limit + 1}", "--no-color", "--no-notes")
    output = await git.check(
        repository, *words, *bounds, "--no-ext-diff", "--no-textconv", commit,
        "--", *safety.literal_paths(paths),
    )  # fmt: skip
    commits = parsing.parse_log(output.out)
    is_complete = len(commits) <= command.limit
    return GitLogResult(
        repository=named(context, repository),
        commits=commits[: command.limit],
        complete=is_complete,
        cursor=None if is_complete else f"{skip + command.limit}.{commit}",
    )


async def _is_empty(context: Context, repository: Repository) -> bool:
    """Whether there is no commit yet."""
    try:
        await context.workspace.git.commit_of(repository, "HEAD")
    except NotFound:
        return True
    return False


@handles(GitBlame)
async def git_blame(context: Context, command: GitBlame) -> GitTextResult:
    async with chosen(context, command.repository) as repository:
        return await _blame(context, repository, command)


async def _blame(context: Context, repository: Repository, command: GitBlame) -> GitTextResult:
    path = inside(context, repository, [command.path])[0]
    git = context.workspace.git
    if command.rev is None:
        await context.in_thread(
            _check_file, context.workspace.files.roots, repository.place_of(path)
        )
    commit = None if command.rev is None else await git.commit_of(repository, command.rev)
    first = command.line
    if command.cursor is not None:
        if not command.cursor.isdecimal() or len(command.cursor) > 12:
            raise UsageError("this is no cursor", "use the one that an answer gave")
        first = int(command.cursor)
    excerpt = Excerpt(excerpts.Place(), command.max_bytes)
    words = ("blame", "--no-textconv", "--date=short", "--abbrev=9", f"-L{first},+{command.limit}")
    revision = () if commit is None else (commit,)
    output = await git.run(repository, *words, *revision, "--", path, excerpt=excerpt)
    if not output.is_success:
        if command.cursor is not None and "has only" in output.err:
            return GitTextResult(
                repository=named(context, repository), text="", complete=True, revision=commit
            )
        if "blame.ignorerevsfile" in await git.configured(repository):
            # The error of git may contain a line of any file that it names.
            raise Failed("git blame: blame.ignoreRevsFile of the repository cannot be used")
        raise failure_of(output, "blame")
    data, _ = excerpt.piece()
    lines = data.count(b"\n")
    is_complete = not excerpt.is_full and lines < command.limit
    return GitTextResult(
        repository=named(context, repository),
        text=data.decode("utf-8", "replace"),
        complete=is_complete,
        cursor=None if is_complete else str(first + max(1, lines)),
        revision=commit,
    )


def _check_file(roots: Roots, located: LocatedPath) -> None:
    """Raise an error for a file behind a link: git would read the target of the link."""
    with roots.opened(located):
        pass


@handles(GitBranches)
async def git_branches(context: Context, command: GitBranches) -> GitBranchesResult:
    async with chosen(context, command.repository) as repository:
        return await _branches(context, repository, command)


async def _branches(
    context: Context, repository: Repository, command: GitBranches
) -> GitBranchesResult:
    refs = ("refs/heads", *(("refs/remotes",) if command.remote else ()))
    output = await context.workspace.git.check(
        repository, "for-each-ref", "--sort=-committerdate", f"--count={command.limit + 1}",
        f"--format={parsing.BRANCH_FORMAT}", *refs,
    )  # fmt: skip
    branches = list(parsing.parse_branches(output.out))
    return GitBranchesResult(
        repository=named(context, repository),
        branches=branches[: command.limit],
        complete=len(branches) <= command.limit,
    )
