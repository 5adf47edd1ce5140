"""Checks whether a port accepts connections, and opens connections for other probes."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
import ssl
from typing import Any, NamedTuple

from holdfast.adapters.probes import Finding
from holdfast.vocabulary.specs.probes import TcpTarget

READ_LIMIT = 64 * 1024
_LOOPBACK = ("127.0.0.1", "::1")
_IPV4 = re.compile(r"\d{1,3}(\.\d{1,3}){3}")


class Streams(NamedTuple):
    """Both directions of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def close(self) -> None:
        """Close without a farewell: nothing important is under way."""
        self.writer.transport.abort()


async def check(target: TcpTarget) -> Finding:
    """Connect and hang up. Streams would take five times as long."""
    errors: list[OSError] = []
    for family, address in await _addresses(target.host, target.port):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as sock:
                sock.setblocking(False)
                await asyncio.get_running_loop().sock_connect(sock, address)
            return Finding(True, "the port takes connections")
        except OSError as error:
            errors.append(error)
    return Finding(False, describe(errors[0], target.host, target.port))


async def _addresses(host: str, port: int) -> list[tuple[int, Any]]:
    """Return the addresses to try, in order; raises OSError for an unknown name."""
    if host.lower() == "localhost":
        return [(socket.AF_INET, (_LOOPBACK[0], port)), (socket.AF_INET6, (_LOOPBACK[1], port))]
    if _IPV4.fullmatch(host):
        return [(socket.AF_INET, (host, port))]
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


async def connect(host: str, port: int, tls: ssl.SSLContext | None = None) -> Streams:
    """Open a connection; raises OSError."""
    # The name of this machine needs no resolver, which would cost a thread.
    addresses = _LOOPBACK if host.lower() == "localhost" else (host,)
    name = host if tls is not None else None
    errors: list[OSError] = []
    for address in addresses:
        try:
            return Streams(
                *await asyncio.open_connection(
                    address, port, limit=READ_LIMIT, ssl=tls, server_hostname=name
                )
            )
        except OSError as error:
            errors.append(error)
    raise errors[0]


def describe(error: OSError, host: str, port: int) -> str:
    """Return in a few words why there is no connection."""
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if isinstance(error, ssl.SSLError):
        why = getattr(error, "verify_message", None) or error.reason or "TLS failed"
        return f"{where}: TLS: {str(why).replace('_', ' ').lower()}"
    if error.errno == errno.ECONNREFUSED:
        return f"{where}: connection refused"
    text = error.strerror or (os.strerror(error.errno) if error.errno else str(error))
    return f"{where}: {text or type(error).__name__}"
