"""The verbs that do something to services and tell each one's outcome."""

from __future__ import annotations

import os

from holdfast.cli.terminal import durations
from holdfast.client.discovery import SupervisorAway
from holdfast.vocabulary.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.cli.call import Call


def start(call: Call) -> int:
    return tell(call, _ask_for_starts(call, "start", services=call.operands))


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
    return tell(call, result)


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
    return tell(call, _ask_for_starts(call, "restart", **fields))


def _ask_for_starts(call: Call, command: str, **fields: Any) -> dict[str, Any]:
    if "timeout" in call.options:
        fields["timeout"] = call.options["timeout"]
    if call.options.get("no_wait"):
        return call.ask(command, wait=False, **fields)
    from holdfast.cli.terminal.progress import Progress

    return Progress(call).ask(command, wait=True, **fields)


def pause(call: Call) -> int:
    return tell(call, call.ask("pause", services=call.operands))


def resume(call: Call) -> int:
    return tell(call, call.ask("resume", services=call.operands))


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
    return tell(call, call.ask("signal", **fields))


def _is_signal(word: str) -> bool:
    from holdfast.vocabulary.quantities import parse_signal

    try:
        return bool(parse_signal(word))
    except ValueError:
        return False


def rm(call: Call) -> int:
    keep = bool(call.options.get("keep_logs"))
    return tell(call, call.ask("remove", services=call.operands, keep_logs=keep))


def prune(call: Call) -> int:
    older_than = call.options.get("older_than", 0.0)
    result = call.ask("prune", services=call.operands, older_than=older_than)
    if call.is_json:
        call.emit(result)
        return 0
    size, runs = durations.show_size(result["deleted_bytes"]), result["deleted_runs"]
    call.say(f"deleted {runs} run{'' if runs == 1 else 's'} and {size} of logs")
    return 0


def adopt(call: Call) -> int:
    ways = [name for name in ("pid", "pidfile", "port") if name in call.options]
    if len(ways) != 1:
        raise UsageError(
            "say which process: one of --pid, --pidfile, --port",
            f"holdfast adopt --pid 1234 {call.operands[0]}",
        )
    way = ways[0]
    value = call.options[way]
    if way == "pid" and value in (os.getpid(), os.getppid(), os.getsid(0)):
        raise UsageError(
            f"process {value} is your own shell: a stop would end you, too",
            "name another process, or adopt this one from another terminal",
        )
    if way == "pidfile":
        value = os.path.realpath(os.path.join(call.folder, value))
    from holdfast.cli.up import launch

    name = call.operands[0]
    return tell(call, launch(call, lambda: call.ask("adopt", service=name, **{way: value}))[1])


def tell(call: Call, result: dict[str, Any]) -> int:
    """Tell what was done to each service; exit code 1 when one failed."""
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
    """Whether something was not done; who waits is no failure for one who does not."""
    bad = {"failed"} if call.options.get("no_wait") else {"failed", "waiting"}
    return any(outcome["outcome"] in bad for outcome in services.values())


def describe(call: Call, name: str, outcome: dict[str, Any]) -> list[str]:
    """One service's outcome, with what it printed last when it failed."""
    what = outcome["outcome"]
    colour = (
        "red" if what == "failed" else "dim" if what.startswith(("already", "not_")) else "green"
    )
    if what == "waiting":
        awaited = str(outcome.get("reason") or "").removeprefix("it waits")
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
