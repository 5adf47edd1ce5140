"""What is told of ports: who listens there, and for whom they are leased."""

from __future__ import annotations

from holdfast.vocabulary.results import Result


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
