"""How services are forgotten: by `remove`, by a reload, and where fewer instances are wanted."""

from __future__ import annotations

from holdfast.app.context import Context
from holdfast.vocabulary.services import Outcome


async def stop_and_forget(
    context: Context, names: list[str], *, delete_logs: bool
) -> dict[str, Outcome]:
    """Stop services, those that need others first, and forget who has no process left.

    To be called while `context.changes` is held.
    """
    leaving = [context.roster.runners[name] for name in names]
    for runner in leaving:
        runner.is_leaving = True
    try:
        return await _stop_and_forget(context, names, delete_logs=delete_logs)
    finally:
        # Whoever is still there, also because this was cut short, stays.
        for runner in leaving:
            runner.is_leaving = False


async def _stop_and_forget(
    context: Context, names: list[str], *, delete_logs: bool
) -> dict[str, Outcome]:
    roster = context.roster
    outcomes = await roster.stop(names, grace=None)
    for name in names:
        runner = roster.runners.get(name)
        if runner is None:
            continue
        if runner.has_processes:
            if outcomes[name].outcome != "failed":
                outcomes[name] = runner.outcome("failed", "it was started again meanwhile")
            continue
        # Before anything is awaited: who starts it now must not start what nobody knows.
        roster.remove(name)
        outcomes[name] = runner.outcome("removed")
        if delete_logs:
            await context.link.ask({"do": "prune", "service": name, "all": True})
    return outcomes
