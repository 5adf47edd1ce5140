"""The queue in one SQLite file: one thread owns the connection, and commits in groups.

The writes that arrive while a commit is under way share the next one, each in a savepoint of its
own. A commit is on disk before anybody is told. Several processes may use the file on one host;
every claim is a transaction that begins with the lock. Not for network file systems.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.adapters.queue.store import (
    LEASE_LOST,
    STATES,
    UNFINISHED,
    Ending,
    Expired,
    JobState,
    NewJob,
    StoredJob,
    new_job_id,
)
from holdfast.vocabulary.errors import Conflict, Failed, NotFound
from holdfast.vocabulary.specs.jobs import JobRequest, RepeatSpec

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], Any]

MOST_REMEMBERED = 10_000
"""So many jobs that are in no list any more are remembered, for those who still ask."""
MOST_OUTPUTS = 2000
"""So many jobs' outputs are kept at most, however small: each is several files."""
_BATCH = 500
_LOCK_SECONDS = 5.0
_COLUMNS = (
    "id, state, request, priority, unique_key, added_at, run_at, attempts, run_id, token, node, "
    "lease_until, started_at, ended_at, cancel, progress, result, reason, exit_code, signal, "
    "removed"
)
_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS jobs (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        state TEXT NOT NULL,
        template TEXT NOT NULL,
        request BLOB NOT NULL,
        priority INTEGER NOT NULL,
        unique_key TEXT,
        added_at REAL NOT NULL,
        run_at REAL,
        attempts INTEGER NOT NULL DEFAULT 0,
        run_id TEXT,
        token TEXT,
        node TEXT,
        lease_until REAL,
        started_at REAL,
        ended_at REAL,
        cancel INTEGER NOT NULL DEFAULT 0,
        progress BLOB,
        result BLOB,
        reason TEXT,
        exit_code INTEGER,
        signal TEXT,
        removed INTEGER NOT NULL DEFAULT 0,
        keep REAL,
        log_bytes INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE INDEX IF NOT EXISTS jobs_waiting ON jobs(template, priority, seq)"
    " WHERE state = 'waiting'",
    "CREATE INDEX IF NOT EXISTS jobs_delayed ON jobs(run_at) WHERE state = 'delayed'",
    "CREATE INDEX IF NOT EXISTS jobs_leases ON jobs(lease_until) WHERE state = 'active'",
    "CREATE INDEX IF NOT EXISTS jobs_states ON jobs(removed, state, ended_at)",
    "CREATE INDEX IF NOT EXISTS jobs_outputs ON jobs(ended_at, seq) WHERE log_bytes > 0",
    "CREATE INDEX IF NOT EXISTS jobs_removed ON jobs(seq) WHERE removed = 1",
    "CREATE UNIQUE INDEX IF NOT EXISTS jobs_keys ON jobs(unique_key)"
    " WHERE unique_key IS NOT NULL AND state IN ('waiting', 'delayed', 'blocked', 'active')",
    "CREATE TABLE IF NOT EXISTS needs (job TEXT NOT NULL, after TEXT NOT NULL,"
    " PRIMARY KEY (job, after)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS needs_after ON needs(after)",
    "CREATE TABLE IF NOT EXISTS repeats (id TEXT PRIMARY KEY, spec BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS numbers (name TEXT PRIMARY KEY, value INTEGER NOT NULL)",
)
_log = logger("queue")
_decode_request = msgspec.json.Decoder(JobRequest).decode
_decode_repeat = msgspec.json.Decoder(RepeatSpec).decode
_encode = msgspec.json.encode


