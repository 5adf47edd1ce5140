"""What is done about a run that was found to be in trouble. One place for every cause."""

from __future__ import annotations

from holdfast.engine.run_endings import RunEndings


def recover(runner: RunEndings, cause: str, reason: str) -> None:
    """End the run as a failure of its own; the restart policy decides what follows."""
    runner.condemn(cause, reason)
