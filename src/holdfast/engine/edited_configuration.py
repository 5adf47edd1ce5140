"""Notices that files of the configuration were edited since they were loaded.

Compares the digests of the loaded files, which the keeper remembers, with the files as they are. A
file is read again only if its size or times changed. Never loads anything.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.file_digests import digest_now
from holdfast.adapters.own_log import logger
from holdfast.vocabulary.readers import reader

_decode = reader(dict[str, str])
_log = logger("edited_configuration")
PATIENCE_SECONDS = 0.015
_LARGEST = 1024 * 1024
"""The parser refuses a larger file."""
Stamp = tuple[int, int, int]


class EditedConfiguration:
    """The files that differ from what was loaded."""

    def __init__(
        self,
        kept: Mapping[str, str],
        in_thread: Callable[..., Awaitable[Any]],
    ) -> None:
        self._kept = kept
        self._in_thread = in_thread
        self._digests: dict[str, tuple[Stamp | None, str]] = {}
        """Of each file: its size and times when it was read, and its digest."""
        self._looking: asyncio.Task[None] | None = None
        self.files: tuple[str, ...] = ()

    async def refresh(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Look at the files, but never keep a reader waiting for a slow disk."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        await asyncio.wait([self._looking], timeout=patience_seconds)

    async def _look(self) -> None:
        loaded = self._loaded()
        self.files = await self._in_thread(self._find, loaded) if loaded else ()

    def _loaded(self) -> dict[str, str]:
        text = self._kept.get(keeper_memory.APPROVED_CONFIGURATION)
        try:
            return {} if text is None else _decode(text)
        except msgspec.MsgspecError as error:
            _log.warning("the loaded files are not understood: %s", error)
            return {}

    def _find(self, loaded: dict[str, str]) -> tuple[str, ...]:
        """Blocks: a file may be on a slow disk."""
        return tuple(path for path, digest in loaded.items() if self._digest(path) != digest)

    def _digest(self, path: str) -> str:
        stamp = _stamp(path)
        known = self._digests.get(path)
        if known is None or known[0] != stamp:
            known = self._digests[path] = (stamp, digest_now(path, _LARGEST))
        return known[1]


def _stamp(path: str) -> Stamp | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
