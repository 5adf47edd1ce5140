"""Which files and folders a command is about, and which of them are denied to its caller.

Paths are judged by their real places, however a command spells them. A command is judged by what it
names before it is done; while it is done, every path that it comes to is judged, because a folder
may hold what the folder's name does not tell.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any

from holdfast.rules.authority import policies
from holdfast.rules.authority.path_scopes import PathTarget, is_covered
from holdfast.rules.authority.policies import PolicyRequest
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.command import Command
from holdfast.vocabulary.errors import HoldfastError, Refused, UsageError

if TYPE_CHECKING:
    from holdfast.app.context import Context
    from holdfast.rules.files import LocatedPath

LONGEST_PATCH = 512 * 1024
"""Of a patch whose paths are judged: it is parsed on the loop."""

Denial = Callable[["LocatedPath"], "str | None"]
"""Returns the reason why a place is denied to the caller, or None if it is not."""

_NOWHERE = ""
_judged_repository: ContextVar[LocatedPath | str | None] = ContextVar(
    "judged_repository", default=None
)
"""The folder of the repository that the current command was judged by; None: by none."""
_denied_in_repository: ContextVar[Denial | None] = ContextVar("denied_in_repository", default=None)
"""What is denied to the caller of the current git command."""


def is_limited(actor: Actor) -> bool:
    """Return whether the actor, or the actor that opened its session, is limited to paths."""
    return bool(_limits(actor))


def limiting_targets(context: Context, actor: Actor, command: Command) -> tuple[PathTarget, ...]:
    """Return the files that a command is about if its actor is limited to some, else nothing."""
    if not (command.about_files or command.path_fields) or not is_limited(actor):
        return ()
    return all_targets(context, command)


def all_targets(context: Context, command: Command) -> tuple[PathTarget, ...]:
    """Return the files that a command is about. A file command that names none is about the whole
    of its root. Raises an error for a path that cannot be meant."""
    from holdfast.rules.files import locate
    from holdfast.rules.text import unified_diff

    if not command.about_files:
        return _targets_of_fields(context, command)
    roots, project = context.workspace.files.roots.roots, context.workspace.files.project
    root: Any = getattr(command, "root", None)
    patch: Any = getattr(command, "patch", None)
    if isinstance(patch, str):
        if len(patch) > LONGEST_PATCH:
            most = f"{LONGEST_PATCH // 1024} KiB"
            raise UsageError(f"a patch whose paths are judged has at most {most}", "send parts")
        root = root or roots[0].name
        names = [
            name for file in unified_diff.parse(patch) for name in (file.old, file.new) if name
        ]
    else:
        several: Any = getattr(command, "paths", None)
        one: Any = getattr(command, "path", None)
        if one is None and not several:
            place = _judged_repository.get()
            if is_in_repository(command) and place is not None and not isinstance(place, str):
                return (target_of(place, project),)
            one = getattr(command, "repository", None)
        names = [*([one] if isinstance(one, str) else ()), *(several or ())]
    found = [locate(roots, name, root) for name in names] or [locate(roots, "", root)]
    return tuple(dict.fromkeys(target_of(located, project) for located in found))


def target_of(located: LocatedPath, project: str) -> PathTarget:
    return _target(located.absolute, project)


def denial(context: Context, actor: Actor, command: Command) -> Denial | None:
    """Return what policies and tokens deny to this caller; None: nothing beyond what is denied to
    everybody."""
    by_policies = _denial_by_policies(context, actor, command)
    limits = _limits(actor)
    if not limits:
        return by_policies
    project = context.workspace.files.project

    def reason(located: LocatedPath) -> str | None:
        target = target_of(located, project)
        for patterns in limits:
            if not is_covered(target, patterns):
                return f"the token is limited to {', '.join(patterns) or 'nothing'}"
        return None if by_policies is None else by_policies(located)

    return reason


def is_in_repository(command: Command) -> bool:
    """Return whether it acts on a repository, which may be larger than the folder it names."""
    return command.about_files and "repository" in command.__struct_fields__


async def repository_of(context: Context, command: Command) -> LocatedPath | None:
    """Return the folder of the repository that a command would act on; None: it would fail."""
    try:
        roots = await context.workspace.files.made_roots()
        located = roots.locate(getattr(command, "repository", None) or ".")
        async with context.workspace.git.opened(located, roots) as repository:
            return repository.place
    except HoldfastError:
        return None  # the command itself says what is wrong


@contextmanager
def judged_by(place: LocatedPath | None) -> Iterator[None]:
    """Judge and do a command by the repository in this folder and no other."""
    token = _judged_repository.set(_NOWHERE if place is None else place)
    try:
        yield
    finally:
        _judged_repository.reset(token)


def check_judged(place: LocatedPath) -> None:
    """Raise Refused if the repository that was found is not the one that was judged."""
    judged = _judged_repository.get()
    if judged is not None and judged != place:
        raise Refused(
            "another repository took the place of the one that was meant", "ask once more"
        )


@contextmanager
def denying_in_repository(context: Context, actor: Actor, command: Command) -> Iterator[None]:
    """Do a git command of this caller. Only policies count here, because the paths that a token is
    limited to have to cover everything that the command names."""
    token = _denied_in_repository.set(_denial_by_policies(context, actor, command))
    try:
        yield
    finally:
        _denied_in_repository.reset(token)


def denied_in_repository() -> Denial | None:
    """Return what is denied to the caller of the current git command."""
    return _denied_in_repository.get()


def confine(context: Context, working_dir: str, usual: str | None = None) -> str:
    """Return the folder that a program of a caller must run below: the project, or the folder of
    its service. Raises Refused for a folder that leads elsewhere, or that is denied to file
    commands. The folder may be another one a moment later, so the keeper checks it again. May
    block."""
    from holdfast.rules.files import LocatedPath, Root

    project = os.path.realpath(context.project or "/")
    base = project if usual is None else os.path.realpath(usual)
    root = project if _is_below(base, project) else base
    folder = os.path.realpath(os.path.join(base, working_dir))
    if not _is_below(folder, root):
        raise Refused(
            f'"{working_dir}" leads out of {root}, to {folder}', f"name a folder below {root}"
        )
    parts = tuple(part for part in os.path.relpath(folder, root).split("/") if part != ".")
    reason = context.workspace.files.roots.denials.reason(
        LocatedPath(Root("project", root, root), parts)
    )
    if reason is not None:
        raise Refused(f'"{working_dir}" is denied: {reason}', "run it elsewhere")
    return root


def local_time(zone: str | None) -> datetime:
    """Return the time in a zone: some policies hold at certain hours only."""
    from holdfast.adapters import time_zones

    return datetime.now(time_zones.zone(zone))


def _limits(actor: Actor) -> list[tuple[str, ...]]:
    """Return the paths that its token, and the token of its session's opener, are limited to."""
    own = [] if actor.scopes.paths is None else [actor.scopes.paths]
    return own if actor.behind is None else [*own, *_limits(actor.behind)]


