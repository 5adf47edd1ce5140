"""The formats that are understood, and which of them a file is in, by its content and name."""

from __future__ import annotations

import os
from types import ModuleType

from holdfast.migration import (
    circus,
    compose,
    mprocs,
    package_json,
    pitchfork,
    pm2,
    process_compose,
    procfile,
    supervisord,
    systemd,
)
from holdfast.migration.findings import Findings
from holdfast.vocabulary.errors import Failed, UsageError

FORMATS: tuple[ModuleType, ...] = (
    *(supervisord, circus, systemd, pitchfork, process_compose, mprocs, compose, pm2),
    *(package_json, procfile),
)
SUPERVISORS = (supervisord, circus, pitchfork, process_compose, mprocs, pm2)
"""Formats whose files say everything about what a folder runs."""
LARGEST_BYTES = 4 << 20


def candidates(folder: str, formats: tuple[ModuleType, ...] = FORMATS) -> list[str]:
    """Return the files of a folder that are likely meant, the usual names only."""
    names = [name for one in formats for name in one.NAMES]
    found = [os.path.join(folder, name) for name in names]
    return [path for path in found if os.path.isfile(path)]


def read_files(paths: list[str]) -> list[Findings]:
    """Return what several files hold. A timer is read with its service, once."""
    found = {one.path: one for one in map(read_file, paths)}
    return list(found.values())


def read_file(path: str) -> Findings:
    """Return what a file holds; raise an error that says what is wrong with it."""
    try:
        if os.path.getsize(path) > LARGEST_BYTES:
            raise UsageError(f"{path} is larger than 4 MiB", "is it a configuration?")
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            text = file.read()
    except OSError as error:
        raise Failed(f"{path} cannot be read: {error.strerror}") from None
    for one in FORMATS:
        if one.recognises(path, text):
            try:
                findings: Findings = one.read(path, text)
            except (ValueError, TypeError, AttributeError) as error:
                raise UsageError(
                    f"{path} is not as {one.__name__.rpartition('.')[2]} has it: {error}",
                    "mend the file, or leave it out",
                ) from None
            return findings
    known = ", ".join(sorted({one.__name__.rpartition(".")[2] for one in FORMATS}))
    raise UsageError(f"{path} is in no format that is known here", f"known: {known}")
