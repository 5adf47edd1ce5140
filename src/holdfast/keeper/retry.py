"""What could not be done yet, tried again until it is done.

A keeper that takes over from another must live, whatever the file system refuses: only the
processes it keeps are beyond repair. Knows nothing of what it tries.
"""

from __future__ import annotations

from holdfast.keeper import stderr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.keeper.loop import Loop

RETRY_SECONDS = 1.0


class Retry:
    """Attempts by name; each raises for as long as it is refused."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._open: dict[str, Callable[[], None]] = {}

    def attempt(self, what: str, do: Callable[[], None]) -> None:
        """Do it now, or complain and do it later."""
        try:
            do()
        except Exception as error:  # noqa: BLE001 - nothing of this may end everybody's processes
            stderr.say(f"{what}: {type(error).__name__}: {error}; it will be tried again")
            self.later(what, do)

    def later(self, what: str, do: Callable[[], None]) -> None:
        if not self._open:
            self._loop.call_later(RETRY_SECONDS, self._try_all)
        self._open.setdefault(what, do)

    def _try_all(self) -> None:
        attempts, self._open = self._open, {}
        for what, do in attempts.items():
            self.attempt(what, do)
