"""Handlers of commands about the output and the input of services."""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import AsyncGenerator, Awaitable
from typing import Any

import msgspec

from holdfast.adapters import own_log
from holdfast.adapters.output import LogQuery, bounds_of, ends_of, log_line, note_line
from holdfast.adapters.search.matcher import Matcher
from holdfast.app.context import Context
from holdfast.app.registry import handles
from holdfast.logbook.cursors import encode
from holdfast.logbook.entries import Line, Note
from holdfast.logbook.plain_text import shown
from holdfast.system.processes import terminal_size
from holdfast.vocabulary.command import Done
from holdfast.vocabulary.errors import Failed, NotFound, UsageError
from holdfast.vocabulary.output import (
    LogLine,
    Logs,
    LogsResult,
    OpenOutput,
    OutputGrant,
    Resize,
    SendInput,
    Watch,
)

_MOST_LINES = 10_000
_MOST_BYTES = 8 * 1024 * 1024
"""Of the text of one answer. A line without an end may be as long as the log."""


@handles(Logs)
async def logs(context: Context, command: Logs) -> LogsResult:
    runner = context.roster.get(command.service)
    if command.run is not None and not 1 <= abs(command.run) <= runner.number:
        newest = f"the newest is {runner.number}" if runner.number else "it never ran"
        raise NotFound(f"{runner.name} has no run {command.run}", newest)
    return await read_logs(context, msgspec.structs.replace(command, service=runner.name))


async def read_logs(context: Context, wanted: Logs) -> LogsResult:
    """Read what is recorded under a name, whether it is a service's or not."""
    query = await context.in_thread(LogQuery, context.logs, wanted)
    try:
        if wanted.grep is None:
            return await _read(context, wanted, query, None)
        async with context.searches, Matcher(context.link, wanted.grep) as matcher:
            return await _read(context, wanted, query, matcher)
    finally:
        query.close()


async def _read(
    context: Context, command: Logs, query: LogQuery, matcher: Matcher | None
) -> LogsResult:
    if command.max_bytes is not None:
        return await _read_bounded(context, command, query, matcher, max(1, command.max_bytes))
    limit = max(1, min(command.limit, _MOST_LINES))
    if matcher is not None and command.tail is not None:
        return await _read_newest(context, command, query, matcher, min(limit, command.tail))
    lines: list[LogLine] = []
    size = 0
    while not query.is_done:
        entries = await context.in_thread(query.batch)
        for entry in await _matching(command, entries, matcher):
            if isinstance(entry, Line):
                lines.append(log_line(entry))
                size += len(lines[-1].text)
            elif entry.kind != "run":
                lines.append(note_line(entry))
            is_full = len(lines) >= limit or size >= _MOST_BYTES
            if is_full and isinstance(entry, Line):
                cursor = encode(entry.cursor)
                return LogsResult(service=command.service, lines=lines, cursor=cursor, more=True)
    rest = await _matching(command, query.unfinished(), matcher)
    unfinished = [log_line(entry) for entry in rest if isinstance(entry, Line)]
    return LogsResult(
        service=command.service,
        lines=[*lines, *unfinished],
        cursor=encode(query.place),
        unfinished=len(unfinished) or msgspec.UNSET,
    )


async def _read_newest(
    context: Context, command: Logs, query: LogQuery, matcher: Matcher, count: int
) -> LogsResult:
    """Return the newest lines that match, of the whole part that is asked for."""
    kept: deque[LogLine] = deque()
    size = 0
    while not query.is_done:
        entries = await _matching(command, await context.in_thread(query.batch), matcher)
        entries += await _matching(command, query.unfinished(), matcher) if query.is_done else []
        for entry in entries:
            if isinstance(entry, Line):
                kept.append(log_line(entry))
                size += len(kept[-1].text)
            while len(kept) > max(1, count) or (size > _MOST_BYTES and len(kept) > 1):
                size -= len(kept.popleft().text)
    cursor = encode(query.place)
    return LogsResult(service=command.service, lines=list(kept), cursor=cursor)


