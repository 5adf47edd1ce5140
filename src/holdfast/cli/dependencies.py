"""`holdfast graph`: which service needs which."""

from __future__ import annotations

from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import SERVICES, Verb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HEADS = ("SERVICE", "STATE", "NEEDS", "NEEDED BY")


@Verb(
    "graph",
    "Show which service needs which",
    operands=SERVICES,
    most=None,
    commands=("dependencies",),
    about="In the order in which they start. A «!» marks what is not as it is needed.",
    examples=(
        ("holdfast graph", "all services"),
        ("holdfast graph web", "what web needs, and what needs web"),
    ),
)
def graph(call: Call) -> int:
    result = call.ask("dependencies", services=call.operands)
    if call.is_json:
        call.emit(result)
        return 0
    services: dict[str, dict[str, Any]] = result["services"]
    if not services:
        call.say("no services")
        return 0
    ordered = sorted(services, key=lambda name: (services[name]["layer"], name))
    rows = [
        (
            name,
            services[name]["status"],
            ", ".join(map(_need, services[name]["needs"])) or "-",
            ", ".join(services[name]["needed_by"]) or "-",
        )
        for name in ordered
    ]
    call.say_table(HEADS, rows, state_column=1)
    return 0


def _need(need: dict[str, Any]) -> str:
    return f"{'' if need['is_met'] else '!'}{need['service']} ({need['condition']})"
