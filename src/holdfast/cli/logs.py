"""`holdfast logs`: reads the log files itself, with or without a daemon.

The supervisor is asked only for the values to hide, for names of groups, and for wake-ups.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import NO_PREFIX, SERVICES, TIMESTAMPS, Option, Verb
from holdfast.cli.terminal.follow import learn_secrets, note_down
from holdfast.cli.terminal.output import LogFollower, Printer, Style, interleave, last_entries
from holdfast.client.connection import ConnectionLost
from holdfast.client.discovery import SupervisorAway, nothing_runs
from holdfast.logbook import cursors, segments
from holdfast.logbook.cursors import Cursor
from holdfast.logbook.entries import Chunk, Entry, Stream
from holdfast.logbook.line_pattern import LinePattern
from holdfast.logbook.lines import blocks, lines
from holdfast.logbook.reader import Reader
from holdfast.secrets.log_matching import MatchingLines
from holdfast.secrets.log_redaction import LineRedactor
from holdfast.system.places import lock_is_held
from holdfast.vocabulary.errors import HoldfastError, NotFound, UnknownService, UsageError
from holdfast.vocabulary.names import OWN_NAMES

FOLLOWED_LINES = 20
"""How many lines `-f` begins with, of each service."""


class LogSelection(NamedTuple):
    """The part of a service's log that is shown."""

    service: str
    reader: Reader
    start: Cursor
    end: int | None
    run: int | None = None


@Verb(
    "logs",
    "Show what services printed",
    operands=SERVICES,
    most=None,
    options=(
        Option("-f --follow", "go on with what they print from now on"),
        Option("--since", "only what is newer: 10m, 2h, 14:00, or a date and time", "TIME", "when"),
        Option("--until", "only what is older", "TIME", "when"),
        Option("-n --tail", "only the last lines of each service; with -f 20", "N", "number"),
        Option("--grep", "only lines that match", "REGEX"),
        Option("--stream", "only standard output or error", choices=("out", "err")),
        Option("--run", "only this run (`holdfast runs SERVICE`)", "N", "number"),
        Option("--raw", "the bytes as printed, nothing added or hidden"),
        TIMESTAMPS,
        NO_PREFIX,
    ),
    commands=("watch", "status"),
    about="Several services are interleaved by time. Works with no daemon at all, too.",
    examples=(
        ("holdfast logs -f", "follow everything"),
        ("holdfast logs web --since 10m --grep 'ERROR|WARN'", "what went wrong just now"),
        ("holdfast logs web --since 14:00 --until 14:05", "what was printed at that time"),
        ("holdfast logs db --run 3 --raw > run3.log", "one run, byte for byte"),
    ),
)
def logs(call: Call) -> int:
    _check_follow(call)
    if call.options.get("raw"):
        _check_raw(call)
    names = chosen_names(call)
    stream: Stream | None = call.options.get("stream")
    parts = [part for name in names if (part := _part(call, name, stream))]
    follow = bool(call.options.get("follow")) and not _is_run_over(call, parts)
    if not follow and not call.is_json:
        _note_silent(call, [name for name in names if not segments.numbers(call.places.logs, name)])
    if call.options.get("raw"):
        return _raw(call, parts, stream, follow=follow)
    learn_secrets(call)
    style = Style(
        call.paint,
        prefix=len(names) != 1 and not call.options.get("no_prefix"),
        timestamps=bool(call.options.get("timestamps")),
        is_json=call.is_json,
        pattern=_pattern(call.options.get("grep")),
        run=call.options.get("run"),
    )
    printer = Printer(style, names)
    if not follow:
        # In one log nobody sees when each line was printed.
        is_joined = len(parts) == 1 and not style.timestamps
        sources = [
            _recorded_entries(call, part, printer, stream, is_joined=is_joined) for part in parts
        ]
        for service, entry in interleave(sources) if sources else ():
            printer.show(service, entry)
        printer.end_line()
        printer.flush()
        return 0
    return _follow(call, parts, printer, stream)


