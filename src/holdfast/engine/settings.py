"""The settings in force: everything in the configuration beside its services.

Kept in the keeper's memory, because they may hold secrets. A new supervisor continues with them and
does not read the file again.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.own_log import logger
from holdfast.engine.runner.environment import KeeperApi
from holdfast.vocabulary.specs.settings import Settings

_log = logger("settings")


class CurrentSettings:
    """One set of settings, replaced as a whole."""

    def __init__(self, keeper: KeeperApi) -> None:
        self._keeper = keeper
        self._listeners: list[Callable[[Settings], None]] = []
        self.on_reapplied: list[Callable[[], None]] = []
        """Called when the same settings are applied again: what failed may work now."""
        self.now = Settings()

    def listen(self, listener: Callable[[Settings], None]) -> None:
        """Call the listener with the settings, now and whenever they change."""
        self._listeners.append(listener)
        listener(self.now)

    def apply(self, settings: Settings) -> None:
        if settings == self.now:
            for try_again in self.on_reapplied:
                try_again()
            return
        self._keeper.keep(keeper_memory.SETTINGS, msgspec.json.encode(settings).decode())
        self._use(settings)

    def restore(self, kept: dict[str, str]) -> None:
        """Continue with those of an earlier supervisor."""
        if keeper_memory.SETTINGS not in kept:
            return
        try:
            settings = msgspec.json.decode(kept[keeper_memory.SETTINGS], type=Settings)
        except msgspec.MsgspecError as error:
            # Another version wrote them; `holdfast reload` reads the file again.
            _log.error("the settings of an earlier supervisor are not understood: %s", error)
            return
        self._use(settings)

    def _use(self, settings: Settings) -> None:
        self.now = settings
        for listener in self._listeners:
            listener(settings)
