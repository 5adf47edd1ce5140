"""What a caller may not touch below the roots: by a policy about paths, or by its token's paths.

Asked for every real path that a file command touches, not only for the path that it names: a
folder may hold what the folder itself does not tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.app.file_targets import target_of
from holdfast.app.scrutiny import local
from holdfast.rules import policies
from holdfast.rules.path_scopes import is_covered
from holdfast.rules.policies import Request
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.commands import Command

if TYPE_CHECKING:
    from holdfast.rules.file_access import Located

Denial = Callable[["Located"], "str | None"]
"""The reason why a place is denied to the caller; None: it is not."""


def denial(context: Any, actor: Actor, command: Command) -> Denial | None:
    """None: nothing is denied to this caller beyond what is denied to everybody."""
    advanced = context.authority.advanced
    found = [] if advanced is None else [one for one in advanced.policies if one.paths is not None]
    limits = _limits(actor)
    if not found and not limits:
        return None
    every = advanced.policies if found else ()
    project = context.files.project

    def reason(located: Located) -> str | None:
        target = target_of(located, project)
        for patterns in limits:
            if not is_covered(target, patterns):
                return f"the token is limited to {', '.join(patterns) or 'nothing'}"
        request = Request(actor, command, (), (target,))
        policy = policies.decide(every, request, local)
        return policies.says(policy) if policy is not None and policy.effect == "deny" else None

    return reason


def _limits(actor: Actor) -> list[tuple[str, ...]]:
    """The paths that its token, and that of its session's opener, are limited to."""
    own = [] if actor.scopes.paths is None else [actor.scopes.paths]
    return own if actor.behind is None else [*own, *_limits(actor.behind)]
