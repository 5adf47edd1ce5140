"""The verbs about services with instances: scale, rolling-restart."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Option, Verb
from holdfast.cli.services import describe, report
from holdfast.vocabulary.errors import UsageError


@Verb(
    "scale",
    "Run another number of instances of a service",
    operands="SERVICE=N…",
    least=1,
    most=None,
    options=(Option("--no-wait", "do not wait until each has stayed up for its start_seconds"),),
    commands=("scale",),
    about=(
        "For services with `instances:` in the configuration. More are started like their\n"
        "siblings; of fewer, those with the highest index are stopped. Holds until the\n"
        "configuration says another number."
    ),
    examples=(
        ("holdfast scale web=4", "web@1 to web@4 run"),
        ("holdfast scale web=2 worker=0", "two services at once"),
    ),
)
def scale(call: Call) -> int:
    instances: dict[str, int] = {}
    for operand in call.operands:
        name, equals, count = operand.partition("=")
        if not equals or not name or not count.isdecimal():
            raise UsageError(f'"{operand}" is not SERVICE=N', "holdfast scale web=4")
        instances[name] = int(count)
    wait = not call.options.get("no_wait")
    return report(call, call.ask("scale", instances=instances, wait=wait))


@Verb(
    "rolling-restart",
    "Restart services one at a time, each when the last is ready",
    operands="SERVICE…",
    least=1,
    most=None,
    options=(
        Option(
            "--timeout", "how long each may take to be ready; 60s by default", "TIME", "duration"
        ),
    ),
    commands=("rolling_restart",),
    about=(
        "A failure ends it: the rest stays as it is. With `overlap: true` in a service's\n"
        "configuration its new run is started beside the old one, which is stopped when the\n"
        "new one is ready, and goes on if it does not become ready."
    ),
    examples=(
        ("holdfast rolling-restart web", "every instance of web, one after the other"),
        ("holdfast rolling-restart tag:frontend --timeout 2m", "whatever has that tag"),
    ),
)
def rolling_restart(call: Call) -> int:
    fields = {"timeout": call.options["timeout"]} if "timeout" in call.options else {}
    result = call.ask("rolling_restart", services=call.operands, **fields)
    is_failed = bool(result.get("reason"))
    if call.is_json:
        call.emit(result)
        return int(is_failed)
    remaining = result.get("remaining") or []
    for name, outcome in result["services"].items():
        if name not in remaining:
            for line in describe(call, name, outcome):
                call.say(line)
    if remaining:
        call.note(f"not restarted, still on the run from before: {', '.join(remaining)}")
    return int(is_failed)
