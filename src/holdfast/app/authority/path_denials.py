"""What a caller may not touch below the roots: by a policy about paths, or by its token's paths.

Asked for every real path that a file command touches, not only for the path that it names: a
folder may hold what the folder itself does not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from holdfast.app.authority.file_targets import target_of
from holdfast.app.authority.request_checks import local
from holdfast.rules.authority import policies
from holdfast.rules.authority.path_scopes import is_covered
from holdfast.rules.authority.policies import Request
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.command import Command

if TYPE_CHECKING:
    from holdfast.rules.files import Located

Denial = Callable[["Located"], "str | None"]
"""The reason why a place is denied to the caller; None: it is not."""
_in_repository: ContextVar[Denial | None] = ContextVar("denied_in_repository", default=None)
"""What is denied to the caller of the git command under way."""


def denial(context: Any, actor: Actor, command: Command) -> Denial | None:
    """None: nothing is denied to this caller beyond what is denied to everybody."""
    by_policies = _by_policies(context, actor, command)
    limits = _limits(actor)
    if not limits:
        return by_policies
    project = context.files.project

    def reason(located: Located) -> str | None:
        target = target_of(located, project)
        for patterns in limits:
            if not is_covered(target, patterns):
                return f"the token is limited to {', '.join(patterns) or 'nothing'}"
        return None if by_policies is None else by_policies(located)

    return reason


@contextmanager
def in_repository(context: Any, actor: Actor, command: Command) -> Iterator[None]:
    """Carry out a git command of this caller. Only by policies: the paths that a token is limited
    to have to cover all that the command names."""
    token = _in_repository.set(_by_policies(context, actor, command))
    try:
        yield
    finally:
        _in_repository.reset(token)


def now_in_repository() -> Denial | None:
    """What is denied to the caller of the git command under way."""
    return _in_repository.get()


def _by_policies(context: Any, actor: Actor, command: Command) -> Denial | None:
    advanced = context.authority.advanced
    if advanced is None or not policies.is_by_path(advanced.policies):
        return None
    every, project = advanced.policies, context.files.project

    def reason(located: Located) -> str | None:
        request = Request(actor, command, (), (target_of(located, project),))
        policy = policies.decide(every, request, local)
        return policies.says(policy) if policy is not None and policy.effect == "deny" else None

    return reason


def _limits(actor: Actor) -> list[tuple[str, ...]]:
    """The paths that its token, and that of its session's opener, are limited to."""
    own = [] if actor.scopes.paths is None else [actor.scopes.paths]
    return own if actor.behind is None else [*own, *_limits(actor.behind)]
