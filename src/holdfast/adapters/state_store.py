"""What survives the supervisor on disk: services' states, runs, events. Owns the tables.

Everything recorded in one turn of the loop becomes one transaction. An event is published,
and an exit forgotten by the keeper, only after its transaction is on disk. No declaration
and no environment is ever written here.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from holdfast.adapters.database import Database, Statement
from holdfast.adapters.own_log import logger
from holdfast.vocabulary.events import Event, Kind
from holdfast.vocabulary.results import RunRecord

MAX_EVENTS = 100_000
MAX_EVENT_AGE_SECONDS = 30 * 86400.0
MAX_RUNS = 1000
SEQUENCE_BLOCK = 1000
_PRUNE_EVERY = 2000

_log = logger("state_store")

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS services (name TEXT PRIMARY KEY, record BLOB NOT NULL)",
    """CREATE TABLE IF NOT EXISTS runs (
        run_id TEXT PRIMARY KEY, service TEXT NOT NULL, number INTEGER NOT NULL,
        pid INTEGER NOT NULL, start_time TEXT, boot_id TEXT, started_at REAL NOT NULL,
        ended_at REAL, seconds REAL, code INTEGER, signal TEXT, is_unknown INTEGER NOT NULL,
        reason TEXT, log_bytes INTEGER NOT NULL, rusage TEXT) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS runs_of_service ON runs (service, number)",
    "CREATE INDEX IF NOT EXISTS open_runs ON runs (service) WHERE ended_at IS NULL",
    """CREATE TABLE IF NOT EXISTS events (
        seq INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL, service TEXT,
        run_id TEXT, data BLOB NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS events_of_service ON events (service, seq)",
)

_SAVE_SERVICE = "INSERT OR REPLACE INTO services VALUES (?, ?)"
_SAVE_EVENT = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)"
_BEGIN_RUN = """INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL, NULL, 0, NULL, 0,
    NULL) ON CONFLICT (run_id) DO NOTHING"""
_END_RUN = """INSERT INTO runs VALUES (?, ?, ?, ?, NULL, NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (run_id) DO UPDATE SET ended_at = excluded.ended_at, seconds = excluded.seconds,
    code = excluded.code, signal = excluded.signal, is_unknown = excluded.is_unknown,
    reason = excluded.reason, log_bytes = excluded.log_bytes, rusage = excluded.rusage"""
_RUN_COLUMNS = """run_id, service, number, pid, started_at, ended_at, seconds, code, signal,
    is_unknown, reason, log_bytes, rusage"""


class ServiceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a runner must find again after the supervisor's death."""

    desired: str
    state: str
    since: float
    reason: str | None = None
    restarts: int = 0
    failures: int = 0
    start_failures: int = 0
    next_start_at: float | None = None
    number: int = 0
    run_id: str | None = None
    code: int | None = None
    signal: str | None = None
    seconds: float | None = None
    log_bytes: int = 0
    accounted: str | None = None
    """The run whose exit the counters already include."""


class OpenRun(NamedTuple):
    """A run whose end is not recorded."""

    run_id: str
    service: str
    number: int
    pid: int
    start_time: str | None
    boot_id: str | None
    started_at: float


class Loaded(NamedTuple):
    """What an earlier supervisor left."""

    services: dict[str, ServiceRecord]
    open_runs: list[OpenRun]
    last_seq: int
    ended: frozenset[str]
    """Those of the keeper's unforgotten exits that are recorded already."""


_encode = msgspec.json.Encoder().encode
_decode_record = msgspec.json.Decoder(ServiceRecord).decode


class StateStore:
    """Collects what one turn of the loop records, and writes it as one transaction."""

    def __init__(
        self,
        path: str,
        loop: asyncio.AbstractEventLoop,
        *,
        publish: Callable[[list[Event]], None],
        forget: Callable[[list[str]], None],
        reserve: Callable[[int], None],
        on_replaced: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._publish = publish
        self._forget = forget
        self._reserve = reserve
        self._on_replaced = on_replaced
        self.database = Database(path, SCHEMA, on_replaced=self._replaced)
        self._statements: list[Statement] = []
        self._services: dict[str, Callable[[], ServiceRecord] | None] = {}
        self._events: list[Event] = []
        self._forgettable: list[str] = []
        self._is_scheduled = False
        self._seq = 0
        self._reserved = 0
        self._unpruned = 0
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._submitted = self._committed = 0

    def load(self, reserved_seq: int, exits: list[str]) -> Loaded:
        """Read what is there; numbers go on after `reserved_seq` even if the file is new."""
        loaded = self.database.read_now(lambda db: _load(db, exits))
        self._seq = loaded.last_seq
        if reserved_seq and loaded.last_seq < reserved_seq - SEQUENCE_BLOCK:
            self._seq = reserved_seq
        self._reserved = max(reserved_seq, self._seq)
        self.database.start()
        self._prune()
        return loaded

    @property
    def last_seq(self) -> int:
        return self._seq

    def event(
        self,
        kind: Kind,
        service: str | None = None,
        run_id: str | None = None,
        **data: Any,
    ) -> None:
        self._seq += 1
        if self._seq > self._reserved:
            self._reserved = self._seq + SEQUENCE_BLOCK
            self._reserve(self._reserved)
        event = Event(
            seq=self._seq,
            time=time.time(),
            kind=kind.value,
            service=service,
            run_id=run_id,
            data=data,
        )
        self._events.append(event)
        row = (event.seq, event.time, event.kind, service, run_id, _encode(data))
        self._statements.append((_SAVE_EVENT, row))
        self._schedule()

    def save_service(self, name: str, record: Callable[[], ServiceRecord]) -> None:
        """Save what `record` answers at the end of this turn."""
        self._services[name] = record
        self._schedule()

    def remove_service(self, name: str) -> None:
        self._services[name] = None
        self._statements.append(("DELETE FROM runs WHERE service = ?", (name,)))
        self._schedule()

    def run_started(self, run: OpenRun) -> None:
        values = (run.run_id, run.service, run.number, run.pid)
        values += (run.start_time, run.boot_id, run.started_at)  # type: ignore[assignment]
        self._statements.append((_BEGIN_RUN, values))
        self._schedule()

    def run_ended(self, facts: dict[str, Any], signal: str | None, reason: str) -> None:
        """Record the keeper's EXIT; once it is on disk the keeper may forget it."""
        rusage = facts.get("rusage")
        values = (
            facts["run_id"],
            facts["service"],
            facts.get("number") or 0,
            facts.get("pid") or 0,
            facts.get("started_at") or 0.0,
            facts.get("ended_at"),
            facts.get("seconds"),
            facts.get("code"),
            signal,
            int(bool(facts.get("unknown"))),
            reason,
            facts.get("log_bytes") or 0,
            _encode(rusage).decode() if rusage else None,
        )
        self._statements.append((_END_RUN, values))
        number = (facts.get("number") or 0) - MAX_RUNS
        if number > 0 and number % 50 == 0:
            cut = "DELETE FROM runs WHERE service = ? AND number <= ? AND ended_at IS NOT NULL"
            self._statements.append((cut, (facts["service"], number)))
        self.forget(facts["run_id"])

    def forget(self, run_id: str) -> None:
        """Let the keeper forget this exit after the turn's transaction."""
        self._forgettable.append(run_id)
        self._schedule()

    async def events_after(
        self, since: int, limit: int, services: list[str]
    ) -> list[dict[str, Any]]:
        """Stored events with larger numbers, oldest first."""
        return await asyncio.wrap_future(
            self.database.read(lambda db: _events_after(db, since, limit, services))
        )

    async def newest_events(self, limit: int, services: list[str]) -> list[dict[str, Any]]:
        return await asyncio.wrap_future(
            self.database.read(lambda db: _newest_events(db, limit, services))
        )

    async def runs_of(self, service: str, limit: int) -> list[RunRecord]:
        return await asyncio.wrap_future(self.database.read(lambda db: _runs(db, service, limit)))

    async def prune_runs(self, services: list[str], before: float) -> int:
        """Delete ended runs that are older; answers how many there were."""

        def count(db: sqlite3.Connection) -> int:
            marks = ",".join("?" * len(services))
            found = db.execute(
                f"SELECT count(*) FROM runs WHERE ended_at < ? AND service IN ({marks})",  # noqa: S608
                (before, *services),
            )
            return int(found.fetchone()[0])

        number = await asyncio.wrap_future(self.database.read(count))
        for service in services:
            cut = "DELETE FROM runs WHERE service = ? AND ended_at < ?"
            self._statements.append((cut, (service, before)))
        self._schedule()
        await self.written()
        return number

    def written(self) -> asyncio.Future[None]:
        """Done when all that was recorded until now is on disk."""
        self.flush()
        waiter: asyncio.Future[None] = self._loop.create_future()
        if self._committed >= self._submitted:
            waiter.set_result(None)
        else:
            self._waiters.append((self._submitted, waiter))
        return waiter

    def flush(self) -> None:
        """Hand what was recorded to the writer now."""
        self._is_scheduled = False
        statements = self._statements
        for name, record in self._services.items():
            if record is None:
                statements.append(("DELETE FROM services WHERE name = ?", (name,)))
            else:
                statements.append((_SAVE_SERVICE, (name, _encode(record()))))
        if not statements and not self._forgettable:
            return
        events, forgettable = self._events, self._forgettable
        self._statements, self._services, self._events, self._forgettable = [], {}, [], []
        self._submitted += 1
        number = self._submitted

        def committed() -> None:
            self._call_soon(lambda: self._on_commit(number, events, forgettable))

        self.database.submit(statements, committed)
        self._unpruned += len(events)
        if self._unpruned >= _PRUNE_EVERY:
            self._prune()

    def close(self, timeout_seconds: float = 5.0) -> None:
        self.flush()
        self.database.close(timeout_seconds)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._flush_scheduled)

    def _flush_scheduled(self) -> None:
        if self._is_scheduled:
            self.flush()

    def _on_commit(self, number: int, events: list[Event], forgettable: list[str]) -> None:
        self._committed = number
        if forgettable:
            self._forget(forgettable)
        if events:
            self._publish(events)
        while self._waiters and self._waiters[0][0] <= number:
            _, waiter = self._waiters.pop(0)
            if not waiter.done():
                waiter.set_result(None)

    def _replaced(self) -> None:
        self._call_soon(self._on_replaced)

    def _call_soon(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            # The loop is closed: the supervisor ends, its successor will replay.
            _log.debug("written after the end of the loop")

    def _prune(self) -> None:
        self._unpruned = 0
        oldest_seq, oldest_time = self._seq - MAX_EVENTS, time.time() - MAX_EVENT_AGE_SECONDS
        if oldest_seq > 0:
            self._statements.append(("DELETE FROM events WHERE seq <= ?", (oldest_seq,)))
            self.event(Kind.EVENTS_DROPPED, up_to=oldest_seq)
        by_age = """DELETE FROM events WHERE seq < coalesce(
            (SELECT seq FROM events WHERE time >= ? ORDER BY seq LIMIT 1), 0)"""
        self._statements.append((by_age, (oldest_time,)))
        self._schedule()


def _load(db: sqlite3.Connection, exits: list[str]) -> Loaded:
    services: dict[str, ServiceRecord] = {}
    for name, record in db.execute("SELECT name, record FROM services"):
        try:
            services[name] = _decode_record(record)
        except msgspec.MsgspecError as error:
            _log.warning("the record of service %s is unreadable: %s", name, error)
    last = db.execute("SELECT max(seq) FROM events").fetchone()[0] or 0
    query = "SELECT 1 FROM runs WHERE run_id = ? AND ended_at IS NOT NULL"
    ended = [run_id for run_id in exits if db.execute(query, (run_id,)).fetchone()]
    return Loaded(services, _open_runs(db), last, frozenset(ended))


def _open_runs(db: sqlite3.Connection) -> list[OpenRun]:
    query = """SELECT run_id, service, number, pid, start_time, boot_id, started_at FROM runs
        WHERE ended_at IS NULL"""
    return [OpenRun(*row) for row in db.execute(query)]


def _runs(db: sqlite3.Connection, service: str, limit: int) -> list[RunRecord]:
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
            rusage=msgspec.json.decode(row[12]) if row[12] else None,
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
        "data": msgspec.json.decode(data),
    }


def _filter(services: list[str]) -> str:
    return f" AND service IN ({','.join('?' * len(services))})" if services else ""


def _events_after(
    db: sqlite3.Connection, since: int, limit: int, services: list[str]
) -> list[dict[str, Any]]:
    query = f"SELECT * FROM events WHERE seq > ?{_filter(services)} ORDER BY seq LIMIT ?"  # noqa: S608
    return [_event_fields(row) for row in db.execute(query, (since, *services, limit))]


def _newest_events(db: sqlite3.Connection, limit: int, services: list[str]) -> list[dict[str, Any]]:
    query = f"SELECT * FROM events WHERE 1{_filter(services)} ORDER BY seq DESC LIMIT ?"  # noqa: S608
    rows = db.execute(query, (*services, limit)).fetchall()
    return [_event_fields(row) for row in reversed(rows)]
