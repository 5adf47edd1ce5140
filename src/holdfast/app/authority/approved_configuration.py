"""Which files of the configuration an admin has loaded, and whether others may load them now.

An admin's `up` or `reload` approves the files as they are then, by their digests. Anybody else
loads only what an admin has approved: a configuration decides about policies, tokens and programs,
and files are changed in many ways that no door sees. Kept in the keeper's memory, so that it
outlives the supervisor; a new supervisor itself reads no configuration.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.rules.authority.path_scopes import shown
from holdfast.rules.authority.permissions import GRANTED
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.command import Permission
from holdfast.vocabulary.errors import Refused

MOST_NAMED = 10


def approve(context: Any, sources: Mapping[str, str]) -> None:
    """Remember these files as an admin has loaded them."""
    context.link.keep(keeper_memory.APPROVED_CONFIGURATION, msgspec.json.encode(sources).decode())


def check(context: Any, actor: Actor | None, sources: Mapping[str, str]) -> bool:
    """Whether this caller's load approves the files; raises Refused for a caller who may load only
    what was approved, and would load something else. None: nobody asks."""
    if actor is not None and Permission.ADMINISTER in GRANTED[actor.role]:
        return True
    text = context.link.kept.get(keeper_memory.APPROVED_CONFIGURATION)
    approved: dict[str, str] = {} if text is None else msgspec.json.decode(text)
    changed = [path for path, digest in sources.items() if approved.get(path) != digest]
    if changed:
        names = [shown(_told(path, context.project)) for path in changed[:MOST_NAMED]]
        more = f" and {len(changed) - MOST_NAMED} more" if len(changed) > MOST_NAMED else ""
        raise Refused(
            f"the configuration was changed since an admin loaded it: {', '.join(names)}{more}",
            "an admin looks at the change and says `holdfast reload`",
            {"files": changed[:MOST_NAMED]},
        )
    return False


def _told(path: str, project: str) -> str:
    above = project.rstrip("/") + "/"
    return os.path.relpath(path, project) if path.startswith(above) else path
