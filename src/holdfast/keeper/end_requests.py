"""Requests from outside that the keeper end: SIGTERM and SIGINT.

The first is the supervisor's to carry out, in its order; the keeper sees to it that somebody
does. Ends no run itself: that is the keeper's `shutdown`.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.keeper.keeper import Keeper

NOTED_SECONDS = 3.0
HOPELESS_FAILURES = 3


class EndRequests:
    """How often we were asked, and whether the supervisor has taken it on itself."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._count = 0
        self.is_noted = False

    def on_signal(self, number: int) -> None:
        """The supervisor's to do, if it is there and answers; asked again, we do it at once."""
        keeper = self._keeper
        self._count += 1
        if self._count == 1 and keeper.link is not None and keeper.link.is_greeted:
            keeper.announce({"notice": "shutdown_requested", "signal": number})
            keeper.loop.call_later(NOTED_SECONDS, self._see_to_it)
            return
        keeper.shutdown(0.0 if self._count > 2 else None)

    def abandon_supervisor(self) -> None:
        """It does not answer: end it without asking, for good."""
        supervisor = self._keeper.supervisor
        supervisor.retire(lambda: None)
        if supervisor.pid is not None:
            os.kill(supervisor.pid, signal.SIGKILL)

    def _see_to_it(self) -> None:
        """If the supervisor hangs, or dies and cannot start, everything is ended without it."""
        keeper = self._keeper
        if keeper.is_shutting_down or keeper.supervisor.state == "off":
            return
        if self.is_noted and keeper.supervisor.failures < HOPELESS_FAILURES:
            keeper.loop.call_later(NOTED_SECONDS, self._see_to_it)
            return
        self.abandon_supervisor()
        keeper.shutdown()
