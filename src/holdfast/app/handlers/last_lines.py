"""What a service that failed printed last, for the answers that tell of the failure."""

from __future__ import annotations

import msgspec

from holdfast.adapters.output import last_lines
from holdfast.app.context import Context
from holdfast.vocabulary.results import Outcome

LAST_LINES = 10


async def with_last_lines(context: Context, outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
    """Let failures say what the service printed last."""
    told = {}
    for name, outcome in outcomes.items():
        runner = context.roster.runners.get(name)
        is_told = outcome.outcome == "failed" and runner is not None and not runner.waiting_for
        if is_told and runner is not None and runner.number:
            number = runner.number
            if runner.run is not None and runner.run.pid is None:
                number -= 1
            lines = await context.in_thread(last_lines, context.logs, name, number, LAST_LINES)
            outcome = msgspec.structs.replace(outcome, last_lines=lines)
        told[name] = outcome
    return told
