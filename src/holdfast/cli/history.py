"""The verbs about what happened and what will: events, runs, wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import SERVICES, Option, Verb
from holdfast.cli.terminal import durations, screen
from holdfast.cli.terminal.follow import is_reconnected
from holdfast.cli.terminal.signals import InterruptibleWait, interruptible
from holdfast.client.connection import ConnectionLost
from holdfast.vocabulary.errors import Failed, TimedOut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

REPLAY_PAGE = 1000
RUN_HEADS = ("RUN", "STARTED", "LASTED", "PID", "OUTPUT", "ENDED")


@Verb(
    "events",
    "List what happened",
    operands=SERVICES,
    most=None,
    options=(
        Option("-f --follow", "go on with what happens from now on"),
        Option("--since", "only what is newer: 10m, a time, or an event's number", "TIME", "place"),
        Option("-n --tail", "only the newest", "N", "number"),
    ),
    commands=("events",),
    examples=(
        ("holdfast events -f", "watch everything happen"),
        ("holdfast events web --since 10m", "what happened to web just now"),
        ("holdfast events --since 120 --json", "replay from an event on, for programs"),
    ),
)
def events(call: Call) -> int:
    if call.options.get("follow") or call.options.get("tail") != 0:
        _check_known(call)
    with interruptible() as wait:
        return _events(call, wait)


def _events(call: Call, wait: InterruptibleWait) -> int:
    """Show events. After a replacement of the supervisor, go on after the last number shown."""
    since, moment = _begin(call)
    is_following = bool(call.options.get("follow"))
    # A replay is read page by page to its end; only there its last events are known.
    is_replay = since is not None
    limit = REPLAY_PAGE if is_replay else call.options.get("tail", 100)
    newest: deque[dict[str, Any]] | None = None
    if is_replay and not is_following and "tail" in call.options:
        newest = deque(maxlen=call.options["tail"])
    show = partial(show_event, call) if newest is None else newest.append
    fields: dict[str, Any] = {"services": call.operands, "limit": limit}
    if is_following:
        fields["follow"] = True
    while True:
        if since is not None:
            fields["since"] = since
        connection = call.connect()
        try:
            request = connection.send("events", **fields)
            while True:
                frame = wait.receive(connection)
                if frame is None or frame.get("id") != request:
                    continue
                page = events_in(frame)
                for event in page:
                    since = event["seq"]
                    if event["time"] >= moment:
                        show(event)
                if "item" not in frame:
                    if is_replay and len(page) == limit:
                        break
                    return _finish(call, newest or (), is_empty=since is None)
        except ConnectionLost:
            if not is_following:
                raise
            if not is_reconnected(call):
                return 0


def _begin(call: Call) -> tuple[int | None, float]:
    """The number after which, and the time from which events are shown."""
    if call.options.get("tail") == 0:
        return call.ask("events", limit=0)["last"], 0.0
    given = call.options.get("since")
    return (0, given) if isinstance(given, float) else (given, 0.0)


def _check_known(call: Call) -> None:
    """Raise if no service has this name and no event ever had."""
    for name in call.operands:
        if not call.ask("events", services=[name], limit=1)["events"]:
            call.ask("status", services=[name])


def _finish(call: Call, held: Iterable[dict[str, Any]], *, is_empty: bool) -> int:
    for event in held:
        show_event(call, event)
    if is_empty and not call.is_json:
        call.note(f"no events of {', '.join(call.operands) or 'anything'} yet")
    return 0


def events_in(frame: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a frame, which is an item or the final answer."""
    if "item" in frame:
        return [frame["item"]]
    if not frame.get("ok"):
        from holdfast.client.connection import error_from

        raise error_from(frame.get("error") or {})
    found: list[dict[str, Any]] = (frame.get("result") or {}).get("events") or []
    return found


def show_event(call: Call, event: dict[str, Any]) -> None:
    if call.is_json:
        call.emit_line(event)
        return
    moment = call.paint(durations.show_time(event.get("time")), "dim")
    service = event.get("service") or "holdfast"
    call.say(f"{event['seq']:>6} {moment} {service}: {describe_event(event, call.paint)}")
    import sys

    sys.stdout.flush()


def describe_event(event: dict[str, Any], paint: screen.Paint) -> str:
    """One event in words."""
    data: dict[str, Any] = event.get("data") or {}
    match event["kind"]:
        case "transition":
            cause = f" ({data['cause']})" if data.get("cause") else ""
            return (
                f"{paint.state(str(data.get('from')))} → {paint.state(str(data.get('to')))}{cause}"
            )
        case "process:started":
            return f"started, pid {data.get('pid')}"
        case "exit":
            return ended_how(data.get("code"), data.get("signal"), bool(data.get("unknown")))
        case "process:ended":
            count = len(data.get("report") or [])
            return f"all processes are gone ({count})" if count else "all processes are gone"
        case "service:restart_scheduled":
            return f"starts again in {float(data.get('delay') or 0):.1f} s"
        case "service:waiting":
            return f"waits for {' and '.join(data.get('waiting_for') or [])}"
        case "watch:changed" | "service:follows":
            return _describe_cause(data)
        case "process:start_failed":
            return f"start failed: {data.get('reason') or 'no reason given'}"
        case "health:failed" | "health:changed" | "service:ready" | "service:condemned" as kind:
            return _describe_health(kind, data)
        case "service:suppressed":
            return f"left failed: {data.get('reason') or 'it failed too often in a row'}"
        case "alert:raised":
            return f"{data.get('severity')} alert ({data.get('cause')}): {data.get('message')}"
        case "alert:cleared":
            return f"alert ({data.get('cause')}) is over: {data.get('cleared_because')}"
        case "service:requested":
            return f"a user asked: {data.get('request')}"
        case kind:
            facts = ", ".join(f"{key} {value}" for key, value in data.items() if value is not None)
            return f"{kind} {facts}".rstrip()


