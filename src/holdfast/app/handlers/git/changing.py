"""Handlers of the commands that change a repository. Each takes its turn; none pushes.

A `dry_run` works on a copy of the index, or asks git what it would do; nothing is changed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from holdfast.adapters.git import parsing, shadow
from holdfast.adapters.git.repository import Repository, under_way_in
from holdfast.app.context import Context
from holdfast.app.handlers.git import refusals as refusals
from holdfast.app.handlers.git.reading import (
    SETTLE,
    chosen,
    conflicts_told,
    files_told,
    inside,
    named,
)
from holdfast.app.registry import handles
from holdfast.engine.git.checkpoints import would_be_lost
from holdfast.engine.git.git import CHANGE_SECONDS, Output, failure_of
from holdfast.engine.git.status_cache import STATUS
from holdfast.rules import git as safety
from holdfast.vocabulary.errors import Failed, NotFound, Refused
from holdfast.vocabulary.git import (
    GitAbort,
    GitAdd,
    GitChangeResult,
    GitCommit,
    GitConflict,
    GitFile,
    GitRestore,
)

MOST_FILES = 200
_MOST_IN_THE_WAY = 2000
_MOST_FILTERS = 10
NAME_STATUS = ("--name-status", "-z", "--no-ext-diff", "--find-renames", "--no-color")
_EMPTY_TREES = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_NO_IDENTITY = ("Please tell me who you are", "empty ident name", "no email was given")


def number_of(files: Sequence[object]) -> str:
    return "1 file" if len(files) == 1 else f"{len(files)} files"


class RepositoryChange:
    """One change of a repository, from the request to its result."""

    def __init__(self, context: Context, repository: Repository, is_dry: bool) -> None:
        self.context = context
        self.repository = repository
        self.is_dry = is_dry
        self.notes: list[str] = []

    async def git(self, *words: str, **options: object) -> Output:
        more: dict[str, object] = {"seconds": CHANGE_SECONDS, **options}
        return await self.context.workspace.git.run(self.repository, *words, **more)  # type: ignore[arg-type]

    async def check(self, *words: str, **options: object) -> Output:
        output = await self.git(*words, **options)
        if not output.is_success:
            raise failure_of(output, words[0])
        return output

    async def commit_of(self, revision: str) -> str:
        return await self.context.workspace.git.commit_of(self.repository, revision)

    async def head(self) -> str | None:
        try:
            return await self.commit_of("HEAD")
        except NotFound:
            return None

    async def base(self, commit: str | None) -> str:
        """A commit, or a tree with nothing in it where there is none yet."""
        if commit is not None:
            return commit
        configured = await self.context.workspace.git.configured(self.repository)
        return _EMPTY_TREES[configured.get("extensions.objectformat", "sha1")]

    async def status(self) -> parsing.WorkTree:
        return parsing.parse_status((await self.check(*STATUS)).out)

    async def conflicts(self) -> list[GitConflict]:
        return (await self.status()).conflicts

    async def warn_of_filters(self) -> None:
        filters = await self.context.workspace.git.filters(self.repository)
        if filters:
            names = [parsing.shown(name) for name in filters[:_MOST_FILTERS]]
            names += ["…"] if len(filters) > _MOST_FILTERS else []
            listed = ", ".join(names)
            self.notes.append(
                f"filters of the repository are not run ({listed}): files are taken as they are"
            )

    async def between(self, before: str | None, after: str | None) -> list[parsing.RawChange]:
        """Return what differs between two commits; None: there is no commit yet."""
        if before == after:
            return []
        trees = await self.base(before), await self.base(after)
        output = await self.check("diff-tree", "-r", *refusals.RAW, *trees)
        return parsing.parse_raw(output.out)

    async def staged(self, before: str | None) -> list[str]:
        """Paths of the index that are others than in a commit."""
        words = ("diff-index", "--cached", *refusals.RAW, await self.base(before), "--")
        return [one.path for one in parsing.parse_raw((await self.check(*words)).out)]

    async def refuse(self, changes: Sequence[parsing.RawChange], command: str) -> None:
        """Raises Refused if one of these changes may not be made."""
        await refusals.refuse_changes(self.context, self.repository, changes, command)

    async def refused(self, paths: Sequence[str]) -> list[str]:
        """Return those of the paths that may not be changed."""
        return list(await refusals.refused(self.context, self.repository, paths))

    def note_left(self, paths: Sequence[str], what: str) -> None:
        """Say which files were left as they are."""
        names = refusals.named(self.context, self.repository, paths)
        is_are = "file is" if len(paths) == 1 else "files are"
        they_are = "it is" if len(paths) == 1 else "they are"
        self.notes.append(f"{len(paths)} {is_are} left {what}: {they_are} denied ({names})")

    def result(
        self,
        message: str,
        *,
        is_changed: bool,
        files: Sequence[GitFile] = (),
        conflicts: Sequence[GitConflict] = (),
        commit: str | None = None,
        branch: str | None = None,
        advice: str | None = None,
    ) -> GitChangeResult:
        if len(files) > MOST_FILES:
            self.notes.append(f"{len(files)} files, of which {MOST_FILES} are listed")
        return GitChangeResult(
            repository=named(self.context, self.repository),
            changed=is_changed,
            message=message,
            dry_run=self.is_dry,
            commit=commit,
            branch=branch,
            files=files_told(self.context, self.repository, files[:MOST_FILES]),
            conflicts=conflicts_told(self.context, self.repository, conflicts),
            next=advice or (SETTLE if conflicts else None),
            notes=self.notes,
        )


@asynccontextmanager
async def changing(
    context: Context, name: str | None, *, is_dry: bool
) -> AsyncIterator[RepositoryChange]:
    async with (
        chosen(context, name, is_changed=not is_dry) as repository,
        context.workspace.git.turn(repository),
    ):
        yield RepositoryChange(context, repository, is_dry)


@asynccontextmanager
async def index_copy(change: RepositoryChange) -> AsyncIterator[dict[str, str]]:
    """The environment of a command that works on a copy of the index."""
    folder = await change.context.in_thread(_copy_index, change.repository)
    try:
        yield {"GIT_INDEX_FILE": f"{folder}/index"}
    finally:
        await change.context.in_thread(shutil.rmtree, folder, True)


def _copy_index(repository: Repository) -> str:
    folder = tempfile.mkdtemp(prefix="holdfast-index-")
    try:
        shadow.copy_index(repository, f"{folder}/index")
    except FileNotFoundError:
        pass  # nothing was ever staged
    return folder


async def refuse_overwriting(change: RepositoryChange, files: Sequence[GitFile]) -> None:
    """Raise an error if git would overwrite files that no checkpoint holds. Git overwrites ignored
    files, and removes a folder that is in the way of a file; ignored files, denied files and inner
    repositories are in no checkpoint.
    """
    new = [one.path for one in files if one.change == "added"]
    top = change.repository.work_tree
    there = await change.context.in_thread(shadow.in_the_way, top, new)
    if not there:
        return
    wanted = safety.literal_paths(there[:_MOST_IN_THE_WAY])
    words = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--")
    lost = parsing.parse_names((await change.check(*words, *wanted)).out)
    others = parsing.parse_names(
        (await change.check("ls-files", "-z", "--others", "--", *wanted)).out
    )
    lost += [path for path in others if path.endswith("/")]
    lost += await change.refused(others)
    if lost:
        raise would_be_lost(list(dict.fromkeys(lost)))


@handles(GitAdd)
async def git_add(context: Context, command: GitAdd) -> GitChangeResult:
    async with changing(context, command.repository, is_dry=command.dry_run) as change:
        paths = await allowed_paths(change, command.paths)
        await change.warn_of_filters()
        before = await _staged(change, {})
        if command.dry_run:
            async with index_copy(change) as env:
                await change.check("add", "--all", "--", *paths, more=env)
                after = await _staged(change, env)
        else:
            await change.check("add", "--all", "--", *paths)
            after = await _staged(change, {})
        files = list(_new_in(after, before).values())
        words = "would be staged" if command.dry_run else "staged"
        message = f"{number_of(files)} {words}" if files else "nothing to stage"
        return change.result(message, is_changed=after != before, files=files)


async def allowed_paths(change: RepositoryChange, paths: Sequence[str]) -> list[str]:
    """Paths to be staged or put aside, without files that differ and may not be changed."""
    wanted = inside(change.context, change.repository, paths)
    status = (*STATUS, "--", *safety.literal_paths(wanted))
    words = [word.replace("files=normal", "files=all") for word in status]
    words[words.index("--find-renames")] = "--no-renames"
    tree = parsing.parse_status((await change.check(*words)).out)
    differing = [one.path for one in (*tree.staged, *tree.changed)]
    conflicts = [one.path for one in tree.conflicts]
    left = await change.refused([*tree.untracked, *differing, *conflicts])
    if left:
        change.note_left(left, "out")
    return safety.literal_paths(wanted, left)


async def _staged(change: RepositoryChange, env: dict[str, str]) -> dict[tuple[str, str], GitFile]:
    """Return what the index holds and HEAD does not, by path and content."""
    base = await change.base(await change.head())
    words = ("diff-index", "--cached", "--raw", "-z", "--no-abbrev", "--find-renames", base, "--")
    output = await change.check(*words, more=env)
    found: dict[tuple[str, str], GitFile] = {}
    items = iter(parsing.text_of(output.out).split("\0"))
    for item in items:
        if not item.startswith(":"):
            continue
        _, mode, _, blob, state = item[1:].split(" ")
        old = next(items, None) if state[0] in "RC" else None
        path = next(items, "")
        name = parsing.CHANGES.get(state[0], state)
        found[path, f"{mode}{blob}"] = GitFile(path=path, change=name, old_path=old)
    return found


def _new_in(
    after: dict[tuple[str, str], GitFile], before: dict[tuple[str, str], GitFile]
) -> dict[tuple[str, str], GitFile]:
    return {key: one for key, one in after.items() if key not in before}


@handles(GitCommit)
async def git_commit(context: Context, command: GitCommit) -> GitChangeResult:
    async with changing(context, command.repository, is_dry=command.dry_run) as change:
        tree = await change.status()
        is_merge = await context.in_thread(under_way_in, change.repository) == "merge"
        resolved = inside(context, change.repository, command.paths) if is_merge else []
        if conflicts := [one for one in tree.conflicts if not _is_below(one.path, resolved)]:
            return change.result(
                "nothing was committed: there are conflicts",
                is_changed=False,
                conflicts=conflicts,
            )
        await change.warn_of_filters()
        paths = await allowed_paths(change, command.paths) if command.paths else []
        if is_merge or not command.paths:
            staged = await change.staged(await change.head())
            await refusals.refuse(context, change.repository, staged, command.name)
        if command.dry_run:
            return await _would_commit(change, paths)
        return await _commit(change, command.message, paths, tree.branch, is_merge=is_merge)


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(one in ("", ".", path) or path.startswith(f"{one}/") for one in folders)


async def _would_commit(change: RepositoryChange, paths: Sequence[str]) -> GitChangeResult:
    async with index_copy(change) as env:
        if paths:
            base = await change.head()
            if base is not None:
                await change.check("read-tree", base, more=env)
            await change.check("add", "--all", "--", *paths, more=env)
        files = list((await _staged(change, env)).values())
    message = f"{number_of(files)} would be committed" if files else "nothing to commit"
    return change.result(message, is_changed=bool(files), files=files)


async def _commit(
    change: RepositoryChange,
    message: str,
    paths: Sequence[str],
    branch: str | None,
    *,
    is_merge: bool,
) -> GitChangeResult:
    before = await change.head()
    if paths:
        await change.check("add", "--all", "--", *paths)
    if not is_merge and not await _has_staged(change, before, paths):
        return change.result("nothing to commit", is_changed=False, branch=branch, commit=before)
    words = ["commit", "--quiet", "--cleanup=whitespace", f"--message={message}"]
    if not change.context.settings.now.git.allow_hooks:
        words.append("--no-verify")
    if not change.context.settings.now.git.allow_programs:
        words.append("--no-gpg-sign")
    only = ["--only", "--", *paths] if paths and not is_merge else []
    output = await change.git(*words, *only)
    if not output.is_success:
        raise _not_committed(output)
    commit = await change.commit_of("HEAD")
    base = await change.base(before)
    listed = await change.check("diff-tree", "-r", *NAME_STATUS, base, commit)
    files = parsing.parse_name_status(listed.out)
    subject = message.strip().splitlines()[0][:200]
    said = f"{commit[:9]} {subject}"
    return change.result(said, is_changed=True, files=files, commit=commit, branch=branch)


async def _has_staged(change: RepositoryChange, base: str | None, paths: Sequence[str]) -> bool:
    """Whether the index differs from the commit, in these paths."""
    tree = await change.base(base)
    words = ("diff-index", "--cached", "--quiet", "--no-ext-diff", tree, "--")
    output = await change.git(*words, *paths)
    if output.code not in (0, 1):
        raise failure_of(output, "diff-index")
    return output.code == 1


def _not_committed(output: Output) -> Failed:
    if any(text in output.err for text in _NO_IDENTITY):
        return Failed(
            "git does not know who commits",
            "git config user.name and user.email, in the repository or for you",
        )
    return failure_of(output, "commit")


@handles(GitAbort)
async def git_abort(context: Context, command: GitAbort) -> GitChangeResult:
    async with changing(context, command.repository, is_dry=command.dry_run) as change:
        under_way = await context.in_thread(under_way_in, change.repository)
        if under_way is None:
            return change.result("no merge is under way", is_changed=False)
        if under_way != "merge":
            message = f"a {under_way} is under way, not a merge"
            raise Refused(message, f"git itself ends it: git {under_way} --abort")
        changes = await _differing(change, [""], await change.head(), is_staged=False)
        await change.refuse(changes, command.name)
        files = [one.file for one in changes]
        if command.dry_run:
            message = f"the merge would be left, and {number_of(files)} restored"
            return change.result(message, is_changed=True, files=files)
        await refuse_overwriting(change, files)
        kept = await context.workspace.checkpoints.make(change.repository, "before git_abort")
        await change.check("reset", "--quiet", "--merge")
        result = change.result("the merge was left", is_changed=True, files=files)
        return msgspec.structs.replace(result, checkpoint=kept.id if kept is not None else None)


@handles(GitRestore)
async def git_restore(context: Context, command: GitRestore) -> GitChangeResult:
    async with changing(context, command.repository, is_dry=command.dry_run) as change:
        wanted = inside(context, change.repository, command.paths)
        source = None if command.rev is None else await change.commit_of(command.rev)
        left = await _left_alone(change, source, wanted)
        paths = safety.literal_paths(wanted, sorted(left))
        changes = await _differing(change, wanted, source, is_staged=command.staged)
        if denied := [one.path for one in changes if one.path in left]:
            change.note_left(denied, "alone")
        changes = [one for one in changes if one.path not in left]
        files = [one.file for one in changes]
        if not command.staged:
            await change.refuse(changes, command.name)
        if command.dry_run or not files:
            message = f"{number_of(files)} would be restored" if files else "nothing to restore"
            return change.result(message, is_changed=bool(files), files=files)
        kept = None
        if not command.staged:
            await refuse_overwriting(change, files)
            kept = await context.workspace.checkpoints.make(change.repository, "before git_restore")
        words = ["restore", "--quiet", "--no-recurse-submodules"]
        words += ["--staged"] if command.staged else ["--worktree"]
        words += [] if source is None else [f"--source={source}"]
        await change.check(*words, "--", *paths)
        result = change.result(f"{number_of(files)} restored", is_changed=True, files=files)
        return msgspec.structs.replace(result, checkpoint=kept.id if kept is not None else None)


async def _left_alone(
    change: RepositoryChange, source: str | None, wanted: Sequence[str]
) -> set[str]:
    """Return the files below these paths that git knows and that may not be changed. Also those
    without a difference: git sees none in a file marked `assume-unchanged`, and overwrites it."""
    listed = parsing.parse_names((await change.check("ls-files", "-z")).out)
    if source is not None:
        words = ("ls-tree", "-r", "-z", "--name-only", "--full-tree", source)
        listed += parsing.parse_names((await change.check(*words)).out)
    folders = tuple(f"{path}/" for path in wanted if path)
    if "" not in wanted:
        listed = [path for path in listed if f"{path}/".startswith(folders)]
    return set(await change.refused(listed))


async def _differing(
    change: RepositoryChange, paths: Sequence[str], source: str | None, *, is_staged: bool
) -> list[parsing.RawChange]:
    """Return what a restore would change, in the reverse direction of `git diff`."""
    where = ["--cached"] if is_staged else []
    if is_staged and source is None:
        source = await change.base(await change.head())
    words = ["diff", *where, *refusals.RAW, "--no-textconv", "--no-ext-diff", "-R"]
    words += ["--ignore-submodules=dirty", *([] if source is None else [source])]
    output = await change.check(*words, "--", *safety.literal_paths(paths))
    found = {one.path: one for one in parsing.parse_raw(output.out)}
    return list(found.values())
