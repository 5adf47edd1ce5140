"""Numbers of a run that are slow to collect, and collected only on demand: proportional memory,
open descriptors, listening ports. Call it in a thread."""

from __future__ import annotations

import os

import msgspec


class Extras(msgspec.Struct, frozen=True):
    """Of all processes of a run; None for a number that the system does not tell."""

    pss: int | None
    handles: int | None
    ports: list[int]


def extras_of(pids: list[int]) -> Extras:
    shares = [_pss(pid) for pid in pids]
    counts = [_handles(pid) for pid in pids]
    return Extras(_sum(shares), _sum(counts), listening_ports(pids))


def _sum(numbers: list[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _pss(pid: int) -> int | None:
    """Return the proportional set size: its own pages, and its part of each shared page."""
    import psutil

    try:
        if not os.path.exists("/proc/self/smaps_rollup"):
            # The nearest number on macOS: the memory that would be free if it ended.
            return int(psutil.Process(pid).memory_full_info().uss)
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (psutil.Error, OSError):
        return None
    return None


def _handles(pid: int) -> int | None:
    import psutil

    try:
        return int(psutil.Process(pid).num_fds())
    except psutil.Error:
        return None


def listening_ports(pids: list[int]) -> list[int]:
    """Return the TCP ports that any of these processes listens on."""
    import psutil

    ports: set[int] = set()
    for pid in pids:
        try:
            connections = psutil.Process(pid).net_connections(kind="tcp")
        except (psutil.Error, OSError):
            continue
        ports.update(
            connection.laddr.port
            for connection in connections
            if connection.status == psutil.CONN_LISTEN and connection.laddr
        )
    return sorted(ports)
