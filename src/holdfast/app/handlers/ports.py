"""The handler of `ports`: which process listens on a port, and which service leased it."""

from __future__ import annotations

from holdfast.adapters.ports import holders
from holdfast.adapters.ports import registry as port_registry
from holdfast.adapters.ports.holders import ListeningPort
from holdfast.adapters.ports.registry import PortRegistry
from holdfast.app.context import Context
from holdfast.app.registry import handles
from holdfast.rules.ports import PortLease
from holdfast.vocabulary.errors import UsageError
from holdfast.vocabulary.ports import ListPorts, PortInfo, PortsResult


@handles(ListPorts)
async def ports(context: Context, command: ListPorts) -> PortsResult:
    port = command.port
    if port is not None and not 0 < port < 65536:
        raise UsageError(f"{port} is no port", "ports are numbers from 1 to 65535")
    found, leases, is_free = await context.in_thread(_read_ports, context.port_registry, port)
    told = {(one.port, one.pid): _listening(context, one) for one in found}
    for lease in leases:
        if port is not None and lease.port != port:
            continue
        is_ours = context.port_registry.is_own(lease)
        at_work = [key for key in told if key[0] == lease.port]
        for key in at_work:
            told[key] = _named(told[key], lease, is_ours)
        if not at_work:
            told[lease.port, None] = _named(PortInfo(port=lease.port), lease, is_ours)
    shown = sorted(told.values(), key=lambda one: (one.port, one.pid or 0))
    if port is None and not command.all:
        shown = [one for one in shown if one.ours]
    return PortsResult(ports=shown, free=is_free)


def _read_ports(
    registry: PortRegistry, port: int | None
) -> tuple[list[ListeningPort], list[PortLease], bool | None]:
    is_free = None if port is None else port_registry.is_free(port)
    return holders.listening(port), registry.all(), is_free


def _listening(context: Context, one: ListeningPort) -> PortInfo:
    ours = context.link.runs.get(one.run_id or "")
    service = (ours or {}).get("service") or one.service
    project = context.project if ours else one.project
    return PortInfo(
        port=one.port,
        addresses=list(one.addresses),
        pid=one.pid,
        command=one.command,
        service=service,
        project=project,
        ours=ours is not None,
    )


def _named(info: PortInfo, lease: PortLease, is_ours: bool) -> PortInfo:
    """Add the lease. A process of no service stays one, even on a leased port."""
    if info.pid is not None and info.service != lease.service:
        return info
    return PortInfo(
        port=info.port,
        addresses=info.addresses,
        pid=info.pid,
        command=info.command,
        service=lease.service,
        project=lease.project,
        ours=is_ours,
        name=lease.name,
    )
