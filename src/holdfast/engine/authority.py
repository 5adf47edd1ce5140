"""What this Holdfast as a whole admits: its mode, a lockdown, what waits for approval."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from holdfast.engine.approvals import Approvals
from holdfast.engine.lockdown import Lockdown
from holdfast.engine.modes import AdvancedServices, Modes


class Authority(NamedTuple):
    """The three, for who asks and for who decides."""

    modes: Modes
    lockdown: Lockdown
    approvals: Approvals

    @property
    def advanced(self) -> AdvancedServices | None:
        return self.modes.container.advanced_services

    def status(self) -> dict[str, Any]:
        """What a status says of them; next to nothing where there is nothing to say."""
        lockdown, waiting = self.lockdown.now, len(self.approvals.waiting)
        return {
            "runtime_mode": self.modes.now,
            "lockdown": msgspec.UNSET if lockdown is None else msgspec.to_builtins(lockdown),
            "approvals": waiting or msgspec.UNSET,
        }