def _note_silent(call: Call, names: list[str]) -> None:
    """Say which services have printed nothing, and whose output goes elsewhere."""
    try:
        known = call.ask("status", services=names)["services"] if names else {}
    except HoldfastError:
        known = {}
    for name in names:
        if (known.get(name) or {}).get("adopted"):
            call.note(f"{name} was adopted: what it prints goes where it went before")
        else:
            call.note(f"{name} has printed nothing yet")


def chosen_names(call: Call) -> list[str]:
    """The services that were asked for, or all that ever printed; raises for an unknown name."""
    printed = sorted(segments.list_all(call.places.logs))
    if not call.operands:
        printed = [name for name in printed if not name.startswith(OWN_NAMES)]
    if not printed and not lock_is_held(call.places.state):
        raise nothing_runs(call.places)
    if not call.operands:
        return printed
    names: dict[str, None] = {}
    for operand in call.operands:
        names.update(dict.fromkeys([operand] if operand in printed else _resolve(call, operand)))
    if not names or not set(names) <= {*printed}:
        _check_known(call, [name for name in names if name not in printed], printed)
    call.operands = list(names)
    return list(names)


def _resolve(call: Call, operand: str) -> list[str]:
    """The services of a name that has no log; only the daemon knows groups and tags."""
    try:
        return list(call.ask("status", services=[operand])["services"])
    except HoldfastError as error:
        # The names of instances begin with the name of their service.
        printed = segments.list_all(call.places.logs)
        found = [name for name in printed if name.startswith(f"{operand}@")]
        if found:
            return sorted(found, key=lambda name: int(name.partition("@")[2]))
        if isinstance(error, UnknownService):
            raise
        return [operand]


def _check_known(call: Call, unknown: list[str], printed: list[str]) -> None:
    known = sorted({*printed, *_names_of_daemon(call)}) if unknown else []
    for name in unknown:
        if name not in known:
            raise UnknownService.named(name, known)


def _names_of_daemon(call: Call) -> list[str]:
    try:
        return list(call.ask("status")["services"])
    except SupervisorAway as away:
        return [run["service"] for run in away.facts["runs"]]
    except HoldfastError:
        return []


def _pattern(text: str | None) -> LinePattern | None:
    if text is None:
        return None
    try:
        return LinePattern(text)
    except re.error as error:
        raise UsageError(f"--grep {text}: {error}", "it is a regular expression") from None


def _part(call: Call, name: str, stream: Stream | None) -> LogSelection | None:
    reader = Reader(call.places.logs, name)
    start, end = cursors.BEGINNING, None
    number: int | None = call.options.get("run")
    if number is not None:
        span = reader.run(number)
        if span is None:
            if len(call.operands) == 1:
                raise NotFound(f"{name} has no output of run {number}", f"holdfast runs {name}")
            return None
        start, end = span.start, span.end
    since: float | None = call.options.get("since")
    if since is not None:
        start = max(start, reader.since(since))
    tail: int | None = call.options.get("tail")
    if call.options.get("until") is not None:
        place = reader.since(call.options["until"])
        end = place.start if end is None else min(end, place.start)
        if tail is not None and number is None and call.options.get("grep") is None:
            start = Cursor(*map(max, start, reader.before(place, tail)))
    elif tail is not None and end is None and call.options.get("grep") is None:
        start = Cursor(*map(max, start, reader.tail(tail, stream)))
    return LogSelection(name, reader, start, end, number)


def _recorded_entries(
    call: Call, part: LogSelection, printer: Printer, stream: Stream | None, *, is_joined: bool
) -> Iterator[tuple[str, Entry]]:
    """The entries that are there now. The tail counts only lines that match pattern and run."""
    entries = _redacted(part, printer, stream, part.end, is_joined=is_joined)
    tail: int | None = call.options.get("tail")
    if tail is not None:
        entries = last_entries(entries, tail)
    return ((part.service, entry) for entry in entries)