def _denial_by_policies(context: Context, actor: Actor, command: Command) -> Denial | None:
    advanced = context.authority.advanced
    if advanced is None or not policies.is_by_path(advanced.policies):
        return None
    every, project = advanced.policies, context.workspace.files.project

    def reason(located: LocatedPath) -> str | None:
        request = PolicyRequest(actor, command, (), (target_of(located, project),))
        policy = policies.decide(every, request, local_time)
        return policies.says(policy) if policy is not None and policy.effect == "deny" else None

    return reason


def _targets_of_fields(context: Context, command: Command) -> tuple[PathTarget, ...]:
    """Return the paths in fields of a command that is not about files: a folder to run in, a
    configuration. Both the path as it is written and the place where links lead are targets."""
    project = os.path.realpath(context.project or "/")
    base = project
    service: Any = getattr(command, "service", None)
    if isinstance(service, str) and (runner := context.roster.runners.get(service)) is not None:
        base = runner.declaration.spec.working_dir or project
    found: dict[PathTarget, None] = {}
    for name in sorted(command.path_fields):
        above = project if name in ("config", "pidfile") else base
        for text in _paths_in(getattr(command, name)):
            written = os.path.normpath(os.path.join(above, text))
            for path in (written, os.path.realpath(written)):
                found[_target(path, project)] = None
    return tuple(found)


def _paths_in(value: Any) -> list[str]:
    """Return the paths in a field: one text, several, or commands that have a folder."""
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, list):
        return [text for item in value for text in _paths_in(item)]
    return _paths_in(getattr(value, "working_dir", None)) if value is not None else []


def _target(absolute: str, project: str) -> PathTarget:
    if absolute == project:
        return PathTarget(absolute, "")
    above = project.rstrip("/") + "/"
    is_inside = absolute.startswith(above)
    return PathTarget(absolute, absolute[len(above) :] if is_inside else None)


def _is_below(path: str, folder: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")
