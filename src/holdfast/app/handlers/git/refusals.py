"""Refusals of git commands, before git is run. Nothing here changes anything.

Every path that a command would change is judged as `write_file` judges a file.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.adapters.git import refusals
from holdfast.adapters.git.parsing import RawChange
from holdfast.adapters.git.repository import Repository
from holdfast.app.context import Context
from holdfast.vocabulary.errors import Refused

RAW = ("--raw", "-z", "--no-abbrev", "--no-renames", "--no-color")
MOST_PATHS = 200
MOST_NAMED = 10
_HINT = "leave it out, or do it with git itself"


async def refused(
    context: Context, repository: Repository, paths: Sequence[str]
) -> dict[str, Refused]:
    """Return the paths, as git names them, that may not be changed, each with the reason."""
    found: dict[str, Refused] = await context.in_thread(
        refusals.refused, repository.roots, repository, paths
    )
    return found


async def refuse(
    context: Context, repository: Repository, paths: Sequence[str], command: str
) -> None:
    """Raise Refused, in the words of `write_file`, if one of the paths may not be changed."""
    found = await refused(context, repository, paths)
    if not found:
        return
    first = min(found)
    others = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    told = [context.workspace.files.roots.told(repository.place_of(path)) for path in sorted(found)]
    raise Refused(
        f"{found[first].message}{others}",
        f"{command} would change it: {_HINT}",
        {"path": told[0], "paths": told[:MOST_PATHS]},
    )


async def refuse_changes(
    context: Context, repository: Repository, changes: Sequence[RawChange], command: str
) -> None:
    """Raise Refused if one of these changes may not be made in the work tree."""
    await refuse(context, repository, [one.path for one in changes], command)
    targets = await context.workspace.git.link_targets(repository, changes)
    for path, target in targets.items():
        wrong = refusals.wrong_link(repository.roots, repository, path, target)
        if wrong is not None:
            place = repository.place_of(path)
            raise Refused(
                f'"{context.workspace.files.roots.shown(place)}" would be a link to {wrong}',
                f"{command} makes no such link: {_HINT}",
                {"path": context.workspace.files.roots.told(place)},
            )


def named(context: Context, repository: Repository, paths: Sequence[str]) -> str:
    """Return some of these paths, for a note."""
    roots = context.workspace.files.roots
    listed = [roots.shown(repository.place_of(path)) for path in sorted(paths)[:MOST_NAMED]]
    listed += ["…"] if len(paths) > MOST_NAMED else []
    return ", ".join(listed)
