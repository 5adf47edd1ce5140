"""Lines that starts wait for: whether a run of a service has printed a matching line.

Looks only while a start asks, from the beginning of the run, and whenever the service printed more.
It looks at an unfinished line only after a moment of silence. A line that was found counts for that
run alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.adapters.own_log import logger
from holdfast.adapters.search.matcher import SharedMatcher
from holdfast.engine.output.subscriptions import SILENCE_SECONDS, OutputSubscriptions
from holdfast.engine.runner.observers import RunObserver
from holdfast.engine.runner.runner import Runner
from holdfast.system import deadlines
from holdfast.vocabulary.errors import HoldfastError

_log = logger("awaited_lines")
_AGAIN_SECONDS = 1.0
Awaited = tuple[str, str, bool]
"""A service, a pattern, and whether it is for the bytes."""


class AwaitedLines(RunObserver):
    """Every line that a start waits for."""

    def __init__(
        self,
        directory: str,
        matcher: SharedMatcher,
        subscriptions: OutputSubscriptions,
        on_found: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._matcher = matcher
        self._subscriptions = subscriptions
        self._on_found = on_found
        self._found: dict[Awaited, str | None] = {}
        self._looking: dict[Awaited, tuple[str | None, asyncio.Task[None]]] = {}

    def has(self, runner: Runner, pattern: str, *, is_raw: bool) -> bool:
        """Return whether the newest run printed the line; if not, look for it from now on."""
        awaited, run_id = (runner.name, pattern, is_raw), runner.last_run_id
        if run_id is None:
            return False
        if awaited in self._found:
            if self._found[awaited] == run_id:
                return True
            del self._found[awaited]
        looked_for = self._looking.get(awaited)
        if looked_for is None or looked_for[0] != run_id:
            self._stop(awaited)
            look = self._look(awaited, run_id, runner.number)
            self._looking[awaited] = (run_id, asyncio.get_running_loop().create_task(look))
        return False

    def removed(self, runner: Runner) -> None:
        for awaited in [
            known for known in (*self._found, *self._looking) if known[0] == runner.name
        ]:
            self._found.pop(awaited, None)
            self._stop(awaited)

    def close(self) -> None:
        for awaited in list(self._looking):
            self._stop(awaited)

    def _stop(self, awaited: Awaited) -> None:
        if (looking := self._looking.pop(awaited, None)) is not None:
            looking[1].cancel()

    async def _look(self, awaited: Awaited, run_id: str, number: int) -> None:
        from holdfast.adapters.probes.log import RunSearch

        service, pattern, is_raw = awaited
        search = RunSearch(
            self._directory, service, number, self._matcher, _in_thread, is_raw=is_raw
        )
        more = asyncio.Event()
        stop = self._subscriptions.call_on_growth(service, more.set)
        try:
            while True:
                more.clear()
                try:
                    if await search.look(pattern) is not None:
                        break
                    if await _is_silent(more, search.unfinished()) and (
                        await search.look_at_unfinished(pattern) is not None
                    ):
                        break
                except HoldfastError as error:
                    _log.warning("%s: a line is looked for in vain: %s", service, error.message)
                    await asyncio.sleep(_AGAIN_SECONDS)
                    continue
                await more.wait()
        finally:
            stop()
            search.close()
        self._looking.pop(awaited, None)
        self._found[awaited] = run_id
        self._on_found(service)


async def _is_silent(more: asyncio.Event, unfinished: list[Any]) -> bool:
    """Return whether there are unfinished lines and nothing comes to end them."""
    if not unfinished:
        return False
    try:
        await deadlines.wait_for(more.wait(), SILENCE_SECONDS)
    except TimeoutError:
        return True
    return False


async def _in_thread(call: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, call, *arguments)
