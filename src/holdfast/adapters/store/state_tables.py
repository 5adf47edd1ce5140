"""The tables of the history: their columns, and every statement and query about them.

Owns all SQL except the housekeeping of `state_store`. Holds no connection.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.rules.plan import Trace
from holdfast.vocabulary.history import RunRecord
from holdfast.vocabulary.readers import reader
from holdfast.vocabulary.states import Desired, ErrorType, State

_log = logger("state_tables")

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS services (name TEXT PRIMARY KEY, record BLOB NOT NULL)",
    """CREATE TABLE IF NOT EXISTS runs (
        run_id TEXT PRIMARY KEY, service TEXT NOT NULL, number INTEGER NOT NULL,
        pid INTEGER NOT NULL, start_time TEXT, boot_id TEXT, started_at REAL NOT NULL,
        ended_at REAL, seconds REAL, code INTEGER, signal TEXT, is_unknown INTEGER NOT NULL,
        reason TEXT, log_bytes INTEGER NOT NULL, rusage TEXT, error_type TEXT,
        changes TEXT) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS runs_of_service ON runs (service, number)",
    "CREATE INDEX IF NOT EXISTS open_runs ON runs (service) WHERE ended_at IS NULL",
    """CREATE TABLE IF NOT EXISTS events (
        seq INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, service TEXT,
        run_id TEXT, data BLOB NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS events_of_service ON events (service, seq)",
)

ADDED_COLUMNS = (("runs", "error_type", "TEXT"), ("runs", "changes", "TEXT"))
"""Columns added after the first release; an older database gets them when it is opened."""
# Columns are named, because a later version may have added some of its own.
_EVENTS = "SELECT seq, time, kind, service, run_id, data FROM events"
_RUN_COLUMNS = """run_id, service, number, pid, started_at, ended_at, seconds, code, signal,
    is_unknown, reason, log_bytes, rusage, error_type, changes"""
SAVE_SERVICE = "INSERT OR REPLACE INTO services (name, record) VALUES (?, ?)"
SAVE_META = "INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)"
SAVE_EVENT = """INSERT OR REPLACE INTO events (seq, time, kind, service, run_id, data)
    VALUES (?, ?, ?, ?, ?, ?)"""
BEGIN_RUN = """INSERT INTO runs (run_id, service, number, pid, start_time, boot_id, started_at,
    is_unknown, log_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0) ON CONFLICT (run_id) DO NOTHING"""
END_RUN = """INSERT INTO runs (run_id, service, number, pid, started_at, ended_at, seconds, code,
    signal, is_unknown, reason, log_bytes, rusage, error_type)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (run_id) DO UPDATE SET ended_at = excluded.ended_at, seconds = excluded.seconds,
    code = excluded.code, signal = excluded.signal, is_unknown = excluded.is_unknown,
    reason = excluded.reason, log_bytes = excluded.log_bytes, rusage = excluded.rusage,
    error_type = excluded.error_type"""


SAVE_CHANGES = "UPDATE runs SET changes = ? WHERE run_id = ?"


class ServiceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a runner must find again after the supervisor's death."""

    desired: Desired
    stopped_by_hand: bool = msgspec.field(default=False, name="stays_off")
    """It was stopped by hand, and nobody has started it since."""
    state: State
    since: float
    reason: str | None = None
    restarts: int = 0
    failures: int = 0
    start_failures: int = 0
    all_restarts: dict[str, int] = {}
    """Every restart, by cause; `restarts` are the automatic ones in a row."""
    next_start_at: float | None = None
    number: int = 0
    run_id: str | None = None
    code: int | None = None
    signal: str | None = None
    seconds: float | None = None
    log_bytes: int = 0
    accounted: str | None = None
    """The run whose exit the counters already include."""
    scheduled_until: float | None = None
    error_type: ErrorType | None = None
    trace: Trace | None = None
    """The trace of what the live run was started with."""


class OpenRun(msgspec.Struct, frozen=True):
    """A run whose end is not recorded."""

    run_id: str
    service: str
    number: int
    pid: int
    start_time: str | None
    boot_id: str | None
    started_at: float


class StoredState(msgspec.Struct, frozen=True):
    """What an earlier supervisor left."""

    services: dict[str, ServiceRecord]
    open_runs: list[OpenRun]
    last_seq: int
    ended: frozenset[str]
    """Exits that the keeper has not forgotten, but that are recorded already."""
    meta: dict[str, str] = {}
    """Single values by name."""


_decode_record = reader(ServiceRecord)


