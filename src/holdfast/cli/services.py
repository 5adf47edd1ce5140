"""The verbs that act on services and report the outcome of each."""

from __future__ import annotations

import os

from holdfast.cli.call import note_edits
from holdfast.cli.parser.verbs import NO_WAIT, SERVICES, TIMEOUT, Option, Verb
from holdfast.client.discovery import SupervisorAway
from holdfast.vocabulary.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.cli.call import Call


@Verb(
    "start",
    "Start services, and those they depend on",
    operands=SERVICES,
    most=None,
    options=(NO_WAIT, TIMEOUT),
    commands=("start", "banners"),
    about="Starting what runs is success. Without names, all are started.",
    examples=(("holdfast start web", "start one service"),),
)
def start(call: Call) -> int:
    result = _ask_for_starts(call, "start", services=call.operands)
    note_edits(call)
    return report(call, result)


@Verb(
    "stop",
    "Stop services, with all their processes",
    operands=SERVICES,
    most=None,
    options=(Option("--grace", "time to end by itself before it is killed", "TIME", "duration"),),
    commands=("stop",),
    about="Without names, all are stopped, in reverse order of dependency.",
    examples=(
        ("holdfast stop web", "ask it to end, kill it after its grace"),
        ("holdfast stop web --grace 0", "kill it at once"),
    ),
)
def stop(call: Call) -> int:
    fields: dict[str, Any] = {"services": call.operands}
    if "grace" in call.options:
        fields["grace"] = call.options["grace"]
    from holdfast.cli.terminal.progress import Progress

    try:
        result = Progress(call).ask("stop", **fields)
    except SupervisorAway as away:
        from holdfast.cli import keeper_fallback

        result = keeper_fallback.stop(call, away)
    return report(call, result)


@Verb(
    "restart",
    "Stop services and start them again",
    operands=SERVICES,
    most=None,
    options=(
        NO_WAIT,
        TIMEOUT,
        Option("-e --env", "add to its environment, until the next start", "N=V", "pairs"),
        Option("--rolling", "one at a time, each when the last is ready (rolling-restart)"),
        Option(
            "--args",
            "replace its arguments, until the next start; takes the rest of the line",
            "ARG…",
            "rest",
        ),
    ),
    commands=("restart", "rolling_restart", "banners"),
    about="Works without waiting for a back-off, and for a service that failed too often.",
    examples=(
        ("holdfast restart web", "restart one service"),
        ("holdfast restart web --args --port 9000", "with other arguments, once"),
    ),
)
def restart(call: Call) -> int:
    if call.options.get("rolling"):
        from holdfast.cli.instances import rolling_restart

        if not call.operands or "args" in call.options or "env" in call.options:
            raise UsageError(
                "--rolling is for named services as they are configured",
                "holdfast restart --rolling SERVICE…",
            )
        return rolling_restart(call)
    fields: dict[str, Any] = {"services": call.operands}
    if "args" in call.options:
        fields["args"] = call.options["args"]
    if "env" in call.options:
        fields["env_vars"] = call.options["env"]
    if len(call.operands) != 1 and ("args" in fields or "env_vars" in fields):
        raise UsageError(
            "--args and --env are for one service", "holdfast restart SERVICE --args ARG…"
        )
    result = _ask_for_starts(call, "restart", **fields)
    note_edits(call)
    return report(call, result)


def _ask_for_starts(call: Call, command: str, **fields: Any) -> dict[str, Any]:
    if "timeout" in call.options:
        fields["timeout"] = call.options["timeout"]
    if call.options.get("no_wait"):
        return call.ask(command, wait=False, **fields)
    from holdfast.cli.terminal.progress import Progress

    return Progress(call).ask(command, wait=True, **fields)


@Verb(
    "pause",
    "Freeze all processes of services",
    operands="SERVICE…",
    least=1,
    most=None,
    commands=("pause",),
    examples=(("holdfast pause worker", "it uses no CPU until it is resumed"),),
)
def pause(call: Call) -> int:
    return report(call, call.ask("pause", services=call.operands))


@Verb(
    "resume",
    "Let paused services continue",
    operands="SERVICE…",
    least=1,
    most=None,
    commands=("resume",),
    examples=(("holdfast resume worker", "continue where it was"),),
)
def resume(call: Call) -> int:
    return report(call, call.ask("resume", services=call.operands))


@Verb(
    "signal",
    "Send a signal to services",
    operands="SIGNAL SERVICE…",
    least=2,
    most=None,
    options=(Option("--to", "who gets it; main by default", choices=("main", "group", "tree")),),
    commands=("signal",),
    examples=(("holdfast signal HUP nginx", "make it read its configuration again"),),
)
def signal(call: Call) -> int:
    name, *services = call.operands
    if not _is_signal(name):
        *services, name = call.operands
        if not _is_signal(name):
            raise UsageError(
                f'neither "{call.operands[0]}" nor "{name}" is a signal',
                "for example: holdfast signal HUP nginx",
            )
    fields: dict[str, Any] = {"signal": name, "services": services}
    if "to" in call.options:
        fields["to"] = call.options["to"]
    return report(call, call.ask("signal", **fields))


