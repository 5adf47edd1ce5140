"""Actions that failed, tried again until they succeed.

A keeper that takes over processes must go on, whatever the file system refuses: files can be
written later, lost processes cannot be repaired. Knows nothing of the actions.
"""

from __future__ import annotations

from holdfast.keeper import stderr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.keeper.loop import Loop

RETRY_SECONDS = 1.0


class Retry:
    """Actions by name. An action raises as long as it cannot be done."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._failed: dict[str, Callable[[], None]] = {}

    def attempt(self, what: str, do: Callable[[], None]) -> None:
        """Do it now. If that fails, log the error and try again later."""
        try:
            do()
        except Exception as error:  # noqa: BLE001 - no failure here may end the keeper
            stderr.say(f"{what}: {type(error).__name__}: {error}; it will be tried again")
            self.later(what, do)

    def later(self, what: str, do: Callable[[], None]) -> None:
        if not self._failed:
            self._loop.call_later(RETRY_SECONDS, self._try_all)
        self._failed.setdefault(what, do)

    def _try_all(self) -> None:
        attempts, self._failed = self._failed, {}
        for what, do in attempts.items():
            self.attempt(what, do)
