"""The SQLite file: one writer thread with group commit, one reader thread.

Owns connections and threads, and handles damage: a corrupt file is moved aside, a deleted one is
begun anew, a full disk or a lock is waited for. Knows no table: `state_tables` does. Never runs SQL
on the loop's thread, except while the supervisor starts and serves nothing yet.
"""

from __future__ import annotations

import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar
from zlib import crc32

from holdfast.adapters.own_log import logger
from holdfast.system.private_files import open_plain

T = TypeVar("T")
Statement = tuple[str, tuple[Any, ...]]
Done = Callable[[], None]

_BATCH = 2000
_RETRY_SECONDS = 1.0
_LOCK_SECONDS = 2.0
_REMIND_SECONDS = 60.0
_INDEX_BYTES = 32768
"""The index of a write-ahead log is never smaller than this."""
_INDEX_HEADER_BYTES = 136
_CORRUPT = ("malformed", "not a database", "encrypted", "decode to UTF-8")
_FOREIGN = ("no such table", "no such column", "has no column")
"""When the file is opened, these errors mean that the tables are not ours; later they would be our
mistake.
"""
_log = logger("database")


class Database:
    """A database whose loss costs only history."""

    def __init__(
        self,
        path: str,
        schema: Sequence[str],
        columns: Sequence[tuple[str, str, str]] = (),
        *,
        on_replaced: Done,
    ) -> None:
        self.path = path
        self.moved_aside: str | None = None
        """Where a corrupt file was moved to; None if it was deleted."""
        self._schema = schema
        self._version = crc32(repr((schema, columns)).encode()) & 0x7FFFFFFF
        self._columns = columns
        """Table, name and type of columns that an older file may lack."""
        self._on_replaced = on_replaced
        self._queue: queue.SimpleQueue[tuple[list[Statement], Done] | None] = queue.SimpleQueue()
        self._reader = ThreadPoolExecutor(1, "database-reader")
        self._read_connection: sqlite3.Connection | None = None
        self._found: sqlite3.Error | None = None
        """An error that the reader met and only the writer can repair."""
        self._closing = threading.Event()
        self._mending = threading.Lock()
        self._index_size = _INDEX_BYTES
        self._connection: sqlite3.Connection | None = None
        """None while the file cannot be opened: history waits, services do not."""
        self._identity: tuple[int, int] | None = None
        self._is_untold = False
        """Whether the file is new and `on_replaced` has not been called yet."""
        self._failing_since: float | None = None
        self.failing: str | None = None
        """Why nothing can be written now."""
        self._reminded_at = 0.0
        try:
            self._open_or_replace()
        except (sqlite3.Error, OSError) as error:
            self._tell_failing(error)
        self._writer = threading.Thread(target=self._write_all, name="database-writer", daemon=True)

    def start(self) -> None:
        """Start the writer.

        Until then `read_now` may be used, and the caller looks at `moved_aside` itself.
        """
        self._is_untold = False
        self._writer.start()

    def read_now(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Read on the caller's thread. Only before `start`."""
        try:
            if self._connection is not None:
                return self._read_or_replace(self._connection, query)
        except (sqlite3.Error, OSError) as error:
            self._tell_failing(error)
        with closing(sqlite3.connect(":memory:")) as empty:
            for statement in self._schema:
                empty.execute(statement)
            return query(empty)

    def _read_or_replace(
        self, connection: sqlite3.Connection, query: Callable[[sqlite3.Connection], T]
    ) -> T:
        try:
            return query(connection)
        except sqlite3.Error as error:
            if not _is_unusable(error):
                raise
            connection.close()
            self._connection = None
            self.moved_aside = self._move_aside(error)
            return query(self._open_or_replace())

    def submit(self, statements: list[Statement], done: Done) -> None:
        """Write all statements in one transaction; `done` is called in the writer's thread."""
        self._queue.put((statements, done))

    def read(self, query: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Run a query in the reader's thread."""
        return self._reader.submit(self._read, query)

    def close(self, timeout_seconds: float = 5.0) -> None:
        """Write what is queued, then close."""
        if self._writer.is_alive():
            self._queue.put(None)
            self._closing.set()
            self._writer.join(timeout_seconds)
        self._reader.submit(self._close_reader)
        self._reader.shutdown(wait=True)
        if not self._writer.is_alive() and self._connection is not None:
            self._mend_index()
            self._connection.close()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, _LOCK_SECONDS, check_same_thread=False, isolation_level=None
        )
        try:
            os.chmod(self.path, 0o600)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            # Reading the version needs no lock, which another process may hold.
            if connection.execute("PRAGMA user_version").fetchone()[0] != self._version:
                self._make_tables(connection)
            self._identity = self._identity_now()
        except BaseException:
            connection.close()
            raise
        return connection

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        for statement in self._schema:
            connection.execute(statement)
        for table, name, kind in self._columns:
            known = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
            if name not in known:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")
        connection.execute(f"PRAGMA user_version={self._version}")
        connection.execute("COMMIT")

    def _open_or_replace(self) -> sqlite3.Connection:
        """Open the file, or a new one in place of a corrupt one; raises if neither works now."""
        try:
            self._connection = self._open()
        except sqlite3.Error as error:
            if not _is_unusable(error):
                raise
            self.moved_aside = self._move_aside(error)
            self._connection = self._open()
        return self._connection

    def _move_aside(self, error: Exception) -> str:
        aside = f"{self.path}.corrupt-{int(time.time())}"
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(self.path + suffix):
                os.replace(self.path + suffix, aside + suffix)
        self._is_untold = True
        _log.error("the database is unusable (%s); moved to %s, a new one is begun", error, aside)
        return aside

    def _identity_now(self) -> tuple[int, int] | None:
        """Return which file is at the path now."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _mend_index(self) -> None:
        """Restore the length of the write-ahead log's index if somebody truncated it.

        SQLite has mapped the file: an access beyond its end would end this process with SIGBUS, and
        this process may be the only one left that can hold the services. SQLite rebuilds an index
        without a header from the log itself. A deleted index is still complete for this process.
        Called before each use of the file; it takes about a microsecond.
        """
        path = f"{self.path}-shm"
        with self._mending:
            try:
                size = os.stat(path).st_size
                if size >= self._index_size:
                    self._index_size = size
                    return
                with open(open_plain(path, os.O_RDWR), "r+b", buffering=0) as file:
                    os.ftruncate(file.fileno(), self._index_size)
                    os.pwrite(file.fileno(), bytes(_INDEX_HEADER_BYTES), 0)
            except FileNotFoundError:
                return
            except OSError as error:
                _log.error("%s was truncated and cannot be mended: %s", path, error)
            else:
                _log.warning("%s was truncated; it is made anew", path)

    def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._read_connection is None:
                # Never create the file here: it would have no tables.
                where = f"file:{_quoted(self.path)}?mode=rw"
                self._read_connection = sqlite3.connect(where, uri=True, check_same_thread=False)
                self._read_connection.execute("PRAGMA query_only=ON")
            self._mend_index()
            return query(self._read_connection)
        except sqlite3.Error as error:
            self._found = error
            self.submit([], lambda: None)
            raise

    def _close_reader(self) -> None:
        if self._read_connection is not None:
            self._mend_index()
            self._read_connection.close()
            self._read_connection = None

    def _write_all(self) -> None:
        is_open = True
        while is_open:
            batch: list[tuple[list[Statement], Done]] = []
            entry = self._queue.get()
            while entry is not None:
                batch.append(entry)
                if len(batch) >= _BATCH or self._queue.empty():
                    break
                entry = self._queue.get()
            if entry is None:
                is_open = False
            if batch:
                self._write_until_done(batch)

    def _write_until_done(self, batch: list[tuple[list[Statement], Done]]) -> None:
        while True:
            try:
                self._commit(self._usable(), batch)
                break
            except (sqlite3.Error, OSError) as error:
                if _is_corrupt(error) and self._replace(error):
                    continue
                if _is_corrupt(error) or isinstance(error, sqlite3.OperationalError | OSError):
                    # A full disk or a lock: services go on, history waits.
                    self._tell_failing(error)
                    if self._closing.wait(_RETRY_SECONDS):
                        return
                else:
                    _log.exception("%d entries of the history are refused and lost", len(batch))
                    break
        if self._failing_since is not None:
            _log.warning("history is written again")
            self._failing_since = self.failing = None
        for _, done in batch:
            done()

    def _usable(self) -> sqlite3.Connection:
        """Return the connection to the file at the path; raises an error that the reader met."""
        found, self._found = self._found, None
        if found is not None and _is_corrupt(found):
            raise found
        if self._connection is not None and self._identity_now() != self._identity:
            _log.error("the database was deleted or exchanged in use; a new one is begun")
            self._let_go()
            self.moved_aside, self._is_untold = None, True
        connection = self._connection or self._open_or_replace()
        self._mend_index()
        if self._is_untold:
            self._is_untold = False
            self._on_replaced()
        return connection

    def _let_go(self) -> None:
        """Close every connection: the last one to close deletes the write-ahead log of the file."""
        self._reader.submit(self._close_reader).result()
        if self._connection is not None:
            self._mend_index()
            self._connection.close()
            self._connection = None

    def _tell_failing(self, error: Exception) -> None:
        """Log the failure, at first at once, then once a minute."""
        now = time.monotonic()
        self.failing = str(error)
        if self._failing_since is None:
            self._failing_since = now
        elif now - self._reminded_at < _REMIND_SECONDS:
            return
        self._reminded_at = now
        lasting = now - self._failing_since
        _log.error("history cannot be written (%s), for %.0f s now; trying on", error, lasting)

    def _replace(self, error: Exception) -> bool:
        """Move the file aside; return False if that is not possible now."""
        self._let_go()
        try:
            self.moved_aside = self._move_aside(error)
        except OSError as refusal:
            _log.error("the database is unusable (%s), and cannot be moved: %s", error, refusal)
            return False
        return True

    def _commit(
        self, connection: sqlite3.Connection, batch: list[tuple[list[Statement], Done]]
    ) -> None:
        execute, execute_many = connection.execute, connection.executemany
        execute("BEGIN IMMEDIATE")
        try:
            for statements, _ in batch:
                for sql, alike in groupby(statements, key=itemgetter(0)):
                    execute_many(sql, [values for _, values in alike])
            execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                execute("ROLLBACK")
            raise


def _is_corrupt(error: Exception) -> bool:
    return isinstance(error, sqlite3.Error) and any(word in str(error) for word in _CORRUPT)


def _is_unusable(error: Exception) -> bool:
    return _is_corrupt(error) or any(word in str(error) for word in _FOREIGN)


def _quoted(path: str) -> str:
    """Quote a path for a URI. Importing `urllib` takes longer than everything else here."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
