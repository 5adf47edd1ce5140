"""Runs regular expressions in a process of their own, so that a slow one never blocks the loop.

Python's matcher holds the interpreter lock while it looks at a line, in any thread; one bad
expression would stop everything. So lines go to a task of the keeper, with a deadline. Knows
nothing of logs.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from typing import TYPE_CHECKING

from holdfast.adapters.keeper_link import KeeperLink
from holdfast.adapters.run_ids import new_run_id
from holdfast.adapters.succession import close_all
from holdfast.system import deadlines
from holdfast.system.own_process import LIBRARY_VARIABLES
from holdfast.vocabulary.errors import Failed, UsageError

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import Reply, SpawnReply

PATIENCE_SECONDS = 2.0
SHARED_CPU_SECONDS = 0.5
SHARED_PATIENCE_SECONDS = 20.0
SHARED_IDLE_SECONDS = 60.0
LONGEST_EXPRESSION = 1000
_LEASE_SECONDS = 3600.0
_REPLY_LIMIT = 1 << 20
_PROGRAM = """
import re, sys
search = re.compile(sys.argv[1].encode("utf-8", "surrogateescape")).search
lines, answers = sys.stdin.buffer, sys.stdout.buffer
while head := lines.readline():
    found = (n for n, line in enumerate(lines.read(int(head)).split(b"\\n")) if search(line))
    answers.write(" ".join(map(str, found)).encode() + b"\\n")
    answers.flush()
"""
_SHARED_PROGRAM = """
import re, signal, sys
from functools import lru_cache

class Slow(Exception):
    pass

def stop(number, frame):
    raise Slow

signal.signal(signal.SIGVTALRM, stop)
compiled = lru_cache(1000)(re.compile)
limit = float(sys.argv[1])
inbox, answers = sys.stdin.buffer, sys.stdout.buffer
while head := inbox.readline():
    first, second, by_line = map(int, head.split())
    expression, data = inbox.read(first), inbox.read(second)
    pieces = data.split(b"\\n") if by_line else [data]
    found = -2
    try:
        # Time of the processor, not of the clock: a busy machine makes nothing slow.
        signal.setitimer(signal.ITIMER_VIRTUAL, limit)
        search = compiled(expression).search
        found = next((n for n, piece in enumerate(pieces) if search(piece)), -1)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except Slow:
        pass
    answers.write(b"%d\\n" % found)
    answers.flush()
"""


def check_expression(text: str) -> None:
    """Raise UsageError for what is no regular expression."""
    if len(text) > LONGEST_EXPRESSION:
        raise UsageError(
            "the regular expression is too long", f"at most {LONGEST_EXPRESSION} characters"
        )
    try:
        re.compile(text.encode("utf-8", "surrogateescape"))
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f'"{text}" is no regular expression: {error}') from None


def _too_slow(expression: str) -> UsageError:
    return UsageError(
        f'"{expression}" takes too long on what was printed',
        "repetitions of repetitions are slow; write it simpler",
    )


class _Process:
    """A matcher's process: lines go in, answers come out."""

    def __init__(self, link: KeeperLink, argv: list[str]) -> None:
        self._link = link
        self._argv = argv
        self._run_id = new_run_id()
        self._transports: list[asyncio.BaseTransport] = []
        self.answers: asyncio.StreamReader
        self.lines: asyncio.WriteTransport

    async def open(self) -> None:
        asking = asyncio.ensure_future(self._ask())
        try:
            reply = await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(_abandon)
            raise
        await self._open(reply["spares"])

    def close(self) -> None:
        for transport in self._transports:
            transport.close()
        # It ends with its input; a busy one is ended.
        self._link.request({"do": "end", "run_id": self._run_id, "grace": 0.0}, _ignore)

    async def _ask(self) -> SpawnReply:
        return await self._link.ask(
            {
                "do": "spawn",
                "run_id": self._run_id,
                "service": "holdfast.matcher",
                "number": 0,
                "kind": "task",
                "hidden": True,
                "argv": [sys.executable, "-I", "-S", "-c", *self._argv],
                "env": {name: os.environ[name] for name in LIBRARY_VARIABLES if name in os.environ},
                "cwd": "/",
                "stdin": "pipe",
                "stop": {"signal": 9, "grace": 0.0},
                "lease": {"seconds": _LEASE_SECONDS, "kind": "job"},
            }
        )

    async def _open(self, fds: dict[str, int]) -> None:
        loop = asyncio.get_running_loop()
        for part in fds.keys() - {"out", "stdin"}:
            os.close(fds[part])
        self.answers = asyncio.StreamReader(limit=_REPLY_LIMIT)
        out, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self.answers), os.fdopen(fds["out"], "rb", 0)
        )
        self._transports.append(out)
        self.lines, _ = await loop.connect_write_pipe(
            asyncio.BaseProtocol, os.fdopen(fds["stdin"], "wb", 0)
        )
        self._transports.append(self.lines)