def _is_signal(word: str) -> bool:
    from holdfast.vocabulary.quantities import parse_signal

    try:
        return bool(parse_signal(word))
    except ValueError:
        return False


@Verb(
    "rm",
    "Forget services: stop them, delete their runs and logs",
    operands="SERVICE…",
    least=1,
    most=None,
    options=(Option("--keep-logs", "leave what they printed"),),
    commands=("remove",),
    examples=(("holdfast rm http.server", "forget what `holdfast run` brought in"),),
)
def rm(call: Call) -> int:
    keep = bool(call.options.get("keep_logs"))
    return report(call, call.ask("remove", services=call.operands, keep_logs=keep))


@Verb(
    "adopt",
    "Take over a process that already runs",
    operands="NAME",
    least=1,
    most=1,
    options=(
        Option("--pid", "the process", "PID", "number"),
        Option("--pidfile", "the process whose number is in this file", "FILE"),
        Option("--port", "the process that listens on this port", "N", "number"),
    ),
    commands=("adopt",),
    about=(
        "Stop, signal and pause work. Its output is not available, and its exit code only\n"
        "where the kernel tells it."
    ),
    examples=(("holdfast adopt --port 5432 db", "whoever listens there is now `db`"),),
)
def adopt(call: Call) -> int:
    given = [name for name in ("pid", "pidfile", "port") if name in call.options]
    if len(given) != 1:
        raise UsageError(
            "say which process: one of --pid, --pidfile, --port",
            f"holdfast adopt --pid 1234 {call.operands[0]}",
        )
    option = given[0]
    value = call.options[option]
    if option == "pid" and value in (os.getpid(), os.getppid(), os.getsid(0)):
        raise UsageError(
            f"process {value} is your own shell: a stop would end you, too",
            "name another process, or adopt this one from another terminal",
        )
    if option == "pidfile":
        value = os.path.realpath(os.path.join(call.folder, value))
    from holdfast.cli.up import launch

    name = call.operands[0]
    return report(call, launch(call, lambda: call.ask("adopt", service=name, **{option: value}))[1])


def report(call: Call, result: dict[str, Any]) -> int:
    """Report what was done to each service; returns exit code 1 if one failed."""
    services: dict[str, dict[str, Any]] = result.get("services", {})
    failed = has_failed(call, services)
    if call.is_json:
        call.emit(result)
        return int(failed)
    if not services:
        call.say("nothing to do")
    for name, outcome in services.items():
        for line in describe(call, name, outcome):
            call.say(line)
    return int(failed)


def has_failed(call: Call, services: dict[str, dict[str, Any]]) -> bool:
    """Return whether a service failed. One that still waits counts as failed, unless the caller
    did not want to wait."""
    bad = {"failed"} if call.options.get("no_wait") else {"failed", "waiting"}
    return any(outcome["outcome"] in bad for outcome in services.values())


def describe(call: Call, name: str, outcome: dict[str, Any]) -> list[str]:
    """The outcome of one service, with its last lines of output if it failed."""
    what = outcome["outcome"]
    colour = (
        "red" if what == "failed" else "dim" if what.startswith(("already", "not_")) else "green"
    )
    if what == "waiting":
        awaited = str(outcome.get("reason") or "").removeprefix("waiting")
        waits = call.paint("waiting", "yellow") + awaited
        goes_on = "it goes on trying" if outcome.get("pid") else "it starts by itself then"
        hint = f"{goes_on}; holdfast stop {name} ends that"
        return [f"{name}: {waits}", "  " + call.paint(hint, "dim")]
    extra: list[str] = []
    if outcome.get("pid"):
        extra.append(f"pid {outcome['pid']}")
    if what == "failed" and outcome.get("exit_code") is not None and not outcome.get("reason"):
        extra.append(f"exit {outcome['exit_code']}")
    line = f"{name}: {call.paint(what.replace('_', ' '), colour)}"
    if what in ("failed", "not_restarted") and outcome.get("reason"):
        line += f": {outcome['reason']}"
    if extra:
        line += f" ({', '.join(extra)})"
    lines = [line]
    report = outcome.get("report") or []
    if (
        any(entry.get("how") not in ("exited", "SIGTERM", None) for entry in report)
        or len(report) > 1
    ):
        lines.extend(
            f"  {entry['pid']} {entry.get('name') or '?'}: {entry['how']}" for entry in report
        )
    if what == "failed":
        printed = outcome.get("last_lines") or []
        lines.extend("  | " + text for text in printed[-10:])
        if printed:
            lines.append("  " + call.paint(f"more: holdfast logs {name} --tail 50", "dim"))
        if outcome.get("status") == "backoff":
            hint = f"it will be tried again; holdfast stop {name} ends that"
            lines.append("  " + call.paint(hint, "dim"))
    return lines
