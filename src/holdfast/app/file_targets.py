"""Which files a command is about, by their real places, however it spells them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from holdfast.rules.path_scopes import PathTarget
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.commands import Command
from holdfast.vocabulary.errors import UsageError

LONGEST_PATCH = 512 * 1024
"""It is read on the loop, by who must know its paths before anything is done."""

if TYPE_CHECKING:
    from holdfast.rules.file_access import Located


def limiting(context: Any, actor: Actor, command: Command) -> tuple[PathTarget, ...]:
    """The files that a command is about, if its actor is limited to some."""
    if not (command.about_files or command.path_fields) or not _is_limited(actor):
        return ()
    return targets(context, command)


def _is_limited(actor: Actor) -> bool:
    """By its own scopes, or by those of who opened its session."""
    is_limited = actor.scopes.paths is not None
    return is_limited or (actor.behind is not None and _is_limited(actor.behind))


def targets(context: Any, command: Command) -> tuple[PathTarget, ...]:
    """A file command that names none is about the whole of its root; raises for what cannot be
    meant."""
    from holdfast.rules import unified_diff
    from holdfast.rules.file_access import locate

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
            one = getattr(command, "repository", None)
        named = [*([one] if isinstance(one, str) else ()), *(several or ())]
    project = context.files.project
    found = [locate(roots, name, root) for name in named] or [locate(roots, "", root)]
    return tuple(dict.fromkeys(target_of(located, project) for located in found))


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
