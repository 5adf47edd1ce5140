"""What an address of the network means. Names are not looked up."""

from __future__ import annotations


def is_loopback(host: str) -> bool:
    """Whether only this machine can be meant: `localhost`, 127.0.0.0/8, `::1`, and those as an
    IPv6 socket shows them. A name that merely looks like it is somebody else's."""
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
