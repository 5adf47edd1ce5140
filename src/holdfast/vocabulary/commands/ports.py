"""The command about ports."""

from __future__ import annotations

from holdfast.vocabulary.commands.command import Command, Effect, Permission
from holdfast.vocabulary.ports import PortsResult


class ListPorts(Command, frozen=True, kw_only=True):
    """Tell who listens on a port, or which ports are leased and listened on.

    With `port`: pid and command of who has it, and the service and project if it is one of a
    Holdfast. Without: the ports of this Holdfast's services; with `all`, every listening
    process that this user may see, and the leases of the user's other Holdfasts.
    """

    name = "ports"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = PortsResult
    route = ("GET", "/api/ports")
    port: int | None = None
    all: bool = False
