"""Which files of the configuration an admin has approved, and who may load others.

An admin's `up` or `reload` approves the files as they are at that moment, by their digests. Every
other caller may load only approved files: a configuration decides about policies, tokens and
programs, and files can be changed in many ways that no door sees. The digests are in the keeper's
memory, so that they outlive the supervisor.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.rules.authority.path_scopes import shown
from holdfast.rules.authority.permissions import GRANTED
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.command import Permission
from holdfast.vocabulary.errors import Refused

if TYPE_CHECKING:
    from holdfast.app.context import Context

MOST_NAMED = 10


def approve(context: Context, sources: Mapping[str, str]) -> None:
    """Remember these files as an admin has loaded them."""
    context.link.keep(keeper_memory.APPROVED_CONFIGURATION, msgspec.json.encode(sources).decode())


def check(context: Context, actor: Actor | None, sources: Mapping[str, str]) -> bool:
    """Return whether loading by this actor approves the files. Raises Refused for an actor who may
    load only approved files and would load others. None: no actor asks."""
    if actor is not None and Permission.ADMINISTER in GRANTED[actor.role]:
        return True
    text = context.link.kept.get(keeper_memory.APPROVED_CONFIGURATION)
    approved: dict[str, str] = {} if text is None else msgspec.json.decode(text)
    changed = [path for path, digest in sources.items() if approved.get(path) != digest]
    if changed:
        names = [shown(_relative(path, context.project)) for path in changed[:MOST_NAMED]]
        more = f" and {len(changed) - MOST_NAMED} more" if len(changed) > MOST_NAMED else ""
        raise Refused(
            f"the configuration was changed since an admin loaded it: {', '.join(names)}{more}",
            "an admin looks at the change and says `holdfast reload`",
            {"files": changed[:MOST_NAMED]},
        )
    return False


def _relative(path: str, project: str) -> str:
    above = project.rstrip("/") + "/"
    return os.path.relpath(path, project) if path.startswith(above) else path
