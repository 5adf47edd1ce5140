"""Permission for the whole Holdfast: its mode, a lockdown, commands that wait for approval."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.engine.authority.approvals import ApprovalQueue
from holdfast.engine.authority.lockdown import LockdownSwitch
from holdfast.engine.authority.mode_followers import ModeFollowers
from holdfast.engine.authority.modes import AdvancedServices, Modes


class Authority(msgspec.Struct, frozen=True):
    """Holds the parts."""

    modes: Modes
    lockdown: LockdownSwitch
    approvals: ApprovalQueue
    followers: ModeFollowers

    @property
    def advanced(self) -> AdvancedServices | None:
        return self.modes.container.advanced_services

    def lockdown_facts(self) -> dict[str, Any] | None:
        lockdown = self.lockdown.now
        return None if lockdown is None else msgspec.to_builtins(lockdown)

    def status(self) -> dict[str, Any]:
        """Return their part of a status; as little as possible if there is nothing to say."""
        waiting = len(self.approvals.waiting)
        return {
            "runtime_mode": self.modes.now,
            "lockdown": self.lockdown_facts() or msgspec.UNSET,
            "approvals": waiting or msgspec.UNSET,
        }