def _describe_cause(data: dict[str, Any]) -> str:
    """What it is restarted for: another service or the mode, or files that changed."""
    if reason := data.get("reason"):
        return f"restarts, because {reason}"
    paths = list(data.get("paths") or ())
    more = int(data.get("count") or 0) - len(paths)
    listed = ", ".join(paths) + (f" and {more} more" if more > 0 else "")
    return f"files changed: {listed} ({data.get('action')})"


def _describe_health(kind: str, data: dict[str, Any]) -> str:
    """An event about probes in words."""
    match kind:
        case "health:failed":
            return f"{data.get('probe')} failed ({data.get('check')}): {data.get('reason')}"
        case "health:changed":
            why = f": {data['reason']}" if data.get("reason") else ""
            return f"{data.get('from')} → {data.get('to')}{why}"
        case "service:ready":
            return f"ready after {durations.show(data.get('after'))}"
        case _:
            return f"to be ended ({data.get('cause')}): {data.get('reason')}"


def ended_how(code: int | None, signal: Any, unknown: bool) -> str:
    if signal:
        return f"ended by {signal}"
    if unknown or code is None:
        return "ended, exit code unknown"
    return f"exit {code}"


@Verb(
    "runs",
    "List the runs of a service, and how each ended",
    operands="SERVICE",
    least=1,
    most=1,
    options=(Option("-n --tail", "only the newest; 20 by default", "N", "number"),),
    commands=("runs",),
    examples=(("holdfast runs web", "then `holdfast logs web --run N`"),),
)
def runs(call: Call) -> int:
    result = call.ask("runs", service=call.operands[0], limit=call.options.get("tail", 20))
    if call.is_json:
        call.emit(result)
        return 0
    rows = [_run_row(run) for run in result["runs"]]
    if not rows:
        if call.options.get("tail") != 0:
            call.say(f"{call.operands[0]} has not run yet")
        return 0
    heads: tuple[str, ...] = RUN_HEADS
    if {run["service"] for run in result["runs"]} != {call.operands[0]}:
        heads = ("SERVICE", *heads)
        rows = [(run["service"], *row) for run, row in zip(result["runs"], rows, strict=True)]
    call.say_table(heads, rows)
    return 0


def _run_row(run: dict[str, Any]) -> tuple[str, ...]:
    if run.get("ended_at") is None:
        ended = "still running"
    else:
        ended = run.get("reason") or ended_how(
            run.get("exit_code"), run.get("signal"), bool(run.get("unknown"))
        )
        if run.get("error_type") not in (None, "UNEXPECTED_EXIT"):
            ended += f" ({run['error_type']})"  # Holdfast ended it, for this reason
    return (
        str(run["number"]),
        durations.show_time(run["started_at"]),
        durations.show(run.get("duration")),
        str(run["pid"]),
        durations.show_size(run.get("log_bytes") or 0),
        ended,
    )


@Verb(
    "wait",
    "Wait for a service, instead of polling",
    operands="SERVICE",
    least=1,
    most=1,
    options=(
        Option(
            "--for",
            "running (default), ready, healthy, exited, gone, log:REGEX or silent:SECONDS",
            "WHAT",
        ),
        Option("--timeout", "give up after this; 30s by default", "TIME", "duration"),
        Option("--raw", "log:REGEX is for the bytes, with colours and control sequences"),
    ),
    commands=("wait",),
    about="Exit code 6 when it did not happen in time.",
    examples=(
        ("holdfast wait web --for ready --timeout 1m", "until its probes say so"),
        ("holdfast wait db --for 'log:ready to accept'", "until it printed a line"),
        ("holdfast wait job --for exited --timeout 10m", "until it ended"),
    ),
)
def wait(call: Call) -> int:
    service = call.operands[0]
    condition = call.options.get("for", "running")
    timeout = call.options.get("timeout", 30.0)
    fields = {"raw": True} if call.options.get("raw") else {}
    result = call.ask("wait", service=service, condition=condition, timeout=timeout, **fields)
    if not result["met"]:
        raise _unmet(service, condition, timeout, result)
    if call.is_json:
        call.emit(result)
    elif result.get("line"):
        call.say(result["line"])
    else:
        how = f" (exit {result['exit_code']})" if result.get("exit_code") is not None else ""
        call.say(f"{service}: {result['status']}{how} after {durations.show(result['seconds'])}")
    return 0


def _unmet(
    service: str, condition: str, timeout: float, result: dict[str, Any]
) -> Failed | TimedOut:
    """The error of a wait that was not met: it cannot be met any more, or the time is over."""
    kind, _, what = condition.partition(":")
    line = f"no line that matches {what}"
    hint = f"holdfast logs {service} --tail 20"
    details = {"service": service, "status": result["status"]}
    now = screen.state_phrase(result["status"])
    if result["seconds"] < timeout:
        will = f"print {line}" if kind == "log" else f"not be {condition}"
        return Failed(f"{service} will {will}: it is {now}", hint, details)
    was = f"printed {line}" if kind == "log" else f"was not {condition}"
    shown = f"{service} {was} within {durations.show(timeout)}; it is {now}"
    return TimedOut(shown, hint, details)
