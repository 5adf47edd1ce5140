"""Where a program may run that somebody but the owner asks for."""

from __future__ import annotations

import os
from typing import Any

from holdfast.vocabulary.errors import Refused


def confinement(context: Any, working_dir: str, usual: str | None = None) -> str:
    """The folder that it must run below: the project, or where its service runs. Raises Refused
    for a folder that leads elsewhere, or that is denied to file commands. What this finds may be
    another folder a moment later: the keeper looks again when it is there. May block."""
    from holdfast.rules.files import Located, Root

    project = os.path.realpath(context.project or "/")
    base = project if usual is None else os.path.realpath(usual)
    root = project if _is_below(base, project) else base
    folder = os.path.realpath(os.path.join(base, working_dir))
    if not _is_below(folder, root):
        raise Refused(
            f'"{working_dir}" leads out of {root}, to {folder}', f"name a folder below {root}"
        )
    parts = tuple(part for part in os.path.relpath(folder, root).split("/") if part != ".")
    reason = context.files.roots.denials.reason(Located(Root("project", root, root), parts))
    if reason is not None:
        raise Refused(f'"{working_dir}" is denied: {reason}', "run it elsewhere")
    return root


def _is_below(path: str, folder: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")
