"""`holdfast ps`: the process tree of each service."""

from __future__ import annotations

from typing import Any

from holdfast.cli.call import Call
from holdfast.cli.terminal import durations, screen

HEADS = ("SERVICE", "PID", "STATE", "MEMORY", "CPU", "COMMAND")


def ps(call: Call) -> int:
    result = call.ask("ps", services=call.operands)
    if call.is_json:
        call.emit(result)
        return 0
    rows: list[tuple[str, ...]] = []
    for name, processes in result["services"].items():
        rows.extend(rows_of(name, processes))
    if not rows:
        call.say("no process runs")
        return 0
    call.say("\n".join(screen.table(HEADS, rows, call.paint, screen.width())))
    return 0


def rows_of(name: str, processes: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Children below their parents, indented; what has lost its parent stands at the top."""
    known = {process["pid"] for process in processes}
    below: dict[int, list[dict[str, Any]]] = {}
    tops: list[dict[str, Any]] = []
    for process in processes:
        parent = process["ppid"]
        is_below = parent in known and parent != process["pid"]
        (below.setdefault(parent, []) if is_below else tops).append(process)
    rows: list[tuple[str, ...]] = []
    waiting = [(process, 0) for process in reversed(tops)]
    while waiting:
        process, depth = waiting.pop()
        rows.append(_row("" if rows else name, process, depth))
        children = below.get(process["pid"], [])
        waiting.extend((child, depth + 1) for child in reversed(children))
    return rows


def _row(name: str, process: dict[str, Any], depth: int) -> tuple[str, ...]:
    memory = process.get("memory_bytes")
    cpu = process.get("cpu_seconds")
    branch = "  " * (depth - 1) + "└ " if depth else ""
    return (
        name,
        str(process["pid"]),
        process.get("state", ""),
        "-" if memory is None else durations.show_size(memory),
        "-" if cpu is None else durations.show(cpu),
        branch + (process.get("command") or process.get("name") or "?"),
    )
