"""What files were before each change, outside the tree: contents by hash, and records.

The record of a change lies in `pending` while its files are replaced, and moves to `changes` when
all are. So a record that a start finds in `pending` was interrupted. Owns its folder in the state
folder and what is kept there; touches no file of the user.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.vocabulary.specs.files import BackupSpec

PRUNE_EVERY_SECONDS = 3600.0
MOST_RECORDS = 5000
"""So many records are kept, however small they are."""
_log = logger("files")
_BEGIN = "change-"
_MOMENT_DIGITS = 11


class FileState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file as it was, or is to be."""

    hash: str
    size: int
    mode: int
    uid: int
    gid: int


class FileRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file of a change; `before` or `after` is None where there is no file."""

    root: str
    folder: str
    """The root's own path."""
    path: str
    """The path below the root, percent-encoded, because names need not be text."""
    before: FileState | None = None
    after: FileState | None = None
    temporary: str = ""
    """The name of the temporary file beside it that replaces it."""
    made: int = 0
    """How many folders of its path, counted from the file, were made for it."""


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change."""

    id: str
    time: float
    command: str
    actor: str
    entries: tuple[FileRecord, ...]
    session: str | None = None
    undoes: str | None = None
    state: str = "done"
    left: tuple[str, ...] = ()


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Record)


class ChangeStore:
    """The contents and records of one Holdfast."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._objects, self._changes, self._pending = (
            os.path.join(folder, name) for name in ("objects", "changes", "pending")
        )
        self._newest = 0
        self._pruned = 0.0
        self._new_bytes = 0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock: one change at a time, even while one supervisor replaces another."""
        for folder in (self._objects, self._changes, self._pending):
            os.makedirs(folder, 0o700, exist_ok=True)
        with open(os.path.join(self._folder, "lock"), "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def new_id(self) -> str:
        """Return an id; ids sort in the order in which they were made, even if the clock was set
        back.
        """
        if not self._newest:
            self._newest = max((_moment(name) for name in _names(self._changes)), default=0)
        self._newest = max(int(time.time() * 1000), self._newest + 1)
        return f"{_BEGIN}{self._newest:0{_MOMENT_DIGITS}x}{os.urandom(4).hex()}"

    def put(self, data: bytes) -> str:
        """Store a content durably, and return its hash."""
        name = hashlib.sha256(data).hexdigest()
        path = self._object(name)
        if os.path.exists(path):
            return name
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            os.makedirs(folder, 0o700, exist_ok=True)
            _sync_folder(self._objects)
        _write(path, data)
        _sync_folder(folder)
        self._new_bytes += len(data)
        return name

    def get(self, name: str) -> bytes | None:
        """Return a content; None if it is not kept any more, or is damaged."""
        try:
            with open(self._object(name), "rb") as file:
                data = file.read()
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == name else None

    def begin(self, record: Record) -> None:
        """Store the record durably, before any file is touched."""
        _write(os.path.join(self._pending, f"{record.id}.json"), _encode(record))
        _sync_folder(self._pending)

    def finish(self, record: Record) -> None:
        """Mark the change as done, durably."""
        name = f"{record.id}.json"
        os.rename(os.path.join(self._pending, name), os.path.join(self._changes, name))
        _sync_folder(self._changes)

    def abandon(self, record: Record) -> None:
        """Remove the record: nothing of the change was done."""
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._pending, f"{record.id}.json"))

    def settle(self, record: Record) -> None:
        """Store what became of an interrupted change."""
        _write(os.path.join(self._pending, f"{record.id}.json"), _encode(record))
        self.finish(record)

    def clear_unwritten(self) -> None:
        """Remove what was begun before even its record was complete."""
        for name in os.listdir(self._pending):
            if name.endswith(".new"):
                with suppress(OSError):
                    os.unlink(os.path.join(self._pending, name))

    def interrupted(self) -> list[Record]:
        found = [self._read(os.path.join(self._pending, name)) for name in _names(self._pending)]
        return [record for record in found if record is not None]

    def records(self) -> Iterator[Record]:
        """Yield records, newest first."""
        for name in sorted(_names(self._changes), reverse=True):
            record = self._read(os.path.join(self._changes, name))
            if record is not None:
                yield record

    def record(self, change: str) -> Record | None:
        if not change.removeprefix(_BEGIN).isalnum():
            return None
        return self._read(os.path.join(self._changes, f"{change}.json"))

    def _read(self, path: str) -> Record | None:
        try:
            return _load(path)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            _log.warning("the record of a change cannot be read: %s: %s", path, error)
            return None

    def prune(self, spec: BackupSpec) -> None:
        """Delete what is too old or too much; the newest change always stays."""
        now = time.time()
        is_due = now - self._pruned > PRUNE_EVERY_SECONDS
        if not is_due and self._new_bytes < spec.max_size // 10:
            return
        self._pruned, self._new_bytes = now, 0
        # A record that cannot be read now may need any content: then nothing is deleted.
        kept: set[str] = set()
        for name in _names(self._pending):
            with suppress(msgspec.MsgspecError):
                kept |= _sizes(_load(os.path.join(self._pending, name))).keys()
        size = held = 0
        names = sorted(_names(self._changes), reverse=True)
        for number, name in enumerate(names):
            try:
                record = _load(os.path.join(self._changes, name))
            except msgspec.MsgspecError:
                self._forget([name])
                continue
            sizes = _sizes(record)
            more = sum(length for name, length in sizes.items() if name not in kept)
            is_too_old = now - record.time > spec.keep or held == MOST_RECORDS
            if held and (is_too_old or size + more > spec.max_size):
                self._forget(names[number:])
                break
            kept |= sizes.keys()
            size += more
            held += 1
        self._sweep(kept)

    def _forget(self, names: list[str]) -> None:
        for name in names:
            with suppress(OSError):
                os.unlink(os.path.join(self._changes, name))

    def _sweep(self, kept: set[str]) -> None:
        for shard in os.listdir(self._objects):
            folder = os.path.join(self._objects, shard)
            for name in os.listdir(folder) if os.path.isdir(folder) else ():
                if shard + name not in kept:
                    with suppress(OSError):
                        os.unlink(os.path.join(folder, name))

    def _object(self, name: str) -> str:
        return os.path.join(self._objects, name[:2], name[2:])


def _load(path: str) -> Record:
    with open(path, "rb") as file:
        return _decoder.decode(file.read())


def _sizes(record: Record) -> dict[str, int]:
    """Return the hashes of the contents that a record needs."""
    return {one.before.hash: one.before.size for one in record.entries if one.before}


def _moment(name: str) -> int:
    try:
        return int(name[len(_BEGIN) : len(_BEGIN) + _MOMENT_DIGITS], 16)
    except ValueError:
        return 0


def _names(folder: str) -> list[str]:
    try:
        return [n for n in os.listdir(folder) if n.startswith(_BEGIN) and n.endswith(".json")]
    except FileNotFoundError:
        return []


def _write(path: str, data: bytes) -> None:
    read_in_thread = f"{path}.new"
    descriptor = os.open(
        read_in_thread, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
    )
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(read_in_thread, path)


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # not every file system does that
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
