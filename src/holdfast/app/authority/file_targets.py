"""Which files a command is about, by their real places, however it spells them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from holdfast.rules.authority.path_scopes import PathTarget
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.command import Command
from holdfast.vocabulary.errors import HoldfastError, Refused, UsageError

LONGEST_PATCH = 512 * 1024
"""It is read on the loop, by who must know its paths before anything is done."""

_NOWHERE = ""
_judged: ContextVar[Located | str | None] = ContextVar("judged_repository", default=None)
"""The folder of the repository that the command under way was judged by; None: by none."""

if TYPE_CHECKING:
    from holdfast.rules.files import Located


def limiting(context: Any, actor: Actor, command: Command) -> tuple[PathTarget, ...]:
    """The files that a command is about, if its actor is limited to some."""
    if not (command.about_files or command.path_fields) or not is_limited(actor):
        return ()
    return targets(context, command)


def is_limited(actor: Actor) -> bool:
    """By its own scopes, or by those of who opened its session."""
    is_by_itself = actor.scopes.paths is not None
    return is_by_itself or (actor.behind is not None and is_limited(actor.behind))


def targets(context: Any, command: Command) -> tuple[PathTarget, ...]:
    """A file command that names none is about the whole of its root; raises for what cannot be
    meant."""
    from holdfast.rules.files import locate
    from holdfast.rules.text import unified_diff

    if not command.about_files:
        return _named_beside(context, command)
    roots = context.files.roots.roots
    root: Any = getattr(command, "root", None)
    patch: Any = getattr(command, "patch", None)
    if isinstance(patch, str):
        if len(patch) > LONGEST_PATCH:
            most = f"{LONGEST_PATCH // 1024} KiB"
            raise UsageError(f"a patch whose paths are judged has at most {most}", "send parts")
        root = root or roots[0].name
        named = [name for one in unified_diff.parse(patch) for name in (one.old, one.new) if name]
    else:
        several: Any = getattr(command, "paths", None)
        one: Any = getattr(command, "path", None)
        if one is None and not several:
            place = _judged.get()
            if is_in_repository(command) and place is not None and not isinstance(place, str):
                return (target_of(place, context.files.project),)
            one = getattr(command, "repository", None)
        named = [*([one] if isinstance(one, str) else ()), *(several or ())]
    project = context.files.project
    found = [locate(roots, name, root) for name in named] or [locate(roots, "", root)]
    return tuple(dict.fromkeys(target_of(located, project) for located in found))


def is_in_repository(command: Command) -> bool:
    """Whether it acts on a repository, which may be larger than the folder that it names."""
    return command.about_files and "repository" in command.__struct_fields__


async def repository_of(context: Any, command: Command) -> Located | None:
    """The folder of the repository that a command would act on; None: it would fail."""
    try:
        roots = await context.files.made_roots()
        located = roots.locate(getattr(command, "repository", None) or ".")
        async with context.git.opened(located, roots) as repository:
            place: Located = repository.place
    except HoldfastError:
        return None  # the command itself says what is wrong
    return place


@contextmanager
def judged_by(place: Located | None) -> Iterator[None]:
    """Judge and carry out a command by the repository in this folder and no other."""
    token = _judged.set(_NOWHERE if place is None else place)
    try:
        yield
    finally:
        _judged.reset(token)


def check_judged(place: Located) -> None:
    """Raises Refused if the repository that was found is another one than was judged."""
    judged = _judged.get()
    if judged is not None and judged != place:
        raise Refused(
            "another repository took the place of the one that was meant", "ask once more"
        )


def _named_beside(context: Any, command: Command) -> tuple[PathTarget, ...]:
    """What a command names that is not about files: a folder to run in, a configuration. As it is
    written and where links lead, for both count."""
    project = os.path.realpath(context.project or "/")
    base = project
    service: Any = getattr(command, "service", None)
    if isinstance(service, str) and (runner := context.roster.runners.get(service)) is not None:
        base = runner.declaration.spec.working_dir or project
    found: dict[PathTarget, None] = {}
    for name in sorted(command.path_fields):
        above = project if name in ("config", "pidfile") else base
        for text in _texts(getattr(command, name)):
            written = os.path.normpath(os.path.join(above, text))
            for path in (written, os.path.realpath(written)):
                found[_below(path, project)] = None
    return tuple(found)


def _texts(value: Any) -> list[str]:
    """The paths in a field: a text, several, or commands that have a folder."""
    if isinstance(value, str):
        return [value] if value else []
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return _texts(getattr(value, "working_dir", None)) if value is not None else []


def target_of(located: Located, project: str) -> PathTarget:
    return _below(located.absolute, project)


def _below(absolute: str, project: str) -> PathTarget:
    if absolute == project:
        return PathTarget(absolute, "")
    above = project.rstrip("/") + "/"
    inside = absolute.startswith(above)
    return PathTarget(absolute, absolute[len(above) :] if inside else None)
