"""Reads a configuration without a Holdfast: for who wants to know before anything runs.

The command line loads it for one verb. The reading is that of `up`; nothing is started, asked
or written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.adapters.config import load_project


def check(
    path: str | None, environ: Mapping[str, str], settings: Mapping[str, str], folder: str
) -> dict[str, Any]:
    """What it declares, by names alone; ConfigError with all that is wrong."""
    read = load_project(path, environ, settings, cwd=folder)
    return {
        "config": read.path,
        "services": list(read.services),
        "groups": {name: list(members) for name, members in read.settings.groups.items()},
        "workflows": list(read.settings.workflows),
        "commands": list(read.settings.commands),
    }
