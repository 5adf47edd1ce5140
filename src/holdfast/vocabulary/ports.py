"""Ports: their listeners, and the services they are leased for; the command and its answer."""

from __future__ import annotations

from holdfast.vocabulary.command import Command, Effect, Permission, Result


class PortInfo(Result, frozen=True, kw_only=True):
    """One port. Without `pid`, nobody that we may see listens there."""

    port: int
    addresses: list[str] = []
    pid: int | None = None
    command: str = ""
    service: str | None = None
    """The service that the process belongs to, or that the port is leased to."""
    project: str | None = None
    """Where the Holdfast of that service lives."""
    ours: bool = False
    """Whether the service is one of this Holdfast."""
    name: str | None = None
    """The name of the port in the service's configuration, if it is leased."""


class PortsResult(Result, frozen=True, kw_only=True):
    ports: list[PortInfo]
    free: bool | None = None
    """Whether the port that was asked about can be listened on."""


class ListPorts(Command, frozen=True, kw_only=True):
    """Tell which process listens on a port, or which ports are leased and listened on.

    With `port`: pid and command of that process, and the service and project if it is one of a
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
