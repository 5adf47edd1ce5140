"""Checkpoints: the files of a work tree at a moment, as commits on refs of their own.

Made before the first change of a session, on request, and before every restore. Work tree, index
and branches stay untouched. The caller holds the repository's lock.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.adapters.files.roots import Roots
from holdfast.adapters.git import parsing, refusals, shadow
from holdfast.adapters.git.parsing import RawChange
from holdfast.adapters.git.repository import Repository
from holdfast.adapters.git.shadow import Shadow
from holdfast.engine.git.git import CHANGE_SECONDS, Git, Output, failure_of
from holdfast.rules import git as safety
from holdfast.rules.git import Entry
from holdfast.vocabulary.errors import Failed, NotFound
from holdfast.vocabulary.git import Checkpoint, GitFile

REFS = "refs/holdfast/checkpoints/"
MOST_KEPT = 200
_SUBJECT = "Holdfast checkpoint"
_FORMAT = "%(refname)%00%(objectname)%00%(committerdate:unix)%00%(contents)%00%01"
_MOST_SKIPPED = 1000
_MOST_IGNORED = 5000
_MOST_TOLD = 50
_INDEX = "GIT_INDEX_FILE"
_MOST_LEFT_OUT = 2000


class _WorkTreeSnapshot(NamedTuple):
    shadow: Shadow
    config: list[Entry]
    tree: str
    skipped: list[str]
    ignored: list[str]
    """Files and folders that exist but are not in the checkpoint; folders end with a slash."""


class CheckpointStore:
    """Makes, lists and restores checkpoints."""

    def __init__(
        self,
        git: Git,
        in_thread: Callable[..., Awaitable[Any]],
        state: str,
        roots: Callable[[], Roots],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._git = git
        self._in_thread = in_thread
        self._state = state
        self._roots = roots
        self._clock = clock
        self._begun: set[tuple[str, str]] = set()

    async def ensure(self, repository: Repository, session: str) -> Checkpoint | None:
        """Make the first checkpoint of a session; return None if it has one."""
        key = (session, repository.tree.name)
        if key in self._begun:
            return None
        async with self._git.turn(repository):
            if key in self._begun:
                return None
            made = None
            if not any(one.session == session for one in await self.known(repository)):
                made = await self.make(repository, "before the first change", session)
            self._begun.add(key)
            return made

    async def make(
        self, repository: Repository, note: str = "", session: str | None = None
    ) -> Checkpoint:
        return (await self._make(repository, note, session))[0]

    async def known(self, repository: Repository) -> list[Checkpoint]:
        """Return all checkpoints of a repository, newest first."""
        output = await self._git.check(
            repository, "for-each-ref", "--sort=-refname", f"--format={_FORMAT}", REFS
        )
        found = []
        for entry in output.out.split(b"\0\x01"):
            fields = entry.strip(b"\n").decode("utf-8", "replace").split("\0")
            if len(fields) >= 4:
                found.append(_parsed(fields[0], fields[1], fields[2], fields[3]))
        return found

    async def find(
        self, repository: Repository, name: str | None, session: str | None
    ) -> Checkpoint:
        """Return the checkpoint with this id, or the newest."""
        known = await self.known(repository)
        if name is not None:
            for one in known:
                if one.id == name:
                    return one
            newest = ", ".join(one.id for one in known[:5]) or "none"
            raise NotFound(f'no checkpoint "{name[:60]}"', f"the newest are: {newest}")
        own = [one for one in known if session is not None and one.session == session]
        if not known:
            raise NotFound("there is no checkpoint yet", "`checkpoint` makes one")
        return (own or known)[0]

    async def restore(
        self, repository: Repository, wanted: Checkpoint, session: str | None, *, is_dry: bool
    ) -> tuple[Checkpoint | None, list[GitFile]]:
        """Restore files. What is there now is saved in another checkpoint first."""
        saved: Checkpoint | None = None
        if is_dry:
            seen = await self._see(repository)
        else:
            saved, seen = await self._make(repository, f"before restoring {wanted.id}", session)
        tree = (await self._run(repository, seen, "rev-parse", f"{wanted.commit}^{{tree}}")).line()
        differing = await self._between(repository, seen, tree)
        there = await self._left_out_of(repository, seen, wanted)
        paths = [change.path for change in differing]
        refused = await self._in_thread(refusals.refused, self._roots(), repository, paths)
        kept = [change for change in differing if there(change.path) or change.path in refused]
        if kept:
            tree = await self._with(repository, seen, tree, kept)
        names = {change.path for change in kept}
        files = [change.file for change in differing if change.path not in names]
        await self._refuse_overwriting(repository, seen, files)
        if is_dry or not files:
            return saved, files
        top, paths = repository.work_tree, [file.path for file in files]
        modes = await self._in_thread(shadow.modes_of, top, paths)
        # A file as young as the index counts as changed until git has read it.
        words = ("update-index", "-q", "--refresh")
        await self._run(repository, seen, *words, may_fail=lambda _: True)
        # Refuses, and changes nothing, if a file differs from the tree just taken.
        await self._run(repository, seen, "read-tree", "-m", "-u", seen.tree, tree)
        await self._in_thread(shadow.keep_modes, repository, self._roots().opener, modes)
        return saved, files

    async def _refuse_overwriting(
        self, repository: Repository, seen: _WorkTreeSnapshot, files: Sequence[GitFile]
    ) -> None:
        """Refuse to overwrite files that no checkpoint holds, because they are ignored or too
        large.
        """
        new = [file.path for file in files if file.change == "added"]
        there = await self._in_thread(shadow.in_the_way, repository.work_tree, new)
        if not there:
            return
        words = ("ls-files", "-z", "--others", "--", *safety.literal_paths(there[:_MOST_LEFT_OUT]))
        listed = parsing.text_of((await self._run(repository, seen, *words)).out)
        lost = [path for path in listed.split("\0") if path]
        if lost:
            raise would_be_lost(lost)

    async def _left_out_of(
        self, repository: Repository, seen: _WorkTreeSnapshot, wanted: Checkpoint
    ) -> Callable[[str], bool]:
        """Return a test for files that existed, but are not in the checkpoint: they are not
        removed.
        """
        words = ("log", "-1", "--format=%B", wanted.commit)
        facts = _facts_of(parsing.text_of((await self._run(repository, seen, *words)).out))
        files = {*(facts.get("skipped") or ()), *(facts.get("ignored") or ())}
        folders = tuple(path for path in files if path.endswith("/"))
        return lambda path: path in files or path.startswith(folders)

    async def _between(
        self, repository: Repository, seen: _WorkTreeSnapshot, tree: str
    ) -> list[RawChange]:
        """Return what differs between the present tree and another."""
        words = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", seen.tree, tree)
        return parsing.parse_raw((await self._run(repository, seen, *words)).out)

    async def _with(
        self, repository: Repository, seen: _WorkTreeSnapshot, tree: str, kept: Sequence[RawChange]
    ) -> str:
        """Return a tree in which some files are as they are now: those that were left out of it,
        and those that may not be changed.
        """
        path = f"{seen.shadow.folder}/index.wanted"
        aside = seen._replace(shadow=seen.shadow._replace(env={**seen.shadow.env, _INDEX: path}))
        await self._run(repository, aside, "read-tree", tree)
        for one in kept:
            is_there = int(one.old_mode, 8) != 0
            entry = ("--add", "--cacheinfo", f"{one.old_mode},{one.old_blob},{one.path}")
            gone = ("--force-remove", "--", one.path)
            await self._run(repository, aside, "update-index", *(entry if is_there else gone))
        return (await self._run(repository, aside, "write-tree")).line()

    async def _make(
        self, repository: Repository, note: str, session: str | None
    ) -> tuple[Checkpoint, _WorkTreeSnapshot]:
        seen = await self._see(repository)
        head, branch = await self._head(repository)
        facts = {
            "session": session,
            "head": head,
            "branch": branch,
            "skipped": seen.skipped[:_MOST_SKIPPED],
            "ignored": seen.ignored[:_MOST_IGNORED],
        }
        text = " ".join(note.split())
        title = f"{_SUBJECT}: {text}" if text else _SUBJECT
        parent = () if head is None else ("-p", head)
        message = f"{title}\n\n{json.dumps(facts)}"
        file = await self._in_thread(shadow.write_message, seen.shadow, message)
        output = await self._run(repository, seen, "commit-tree", seen.tree, *parent, "-F", file)
        commit = output.line()
        now = self._clock()
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
        name = f"{stamp}-{int(now % 1 * 1000):03d}{commit[:5]}"
        await self._git.check(
            repository, "update-ref", "--no-deref", f"{REFS}{name}", commit, "0" * len(commit)
        )
        await self._prune(repository)
        made = _parsed(f"{REFS}{name}", commit, str(now), message)
        return made, seen

    async def _see(self, repository: Repository) -> _WorkTreeSnapshot:
        """Return the work tree as a tree of git, byte for byte."""
        shade, config = await self._shadow(repository)
        try:
            return await self._take(repository, shade, config)
        except Failed:
            # Another version may have written the index, or it was cut off: look at every file.
            await self._in_thread(shadow.forget_index, shade)
            shade, config = await self._shadow(repository, may_seed=False)
            return await self._take(repository, shade, config)

    async def _take(
        self, repository: Repository, shade: Shadow, config: list[Entry]
    ) -> _WorkTreeSnapshot:
        seen = _WorkTreeSnapshot(shade, config, "", [], [])
        words = ("ls-files", "-z", "-t", "--others", "--modified", "--exclude-standard")
        listed = parsing.text_of((await self._run(repository, seen, *words)).out)
        new = [entry[2:] for entry in listed.split("\0") if entry.startswith("? ")]
        old = [entry[2:] for entry in listed.split("\0") if entry and not entry.startswith("? ")]
        denials = self._roots().denials
        untaken: shadow.Candidates = await self._in_thread(shadow.sift, repository, denials, new)
        unchanged: shadow.Candidates = await self._in_thread(shadow.sift, repository, denials, old)
        await self._in_thread(shadow.leave_out, shade, untaken.left_out)
        if new or old:
            left_out = safety.literal_paths([], unchanged.left_out) or [":(top)"]
            file = await self._in_thread(shadow.write_paths, shade, left_out)
            named = (f"--pathspec-from-file={file}", "--pathspec-file-nul")
            add = ("add", "--all", "--ignore-errors", *named)
            await self._run(repository, seen, *add, may_fail=_is_only_unreadable)
        tree = (await self._run(repository, seen, "write-tree")).line()
        words = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
        listed = parsing.text_of((await self._run(repository, seen, *words)).out)
        ignored = [path for path in listed.split("\0") if path]
        skipped = [*untaken.too_large, *unchanged.too_large]
        return seen._replace(tree=tree, skipped=skipped, ignored=ignored)

    async def _shadow(
        self, repository: Repository, *, may_seed: bool = True
    ) -> tuple[Shadow, list[Entry]]:
        configured = await self._git.configured(repository)
        words = ("ls-files", "-z", "--", ":(top,glob)**/.gitattributes")
        has_conversions = (
            await self._has_hidden_files(repository)
            or configured.get("core.autocrlf", "false") != "false"
            or "core.attributesfile" in configured
            or await self._in_thread(shadow.has_attributes, repository)
            or bool((await self._git.check(repository, *words)).out)
        )
        objects = configured.get("extensions.objectformat", "sha1")
        shade: Shadow = await self._in_thread(
            lambda: shadow.prepare(
                repository, self._state, objects, may_seed=may_seed and not has_conversions
            )
        )
        excludes = await self._git.excludes_file(repository)
        config = [("gc.auto", "0"), ("core.fsmonitor", "false"), ("core.hooksPath", "/dev/null")]
        if excludes is not None:
            config.append(("core.excludesFile", excludes))
        return shade, config

    async def _has_hidden_files(self, repository: Repository) -> bool:
        """Return whether git was told to ignore changes of some files: a copy of its index would,
        too.
        """
        output = await self._git.check(repository, "ls-files", "-z", "-v")
        tags = {entry[:1] for entry in output.out.split(b"\0") if entry}
        return output.is_cut or any(tag == b"S" or tag.islower() for tag in tags)

    async def _run(
        self,
        repository: Repository,
        seen: _WorkTreeSnapshot,
        *words: str,
        may_fail: Callable[[Output], bool] = lambda _: False,
    ) -> Output:
        output = await self._git.run(
            repository,
            *words,
            seconds=CHANGE_SECONDS,
            more=seen.shadow.env,
            config=seen.config,
            is_guarded=False,
        )
        if not output.is_success and not may_fail(output):
            raise failure_of(output, words[0])
        return output

    async def _head(self, repository: Repository) -> tuple[str | None, str | None]:
        try:
            head = await self._git.commit_of(repository, "HEAD")
        except NotFound:
            head = None
        branch = await self._git.run(repository, "symbolic-ref", "--short", "--quiet", "HEAD")
        return head, branch.line() or None

    async def _prune(self, repository: Repository) -> None:
        known = await self.known(repository)
        for one in known[MOST_KEPT:]:
            await self._git.run(repository, "update-ref", "--no-deref", "-d", f"{REFS}{one.id}")


def would_be_lost(paths: Sequence[str]) -> Failed:
    """Return the error about files that are in the way and that nothing else holds."""
    paths = [parsing.shown(path) for path in paths[:200]]
    return Failed(
        "these files are in no checkpoint and would be lost: " + ", ".join(paths[:20]),
        "move them away first",
        {"files": paths},
    )


def _is_only_unreadable(output: Output) -> bool:
    """Return whether files were only unreadable: such a file cannot be changed for an assistant
    either.
    """
    said = [line for line in output.err.splitlines() if line.startswith(("error:", "fatal:"))]
    return bool(said) and all(
        line.endswith(": Permission denied") or "unable to index file" in line for line in said
    )


def _facts_of(message: str) -> dict[str, Any]:
    try:
        facts = json.loads(message.partition("\n\n")[2])
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def _parsed(ref: str, commit: str, time_text: str, message: str) -> Checkpoint:
    title, facts = message.partition("\n\n")[0], _facts_of(message)
    skipped = facts.get("skipped") or []
    return Checkpoint(
        id=ref.removeprefix(REFS),
        commit=commit,
        time=float(time_text or 0),
        note=title.partition(": ")[2],
        session=facts.get("session"),
        head=facts.get("head"),
        branch=facts.get("branch"),
        skipped=[parsing.shown(path) for path in skipped[:_MOST_TOLD]] or msgspec.UNSET,
    )
