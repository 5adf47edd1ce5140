"""Which files a command is about, by their real places, however it spells them."""

from __future__ import annotations

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
    if not command.about_files or not _is_limited(actor):
        return ()
    return targets(context, command)


def _is_limited(actor: Actor) -> bool:
    """By its own scopes, or by those of who opened its session."""
    is_limited = actor.scopes.paths is not None
    return is_limited or (actor.behind is not None and _is_limited(actor.behind))


def targets(context: Any, command: Command) -> tuple[PathTarget, ...]:
    """A command that names none is about the whole of its root; raises for what cannot be meant."""
    from holdfast.rules import unified_diff
    from holdfast.rules.file_access import locate

    if not command.about_files:
        return ()
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
    return tuple(dict.fromkeys(_target(located, project) for located in found))


def _target(located: Located, project: str) -> PathTarget:
    absolute = located.absolute
    if absolute == project:
        return PathTarget(absolute, "")
    inside = absolute.startswith(project.rstrip("/") + "/")
    return PathTarget(absolute, absolute[len(project.rstrip("/")) + 1 :] if inside else None)
