"""The choices of each actor for the pages. Bounded in number and size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.vocabulary.errors import UsageError

SAVED_AS = "preferences"
MOST_ACTORS = 100
MOST_NAMES = 64
MOST_BYTES = 16 * 1024
_log = logger("preferences")


class PreferenceStore:
    """Keeps preferences by actor; `save` writes a value of the history database by its name."""

    def __init__(self, save: Callable[[str, str], None]) -> None:
        self._save = save
        self._values: dict[str, dict[str, Any]] = {}

    def restore(self, meta: Mapping[str, str]) -> None:
        if (text := meta.get(SAVED_AS)) is None:
            return
        try:
            self._values = msgspec.json.decode(text, type=dict[str, dict[str, Any]])
        except msgspec.MsgspecError as error:
            _log.warning("the preferences are not understood: %s", error)

    def of(self, actor: str) -> dict[str, Any]:
        return self._values.get(actor, {})

    def change(self, actor: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Change some of an actor's preferences and return all; None takes one out."""
        changed = {**self.of(actor), **values}
        changed = {name: value for name, value in changed.items() if value is not None}
        hint = "take some out: null removes one"
        if len(changed) > MOST_NAMES:
            raise UsageError(f"there are at most {MOST_NAMES} preferences", hint)
        if len(msgspec.json.encode(changed)) > MOST_BYTES:
            raise UsageError(f"preferences take at most {MOST_BYTES >> 10} KiB", hint)
        # The actor that changed something last is the last one to be forgotten.
        self._values.pop(actor, None)
        if changed:
            self._values[actor] = changed
        for oldest in list(self._values)[:-MOST_ACTORS]:
            del self._values[oldest]
        self._save(SAVED_AS, msgspec.json.encode(self._values).decode())
        return changed
