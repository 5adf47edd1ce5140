"""Finds services that still run after their keeper and supervisor were killed.

Reads the database and the keeper's list of runs, either of which may be missing, and compares
them with the living processes. It is slow, so it is loaded only if no daemon answers.
"""

from __future__ import annotations

import os
import sys

from holdfast.system.lean_json import loads
from holdfast.vocabulary.names import GATE_SERVICE

if sys.platform == "darwin":
    from holdfast.system import darwin

BUSY_SECONDS = 0.5


def surviving_services(state: str) -> dict[str, int]:
    """Services whose recorded process is alive, with its pid."""
    boot = _boot_id()
    runs = _runs_of_database(os.path.join(state, "holdfast.db"))
    runs += _runs_of_keeper(os.path.join(state, "runs.jsonl"))
    return {
        service: pid
        for service, pid, start_time, boot_id in sorted(runs)
        if service != GATE_SERVICE and boot_id == boot and start_time_of(pid) == start_time
    }


def _runs_of_keeper(path: str) -> list[tuple[str, int, str, str]]:
    """The runs in the keeper's list that have not ended."""
    found = {}
    for line in _read(path).split(b"\n"):
        try:
            entry = loads(line)
            if run := entry.get("run"):
                facts = (str(run["service"]), int(run["pid"]), str(run["start_time"]))
                found[run["run_id"]] = (*facts, str(run["boot_id"]))
            found.pop(entry.get("over"), None)
        except (ValueError, TypeError, KeyError, AttributeError):
            continue  # its writer was killed in the middle of the line
    return list(found.values())


def _runs_of_database(path: str) -> list[tuple[str, int, str, str]]:
    import sqlite3
    from contextlib import closing
    from urllib.parse import quote

    try:
        database = sqlite3.connect(f"file:{quote(path)}?mode=ro", timeout=BUSY_SECONDS, uri=True)
        with closing(database):
            return database.execute(
                "SELECT service, pid, start_time, boot_id FROM runs"
                " WHERE ended_at IS NULL AND start_time IS NOT NULL ORDER BY service, number"
            ).fetchall()
    except sqlite3.Error:
        return []


def start_time_of(pid: int) -> str | None:
    """The kernel's start time of a living process; a zombie is none."""
    if sys.platform == "darwin":
        found = darwin.process(pid)
        return None if found is None or found[3] == "Z" else found[4]
    # The name may itself hold spaces and parentheses: it ends at the last one.
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return None
    return fields[19].decode()


def _boot_id() -> str:
    if sys.platform == "darwin":
        return darwin.boot_id()
    return _read("/proc/sys/kernel/random/boot_id").decode().strip()


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