def load(db: sqlite3.Connection, exits: list[str]) -> StoredState:
    services: dict[str, ServiceRecord] = {}
    for name, record in db.execute("SELECT name, record FROM services"):
        try:
            services[name] = _decode_record(record)
        except msgspec.MsgspecError as error:
            _log.warning("the record of service %s is unreadable: %s", name, error)
    last = db.execute("SELECT max(seq) FROM events").fetchone()[0] or 0
    query = "SELECT 1 FROM runs WHERE run_id = ? AND ended_at IS NOT NULL"
    ended = [run_id for run_id in exits if db.execute(query, (run_id,)).fetchone()]
    meta = dict(db.execute("SELECT key, value FROM meta"))
    return StoredState(services, _open_runs(db), last, frozenset(ended), meta)


def _open_runs(db: sqlite3.Connection) -> list[OpenRun]:
    names = OpenRun.__struct_fields__
    found = []
    query = """SELECT run_id, service, number, pid, start_time, boot_id, started_at FROM runs
        WHERE ended_at IS NULL"""
    for row in db.execute(query):
        try:
            found.append(msgspec.convert(dict(zip(names, row, strict=True)), OpenRun))
        except msgspec.ValidationError as error:
            _log.warning("the record of a run is unreadable: %s", error)
    return found


def runs(db: sqlite3.Connection, service: str, limit: int) -> list[RunRecord]:
    rows = db.execute(
        f"SELECT {_RUN_COLUMNS} FROM runs WHERE service = ? ORDER BY number DESC LIMIT ?",  # noqa: S608
        (service, limit),
    )
    return [
        RunRecord(
            run_id=row[0],
            service=row[1],
            number=row[2],
            pid=row[3],
            started_at=row[4],
            ended_at=row[5],
            duration=row[6],
            exit_code=row[7],
            signal=row[8],
            unknown=bool(row[9]),
            reason=row[10],
            log_bytes=row[11],
            rusage=_decoded(row[12]) if row[12] else None,
            error_type=row[13],
            changes=row[14].split() if row[14] is not None else None,
        )
        for row in rows
    ]


def _event_fields(row: tuple[Any, ...]) -> dict[str, Any]:
    seq, when, kind, service, run_id, data = row
    return {
        "seq": seq,
        "time": when,
        "kind": kind,
        "service": service,
        "run_id": run_id,
        "data": _decoded(data) or {},
    }


def _decoded(text: str | bytes) -> Any:
    """Decode a record; None if the disk damaged it, so that one bad row costs only itself."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, TypeError):
        return None


def _filter(services: list[str]) -> str:
    return f" AND service IN ({','.join('?' * len(services))})" if services else ""


def events_after(
    db: sqlite3.Connection, since: int, limit: int, services: list[str]
) -> list[dict[str, Any]]:
    query = f"{_EVENTS} WHERE seq > ?{_filter(services)} ORDER BY seq LIMIT ?"
    return [_event_fields(row) for row in db.execute(query, (since, *services, limit))]


def newest_events(db: sqlite3.Connection, limit: int, services: list[str]) -> list[dict[str, Any]]:
    query = f"{_EVENTS} WHERE 1{_filter(services)} ORDER BY seq DESC LIMIT ?"
    rows = db.execute(query, (*services, limit)).fetchall()
    return [_event_fields(row) for row in reversed(rows)]


def events_of(
    db: sqlite3.Connection, kinds: tuple[str, ...], since: int, limit: int
) -> list[dict[str, Any]]:
    """Return events of these kinds with larger numbers, oldest first."""
    marks = ",".join("?" * len(kinds))
    query = f"{_EVENTS} WHERE seq > ? AND kind IN ({marks}) ORDER BY seq LIMIT ?"
    return [_event_fields(row) for row in db.execute(query, (since, *kinds, limit))]


def newest_events_of(
    db: sqlite3.Connection, kinds: tuple[str, ...], services: list[str], limit: int
) -> list[dict[str, Any]]:
    """Return the newest events of these kinds, oldest first."""
    where = f"kind IN ({','.join('?' * len(kinds))}){_filter(services)}"
    query = f"{_EVENTS} WHERE {where} ORDER BY seq DESC LIMIT ?"
    rows = db.execute(query, (*kinds, *services, limit)).fetchall()
    return [_event_fields(row) for row in reversed(rows)]


def seqs_of(db: sqlite3.Connection, kinds: tuple[str, ...], since: int) -> list[int]:
    marks = ",".join("?" * len(kinds))
    query = f"SELECT seq FROM events WHERE seq > ? AND kind IN ({marks})"  # noqa: S608
    return [row[0] for row in db.execute(query, (since, *kinds))]