class Matcher:
    """One expression; `async with` starts and ends its process."""

    def __init__(self, link: KeeperLink, expression: str) -> None:
        check_expression(expression)
        self._expression = expression
        self._process = _Process(link, [_PROGRAM, expression])

    async def __aenter__(self) -> Matcher:
        await self._process.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.close()

    async def matches(self, lines: list[bytes]) -> list[int]:
        """Return the indexes of the lines that match; raises UsageError if that takes too long."""
        if not lines:
            return []
        data = b"\n".join(lines)
        self._process.lines.write(b"%d\n" % len(data) + data)
        try:
            answer = await deadlines.wait_for(self._process.answers.readline(), PATIENCE_SECONDS)
        except TimeoutError:
            raise _too_slow(self._expression) from None
        if not answer.endswith(b"\n"):
            raise Failed("the search broke off: its process ended", "try again")
        return [int(number) for number in answer.split()]


class SharedMatcher:
    """Any number of expressions in one process, which exists only while it is needed.

    An expression that takes too long is interrupted there, and costs the others half a second.
    """

    def __init__(self, link: KeeperLink) -> None:
        self._link = link
        self._process: _Process | None = None
        self._turn = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None
        self._renew_at = 0.0

    async def first(self, expression: str, lines: list[bytes]) -> int | None:
        """Return the index of the first line that matches; raises UsageError if that takes too
        long.
        """
        if not lines:
            return None
        return await self._ask(expression, b"\n".join(lines), by_line=True)

    async def is_in(self, expression: str, data: bytes) -> bool:
        """Return whether the expression occurs anywhere in these bytes."""
        plain = expression.encode("utf-8", "surrogateescape")
        if re.escape(plain) == plain:
            return plain in data
        return await self._ask(expression, data, by_line=False) is not None

    def close(self) -> None:
        process, self._process = self._process, None
        if self._idle is not None:
            self._idle.cancel()
        if process is not None:
            process.close()

    async def _ask(self, expression: str, data: bytes, *, by_line: bool) -> int | None:
        # A cancelled caller leaves, but its answer must still be read, or the next caller gets it.
        asking = asyncio.ensure_future(self._in_turn(expression, data, by_line=by_line))
        number = await asyncio.shield(asking)
        if number == -2:
            raise _too_slow(expression)
        return None if number < 0 else number

    async def _in_turn(self, expression: str, data: bytes, *, by_line: bool) -> int:
        loop = asyncio.get_running_loop()
        encoded = expression.encode("utf-8", "surrogateescape")
        head = b"%d %d %d\n" % (len(encoded), len(data), by_line)
        async with self._turn:
            if self._idle is not None:
                self._idle.cancel()
            if self._process is not None and loop.time() > self._renew_at:
                self.close()
            if self._process is None:
                process = _Process(self._link, [_SHARED_PROGRAM, str(SHARED_CPU_SECONDS)])
                await process.open()
                self._process, self._renew_at = process, loop.time() + _LEASE_SECONDS / 2
            self._process.lines.write(head + encoded + data)
            try:
                reading = self._process.answers.readline()
                answer = await deadlines.wait_for(reading, SHARED_PATIENCE_SECONDS)
            except TimeoutError:
                answer = b""
            if not answer.endswith(b"\n"):
                self.close()
                raise Failed("the search broke off: its process ended", "it is tried again")
            self._idle = loop.call_later(SHARED_IDLE_SECONDS, self.close)
            return int(answer)


def _abandon(asked: asyncio.Task[SpawnReply]) -> None:
    """Close a process that nobody waits for: without input it ends."""
    if not asked.cancelled() and asked.exception() is None:
        close_all(list(asked.result().get("spares", {}).values()))


def _ignore(_: Reply) -> None:
    """Do nothing: it does not matter whether it had ended by itself."""
