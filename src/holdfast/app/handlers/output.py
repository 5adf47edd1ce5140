"""Handlers of commands about what services print and read."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from holdfast.adapters.output import ends_of, read_lines
from holdfast.app.context import Context
from holdfast.vocabulary.commands.output import Logs, Resize, SendInput, Watch
from holdfast.vocabulary.results import Done, LogsResult


async def logs(context: Context, command: Logs) -> LogsResult:
    context.roster.get(command.service)
    return await context.in_thread(read_lines, context.logs, command)


async def watch(context: Context, command: Watch) -> AsyncGenerator[dict[str, Any], None]:
    for name in command.services:
        context.roster.get(name)
    subscription = context.watches.subscribe(command.services)
    try:
        while True:
            items = await subscription.next()
            begun = [item["service"] for item in items if len(item) == 1]
            ends = await context.in_thread(ends_of, context.logs, begun) if begun else {}
            for item in items:
                if item["service"] in ends:
                    item["position"] = ends[item["service"]]
                yield item
    finally:
        subscription.close()


async def send_input(context: Context, command: SendInput) -> Done:
    run_id = context.roster.get(command.service).live_run_id()
    message = {"do": "write", "run_id": run_id, "data": command.data, "eof": command.eof}
    await context.link.ask(message)
    return Done()


async def resize(context: Context, command: Resize) -> Done:
    run_id = context.roster.get(command.service).live_run_id()
    size = {"cols": command.cols, "rows": command.rows}
    await context.link.ask({"do": "resize", "run_id": run_id, **size})
    return Done()
