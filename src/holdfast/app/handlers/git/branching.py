"""Handlers of git commands about branches, stashes and tags."""

from __future__ import annotations

from holdfast.adapters.git import parsing
from holdfast.app.context import Context
from holdfast.app.handlers.git import refusals
from holdfast.app.handlers.git.changing import (
    MOST_FILES,
    NAME_STATUS,
    RepositoryChange,
    allowed_paths,
    changing,
    index_copy,
    number_of,
    refuse_overwriting,
)
from holdfast.app.handlers.git.reading import SETTLE
from holdfast.app.registry import handles
from holdfast.engine.git.git import Output, failure_of
from holdfast.engine.git.status_cache import STATUS
from holdfast.rules import git as safety
from holdfast.vocabulary.errors import Failed, NotFound, Refused, UsageError
from holdfast.vocabulary.git import GitChangeResult, GitFile, GitStash, GitSwitch, GitTag

_NO_RENAMES = (("merge.renames", "false"), ("merge.directoryRenames", "false"))
"""A stash changes the paths that it names, not the paths that they were renamed to since."""


@handles(GitSwitch)
async def git_switch(context: Context, command: GitSwitch) -> GitChangeResult:
    async with changing(context, command.repository, is_dry=command.dry_run) as change:
        branch = None if command.branch is None else safety.check_name(command.branch, "branch")
        target = await _target(change, branch, command)
        before = await change.head()
        if target is not None:
            await change.refuse(await change.between(before, target), command.name)
        if command.dry_run:
            return await _would_switch(change, branch, target)
        await refuse_overwriting(change, await _between(change, before, target))
        words = ["switch", "--quiet", "--no-guess", "--no-recurse-submodules"]
        words.append("--no-overwrite-ignore")
        if branch is None:
            words += ["--detach", target or ""]
        elif command.create:
            words += [f"--create={branch}", *([] if target is None else [target])]
        else:
            words += [branch]
        await change.warn_of_filters()
        output = await change.git(*words)
        if not output.is_success:
            raise _not_switched(output)
        commit = await change.head()
        files = await _between(change, before, commit)
        said = f"on {branch}" if branch is not None else f"at {(commit or '')[:9]}"
        return change.result(said, is_changed=True, files=files, commit=commit, branch=branch)


async def _target(change: RepositoryChange, branch: str | None, command: GitSwitch) -> str | None:
    if command.rev is not None:
        return await change.commit_of(command.rev)
    if branch is None or command.create:
        return await change.head()
    try:
        return await change.commit_of(f"refs/heads/{branch}")
    except NotFound:
        raise NotFound(f'no branch "{branch}"', "`create` makes one") from None


async def _would_switch(
    change: RepositoryChange, branch: str | None, target: str | None
) -> GitChangeResult:
    before = await change.head()
    files = await _between(change, before, target)
    await refuse_overwriting(change, files)
    if before is not None and target is not None and before != target:
        async with index_copy(change) as env:
            await change.git("update-index", "-q", "--refresh", more=env)
            words = ("read-tree", "--dry-run", "-m", "-u", before, target)
            output = await change.git(*words, more=env)
        if not output.is_success:
            raise _not_switched(output)
    said = f"would be on {branch}" if branch is not None else f"would be at {(target or '')[:9]}"
    return change.result(said, is_changed=True, files=files, commit=target, branch=branch)


async def _between(
    change: RepositoryChange, before: str | None, after: str | None
) -> list[GitFile]:
    if before is None or after is None or before == after:
        return []
    output = await change.check("diff-tree", "-r", *NAME_STATUS, before, after)
    return parsing.parse_name_status(output.out)


def _not_switched(output: Output) -> Failed:
    files = parsing.named_files(output.err)
    if not files:
        files = [
            line.split("'")[1]
            for line in output.err.splitlines()
            if line.startswith("error: Entry '") and line.count("'") >= 2
        ]
    if files:
        return Failed(
            "changes in these files would be lost: " + ", ".join(files[:20]),
            "git_commit or git_stash them first, or git_restore them",
            {"files": files[:MOST_FILES]},
        )
    return failure_of(output, "switch")


