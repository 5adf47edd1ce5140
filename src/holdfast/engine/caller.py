"""The environment and options of the last `up`, with which the configuration is read.

Kept in the keeper's memory, because environments hold secrets. A reload from any door reads the
file with these, so that it does not depend on the caller.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.engine.runner.environment import KeeperApi


class UpEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    environment: dict[str, str] = {}
    settings: dict[str, str] = {}
    """Options of the command line: log level, port."""


def remember(keeper: KeeperApi, caller: UpEnvironment) -> None:
    keeper.keep(keeper_memory.CALLER, msgspec.json.encode(caller, order="deterministic").decode())


def recall(kept: dict[str, str]) -> UpEnvironment | None:
    """Return them; None before the first `up`."""
    return (
        msgspec.json.decode(kept[keeper_memory.CALLER], type=UpEnvironment)
        if keeper_memory.CALLER in kept
        else None
    )


class CallersEnvironment:
    """The environment of the last `up`, or our own before it; decoded again when it changes."""

    def __init__(self, keeper: KeeperApi) -> None:
        self._keeper = keeper
        self._text: str | None = None
        self._environ: Mapping[str, str] = os.environ

    def __call__(self) -> Mapping[str, str]:
        text = self._keeper.kept.get(keeper_memory.CALLER)
        if text is not self._text:
            said = recall(dict(self._keeper.kept))
            self._text, self._environ = text, said.environment if said is not None else os.environ
        return self._environ
