"""Caches the last answer of `git status` of each repository, and uses it while it still holds.

Starting git takes longer than checking whether anything changed. In any doubt git is asked again: a
wrong answer is worse than a slow one. Only `context.git_status` uses this cache; without it, `ask`
would run `git status` every time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from holdfast.adapters.files.roots import Roots
from holdfast.adapters.git import work_tree_state
from holdfast.adapters.git.parsing import WorkTree, parse_status, text_of
from holdfast.adapters.git.repository import Repository, under_way_in
from holdfast.adapters.git.work_tree_state import RACY_NANOSECONDS, Mark, Scope, ScopeState
from holdfast.adapters.own_log import logger
from holdfast.engine.git.git import Git, Output, failure_of
from holdfast.rules.files import LocatedPath
from holdfast.vocabulary.errors import HoldfastError

STATUS = (
    *("status", "--porcelain=v2", "-z", "--branch", "--show-stash", "--untracked-files=normal"),
    *("--ignore-submodules=dirty", "--find-renames"),
)
_MOST_KNOWN = 20
_RELEARN_SECONDS = 2.0
_STAGED = ("ls-files", "--stage", "-z")
_LISTED = (
    *("status", "--porcelain=v2", "-z", "--ignored=matching", "--untracked-files=all"),
    *("--ignore-submodules=all", "--no-renames"),
)
_log = logger("status_cache")


class RepositoryStatus(NamedTuple):
    tree: WorkTree
    under_way: str | None
    is_whole: bool


class _Before(NamedTuple):
    """The state of things before git was asked."""

    key: tuple[Mark, ...]
    refs: tuple[Mark, ...]
    seen: ScopeState | None
    began: int

    def is_settled(self) -> bool:
        """Return whether a later change would be noticeable."""
        seen = self.seen
        marks = [] if seen is None else [*seen.marks, *seen.files]
        newest = work_tree_state.newest_in([*self.key, *self.refs, *marks])
        return seen is not None and newest < self.began - RACY_NANOSECONDS


class _CachedRepository:
    def __init__(self) -> None:
        self.scope: Scope | None = None
        self.refs: list[str] = []
        self.rules: list[str] = []
        self.before: _Before | None = None
        self.answer: RepositoryStatus | None = None
        self.learned_at = -_RELEARN_SECONDS
        self.learning: asyncio.Task[None] | None = None


class StatusCache:
    """Answers `git status`."""

    def __init__(
        self,
        git: Git,
        in_thread: Callable[..., Awaitable[Any]],
    ) -> None:
        self._git = git
        self._in_thread = in_thread
        self._all: dict[tuple[object, ...], _CachedRepository] = {}

    async def ask(
        self,
        start: LocatedPath,
        roots: Roots,
        check: Callable[[LocatedPath], None] = lambda _: None,
    ) -> tuple[Repository, RepositoryStatus]:
        """Return the state of the work tree that a folder is in.

        `check` may refuse the repository. The returned repository is closed: only its place is of
        use.
        """
        async with self._git.opened_and(start, roots, self._look_up) as (repository, seen):
            check(repository.place)
            known, before, under_way = seen
            if known.answer is not None and _is_same(before, known.before):
                return repository, known.answer._replace(under_way=under_way)
            output = await self._git.run(repository, *STATUS)
            answer = _answer_of(output, under_way)
            self._remember(repository, roots, known, before, answer)
            return repository, answer

    def close(self) -> None:
        for known in self._all.values():
            if known.learning is not None:
                known.learning.cancel()

    def _look_up(self, repository: Repository) -> tuple[_CachedRepository, _Before, str | None]:
        name = (repository.place, repository.signature, self._git.settings_key())
        known = self._all.get(name)
        if known is None:
            if len(self._all) >= _MOST_KNOWN:
                self._all.clear()
            known = self._all[name] = _CachedRepository()
        began = time.time_ns()
        key = work_tree_state.key_of(repository, known.rules)
        refs = tuple(work_tree_state.marks_of(repository.common.descriptor, known.refs))
        scope = known.scope
        seen = (
            work_tree_state.look(repository, scope)
            if scope is not None and scope.key == key
            else None
        )
        return known, _Before(key, refs, seen, began), under_way_in(repository)

    def _remember(
        self,
        repository: Repository,
        roots: Roots,
        known: _CachedRepository,
        before: _Before,
        answer: RepositoryStatus,
    ) -> None:
        known.answer = None
        refs = work_tree_state.refs_of(answer.tree.branch, answer.tree.upstream)
        scope = known.scope
        is_known = refs == known.refs and scope is not None and before.seen is not None
        known.refs = refs
        if is_known and scope is not None and before.seen is not None:
            is_same_scope = before.seen.marks == scope.marks
            if is_same_scope and answer.is_whole and before.is_settled():
                known.answer, known.before = answer, before
            if is_same_scope:
                return
        self._learn_soon(repository.place, roots, known, work_tree_state.newest_in(before.key))

    def _learn_soon(
        self, place: LocatedPath, roots: Roots, known: _CachedRepository, newest: int
    ) -> None:
        """Learn what has to be looked at, after the answer is given and changes have stopped."""
        now = time.monotonic()
        if known.learning is not None or now - known.learned_at < _RELEARN_SECONDS:
            return
        known.learned_at = now
        age = time.time_ns() - newest  # times of files are wall time
        wait = min(RACY_NANOSECONDS, RACY_NANOSECONDS - age) / 1e9
        task = asyncio.get_running_loop().create_task(self._learn_later(place, roots, known, wait))
        known.learning = task

        def done(_: asyncio.Task[None]) -> None:
            known.learning = None

        task.add_done_callback(done)

    async def _learn_later(
        self, place: LocatedPath, roots: Roots, known: _CachedRepository, wait: float
    ) -> None:
        await asyncio.sleep(max(0.0, wait))
        try:
            known.scope = None
            async with self._git.opened(place, roots) as repository:
                await self._learn(repository, known)
        except HoldfastError as error:
            _log.debug("what a status depends on could not be learned: %s", error.message)

    async def _learn(self, repository: Repository, known: _CachedRepository) -> None:
        began = time.time_ns()
        rules = await self._git.ignore_files(repository)
        if rules is None:
            return
        known.rules = rules
        key = await self._in_thread(work_tree_state.key_of, repository, known.rules)
        staged = await self._git.check(repository, *_STAGED)
        if staged.out.count(b"\0") > work_tree_state.MOST_ENTRIES:
            return
        listed = await self._git.check(repository, *_LISTED)
        texts = text_of(staged.out), text_of(listed.out)
        known.scope = await self._in_thread(work_tree_state.learn, repository, key, *texts, began)


def _answer_of(output: Output, under_way: str | None) -> RepositoryStatus:
    if not output.is_success:
        raise failure_of(output, "status")
    # A cut answer ends in the middle of an entry.
    data = output.out[: output.out.rfind(b"\0") + 1] if output.is_cut else output.out
    return RepositoryStatus(parse_status(data), under_way, not output.is_cut)


def _is_same(now: _Before, then: _Before | None) -> bool:
    return (
        then is not None
        and now.seen is not None
        and then.seen is not None
        and now.key == then.key
        and now.refs == then.refs
        and now.seen == then.seen
    )