@handles(GitStash)
async def git_stash(context: Context, command: GitStash) -> GitChangeResult:
    is_dry = command.dry_run or command.action == "list"
    async with changing(context, command.repository, is_dry=is_dry) as change:
        if command.action == "list":
            listed = await change.check("stash", "list", "--format=%gd %gs")
            text = listed.out.decode("utf-8", "replace").strip()
            return change.result(text or "no stashes", is_changed=False)
        if command.action == "push":
            return await _stash_push(change, command)
        name = f"stash@{{{command.number}}}"
        try:
            commit = await change.commit_of(name)
        except NotFound:
            raise NotFound(f"no stash {command.number}", "`action: list` lists them") from None
        base = await change.commit_of(f"{commit}^1")
        files = await _between(change, base, commit)
        if command.action != "drop":
            brought = [*await change.between(base, commit), *await _untracked_in(change, commit)]
            await change.refuse(brought, command.name)
        if command.dry_run:
            words = "forgotten" if command.action == "drop" else "brought back"
            return change.result(f"{name} would be {words}", is_changed=True, files=files)
        output = await change.git("stash", command.action, "--quiet", name, config=_NO_RENAMES)
        if output.is_success:
            words = "forgotten" if command.action == "drop" else "brought back"
            return change.result(f"{name} {words}", is_changed=True, files=files, commit=commit)
        if conflicts := await change.conflicts():
            return change.result(
                f"{name} was brought back with conflicts; it is kept",
                is_changed=True,
                files=files,
                conflicts=conflicts,
                advice=f"{SETTLE}, then git_stash drop",
            )
        raise _not_switched(output)


async def _untracked_in(change: RepositoryChange, stash: str) -> list[parsing.RawChange]:
    """Return the untracked files of a stash: git keeps them in a third parent."""
    try:
        extra = await change.commit_of(f"{stash}^3")
    except NotFound:
        return []
    return await change.between(None, extra)


async def _stash_push(change: RepositoryChange, command: GitStash) -> GitChangeResult:
    if await change.head() is None:
        raise Refused("there is no commit yet, so nothing can be stashed", "git_commit first")
    # A stash holds all that is staged, whatever its paths are.
    staged = await change.staged(await change.head())
    await refusals.refuse(change.context, change.repository, staged, command.name)
    await change.warn_of_filters()
    paths = await allowed_paths(change, command.paths or ["."])
    words = [word.replace("files=normal", "files=all") for word in STATUS]
    tree = parsing.parse_status((await change.check(*words, "--", *paths)).out)
    if tree.conflicts:
        raise Failed("there are conflicts, so nothing can be stashed", SETTLE)
    untracked = [GitFile(path=path, change="untracked") for path in tree.untracked]
    found = {one.path: one for one in [*tree.staged, *tree.changed, *untracked]}
    files = list(found.values())
    if not files:
        return change.result("nothing to stash", is_changed=False)
    if change.is_dry:
        return change.result(f"{number_of(files)} would be stashed", is_changed=True, files=files)
    message = [] if command.message is None else [f"--message={command.message}"]
    base = ["stash", "push", "--quiet", "--include-untracked", *message]
    await change.check(*base, "--", *paths)
    commit = await change.commit_of("stash@{0}")
    return change.result(f"{number_of(files)} stashed", is_changed=True, files=files, commit=commit)


@handles(GitTag)
async def git_tag(context: Context, command: GitTag) -> GitChangeResult:
    async with changing(context, command.repository, is_dry=command.dry_run) as change:
        tag = safety.check_name(command.tag, "tag")
        commit = await change.commit_of(command.rev or "HEAD")
        is_there = await change.git("show-ref", "--verify", "--quiet", f"refs/tags/{tag}")
        if is_there.is_success:
            raise UsageError(f'there is a tag "{tag}" already', "another name; tags are not moved")
        if command.dry_run:
            said = f"{tag} would be made at {commit[:9]}"
            return change.result(said, is_changed=True, commit=commit)
        words = ["tag", "--no-sign", "--cleanup=whitespace"]
        words += [] if command.message is None else ["--annotate", f"--message={command.message}"]
        await change.check(*words, tag, commit)
        return change.result(f"{tag} at {commit[:9]}", is_changed=True, commit=commit)
