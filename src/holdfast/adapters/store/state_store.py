"""What survives the supervisor on disk: services' states, runs, events.

Everything recorded in one turn of the loop becomes one transaction. An event is published, and the
keeper forgets an exit, only after the transaction is on disk. Declarations and environments are
never written here.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.adapters.store import state_tables
from holdfast.adapters.store.database import Database, Statement
from holdfast.adapters.store.state_tables import OpenRun, ServiceRecord, StoredState
from holdfast.secrets.redaction import redact, redact_fields
from holdfast.vocabulary.errors import Failed
from holdfast.vocabulary.events import Event, EventKind
from holdfast.vocabulary.history import RunRecord

MAX_EVENTS = 100_000
MAX_EVENT_AGE_SECONDS = 30 * 86400.0
MAX_RUNS = 1000
SEQUENCE_BLOCK = 1000
MOST_HELD = 50_000
"""So many statements are held in memory while nothing can be written."""
PATIENCE_SECONDS = 5.0
SHORT_SECONDS = 0.5
"""How long a reader waits for unwritten events: a full disk must not hold it up."""
PACE_SECONDS = 0.02
"""The time between two transactions, unless somebody waits: a burst becomes few of them."""
PRUNE_SECONDS = 86400.0
_PRUNE_EVERY = 2000

T = TypeVar("T")
_log = logger("state_store")
_encode = msgspec.json.Encoder().encode


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
        self.database = Database(
            path, state_tables.SCHEMA, state_tables.ADDED_COLUMNS, on_replaced=self._replaced
        )
        self._statements: list[Statement] = []
        self._last_flush = 0.0
        self._services: dict[str, Callable[[], ServiceRecord] | None] = {}
        self._events: list[Event] = []
        self._forgettable: list[str] = []
        self._is_scheduled = False
        self._seq = 0
        self._reserved = 0
        self._unpruned = 0
        self._pruned_at = 0.0
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._submitted = self._committed = 0
        self._dropped = 0

    def load(self, reserved_seq: int, exits: list[str]) -> StoredState:
        """Read the stored state. Numbers go on after `reserved_seq` even if the file is new."""
        loaded = self.database.read_now(lambda db: state_tables.load(db, exits))
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
        kind: EventKind,
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
            data=redact_fields(data),
        )
        self._events.append(event)
        row = (event.seq, event.time, event.kind, service, run_id, _encode(data))
        self._statements.append((state_tables.SAVE_EVENT, row))
        self._schedule()

    def save_service(self, name: str, record: Callable[[], ServiceRecord]) -> None:
        """Save what `record` returns at the end of this turn."""
        self._services[name] = record
        self._schedule()

    def remove_service(self, name: str) -> None:
        self._services[name] = None
        self._statements.append(("DELETE FROM runs WHERE service = ?", (name,)))
        self._schedule()

    def run_started(self, run: OpenRun) -> None:
        values = (run.run_id, run.service, run.number, run.pid)
        values += (run.start_time, run.boot_id, run.started_at)  # type: ignore[assignment]
        self._statements.append((state_tables.BEGIN_RUN, values))
        self._schedule()

    def run_compared(self, run_id: str, changes: Iterable[str]) -> None:
        """Record which fields of a run's declaration differ from the last good run's."""
        self._statements.append((state_tables.SAVE_CHANGES, (" ".join(changes), run_id)))
        self._schedule()

    def run_ended(self, facts: Mapping[str, Any], signal: str | None, reason: str) -> None:
        """Record an exit that the keeper reported; once it is on disk, the keeper may forget it."""
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
            redact(reason),
            facts.get("log_bytes") or 0,
            _encode(rusage).decode() if rusage else None,
            facts.get("error_type"),
        )
        self._statements.append((state_tables.END_RUN, values))
        number = (facts.get("number") or 0) - MAX_RUNS
        if number > 0 and number % 50 == 0:
            cut = "DELETE FROM runs WHERE service = ? AND number <= ? AND ended_at IS NOT NULL"
            self._statements.append((cut, (facts["service"], number)))
        self.forget(facts["run_id"])

    def set_meta(self, key: str, value: str) -> None:
        """Save a single value by its name."""
        self._statements.append((state_tables.SAVE_META, (key, value)))
        self._schedule()

    def forget(self, run_id: str) -> None:
        """Let the keeper forget this exit after this turn's transaction."""
        self._forgettable.append(run_id)
        self._schedule()

    async def events_after(
        self, since: int, limit: int, services: list[str]
    ) -> list[dict[str, Any]]:
        """Return stored events with larger numbers, oldest first."""
        return await self._read(lambda db: state_tables.events_after(db, since, limit, services))

    async def newest_events(self, limit: int, services: list[str]) -> list[dict[str, Any]]:
        return await self._read(lambda db: state_tables.newest_events(db, limit, services))

    async def events_of(
        self, kinds: tuple[str, ...], since: int, limit: int
    ) -> list[dict[str, Any]]:
        return await self._read(lambda db: state_tables.events_of(db, kinds, since, limit))

    async def newest_events_of(
        self, kinds: tuple[str, ...], services: list[str], limit: int
    ) -> list[dict[str, Any]]:
        query = state_tables.newest_events_of
        return await self._read(lambda db: query(db, kinds, services, limit))

    async def seqs_of(self, kinds: tuple[str, ...], since: int) -> list[int]:
        return await self._read(lambda db: state_tables.seqs_of(db, kinds, since))

    async def runs_of(self, service: str, limit: int) -> list[RunRecord]:
        return await self._read(lambda db: state_tables.runs(db, service, limit))

    async def prune_runs(self, services: list[str], before: float) -> int:
        """Delete older runs that have ended; return how many there were."""

        def count(db: sqlite3.Connection) -> int:
            marks = ",".join("?" * len(services))
            found = db.execute(
                f"SELECT count(*) FROM runs WHERE ended_at < ? AND service IN ({marks})",  # noqa: S608
                (before, *services),
            )
            return int(found.fetchone()[0])

        number = await self._read(count)
        for service in services:
            cut = "DELETE FROM runs WHERE service = ? AND ended_at < ?"
            self._statements.append((cut, (service, before)))
        self._schedule()
        await self.written()
        return number

    async def written(self, patience_seconds: float = PATIENCE_SECONDS) -> bool:
        """Return whether everything recorded so far is on disk.

        It does not wait for a full disk.
        """
        self.flush()
        if self._committed >= self._submitted and not self._statements:
            return True
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append((self._submitted + bool(self._statements or self._services), waiter))
        done, _ = await asyncio.wait([waiter], timeout=patience_seconds)
        if not done:
            _log.warning("history is not written yet; going on without it")
        return bool(done)

    def flush(self, *, is_last: bool = False) -> None:
        """Hand what was recorded to the writer.

        While a transaction is under way it is held back, so that a burst becomes one transaction.
        """
        self._is_scheduled = False
        if self._submitted > self._committed and not is_last:
            self._hold_back()
            return
        statements = self._statements
        for name, record in self._services.items():
            if record is None:
                statements.append(("DELETE FROM services WHERE name = ?", (name,)))
            else:
                statements.append((state_tables.SAVE_SERVICE, (name, _encode(record()))))
        if not statements and not self._forgettable:
            return
        events, forgettable = self._events, self._forgettable
        self._statements, self._services, self._events, self._forgettable = [], {}, [], []
        self._submitted += 1
        self._last_flush = self._loop.time()
        number = self._submitted

        def committed() -> None:
            self._call_soon(lambda: self._on_commit(number, events, forgettable))

        self.database.submit(statements, committed)
        self._unpruned += len(events)
        # Where little happens, old events are removed once a day.
        is_due = self._loop.time() - self._pruned_at >= PRUNE_SECONDS
        if self._unpruned >= _PRUNE_EVERY or is_due:
            self._prune()

    def close(self, timeout_seconds: float = PATIENCE_SECONDS) -> None:
        self.flush(is_last=True)
        self.database.close(timeout_seconds)

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            wait = self._last_flush + PACE_SECONDS - self._loop.time()
            if wait > 0:
                self._loop.call_later(wait, self._flush_scheduled)
            else:
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
        if self._dropped:
            lost, self._dropped = self._dropped, 0
            self.event(EventKind.EVENTS_DROPPED, lost=lost, why="they could not be written")
        if self._statements or self._services or self._forgettable:
            self._schedule()

    def _hold_back(self) -> None:
        """Keep the newest statements in memory, within a bound."""
        excess = len(self._statements) - MOST_HELD
        if excess <= 0:
            return
        if not self._dropped:
            _log.error("history could not be written for long; its oldest entries are dropped")
        # A tenth more, so that this is rare.
        lost = excess + MOST_HELD // 10
        seqs = [row[0] for sql, row in self._statements[:lost] if sql is state_tables.SAVE_EVENT]
        del self._statements[:lost]
        # Events that will not be stored are not published either.
        self._events = [event for event in self._events if not seqs or event.seq > seqs[-1]]
        self._dropped += lost

    async def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return await asyncio.wrap_future(self.database.read(query))
        except sqlite3.Error as error:
            hint = "holdfast.log in the state folder tells more; a damaged history is begun anew"
            raise Failed(f"the history cannot be read: {error}", hint) from error

    def _replaced(self) -> None:
        self._call_soon(self._on_replaced)

    def _call_soon(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            # The loop is closed because the supervisor ends; its successor will replay.
            _log.debug("written after the end of the loop")

    def _prune(self) -> None:
        self._unpruned, self._pruned_at = 0, self._loop.time()
        oldest_seq, oldest_time = self._seq - MAX_EVENTS, time.time() - MAX_EVENT_AGE_SECONDS
        if oldest_seq > 0:
            self._statements.append(("DELETE FROM events WHERE seq <= ?", (oldest_seq,)))
            self.event(EventKind.EVENTS_DROPPED, up_to=oldest_seq)
        by_age = """DELETE FROM events WHERE seq < coalesce(
            (SELECT seq FROM events WHERE time >= ? ORDER BY seq LIMIT 1), 0)"""
        self._statements.append((by_age, (oldest_time,)))
        self._schedule()
