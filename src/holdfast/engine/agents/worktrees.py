"""Git worktrees of sessions: one is made for a session and ends with it.

Nothing that is not committed or merged is ever lost: a worktree with changes or with files that git
ignores is kept, and so is a branch with commits of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from holdfast.engine.tasks import Task, TaskResult, Tasks
from holdfast.secrets.redaction import redact
from holdfast.vocabulary.errors import Failed

GIT_SECONDS = 120.0
BRANCHES = "agent/"
"""How the names of their branches begin."""
_STATUS = ("status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=none")
"""What is there, whatever the user's settings hide."""


class Worktrees:
    """Makes and ends them, by git."""

    def __init__(self, tasks: Tasks, environ: Callable[[], Mapping[str, str]], state: str) -> None:
        self._tasks = tasks
        self._environ = environ
        self._root = os.path.join(state, "worktrees")

    async def make(self, folder: str, name: str) -> tuple[str, str]:
        """Make a worktree of the repository that a folder is in, on a branch of its own; returns
        its path and the repository's."""
        found = await self._git(folder, "rev-parse", "--show-toplevel")
        if not found.is_success:
            raise Failed(f"{folder} is in no git repository", "leave out --worktree")
        repository = found.out.decode("utf-8", "surrogateescape").strip()
        if not (await self._git(repository, "rev-parse", "--verify", "-q", "HEAD")).is_success:
            raise Failed(
                f"{repository} has no commit yet", "commit something, or leave out --worktree"
            )
        # The name of a service is used again, that of a branch never.
        unique = f"{name}-{os.urandom(3).hex()}"
        path = os.path.join(self._root, unique)
        made = await self._git(repository, "worktree", "add", "-b", BRANCHES + unique, path)
        if not made.is_success:
            raise Failed(f"git made no worktree: {_said(made)}", "git tells more there")
        return path, repository

    async def end(self, path: str, repository: str, how: str) -> str:
        """Do at the end of a session what the configuration says; returns what was done."""
        branch = BRANCHES + os.path.basename(path)
        if how == "keep":
            return f"its worktree is kept: {path} ({branch})"
        dirty = await self._git(path, *_STATUS)
        if not dirty.is_success or dirty.out.strip():
            return f"its worktree has changes that are not committed and is kept: {path} ({branch})"
        if how == "merge":
            merged = await self._git(repository, "merge", "--no-edit", branch)
            if not merged.is_success:
                await self._git(repository, "merge", "--abort")
                return f"{branch} cannot be merged ({_said(merged)}); its worktree is kept: {path}"
        is_merged = await self._git(repository, "merge-base", "--is-ancestor", branch, "HEAD")
        if not is_merged.is_success:
            return f"{branch} has commits that are not merged; its worktree is kept: {path}"
        ignored = await self._git(path, *_STATUS, "--ignored")
        if not ignored.is_success or ignored.out.strip():
            done = "is merged" if how == "merge" else "has nothing to merge"
            return f"{branch} {done}; its worktree has ignored files and is kept: {path}"
        removed = await self._git(repository, "worktree", "remove", path)
        if not removed.is_success:
            return f"its worktree is kept: {path} ({_said(removed)})"
        await self._git(repository, "branch", "-d", branch)
        return f"{branch} is merged" if how == "merge" else "its worktree is removed"

    async def _git(self, folder: str, *words: str) -> TaskResult:
        task = Task(
            name="git",
            argv=("git", "-C", folder, *words),
            working_dir=folder,
            timeout=GIT_SECONDS,
            env={**self._environ(), "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
        )
        return await self._tasks.run(task)


def _said(result: TaskResult) -> str:
    lines = result.err.decode("utf-8", "replace").strip().splitlines()
    return redact(lines[-1][:300]) if lines else result.reason
