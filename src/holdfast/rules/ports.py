"""Which port a service gets, and where its number goes. Pure: the caller says what is free.

A lease is sticky: the same service of the same Holdfast gets the same port again, unless another
process holds it. A port is leased once among all Holdfasts of a user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from holdfast.system.patterns import pattern
from holdfast.vocabulary.specs.probes import ExecTarget, HttpTarget, ProbeSpec, TcpTarget

AUTO = 0
SINGLE = "port"
"""The name of the port that `port:` asks for."""
PLACEHOLDER = pattern(
    r"\{\{\s*(?:services\.([a-z0-9][a-z0-9._@-]*?)\.)?(?:port|ports\.([A-Za-z0-9_-]+))\s*\}\}"
)
"""`{{ port }}`, `{{ ports.admin }}`, and the same of another service: `{{ services.db.port }}`."""
Others = Mapping[str, Mapping[str, int]]
"""The ports of other services, by their names."""


class LeaseHolder(msgspec.Struct, frozen=True):
    """The holder of a lease: one service of one Holdfast."""

    state: str
    service: str


class PortLease(msgspec.Struct, frozen=True, kw_only=True):
    port: int
    name: str
    service: str
    state: str
    """The state folder of its Holdfast, which identifies it."""
    project: str
    since: float
    is_active: bool = True
    """Whether a run has it; otherwise it is only reserved."""

    @property
    def holder(self) -> LeaseHolder:
        return LeaseHolder(self.state, self.service)


class PortRequest(msgspec.Struct, frozen=True):
    holder: LeaseHolder
    project: str
    ports: Mapping[str, int]
    span: tuple[int, int]
    now: float


class PortUnavailable(Exception):
    """A port is not available: a process listens there, or it is leased to another service."""

    def __init__(self, port: int, lease: PortLease | None = None) -> None:
        super().__init__(port)
        self.port = port
        self.lease = lease


class NoPortFree(Exception):
    """Every port of the range is taken."""


def assign(
    leases: Iterable[PortLease],
    asked: PortRequest,
    is_free: Callable[[int], bool],
    is_there: Callable[[str], bool],
) -> tuple[dict[str, int], list[PortLease]]:
    """Return the port for each name, and all leases from now on.

    `is_free` says that nothing listens there; `is_there`, that the Holdfast of a state folder runs.
    """
    known = {lease.port: lease for lease in leases}
    own = {lease.name: lease for lease in known.values() if lease.holder == asked.holder}
    for lease in own.values():
        del known[lease.port]
    found: dict[str, int] = {}
    for name, wanted in asked.ports.items():
        if wanted != AUTO:
            port = _fixed(wanted, known, is_free, is_there)
        else:
            port = _any(name, own, known, asked, is_free, is_there)
        found[name] = port
        known[port] = PortLease(
            port=port,
            name=name,
            service=asked.holder.service,
            state=asked.holder.state,
            project=asked.project,
            since=asked.now,
        )
    return found, sorted(known.values(), key=lambda lease: lease.port)


def _fixed(
    port: int,
    known: Mapping[int, PortLease],
    is_free: Callable[[int], bool],
    is_there: Callable[[str], bool],
) -> int:
    lease = known.get(port)
    if lease is not None and lease.is_active and is_there(lease.state):
        raise PortUnavailable(port, lease)
    if not is_free(port):
        raise PortUnavailable(port)
    return port


def _any(
    name: str,
    own: Mapping[str, PortLease],
    known: Mapping[int, PortLease],
    asked: PortRequest,
    is_free: Callable[[int], bool],
    is_there: Callable[[str], bool],
) -> int:
    low, high = asked.span
    # Its other ports, present or former, belong to their names.
    others = {port for port in asked.ports.values() if port != AUTO}
    others |= {own[other].port for other in asked.ports if other != name and other in own}
    before = own[name].port if name in own else AUTO
    if low <= before <= high and before not in known and before not in others and is_free(before):
        return before
    for port in range(low, high + 1):
        if port not in known and port not in others and is_free(port):
            return port
    # None is left: leases of a Holdfast that does not run are given away, the oldest first.
    for lease in sorted(known.values(), key=lambda lease: lease.since):
        is_given_up = lease.holder != asked.holder and not is_there(lease.state)
        if is_given_up and low <= lease.port <= high and is_free(lease.port):
            return lease.port
    raise NoPortFree


def without(leases: Iterable[PortLease], holder: LeaseHolder) -> list[PortLease]:
    return [lease for lease in leases if lease.holder != holder]


def rested(leases: Iterable[PortLease], holder: LeaseHolder) -> list[PortLease]:
    """Return the leases after its run ended: its ports stay reserved."""
    return [
        msgspec.structs.replace(lease, is_active=False) if lease.holder == holder else lease
        for lease in leases
    ]


def variable(name: str) -> str:
    """Return the environment variable for a port."""
    if name == SINGLE:
        return "PORT"
    return "PORT_" + re.sub(r"[^A-Z0-9]", "_", name.upper())


def compact(text: str) -> str:
    """Remove spaces from placeholders, so that each stays within one word."""
    return (
        PLACEHOLDER.sub(lambda found: re.sub(r"\s", "", found[0]), text) if "{{" in text else text
    )


def names_in(text: str) -> list[str]:
    """Return the ports of the service itself that a text asks for."""
    if "{{" not in text:
        return []
    return [found[2] or SINGLE for found in PLACEHOLDER.finditer(text) if not found[1]]


def references_in(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return the ports of other services that the texts ask for: service and port."""
    found = (match for text in texts if "{{" in text for match in PLACEHOLDER.finditer(text))
    return list(dict.fromkeys((match[1], match[2] or SINGLE) for match in found if match[1]))


def fill(text: str, ports: Mapping[str, int], others: Others = {}) -> str:  # noqa: B006
    """Return the text with the numbers of its ports; an unknown name stays as it is."""
    if "{{" not in text:
        return text

    def number(found: re.Match[str]) -> str:
        known = others.get(found[1], {}) if found[1] else ports
        return str(known.get(found[2] or SINGLE, found[0]))

    return PLACEHOLDER.sub(number, text)


def fill_probe(probe: ProbeSpec, ports: Mapping[str, int]) -> ProbeSpec:
    target = probe.target
    match target:
        case HttpTarget():
            target = msgspec.structs.replace(target, url=fill(target.url, ports))
        case TcpTarget() if target.lease is not None:
            target = msgspec.structs.replace(target, port=ports.get(target.lease, 0))
        case ExecTarget():
            argv = tuple(fill(word, ports) for word in target.argv)
            target = msgspec.structs.replace(target, argv=argv)
        case _:
            return probe
    return msgspec.structs.replace(probe, target=target)
