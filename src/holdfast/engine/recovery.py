"""Does something about a service in trouble: what its `recovery:` says for the cause.

Monitors call `recover` for a live run; the runner itself calls the remedies when a run ended.
Only the runner changes a state.
"""

from __future__ import annotations

from typing import Any

from holdfast.rules.recovery import action_for


def recover(runner: Any, cause: str, reason: str) -> None:
    """Act on trouble that was found in a live run."""
    recovery = action_for(runner.declaration.spec, cause)
    if recovery.action == "restart":
        runner.condemn(cause, reason)
    else:
        runner.remedy(cause, recovery, reason)