async def _read_bounded(
    context: Context, command: Logs, query: LogQuery, matcher: Matcher | None, max_bytes: int
) -> LogsResult:
    """Return the lines that fit: the newest of a tail, else the oldest."""
    bounds = (command.cursor, command.run, command.since)
    is_tail = command.tail is not None or all(bound is None for bound in bounds)
    limit = max(1, min(command.limit, _MOST_LINES))
    if matcher is not None and command.tail is not None:
        limit = max(1, min(limit, command.tail))
    kept: deque[LogLine] = deque()
    size = left_out = 0
    place: str | None = None
    before = encode(query.place)
    while not query.is_done and place is None:
        entries = await _matching(command, await context.in_thread(query.batch), matcher)
        entries += await _matching(command, query.unfinished(), matcher) if query.is_done else []
        for entry in entries:
            if isinstance(entry, Note):
                if entry.kind != "run":
                    kept.append(note_line(entry))
                continue
            # In a tail no line takes so much that nothing beside it has room.
            line = _cut(log_line(entry), max(1, max_bytes // 2) if is_tail else max_bytes)
            if not is_tail and kept and (size + len(line.text) > max_bytes or len(kept) >= limit):
                place = before
                break
            kept.append(line)
            size += len(line.text)
            before = encode(entry.cursor)
            while is_tail and len(kept) > 1 and (size > max_bytes or len(kept) > limit):
                size -= len(kept.popleft().text)
                left_out += 1
    if left_out:
        text = f"{left_out} older lines left out"
        kept.appendleft(LogLine(time=0.0, stream="out", run=0, text=text, note="cut"))
    cursor = place or encode(query.place)
    is_more = place is not None
    return LogsResult(service=command.service, lines=list(kept), cursor=cursor, more=is_more)


def _cut(line: LogLine, max_bytes: int) -> LogLine:
    if len(line.text) <= max_bytes:
        return line
    return msgspec.structs.replace(line, text=line.text[:max_bytes], partial=True)


async def _matching(
    command: Logs, entries: list[Line | Note], matcher: Matcher | None
) -> list[Line | Note]:
    """Return the lines that match, and all notes."""
    if matcher is None:
        return entries
    places = [place for place, entry in enumerate(entries) if isinstance(entry, Line)]
    data = (entries[place].data for place in places)  # type: ignore[union-attr]
    found = await matcher.matches([line if command.raw else shown(line) for line in data])
    wanted = {places[number] for number in found}
    return [
        entry
        for place, entry in enumerate(entries)
        if place in wanted or not isinstance(entry, Line)
    ]


@handles(OpenOutput)
def open_output(
    context: Context, command: OpenOutput
) -> Awaitable[OutputGrant] | AsyncGenerator[dict[str, Any], None]:
    return (_hold if command.hold else _grant)(context, command)


async def _hold(context: Context, command: OpenOutput) -> AsyncGenerator[dict[str, Any], None]:
    """Stay open until the caller leaves, or until the application ends it because the caller lost
    the right to follow."""
    yield {"service": context.roster.get(command.service).name}
    await asyncio.get_running_loop().create_future()


async def _grant(context: Context, command: OpenOutput) -> OutputGrant:
    runner = context.roster.get(command.service)
    first, last = await context.in_thread(bounds_of, context.logs, runner.name)
    # The number first: a change after it is then reported twice rather than not at all.
    seq, status = context.bus.last_seq, runner.status()
    return OutputGrant(
        service=runner.name,
        directory=context.logs,
        beginning=encode(first),
        end=encode(last),
        terminal=status.terminal,
        status=status.status,
        exit_code=status.exit_code,
        signal=status.signal,
        reason=status.reason,
        seq=seq,
        hides=context.secrets.number,
        size=terminal_size(status.pid) if status.terminal and status.pid is not None else None,
    )


@handles(Watch)
async def watch(context: Context, command: Watch) -> AsyncGenerator[dict[str, Any], None]:
    names = context.roster.names(command.services) if command.services else []
    subscription = context.subscriptions.subscribe(names)
    silence = None
    if command.own_log:
        silence = own_log.listen(asyncio.get_running_loop(), subscription.add_own_log)
        subscription.add_own_log()  # from here on it is in force
    try:
        while True:
            items = await subscription.next()
            begun = [item["service"] for item in items if item.keys() == {"service"}]
            ends = await context.in_thread(ends_of, context.logs, begun) if begun else {}
            for item in items:
                item["hides"] = context.secrets.number
                if item.get("service") in ends:
                    item["position"] = ends[item["service"]]
                yield item
    finally:
        if silence is not None:
            silence()
        subscription.close()


@handles(SendInput)
async def send_input(context: Context, command: SendInput) -> Done:
    try:
        base64.b64decode(command.data, validate=True)
    except ValueError:
        hint = "encode what is to be written, without line ends: `hello` is aGVsbG8="
        raise UsageError("data is no base64", hint) from None
    run_id = context.roster.get(command.service).live_run_id()
    try:
        await context.link.ask(
            {"do": "write", "run_id": run_id, "data": command.data, "eof": command.eof}
        )
    except Failed as error:
        if error.details.get("keeper_code") != "no_stdin":
            raise
        raise Failed(
            f"{command.service} has no open standard input",
            "give it `stdin: pipe` or `terminal: true`, and start it again",
            error.details,
        ) from None
    return Done()


@handles(Resize)
async def resize(context: Context, command: Resize) -> Done:
    run_id = context.roster.get(command.service).live_run_id()
    await context.link.ask(
        {"do": "resize", "run_id": run_id, "cols": command.cols, "rows": command.rows}
    )
    return Done()
