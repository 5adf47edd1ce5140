"""Held definitions of tools as entries of the one list of approvals.

There is one entry for each server of which something is held. Approving it accepts everything that
it names; rejecting it keeps that held, and nobody is asked again until it changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial

from holdfast.engine.authority.approvals import ApprovalQueue, StandingApproval
from holdfast.engine.mcp_servers.registry import Registry
from holdfast.engine.runner.environment import Clock
from holdfast.vocabulary.authority import ApprovalInfo


class McpInbox:
    """Keeps the entries as the registry is."""

    def __init__(self, registry: Registry, approvals: ApprovalQueue, clock: Clock) -> None:
        self._registry = registry
        self._approvals = approvals
        self._clock = clock
        self._entries: dict[str, str] = {}
        """The id of the entry of each server."""
        self.on_approved: Callable[[str, list[str]], None] = lambda server, tools: None
        """Called when these tools of a server are offered as they are now."""

    def update(self, *, is_quiet: bool = False) -> None:
        """Post what is held now, and take away what is not any more. `is_quiet`: it was held
        before, so nobody is told again."""
        wanted = {server: self._entry(server) for server in self._registry.specs}
        for server, identity in list(self._entries.items()):
            entry = wanted.get(server)
            if entry is None or entry.approval != identity:
                self._approvals.withdraw(self._entries.pop(server))
        for server, entry in wanted.items():
            if entry is not None and server not in self._entries:
                self._entries[server] = entry.approval
                standing = StandingApproval(entry, partial(self._decided, server))
                self._approvals.post(standing, is_quiet=is_quiet)

    def approve(self, server: str, tools: list[str]) -> list[str]:
        """Accept what is held of a server, all or these."""
        names = [name.removeprefix(f"{server}__") for name in tools]
        approved = self._registry.approve(server, names)
        self.update(is_quiet=True)
        self.on_approved(server, approved)
        return approved

    def _decided(self, server: str, info: ApprovalInfo) -> None:
        self._entries.pop(server, None)
        if info.state == "approved":
            self.on_approved(server, self._registry.approve(server, ()))
        else:
            self._registry.reject(server)

    def _entry(self, server: str) -> ApprovalInfo | None:
        held = self._registry.catalogue(server).held
        waiting = {name: one for name, one in held.items() if not one.is_rejected}
        if not waiting:
            return None
        text = "\0".join([server, *(f"{name}={one.pin}" for name, one in waiting.items())])
        digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
        changes = {one.change for one in waiting.values()}
        what = "first" if changes == {"first"} else "changed" if "changed" in changes else "new"
        reasons = {
            "first": "it was never approved",
            "changed": "it tells other definitions than those that were approved",
            "new": "it has new tools",
        }
        return ApprovalInfo(
            approval=f"approval-{digest}",
            command="approve_mcp_tools",
            arguments={"service": server, "tools": list(waiting)},
            actor=f"MCP server {server}",
            role="agent",
            door="mcp",
            policy="pins",
            reason=reasons[what],
            approvers="admin",
            asked_at=round(self._clock.time(), 3),
            expires_at=None,
        )
