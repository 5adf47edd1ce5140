"""What a service that failed printed last, for the answers that tell of the failure."""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.app.context import Context
from holdfast.vocabulary.services import Outcome

_log = logger("last_lines")
LAST_LINES = 10
LONGEST_LINE = 1000


def shown_lines(
    logs: str, service: str, number: int, stream: Literal["out", "err"] | None = None
) -> list[str]:
    from holdfast.adapters.output import last_lines

    lines = last_lines(logs, service, number, LAST_LINES, stream)
    return [line[:LONGEST_LINE] for line in lines]


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
            try:
                lines = await context.in_thread(shown_lines, context.logs, name, number)
            except OSError as error:
                # What was asked is done, or not; that its output cannot be shown changes nothing.
                _log.warning("the last lines of %s cannot be read: %s", name, error)
            else:
                outcome = msgspec.structs.replace(outcome, last_lines=lines)
        told[name] = outcome
    return told
