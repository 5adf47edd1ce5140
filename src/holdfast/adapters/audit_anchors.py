"""Writes the head of the audit to places outside the project's state, and reads it back.

The audit log and the copies of its head (database, keeper's memory) belong to one user. Somebody
who can replace all of them can roll the audit back, and nothing in them would show it. An anchor
shows it: a file elsewhere (best an append-only one, or one of another user), the system log, or an
address on another machine.

Never blocks the loop: files and syslog are written in a thread, one head at a time. Only the newest
head is written. A failed write is tried a few times, then again with the next head. Only number,
hash, time and the name of the state folder are sent.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from holdfast.adapters.audit_log import Head
from holdfast.adapters.own_log import logger
from holdfast.secrets.redaction import shown_address
from holdfast.system import deadlines
from holdfast.vocabulary.specs.audit import AnchorSpec

TRIES = 3
RETRY_SECONDS = 2.0
POST_SECONDS = 10.0
CLOSE_SECONDS = 1.0
MOST_READ = 4 * 1024 * 1024
"""So many bytes are read from the end of an anchor file."""
SYSLOG = "/var/run/syslog" if sys.platform == "darwin" else "/dev/log"
_NOTICE_OF_AUTH = 10 * 8 + 5
"""Facility authpriv, severity notice."""
_log = logger("audit_anchors")


class AnchoredHead(msgspec.Struct, frozen=True):
    """One head of the audit, as an anchor stores it."""

    state: str
    seq: int
    hash: str
    time: float


class AnchorCheck(NamedTuple):
    """What the anchors know of the audit."""

    heads: dict[int, str]
    """The hashes of this project's audit, by record number."""
    told: list[dict[str, Any]]
    """One entry for each anchor: where it is, and whether it could be read."""


class Anchors:
    """All anchors of one audit."""

    def __init__(
        self, state: str, head: Callable[[], Head], on_rolled_back: Callable[[str], None]
    ) -> None:
        """Call `on_rolled_back` if an anchor knows more records than the audit has."""
        self._state = state
        self._head = head
        self._on_rolled_back = on_rolled_back
        self._spec = AnchorSpec()
        self._changed = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._written = 0
        self._failing: set[str] = set()

    def use(self, spec: AnchorSpec) -> None:
        """Write to these anchors from now on."""
        if spec == self._spec:
            return
        self._spec, self._written = spec, 0
        if self._work is not None:
            self._work.cancel()
            self._work = None
        if not spec.is_empty:
            self._changed.set()
            self._work = asyncio.get_running_loop().create_task(self._run(spec))

    def moved(self) -> None:
        """Note that the audit has a new record."""
        if self._work is not None:
            self._changed.set()

    async def close(self) -> None:
        """Write the last head to the quick anchors. The next supervisor writes it to all."""
        if self._work is None:
            return
        self._work.cancel()
        self._work = None
        if self._head().seq > self._written:
            quick = msgspec.structs.replace(self._spec, url=None)
            try:
                await deadlines.wait_for(self._write(quick, tries=1), CLOSE_SECONDS)
            except TimeoutError:
                _log.warning("the last head of the audit is not in every anchor yet")

    async def check(self) -> AnchorCheck:
        """Read the anchor file back. The other anchors are named, for a person to compare."""
        spec = self._spec
        heads: dict[int, str] = {}
        told: list[dict[str, Any]] = []
        if spec.file is not None:
            try:
                heads = await asyncio.to_thread(read, spec.file, self._state)
                told.append({"anchor": spec.file, "checked": True, "last": max(heads, default=0)})
            except OSError as error:
                told.append({"anchor": spec.file, "checked": False, "why": _why(error)})
        why = "it cannot be read from here; compare it by hand"
        if spec.syslog:
            told.append({"anchor": "syslog", "checked": False, "why": why})
        if spec.url is not None:
            told.append({"anchor": shown_address(spec.url), "checked": False, "why": why})
        return AnchorCheck(heads, told)

    async def _run(self, spec: AnchorSpec) -> None:
        known, _ = await self.check()
        head = self._head()
        if (newest := max(known, default=0)) > head.seq:
            why = f"rolled back: the anchor knows records up to {newest}, not only {head.seq}"
            _log.error("the audit was %s", why)
            self._on_rolled_back(why)
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._head().seq:
                await self._write(spec, TRIES)
            await asyncio.sleep(spec.every)

    async def _write(self, spec: AnchorSpec, tries: int) -> None:
        head = self._head()
        anchored = AnchoredHead(self._state, head.seq, head.digest, round(time.time(), 3))
        line = msgspec.json.encode(anchored)
        if spec.file is not None:
            await self._try("the file", tries, lambda: asyncio.to_thread(append, spec.file, line))
        if spec.syslog:
            await self._try("syslog", tries, lambda: asyncio.to_thread(tell_syslog, line))
        if spec.url is not None:
            await self._try(shown_address(spec.url), tries, lambda: _post(spec.url or "", line))
        self._written = head.seq

    async def _try(self, where: str, tries: int, write: Callable[[], Any]) -> None:
        why = ""
        for attempt in range(tries):
            if attempt:
                await asyncio.sleep(RETRY_SECONDS * attempt)
            try:
                await write()
            except OSError as error:
                why = _why(error)
                continue
            self._failing.discard(where)
            return
        if where not in self._failing:
            self._failing.add(where)
            _log.error("the head of the audit cannot be written to %s: %s", where, why)


def append(path: str | None, line: bytes) -> None:
    """Append one line; never change an existing one."""
    assert path is not None
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    try:
        data = line + b"\n"
        if os.write(descriptor, data) < len(data):
            raise OSError("no space for a whole line")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(path: str, state: str) -> dict[int, str]:
    """Return the hashes by record number, as far as the end of the file has them."""
    with open(path, "rb") as file:
        file.seek(0, os.SEEK_END)
        size = file.tell()
        file.seek(max(0, size - MOST_READ))
        lines = file.read(MOST_READ).split(b"\n")
    found: dict[int, str] = {}
    for line in lines[1 if size > MOST_READ else 0 :]:
        try:
            one = msgspec.json.decode(line, type=AnchoredHead)
        except msgspec.MsgspecError:
            continue
        if one.state == state:
            # The first one counts: a later one with the same number belongs to a rolled-back audit.
            found.setdefault(one.seq, one.hash)
    return found


def tell_syslog(line: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.settimeout(POST_SECONDS)
        sock.connect(SYSLOG)
        sock.send(b"<%d>holdfast: audit head %s" % (_NOTICE_OF_AUTH, line))


async def _post(url: str, line: bytes) -> None:
    from holdfast.adapters import http_client

    headers = {"Content-Type": "application/json"}
    try:
        answer = await http_client.request(
            url,
            method="POST",
            headers=headers,
            body=line,
            timeout_seconds=POST_SECONDS,
            largest_body=0,
        )
    except http_client.HttpError as error:
        raise OSError(str(error)) from None
    if not answer.is_success:
        raise OSError(f"it answered {answer.status}")


def _why(error: OSError) -> str:
    return error.strerror or str(error)
