"""Which services are meant by the names of a command, or by none."""

from __future__ import annotations

from holdfast.app.context import Context
from holdfast.engine.runner.runner import Runner
from holdfast.vocabulary.errors import UsageError


def the_service(context: Context, name: str | None, verb: str) -> Runner:
    """The named one, the default, or the only one; UsageError that lists names otherwise."""
    roster = context.roster
    name = name or context.settings.now.default_service
    if name is not None:
        return roster.get(name)
    if len(roster.runners) == 1:
        return next(iter(roster.runners.values()))
    known = ", ".join(roster.runners) or "none"
    raise UsageError(
        f"{verb} needs the name of a service",
        f"known: {known}; `default_service:` in the configuration names one for good",
    )


def named(context: Context, names: list[str]) -> list[Runner]:
    """Those that the names stand for; UsageError when there is none, for that is not all."""
    if not names:
        raise UsageError("name at least one service", f"known: {', '.join(context.roster.runners)}")
    return [context.roster.runners[name] for name in context.roster.names(names)]
