"""`holdfast health`: what each probe finds now."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Verb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEADS = ("SERVICE", "RESULT", "PROBE", "TOOK", "FOUND")


@Verb(
    "health",
    "Run the health checks of services now",
    operands="[SERVICE…]",
    most=None,
    commands=("health_check",),
    about=(
        "Nothing of it counts: no service is restarted for it. A service without probes is\n"
        "asked whether it lives. Exit code 1 when a check failed."
    ),
    examples=(
        ("holdfast health", "every probe of every service"),
        ("holdfast health web --json", "with durations, for programs"),
    ),
)
def health(call: Call) -> int:
    result = call.ask("health_check", services=call.operands)
    services: dict[str, dict[str, Any]] = result["services"]
    failed = any(
        not check["passed"] for service in services.values() for check in service["checks"]
    )
    if call.is_json:
        call.emit(result)
        return int(failed)
    if not services:
        call.say("no services yet")
        return 0
    rows = [
        row_of(name, check) for name, service in services.items() for check in service["checks"]
    ]
    call.say_table(HEADS, rows, state_column=1)
    return int(failed)


def row_of(name: str, check: dict[str, Any]) -> tuple[str, ...]:
    probe = check["probe"]
    if check["check"] != probe:
        probe += f" ({check['check']})"
    return (
        name,
        "passed" if check["passed"] else "failed",
        probe,
        f"{check['duration'] * 1000:.0f}ms",
        check["reason"],
    )
