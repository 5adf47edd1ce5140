"""What a service's terminal printed last, and its screen."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from holdfast.gate import secrets
from holdfast.gate.mcp import answers
from holdfast.gate.mcp.call import ToolCall
from holdfast.gate.mcp.screen import DEFAULT_SIZE, MOST_BYTES, draw
from holdfast.logbook import cursors
from holdfast.logbook.reader import Reader
from holdfast.secrets.redaction import redact
from holdfast.vocabulary.errors import UsageError


class TerminalOutput(NamedTuple):
    """What a terminal printed last, and its size."""

    data: bytes
    size: tuple[int, int]


async def read_terminal(call: ToolCall, name: str) -> TerminalOutput:
    """Read the newest output of a service with a terminal."""
    grant = await call.ask("open_output", service=name)
    if not grant["terminal"]:
        raise UsageError(f"{name} has no terminal, so it has no screen", "read its lines instead")
    await secrets.refresh(call.client.channel, grant.get("hides", 0))
    reader = Reader(grant["directory"], grant["service"])
    columns, rows = grant.get("size") or DEFAULT_SIZE
    return TerminalOutput(await asyncio.to_thread(_newest_bytes, reader), (columns, rows))


def _newest_bytes(reader: Reader) -> bytes:
    """Return the end of what the newest run printed."""
    newest = reader.run()
    start = reader.beginning() if newest is None else newest.start
    position = max(start.start, reader.end().start - MOST_BYTES)
    return b"".join(reader.raw(cursors.at(position)))[-MOST_BYTES:]


async def screen_text(call: ToolCall, seen: TerminalOutput) -> str:
    """Return the screen as text, with the place of the cursor."""
    drawn = await asyncio.to_thread(draw, seen.data, seen.size)
    lines = redact("\n".join(drawn.lines))
    columns, rows = seen.size
    head = f"screen, {columns}x{rows}, cursor at line {drawn.row}, column {drawn.column}:"
    return f"{head}\n{answers.fence(lines.splitlines())}"