def _redacted(
    part: LogSelection, printer: Printer, stream: Stream | None, end: int | None, *, is_joined: bool
) -> Iterator[Entry]:
    """The entries of a part up to a position that are shown, without secrets."""
    redactor = LineRedactor()
    redactor.begin_at(part.reader, part.start)
    wanted = (part.reader, part.start, stream, end, part.run)
    entries = lines(*wanted) if printer.style.is_json else blocks(*wanted, is_joined=is_joined)
    pattern = printer.style.pattern
    if pattern is None:
        found = redactor.redact_all(entries)
    else:
        matching = MatchingLines(part.reader, redactor, pattern)
        found = matching.find(entries, is_whole=part.run is None)
    return (entry for entry in found if printer.matches(entry))


def _follow(call: Call, parts: list[LogSelection], printer: Printer, stream: Stream | None) -> int:
    from holdfast.cli.terminal.follow import wakes

    follower = LogFollower(call.places.logs, printer, call.operands, stream)
    for part in parts:
        follower.add(part.service, _follow_start(call, part, printer, stream))
    printer.flush()
    try:
        for service, is_over in wakes(call, call.operands):
            if service is None:
                follower.wake_all()
            elif is_over:
                follower.finish(service)
            else:
                follower.wake(service)
            if (service is None or is_over) and _is_run_over(call, parts):
                break
        else:
            note_down(call)
        follower.finish_all()
    finally:
        follower.close()
    return 0


def _is_run_over(call: Call, parts: list[LogSelection]) -> bool:
    """Return whether one run was asked for and has ended, so that it prints nothing more."""
    number: int | None = call.options.get("run")
    if number is None:
        return False
    names = [part.service for part in parts]
    try:
        services = call.connect().ask("status", services=names)["services"]
    except ConnectionLost:
        return False  # the next supervisor is asked again
    except SupervisorAway as away:
        return not any(
            run["service"] in names and run["number"] == number for run in away.facts["runs"]
        )
    except HoldfastError:
        return True
    return not any(number in _live_runs(service) for service in services.values())


def _live_runs(service: dict[str, Any]) -> list[int]:
    """The numbers of the current run of a service and of the run that replaces it."""
    beside: dict[str, Any] = service.get("beside") or {}
    return [run["run"] for run in (service, beside) if run.get("pid") is not None]


def _follow_start(
    call: Call, part: LogSelection, printer: Printer, stream: Stream | None
) -> Cursor:
    """Where to follow from. With a pattern and a tail, the last matching lines are shown first."""
    if call.options.get("grep") is None or call.options.get("tail") is None:
        return part.start
    end = part.reader.end()
    found = _redacted(part, printer, stream, end.start, is_joined=not printer.style.timestamps)
    for entry in last_entries(found, call.options["tail"]):
        printer.show(part.service, entry)
    return end


def _raw(call: Call, parts: list[LogSelection], stream: Stream | None, *, follow: bool) -> int:
    """Show the bytes as printed; several services one after another, without a mark."""
    out = sys.stdout.buffer
    if not follow:
        for part in parts:
            for data in part.reader.raw(part.start, stream, part.end, part.run):
                out.write(data)
        out.flush()
        return 0
    if len(parts) != 1:
        raise UsageError("--raw -f is for one service", "holdfast logs SERVICE --raw -f")
    from holdfast.cli.terminal.follow import wakes

    part = parts[0]
    walk = part.reader.chunks(part.start, stream, None, part.run)
    for service, is_over in wakes(call, [part.service]):
        for item in walk:
            if isinstance(item, Chunk):
                out.write(item.data)
        out.flush()
        if (service is None or is_over) and _is_run_over(call, parts):
            break
    return 0


def _check_follow(call: Call) -> None:
    """Refuse a following that ends in the past. For people, one begins with the newest lines."""
    if not call.options.get("follow"):
        return
    if "until" in call.options:
        raise UsageError("-f goes on, --until ends", "leave one of them out")
    if not call.options.keys() & {"tail", "since", "run", "grep", "raw", "json"}:
        call.options["tail"] = FOLLOWED_LINES


def _check_raw(call: Call) -> None:
    for option, what in (
        ("grep", "chooses lines"),
        ("json", "tells lines"),
        ("timestamps", "adds to them"),
    ):
        if call.options.get(option):
            raise UsageError(f"--raw shows bytes, --{option} {what}", "leave one of them out")