class SqliteJobStore:
    """THE embedded queue. Call `open` first; every method is safe to cancel."""

    def __init__(self, path: str, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._works: queue.SimpleQueue[tuple[Work, asyncio.Future[Any]] | None] = (
            queue.SimpleQueue()
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, name="job-store", daemon=True)
        self._connection: sqlite3.Connection | None = None

    @property
    def exists(self) -> bool:
        """Whether there is a file, so that there may be jobs."""
        return os.path.exists(self._path)

    async def open(self) -> None:
        """Open the file, in the thread that uses it from then on."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        await self._do(lambda db: None)

    async def close(self) -> None:
        if self._thread.is_alive():
            self._works.put(None)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, self._thread.join)

    # What a store does

    async def add(self, jobs: Sequence[NewJob]) -> list[tuple[StoredJob, bool]]:
        return await self._do(lambda db: [self._add(db, job) for job in jobs])

    async def claim(
        self, node: str, lease_seconds: float, free: Mapping[str, int], run_ids: Sequence[str]
    ) -> list[StoredJob]:
        return await self._do(lambda db: self._claim(db, node, lease_seconds, free, run_ids))

    async def next_due(self) -> float | None:
        return await self._do(self._next_due)

    async def renew(
        self, claims: Sequence[tuple[str, str]], lease_seconds: float
    ) -> dict[str, bool]:
        return await self._do(lambda db: self._renew(db, claims, lease_seconds))

    async def report(self, job: str, token: str, *, progress: Any, result: Any) -> bool:
        return await self._do(lambda db: self._report(db, job, token, progress, result))

    async def complete(self, job: str, token: str, ending: Ending) -> bool:
        return await self._do(lambda db: self._end(db, job, token, "completed", ending))

    async def fail(self, job: str, token: str, ending: Ending, retry_at: float | None) -> bool:
        return await self._do(lambda db: self._fail(db, job, token, ending, retry_at))

    async def release(self, job: str, token: str, run_at: float | None = None) -> bool:
        return await self._do(lambda db: self._release(db, job, token, run_at))

    async def cancel(self, job: str) -> StoredJob | None:
        return await self._do(lambda db: self._cancel(db, job))

    async def cancelled(self, job: str, token: str, ending: Ending) -> bool:
        return await self._do(lambda db: self._end(db, job, token, "cancelled", ending))

    async def retry(self, job: str) -> StoredJob | None:
        return await self._do(lambda db: self._retry(db, job))

    async def get(self, job: str) -> StoredJob | None:
        return await self._do(lambda db: _get(db, job))

    async def find(
        self,
        states: Sequence[JobState],
        templates: Collection[str] | None = None,
        limit: int = 100,
    ) -> list[StoredJob]:
        return await self._do(lambda db: _list(db, states, templates, limit))

    async def active(self, node: str) -> list[StoredJob]:
        return await self._do(
            lambda db: _select(db, "WHERE state = 'active' AND node = ? ORDER BY seq", (node,))
        )

    async def counts(self) -> dict[str, int]:
        return await self._do(_counts)

    async def pause(self, *, is_paused: bool) -> None:
        await self._do(lambda db: _set(db, "paused", int(is_paused)))

    async def is_paused(self) -> bool:
        return bool(await self._do(lambda db: _number(db, "paused")))

    async def repeats(self) -> list[RepeatSpec]:
        return await self._do(_repeats)

    async def set_repeat(self, repeat: RepeatSpec) -> None:
        await self._do(lambda db: _keep_repeat(db, repeat))

    async def remove_repeat(self, repeat: str) -> bool:
        return await self._do(
            lambda db: db.execute("DELETE FROM repeats WHERE id = ?", (repeat,)).rowcount > 0
        )

    async def settle_repeat(self, repeat: str, handled: float, job: NewJob | None) -> bool:
        return await self._do(lambda db: self._settle_repeat(db, repeat, handled, job))

    async def expire(self, keep_failed: float, log_size: int) -> Expired:
        return await self._do(lambda db: self._expire(db, keep_failed, log_size))

    # The thread

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run it in the thread, in a transaction; returns when that is on disk."""
        assert self._loop is not None, "open() comes first"
        future: asyncio.Future[T] = self._loop.create_future()
        self._works.put((work, future))
        return await future

    def _work(self) -> None:
        is_open = True
        while is_open:
            batch: list[tuple[Work, asyncio.Future[Any]]] = []
            entry = self._works.get()
            while entry is not None:
                batch.append(entry)
                if len(batch) >= _BATCH or self._works.empty():
                    break
                entry = self._works.get()
            is_open = entry is not None
            if batch:
                self._answer(self._transact([work for work, _ in batch]), [f for _, f in batch])
        if self._connection is not None:
            self._connection.close()

    def _transact(self, works: list[Work]) -> list[Any]:
        """Do all of it in one transaction; returns the answer or the error of each."""
        try:
            db = self._connection or self._open()
            db.execute("BEGIN IMMEDIATE")
            answers = [_attempt(db, work) for work in works]
            db.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            if self._connection is not None and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            hint = f"free space on its disk, or let go of the lock: {self._path}"
            return [Failed(f"the job queue cannot be written: {error}", hint)] * len(works)
        return answers

    def _answer(self, answers: list[Any], futures: list[asyncio.Future[Any]]) -> None:
        def settle() -> None:
            for answer, future in zip(answers, futures, strict=True):
                if future.done():
                    continue
                if isinstance(answer, BaseException):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(settle)
        except RuntimeError:
            _log.info("the queue answers after the end of the loop")

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            aside = f"{self._path}.corrupt-{int(time.time())}"
            for suffix in ("", "-wal", "-shm"):
                if os.path.exists(self._path + suffix):
                    os.replace(self._path + suffix, aside + suffix)
            _log.error(
                "the job queue is unusable (%s); moved to %s, a new one is begun", error, aside
            )
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        db = sqlite3.connect(
            self._path, _LOCK_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=FULL")
            for statement in _SCHEMA:
                db.execute(statement)
        except BaseException:
            db.close()
            raise
        self._connection = db
        return db

    # Transactions

    def _add(self, db: sqlite3.Connection, job: NewJob) -> tuple[StoredJob, bool]:
        known = _same(db, job)
        if known is not None:
            return known, False
        now = self._clock()
        request = job.request
        job_id = job.id or _fresh_id(db, request.template)
        missing = [one for one in job.after if not self._need(db, job_id, one)]
        if missing:
            raise NotFound(f"no job {missing[0][:80]}", "`holdfast job ls` lists them")
        is_blocked = _is_blocked(db, job_id)
        state: JobState = "blocked" if is_blocked else _ready_state(job.run_at, now)
        db.execute(
            "INSERT INTO jobs (id, state, template, request, priority, unique_key, added_at,"
            " run_at, keep) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                job_id, state, request.template, _encode(request), job.priority, job.key, now,
                job.run_at, request.keep_failed,
            ),
        )  # fmt: skip
        _count(db, "added")
        found = _get(db, job_id)
        assert found is not None
        return found, True

    def _need(self, db: sqlite3.Connection, job: str, after: str) -> bool:
        """Note that a job comes after another; returns whether that one is known."""
        row = db.execute("SELECT state FROM jobs WHERE id = ?", (after,)).fetchone()
        if row is not None and row[0] in ("failed", "cancelled"):
            raise Conflict(f"{after} is {row[0]}, so nothing can come after it", "retry it first")
        if row is not None and row[0] != "completed":
            db.execute("INSERT OR IGNORE INTO needs VALUES (?, ?)", (job, after))
        return row is not None

    def _claim(
        self,
        db: sqlite3.Connection,
        node: str,
        lease_seconds: float,
        free: Mapping[str, int],
        run_ids: Sequence[str],
    ) -> list[StoredJob]:
        if _number(db, "paused"):
            return []
        now = self._clock()
        self._take_back(db, node, now)
        db.execute(
            "UPDATE jobs SET state = 'waiting' WHERE state = 'delayed' AND run_at <= ?", (now,)
        )
        left, claimed = dict(free), []
        for run_id in run_ids:
            job_id = _first(db, [template for template, count in left.items() if count > 0])
            if job_id is None:
                break
            claimed.append(_take(db, job_id, node, run_id, now, now + lease_seconds))
            left[claimed[-1].request.template] -= 1
        return claimed

    def _take_back(self, db: sqlite3.Connection, node: str, now: float) -> None:
        """Let jobs wait again whose node is gone. A node knows best about its own."""
        rows = db.execute(
            "SELECT id FROM jobs WHERE state = 'active' AND lease_until <= ? AND node != ?",
            (now, node),
        ).fetchall()
        for (job_id,) in rows:
            job = _get(db, job_id)
            assert job is not None
            ending = Ending(reason=LEASE_LOST)
            if job.is_cancel_asked:
                self._end(db, job_id, job.token, "cancelled", ending)
            else:
                is_dead = job.attempts >= job.request.attempts
                self._fail(db, job_id, job.token, ending, None if is_dead else now)
                _count(db, "stalled")

    def _next_due(self, db: sqlite3.Connection) -> float | None:
        moments = [
            db.execute("SELECT min(run_at) FROM jobs WHERE state = 'delayed'").fetchone()[0],
            db.execute("SELECT min(lease_until) FROM jobs WHERE state = 'active'").fetchone()[0],
        ]
        return min((moment for moment in moments if moment is not None), default=None)

    def _renew(
        self, db: sqlite3.Connection, claims: Sequence[tuple[str, str]], lease_seconds: float
    ) -> dict[str, bool]:
        until = self._clock() + lease_seconds
        return {
            job: db.execute(
                "UPDATE jobs SET lease_until = ? WHERE id = ? AND token = ? AND state = 'active'"
                " AND NOT cancel",
                (until, job, token),
            ).rowcount
            > 0
            for job, token in claims
        }

    def _report(
        self, db: sqlite3.Connection, job: str, token: str, progress: Any, result: Any
    ) -> bool:
        changes = {
            name: _encode(value)
            for name, value in (("progress", progress), ("result", result))
            if value is not msgspec.UNSET
        }
        sets = ", ".join(f"{name} = ?" for name in changes) or "token = token"
        return (
            db.execute(
                f"UPDATE jobs SET {sets} WHERE id = ? AND token = ? AND state = 'active'",  # noqa: S608
                (*changes.values(), job, token),
            ).rowcount
            > 0
        )

    def _fail(
        self,
        db: sqlite3.Connection,
        job: str,
        token: str | None,
        ending: Ending,
        retry_at: float | None,
    ) -> bool:
        if retry_at is None:
            return self._end(db, job, token, "failed", ending)
        now = self._clock()
        found = db.execute(
            "UPDATE jobs SET state = ?, run_at = ?, token = NULL, node = NULL, lease_until = NULL,"
            " reason = ?, exit_code = ?, signal = ?, log_bytes = log_bytes + ?, ended_at = ?"
            " WHERE id = ? AND token = ? AND state = 'active'",
            (
                _ready_state(retry_at, now), retry_at, ending.reason, ending.exit_code,
                ending.signal, ending.log_bytes, now, job, token,
            ),
        )  # fmt: skip
        if found.rowcount:
            _count(db, "retried")
        return found.rowcount > 0

    def _end(
        self, db: sqlite3.Connection, job: str, token: str | None, state: JobState, ending: Ending
    ) -> bool:
        """The job is over, if the token is that of its claim."""
        row = db.execute(
            "SELECT request, template FROM jobs WHERE id = ? AND token = ? AND state = 'active'",
            (job, token),
        ).fetchone()
        if row is None:
            return False
        self._finish(db, job, _read_request(*row)[0], state, ending)
        return True

    def _finish(
        self,
        db: sqlite3.Connection,
        job: str,
        request: JobRequest,
        state: JobState,
        ending: Ending,
    ) -> None:
        is_removed = (
            state == "cancelled"
            or (state == "completed" and request.remove_on_complete)
            or (state == "failed" and request.remove_on_fail)
        )
        db.execute(
            "UPDATE jobs SET state = ?, token = NULL, node = NULL, lease_until = NULL,"
            " ended_at = ?, reason = ?, exit_code = ?, signal = ?, log_bytes = log_bytes + ?,"
            " cancel = 0, removed = ? WHERE id = ?",
            (
                state, self._clock(), ending.reason, ending.exit_code, ending.signal,
                ending.log_bytes, int(is_removed), job,
            ),
        )  # fmt: skip
        _count(db, state)
        if is_removed:
            _forget_oldest(db)
        dependents = db.execute("SELECT job FROM needs WHERE after = ?", (job,)).fetchall()
        if state == "completed":
            db.execute("DELETE FROM needs WHERE after = ?", (job,))
        for (dependent,) in dependents:
            if state == "completed":
                self._unblock(db, dependent)
            else:
                self._fail_dependent(db, dependent, f"{job}, which it comes after, is {state}")

    def _unblock(self, db: sqlite3.Connection, job: str) -> None:
        if not _is_blocked(db, job):
            row = db.execute("SELECT run_at FROM jobs WHERE id = ?", (job,)).fetchone()
            state = _ready_state(row[0] if row else None, self._clock())
            db.execute("UPDATE jobs SET state = ? WHERE id = ? AND state = 'blocked'", (state, job))

    def _fail_dependent(self, db: sqlite3.Connection, job: str, reason: str) -> None:
        found = _get(db, job)
        if found is not None and found.state == "blocked":
            self._finish(db, job, found.request, "failed", Ending(reason=reason))

    def _release(self, db: sqlite3.Connection, job: str, token: str, run_at: float | None) -> bool:
        return (
            db.execute(
                "UPDATE jobs SET state = ?, run_at = coalesce(?, run_at), token = NULL,"
                " node = NULL, lease_until = NULL,"
                " started_at = NULL, attempts = attempts - 1"
                " WHERE id = ? AND token = ? AND state = 'active'",
                (_ready_state(run_at, self._clock()), run_at, job, token),
            ).rowcount
            > 0
        )

    def _cancel(self, db: sqlite3.Connection, job: str) -> StoredJob | None:
        found = _get(db, job)
        if found is None:
            return None
        if found.state == "active":
            db.execute("UPDATE jobs SET cancel = 1 WHERE id = ?", (job,))
        elif found.state in UNFINISHED or (found.state == "failed" and not found.is_removed):
            self._finish(db, job, found.request, "cancelled", Ending(reason="cancelled"))
        return _get(db, job)

    def _retry(self, db: sqlite3.Connection, job: str) -> StoredJob | None:
        found = _get(db, job)
        if found is None or found.state not in ("failed", "cancelled"):
            return found
        key = found.key
        if key is not None and _by_key(db, key) is not None:
            raise Conflict(f"another job with the key {key} is under way", "wait for that one")
        state = "blocked" if _is_blocked(db, job) else "waiting"
        db.execute(
            "UPDATE jobs SET state = ?, run_at = NULL, attempts = 0, ended_at = NULL, removed = 0"
            " WHERE id = ?",
            (state, job),
        )
        return _get(db, job)

    def _settle_repeat(
        self, db: sqlite3.Connection, repeat: str, handled: float, job: NewJob | None
    ) -> bool:
        row = db.execute("SELECT spec FROM repeats WHERE id = ?", (repeat,)).fetchone()
        if row is None:
            return False
        spec = _decode_repeat(row[0])
        is_new = spec.handled < handled
        _keep_repeat(db, msgspec.structs.replace(spec, handled=handled))
        if job is None or not is_new:
            return False
        return self._add(db, job)[1]

    def _expire(self, db: sqlite3.Connection, keep_failed: float, log_size: int) -> Expired:
        now = self._clock()
        expired = db.execute(
            "UPDATE jobs SET removed = 1 WHERE removed = 0 AND state = 'failed'"
            " AND ended_at <= ? - coalesce(keep, ?)",
            (now, keep_failed),
        ).rowcount
        if expired:
            _forget_oldest(db)
        outputs = db.execute(
            "SELECT id, log_bytes FROM jobs WHERE log_bytes > 0 AND ended_at IS NOT NULL"
            " ORDER BY ended_at DESC, seq DESC"
        ).fetchall()
        total, gone = 0, []
        for number, (job, size) in enumerate(outputs):
            total += size
            if total > log_size or number >= MOST_OUTPUTS:
                gone.append(job)
        db.executemany("UPDATE jobs SET log_bytes = 0 WHERE id = ?", [(job,) for job in gone])
        return Expired(jobs=expired, outputs=tuple(gone))


def _attempt(db: sqlite3.Connection, work: Work) -> Any:
    """Do one work of several; its failure takes back only its own part."""
    db.execute("SAVEPOINT one")
    try:
        answer = work(db)
    except (sqlite3.OperationalError, sqlite3.DatabaseError):
        raise  # the disk or the file: nothing of this transaction can be kept
    except Exception as error:  # noqa: BLE001 - passed on to whoever asked for it
        db.execute("ROLLBACK TO one")
        db.execute("RELEASE one")
        return error
    db.execute("RELEASE one")
    return answer


def _fresh_id(db: sqlite3.Connection, template: str) -> str:
    """Return an id that no job has: of very many in one moment two could be equal."""
    while True:
        job_id = new_job_id(template)
        if db.execute("SELECT 1 FROM jobs WHERE id = ?", (job_id,)).fetchone() is None:
            return job_id


def _first(db: sqlite3.Connection, templates: Collection[str]) -> str | None:
    """Return the next job of these templates."""
    heads = []
    for template in templates:
        # One step into the index for each template: its cost does not grow with the queue.
        row = db.execute(
            "SELECT priority, seq, id FROM jobs WHERE state = 'waiting' AND template = ?"
            " ORDER BY priority, seq LIMIT 1",
            (template,),
        ).fetchone()
        if row is not None:
            heads.append(row)
    return min(heads)[2] if heads else None


def _take(
    db: sqlite3.Connection, job_id: str, node: str, run_id: str, now: float, until: float
) -> StoredJob:
    """Claim a job under a new token."""
    number = _number(db, "claims") + 1
    _set(db, "claims", number)
    db.execute(
        "UPDATE jobs SET state = 'active', token = ?, node = ?, run_id = ?, lease_until = ?,"
        " started_at = ?, attempts = attempts + 1, progress = NULL, result = NULL,"
        " exit_code = NULL, signal = NULL WHERE id = ?",
        (f"{number}-{os.urandom(8).hex()}", node, run_id, until, now, job_id),
    )
    job = _get(db, job_id)
    assert job is not None
    return job


def _get(db: sqlite3.Connection, job: str) -> StoredJob | None:
    return next(iter(_select(db, "WHERE id = ?", (job,))), None)


def _by_key(db: sqlite3.Connection, key: str) -> StoredJob | None:
    marks = ", ".join(f"'{state}'" for state in UNFINISHED)
    where = f"WHERE unique_key = ? AND state IN ({marks})"
    return next(iter(_select(db, where, (key,))), None)


def _same(db: sqlite3.Connection, job: NewJob) -> StoredJob | None:
    if job.id is not None and (found := _get(db, job.id)) is not None:
        return found
    return _by_key(db, job.key) if job.key is not None else None


def _select(db: sqlite3.Connection, where: str, values: Sequence[Any]) -> list[StoredJob]:
    query = f"SELECT template, {_COLUMNS} FROM jobs {where}"  # noqa: S608
    found = []
    for template, *row in db.execute(query, tuple(values)).fetchall():
        fields = dict(zip(StoredJob.__struct_fields__, row, strict=False))
        fields["request"], fields["damage"] = _read_request(fields["request"], template)
        fields["is_cancel_asked"] = bool(fields["is_cancel_asked"])
        fields["is_removed"] = bool(fields["is_removed"])
        for name in ("progress", "result"):
            fields[name] = _read_value(fields["id"], name, fields[name])
        if fields["state"] in ("blocked", "failed"):
            needs = db.execute("SELECT after FROM needs WHERE job = ?", (fields["id"],))
            fields["after"] = tuple(need for (need,) in needs)
        found.append(StoredJob(**fields))
    return found


def _read_request(text: Any, template: str) -> tuple[JobRequest, str | None]:
    """Return a stored request; of one that cannot be read, an empty one and the reason."""
    try:
        return _decode_request(text), None
    except (msgspec.MsgspecError, TypeError, UnicodeError) as error:
        damage = f"its request in the queue cannot be read: {error}"
        return JobRequest(template=template, attempts=1, remove_on_complete=False), damage


def _read_value(job: str, name: str, text: Any) -> Any:
    try:
        return None if text is None else msgspec.json.decode(text)
    except (msgspec.MsgspecError, TypeError, UnicodeError) as error:
        _log.error("the %s of %s cannot be read: %s", name, job, error)
        return None


def _repeats(db: sqlite3.Connection) -> list[RepeatSpec]:
    found = []
    for name, text in db.execute("SELECT id, spec FROM repeats ORDER BY id"):
        try:
            found.append(_decode_repeat(text))
        except (msgspec.MsgspecError, TypeError, UnicodeError) as error:
            _log.error("%s cannot be read, so it adds no jobs: %s", name, error)
    return found


def _list(
    db: sqlite3.Connection,
    states: Sequence[JobState],
    templates: Collection[str] | None,
    limit: int,
) -> list[StoredJob]:
    found: list[StoredJob] = []
    for state in states or STATES:
        order = "priority, seq" if state == "waiting" else "seq DESC"
        where = "WHERE removed = 0 AND state = ?"
        values: list[str] = [state]
        if templates is not None:
            where += f" AND template IN ({','.join('?' * len(templates))})"
            values += templates
        found += _select(db, f"{where} ORDER BY {order} LIMIT ?", (*values, limit - len(found)))
        if len(found) >= limit:
            break
    return found


def _counts(db: sqlite3.Connection) -> dict[str, int]:
    counts: dict[str, int] = dict.fromkeys(STATES, 0)
    rows = db.execute("SELECT state, count(*) FROM jobs WHERE removed = 0 GROUP BY state")
    counts.update(dict(rows.fetchall()))
    totals = db.execute("SELECT name, value FROM numbers WHERE name LIKE 'total:%'").fetchall()
    return {**counts, **dict(totals)}


def _is_blocked(db: sqlite3.Connection, job: str) -> bool:
    return db.execute("SELECT 1 FROM needs WHERE job = ? LIMIT 1", (job,)).fetchone() is not None


def _ready_state(run_at: float | None, now: float) -> JobState:
    return "delayed" if run_at is not None and run_at > now else "waiting"


def _forget_oldest(db: sqlite3.Connection) -> None:
    """Forget jobs that are in no list, beyond those that are remembered."""
    newest = _number(db, "removed") + 1
    _set(db, "removed", newest)
    if newest % 100 == 0:
        db.execute(
            "DELETE FROM jobs WHERE removed = 1 AND log_bytes = 0 AND seq <= ("
            " SELECT seq FROM jobs WHERE removed = 1 ORDER BY seq DESC LIMIT 1 OFFSET ?)",
            (MOST_REMEMBERED,),
        )


def _keep_repeat(db: sqlite3.Connection, repeat: RepeatSpec) -> None:
    db.execute("INSERT OR REPLACE INTO repeats VALUES (?, ?)", (repeat.id, _encode(repeat)))


def _number(db: sqlite3.Connection, name: str) -> int:
    row = db.execute("SELECT value FROM numbers WHERE name = ?", (name,)).fetchone()
    return int(row[0]) if row is not None else 0


def _set(db: sqlite3.Connection, name: str, value: int) -> None:
    db.execute("INSERT OR REPLACE INTO numbers VALUES (?, ?)", (name, value))


def _count(db: sqlite3.Connection, what: str) -> None:
    name = f"total:{what}"
    _set(db, name, _number(db, name) + 1)
