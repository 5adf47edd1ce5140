"""Finds services that still run after their keeper and supervisor were killed.

Reads the database and the keeper's list of runs, either of which may be missing, and compares
them with the living processes. It is slow, so it is loaded only if no daemon answers.
"""

from __future__ import annotations

import os

from holdfast.system import lean_json, processes
from holdfast.vocabulary.names import GATE_SERVICE

BUSY_SECONDS = 0.5


def surviving_services(state: str) -> dict[str, int]:
    """Services whose recorded process is alive, with its pid."""
    boot = processes.boot_id()
    runs = _runs_of_database(os.path.join(state, "holdfast.db"))
    runs += _runs_of_keeper(os.path.join(state, "runs.jsonl"))
    return {
        service: pid
        for service, pid, start_time, boot_id in sorted(runs)
        if service != GATE_SERVICE and boot_id == boot and is_running(pid, start_time)
    }


def _runs_of_keeper(path: str) -> list[tuple[str, int, str, str]]:
    """The runs in the keeper's list that have not ended."""
    found = {}
    for entry in lean_json.objects_in(_read(path)):
        try:
            if run := entry.get("run"):
                facts = (str(run["service"]), int(run["pid"]), str(run["start_time"]))
                found[run["run_id"]] = (*facts, str(run["boot_id"]))
            found.pop(entry.get("over"), None)
        except (ValueError, TypeError, KeyError, AttributeError):
            continue  # the record is damaged
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


def is_running(pid: int, start_time: str) -> bool:
    """Return whether the very process with this start time is alive."""
    found = processes.live_process(pid)
    return found is not None and found.start_time == start_time


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
