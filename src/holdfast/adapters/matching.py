"""Regular expressions in a process of their own: however long one thinks, the loop goes on.

Python's matcher keeps the whole interpreter while it looks at a line, in whatever thread;
one bad expression would stop everything. So lines go to a task of the keeper, with a
deadline. Knows nothing of logs.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from typing import Any

from holdfast.adapters.keeper_link import KeeperLink
from holdfast.adapters.succession import close_all
from holdfast.vocabulary.errors import Failed, UsageError
from holdfast.vocabulary.names import new_run_id

PATIENCE_SECONDS = 2.0
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


def check_expression(text: str) -> None:
    """Raises UsageError for what is no regular expression."""
    if len(text) > LONGEST_EXPRESSION:
        raise UsageError(
            "the regular expression is too long", f"at most {LONGEST_EXPRESSION} characters"
        )
    try:
        re.compile(text.encode("utf-8", "surrogateescape"))
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f'"{text}" is no regular expression: {error}') from None


class Matcher:
    """One expression; `async with` starts and ends its process."""

    def __init__(self, link: KeeperLink, expression: str) -> None:
        check_expression(expression)
        self._link = link
        self._expression = expression
        self._run_id = new_run_id()
        self._transports: list[asyncio.BaseTransport] = []
        self._answers: asyncio.StreamReader
        self._lines: asyncio.WriteTransport

    async def __aenter__(self) -> Matcher:
        asking = asyncio.ensure_future(self._ask())
        try:
            reply = await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(_abandon)
            raise
        await self._open(reply["spares"])
        return self

    async def _ask(self) -> dict[str, Any]:
        return await self._link.ask(
            {
                "do": "spawn",
                "run_id": self._run_id,
                "service": "holdfast.matcher",
                "number": 0,
                "kind": "task",
                "hidden": True,
                "argv": [sys.executable, "-I", "-S", "-c", _PROGRAM, self._expression],
                "env": {},
                "cwd": "/",
                "stdin": "pipe",
                "stop": {"signal": 9, "grace": 0.0},
                "lease": {"seconds": _LEASE_SECONDS, "kind": "job"},
            }
        )

    async def __aexit__(self, *_: object) -> None:
        for transport in self._transports:
            transport.close()
        # It ends with its input; one that still thinks is ended.
        self._link.request({"do": "end", "run_id": self._run_id, "grace": 0.0}, _ignore)

    async def matches(self, lines: list[bytes]) -> list[int]:
        """The places of those lines that match; raises UsageError when it takes too long."""
        if not lines:
            return []
        data = b"\n".join(lines)
        self._lines.write(b"%d\n" % len(data) + data)
        try:
            answer = await asyncio.wait_for(self._answers.readline(), PATIENCE_SECONDS)
        except asyncio.TimeoutError:
            raise UsageError(
                f'"{self._expression}" takes too long on what was printed',
                "repetitions of repetitions are slow; write it simpler",
            ) from None
        if not answer.endswith(b"\n"):
            raise Failed("the search ended before its time", "try again")
        return [int(number) for number in answer.split()]

    async def _open(self, fds: dict[str, int]) -> None:
        loop = asyncio.get_running_loop()
        for part in fds.keys() - {"out", "stdin"}:
            os.close(fds[part])
        self._answers = asyncio.StreamReader(limit=_REPLY_LIMIT)
        out, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._answers), os.fdopen(fds["out"], "rb", 0)
        )
        self._transports.append(out)
        self._lines, _ = await loop.connect_write_pipe(
            asyncio.BaseProtocol, os.fdopen(fds["stdin"], "wb", 0)
        )
        self._transports.append(self._lines)


def _abandon(asked: asyncio.Task[dict[str, Any]]) -> None:
    """Nobody waits for the process any more: without input it ends."""
    if not asked.cancelled() and asked.exception() is None:
        close_all(list(asked.result().get("spares", {}).values()))


def _ignore(_: dict[str, Any]) -> None:
    """Whether it had ended by itself does not matter."""
