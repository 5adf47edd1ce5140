"""Meaning of network addresses. Names are not looked up."""

from __future__ import annotations


def is_loopback(host: str) -> bool:
    """Return whether a host can only be this machine: `localhost`, 127.0.0.0/8, `::1`, and their
    forms on an IPv6 socket. A name that merely looks like one of them may be another machine."""
    host = host.strip("[]").lower()
    if host in ("localhost", "127.0.0.1", "::1"):
        return True
    from ipaddress import ip_address

    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if address.version == 6 else None
    return (mapped or address).is_loopback
