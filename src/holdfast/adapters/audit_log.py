"""THE audit: who asked what, whether it was allowed and why, and what came of it.

Each record is one line of JSON with the hash of the record before it, in files of mode 0600 that
are only appended to. The newest number and hash (the head) are kept elsewhere, too, so that a
missing tail is noticed. A record is written before the command is answered, so an answered command
is on record even if Holdfast is killed next. The caller masks secrets.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.adapters.own_log import logger
from holdfast.system.private_files import open_plain

FILE_BYTES = 8 * 1024 * 1024
MOST_FILES = 32
ORIGIN = "0" * 64
_log = logger("audit_log")
_encode = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Head(msgspec.Struct, frozen=True):
    """The number and hash of the newest record, and the number of the oldest one kept."""

    seq: int
    digest: str
    first: int = 1

    @classmethod
    def parse(cls, text: str | None) -> Head:
        number, digest, first = [*(text or "").split(":"), "", ""][:3]
        if number.isdigit() and first.isdigit():
            return cls(int(number), digest, int(first))
        return cls(0, ORIGIN)

    def __str__(self) -> str:
        return f"{self.seq}:{self.digest}:{self.first}"


class AuditVerification(msgspec.Struct, frozen=True):
    """Whether the audit is complete, and if not, where and why."""

    is_whole: bool
    records: int
    first: int
    last: int
    problem: str | None = None


class AuditLog:
    """Appends records; reads and verifies them."""

    def __init__(self, folder: str, keep_head: Callable[[str], None]) -> None:
        self._folder = folder
        self._keep_head = keep_head
        self._head = Head(0, ORIGIN)
        self._descriptor: int | None = None
        self._lost = 0
        self._begun = 0
        """The newest number ever given out; a larger one was not written by us."""
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def head(self) -> Head:
        return self._head

    def open(self, kept_head: str | None) -> None:
        """Continue after the newest record. `kept_head` is the head as it is kept elsewhere."""
        try:
            os.makedirs(self._folder, 0o700, exist_ok=True)
        except OSError as error:
            # Services go on without an audit; every lost record is counted.
            _log.error("the audit has no folder: %s", error)
        known, found = Head.parse(kept_head), self._newest()
        if found.seq < known.seq:
            _log.error(
                "records %d to %d of the audit are missing; `holdfast audit --verify` tells more",
                found.seq + 1,
                known.seq,
            )
        # A number is never used twice, even if records were removed.
        newest = max(found, known, key=lambda head: head.seq)
        self._head = replace(newest, first=known.first)
        self._begun = newest.seq
        if found.seq < known.seq:
            self.record({"gap": f"records {found.seq + 1} to {known.seq} were missing"})
        elif known.seq and self._digest_at(known.seq, found) != known.digest:
            # The chain goes on from the record that we wrote, so the change stays visible.
            _log.error("record %d of the audit is not the one that was written", known.seq)
            self._head = replace(self._head, digest=known.digest)
            self.record({"gap": f"record {known.seq} was not the one that was written"})

    def record(self, fields: dict[str, Any]) -> None:
        """Append one record. A full disk loses it, and the next record says so."""
        if self._lost:
            fields = {**fields, "lost_before": self._lost}
        seq = self._begun = self._head.seq + 1
        entry = {"seq": seq, "time": round(time.time(), 6), **fields, "prev": self._head.digest}
        digest = digest_of(entry)
        line = _encode({**entry, "hash": digest}) + b"\n"
        try:
            self._append(line)
        except OSError as error:
            if not self._lost:
                _log.error("the audit cannot be written: %s", error)
            self._lost += 1
            return
        self._lost = 0
        self._head = Head(seq, digest, self._head.first)
        self._keep_head(str(self._head))
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def newer_than(self, seq: int) -> None:
        """Return when there is a record with a larger number."""
        while self._head.seq <= seq:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def entries(self, since: int = 0) -> Iterator[dict[str, Any]]:
        """Yield records after this number, oldest first; skip lines that are no records."""
        files = self._files()
        # Skip files that cannot hold such numbers: a follower asks again and again.
        while len(files) > 1 and (_first_of(files[1]) or since + 2) <= since + 1:
            files.pop(0)
        for path in files:
            for line in _lines(path):
                entry = _parsed(line)
                if entry is None:
                    continue
                seq = entry.get("seq")
                if isinstance(seq, int) and seq > since:
                    yield entry

    def verify(
        self, kept_head: str | None = None, anchored: Mapping[int, str] | None = None
    ) -> AuditVerification:
        """Check every record: none altered, none missing, none cut off before the head.

        `anchored` are hashes by number from outside. Only they show that both log and head were
        rolled back.
        """
        anchored = anchored or {}
        count, first, before = 0, 0, Head(0, "")
        known = Head.parse(kept_head) if kept_head else self._head
        for path in self._files():
            for number, line in enumerate(_lines(path), 1):
                problem, entry = _wrong_with(line, before)
                if problem is not None or entry is None:
                    where = f"{os.path.basename(path)} line {number}: {problem}"
                    return AuditVerification(False, count, first, before.seq, where)
                before = Head(entry["seq"], entry["hash"])
                first, count = first or before.seq, count + 1
                if before.seq == known.seq and before.digest != known.digest:
                    why = f"record {known.seq} is not the one that was written"
                    return AuditVerification(False, count, first, before.seq, why)
                if anchored.get(before.seq, before.digest) != before.digest:
                    why = f"record {before.seq} is not the one whose hash is in the anchor"
                    return AuditVerification(False, count, first, before.seq, why)
        if first > known.first:
            why = f"records {known.first} to {first - 1} are missing at the beginning"
            return AuditVerification(False, count, first, before.seq, why)
        if before.seq < known.seq:
            why = f"records {before.seq + 1} to {known.seq} are cut off at the end"
            return AuditVerification(False, count, first, before.seq, why)
        if (newest := max(anchored, default=0)) > before.seq:
            why = f"rolled back: the anchor knows records up to {newest}, not only {before.seq}"
            return AuditVerification(False, count, first, before.seq, why)
        if before.seq > self._begun:
            why = f"records {self._begun + 1} to {before.seq} are of somebody else"
            return AuditVerification(False, count, first, before.seq, why)
        return AuditVerification(True, count, first, before.seq)

    def _append(self, line: bytes) -> None:
        size = self._size_now()
        if self._descriptor is None or size is None or size + len(line) > FILE_BYTES:
            size = self._next_file()
        assert self._descriptor is not None
        if os.write(self._descriptor, line) < len(line):
            # Half a record would break the chain for ever.
            os.ftruncate(self._descriptor, size)
            raise OSError("no space for a whole record")

    def _size_now(self) -> int | None:
        """Return the size of the current file; None if there is none, or it was removed."""
        if self._descriptor is None:
            return None
        found = os.fstat(self._descriptor)
        return found.st_size if found.st_nlink else None

    def _next_file(self) -> int:
        """Begin another file, and return its size."""
        files = self._files()
        newest = files[-1] if files else None
        is_first = self._descriptor is None
        if newest is not None and is_first and os.path.getsize(newest) < FILE_BYTES:
            path = newest
        else:
            path = os.path.join(self._folder, f"audit-{self._head.seq + 1:012d}.jsonl")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        os.makedirs(self._folder, 0o700, exist_ok=True)
        descriptor = open_plain(path, flags)
        self.close()
        self._descriptor = descriptor
        leaving = files[: -(MOST_FILES - 1)] if path not in files else []
        if leaving:
            # Kept before the files are removed, so that only records given up on purpose are
            # missing.
            oldest = files[len(leaving)]
            self._head = replace(self._head, first=_first_of(oldest) or self._head.first)
            self._keep_head(str(self._head))
        for old in leaving:
            os.unlink(old)
        return _mended(descriptor, path)

    def _newest(self) -> Head:
        for path in reversed(self._files()):
            last: dict[str, Any] | None = None
            for line in _lines(path):
                last = _parsed(line) or last
            if last is not None and isinstance(last.get("seq"), int):
                return Head(last["seq"], str(last.get("hash")))
        return Head(0, ORIGIN)

    def _digest_at(self, seq: int, newest: Head) -> str | None:
        """Return the hash that the record with this number has."""
        if seq == newest.seq:
            return newest.digest
        for entry in self.entries(seq - 1):
            return str(entry.get("hash")) if entry["seq"] == seq else None
        return None

    def _files(self) -> list[str]:
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        return [
            os.path.join(self._folder, name)
            for name in sorted(names)
            if name.startswith("audit-") and name.endswith(".jsonl")
        ]


def digest_of(entry: dict[str, Any]) -> str:
    """Return the hash of a record without its own hash; `prev` chains it to the record before."""
    return hashlib.sha256(_encode(entry)).hexdigest()


def _first_of(path: str) -> int | None:
    """Return the number of the first record of a file, from its name."""
    number = os.path.basename(path).removeprefix("audit-").removesuffix(".jsonl")
    return int(number) if number.isascii() and number.isdigit() else None


def _lines(path: str) -> Iterator[bytes]:
    """Yield the lines of a file.

    A file that cannot be read yields nothing: its records are missing.
    """
    try:
        with open(open_plain(path, os.O_RDONLY), "rb") as file:
            yield from file
    except OSError as error:
        _log.error("the audit cannot be read: %s", error)


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        return _decode(line)
    except msgspec.MsgspecError:
        return None


def _wrong_with(line: bytes, before: Head) -> tuple[str | None, dict[str, Any] | None]:
    """Return what is wrong with a record that should follow this one."""
    entry = _parsed(line)
    if entry is None or not isinstance(entry.get("seq"), int):
        return "this is no record", None
    digest = entry.pop("hash", None)
    if digest != digest_of(entry):
        return f"record {entry['seq']} was altered", None
    if entry["seq"] == 1 and entry.get("prev") != ORIGIN:
        return "record 1 is not the first", None
    if before.seq and entry["seq"] != before.seq + 1:
        return f"records {before.seq + 1} to {entry['seq'] - 1} are missing", None
    if before.seq and entry.get("prev") != before.digest:
        return f"record {entry['seq']} does not follow record {before.seq}", None
    return None, {**entry, "hash": digest}


def _mended(descriptor: int, path: str) -> int:
    """Return the size of a file, after removing half a record at its end (a power cut)."""
    size = os.fstat(descriptor).st_size
    with open(path, "rb") as file:
        file.seek(max(0, size - FILE_BYTES))
        tail = file.read()
    if tail and not tail.endswith(b"\n"):
        size -= len(tail) - (tail.rfind(b"\n") + 1)
        os.ftruncate(descriptor, size)
    return size
