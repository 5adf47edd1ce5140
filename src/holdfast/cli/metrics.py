"""`holdfast metrics` and `holdfast top`: what services use, once or repeatedly.

`top` reads the key q without Enter. Whatever happens, the terminal gets its settings back.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.cli.terminal import durations, screen
from holdfast.cli.terminal.signals import (
    InterruptibleWait,
    interruptible,
    treat_sigterm_as_interrupt,
)
from holdfast.vocabulary.errors import Failed, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEADS = ("SERVICE", "STATE", "CPU", "MEMORY", "PROCS", "THREADS", "HANDLES", "READ", "WRITTEN")
HISTORY_HEADS = ("SERVICE", "TIME", "FOR", "CPU", "PEAK", "MEMORY", "PEAK", "PROCS", "WRITTEN/S")
CLEAR = "\x1b[H\x1b[2J"


@Verb(
    "metrics",
    "Show what services use: CPU, memory, files, bytes",
    operands="[SERVICE…]",
    most=None,
    options=(
        Option("--history", "what was recorded of this time", "TIME", "duration"),
        Option("--resolution", "seconds of a point: 1, 10 or 60", "N", "number"),
        Option("--extras", "include metrics that are slow to collect: PSS, ports"),
        Option("--format", "table by default", choices=("table", "json", "prometheus")),
    ),
    commands=("metrics",),
    examples=(
        ("holdfast metrics", "each service's whole tree, and all together"),
        ("holdfast metrics web --history 10m", "how it was"),
        ("holdfast metrics --format prometheus", "for a scraper"),
    ),
)
def metrics(call: Call) -> int:
    output = "json" if call.is_json else call.options.get("format") or "table"
    fields: dict[str, Any] = {"services": call.operands, "extras": bool(call.options.get("extras"))}
    if "history" in call.options:
        fields["history"] = call.options["history"]
    if "resolution" in call.options:
        fields["resolution"] = call.options["resolution"]
    if output == "prometheus" and "history" in fields:
        raise UsageError("--history has no prometheus format", "leave one of them out")
    answer = call.ask("metrics", **fields)
    if output == "json":
        call.emit(answer)
    elif output == "prometheus":
        sys.stdout.write(_prometheus(answer))
    elif "history" in answer:
        call.say("\n".join(history_lines(answer, call)))
    else:
        call.say("\n".join(lines_of(answer, call)))
    return 0


@Verb(
    "top",
    "Watch what services use, the busiest first",
    operands="[SERVICE…]",
    most=None,
    options=(
        Option("--interval", "time between two looks; 2s by default", "TIME", "duration"),
        Option("--count", "exit after N refreshes", "N", "number"),
    ),
    commands=("metrics",),
    examples=(("holdfast top", "until q or Ctrl-C; without a terminal, one table a look"),),
)
def top(call: Call) -> int:
    """Refresh until `q`, Ctrl-C or the given count."""
    is_screen = sys.stdout.isatty() and not call.is_json
    with _quit_key(is_read=is_screen) as quits_within:
        return _watch(call, quits_within, is_screen=is_screen)


def _watch(call: Call, quits_within: Callable[[float], bool], *, is_screen: bool) -> int:
    interval = max(0.5, call.options.get("interval", 2.0))
    count = call.options.get("count")
    done = 0
    while True:
        answer = call.ask("metrics", services=call.operands)
        if call.is_json:
            call.emit_line(answer)
        else:
            services = answer["services"]
            answer["services"] = dict(sorted(services.items(), key=_by_use, reverse=True))
            sys.stdout.write(CLEAR if is_screen else "")
            call.say("\n".join(lines_of(answer, call)))
            sys.stdout.flush()
        done += 1
        if (count is not None and done >= count) or quits_within(interval):
            return 0


@contextmanager
def _quit_key(*, is_read: bool) -> Iterator[Callable[[float], bool]]:
    """A function that waits so many seconds and returns True as soon as q is typed. A terminal
    whose input is not ours, in the background or with a pipe, is left alone."""
    if not is_read or not _is_our_terminal(sys.stdin.fileno()):
        yield _sleep
        return
    import termios
    import tty

    stdin = sys.stdin.fileno()
    saved = termios.tcgetattr(stdin)
    treat_sigterm_as_interrupt()
    try:
        tty.setcbreak(stdin, termios.TCSADRAIN)
        with interruptible() as wait:
            yield lambda seconds: _is_quit_typed(wait, stdin, time.monotonic() + seconds)
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, saved)


def _is_our_terminal(fd: int) -> bool:
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _is_quit_typed(wait: InterruptibleWait, stdin: int, deadline: float) -> bool:
    while True:
        left = max(0.0, deadline - time.monotonic())
        if wait.is_readable(stdin, left):
            typed = os.read(stdin, 4096)
            if not typed or b"q" in typed or b"Q" in typed:
                return True
        elif not left:
            return False


def _by_use(entry: tuple[str, dict[str, Any]]) -> tuple[float, int]:
    return entry[1].get("cpu_percent") or 0.0, entry[1].get("memory_bytes") or 0


def _prometheus(answer: dict[str, Any]) -> str:
    try:
        from holdfast.exposition import prometheus

        return prometheus.text(answer)
    except ImportError as error:
        raise Failed(f"prometheus_client is missing: {error}", "install holdfast again") from None


def lines_of(answer: dict[str, Any], call: Call) -> list[str]:
    services: dict[str, dict[str, Any]] = answer["services"]
    if not services:
        return ["no services yet; `holdfast run -- COMMAND` or a holdfast.yaml brings some"]
    rows = [_row(name, service) for name, service in services.items()]
    total = answer["aggregate"]
    if len(rows) > 1:
        rows.append(
            (
                "total",
                f"{total['activeProcesses']} up",
                f"{total['totalCPU']:.1f} %",
                durations.show_size(total["totalMemory"]),
                str(total["totalProcesses"]),
                str(total["totalThreads"]),
                str(total["totalHandles"]),
                durations.show_size(total["totalBytesRead"]),
                durations.show_size(total["totalBytesWritten"]),
            )
        )
    lines = screen.table(HEADS, rows, call.paint, screen.width(), state_column=1)
    for name, service in services.items():
        extras = _extras(service)
        if extras:
            lines.append(call.paint(f"{name}: {extras}", "dim"))
    return lines


def _row(name: str, service: dict[str, Any]) -> tuple[str, ...]:
    cpu = service.get("cpu_percent")
    return (
        name,
        service["status"],
        "-" if cpu is None else f"{cpu:.1f} %",
        _size(service.get("memory_bytes")),
        _count(service.get("processes")),
        _count(service.get("threads")),
        _count(service.get("handles")),
        _size(service.get("read_bytes")),
        _size(service.get("written_bytes")),
    )


def _extras(service: dict[str, Any]) -> str:
    parts = []
    if service.get("pss_bytes") is not None:
        parts.append(f"{durations.show_size(service['pss_bytes'])} with shared memory by part")
    if service.get("ports"):
        parts.append("listens on " + ", ".join(map(str, service["ports"])))
    parts += [f"{name}={value:g}" for name, value in sorted(service.get("custom", {}).items())]
    return ", ".join(parts)


def history_lines(answer: dict[str, Any], call: Call) -> list[str]:
    rows = [
        (
            name,
            time.strftime("%H:%M:%S", time.localtime(point["time"])),
            f"{point['seconds']}s",
            f"{point['cpu_percent']:.1f} %",
            f"{point['cpu_percent_max']:.1f} %",
            durations.show_size(point["memory_bytes"]),
            durations.show_size(point["memory_bytes_max"]),
            str(point["processes"]),
            durations.show_size(point["written_bytes_per_second"]),
        )
        for name, points in answer["history"].items()
        for point in points
    ]
    if not rows:
        return ["nothing is recorded of that time"]
    return screen.table(HISTORY_HEADS, rows, call.paint, screen.width())


def _size(value: int | None) -> str:
    return "-" if value is None else durations.show_size(value)


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)
