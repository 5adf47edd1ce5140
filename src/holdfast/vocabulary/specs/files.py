"""What a configuration says about files: the folders that are offered, what is denied, backups."""

from __future__ import annotations

import msgspec


class RootSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A folder below which files may be read, and perhaps changed."""

    name: str
    path: str
    write: bool = False


class BackupSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how many former contents of files are kept."""

    keep: float = 30 * 86400.0
    """Seconds."""
    max_size: int = 256_000_000


class FilesSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The files that the doors offer. Without roots it is the project's folder, read-only."""

    roots: tuple[RootSpec, ...] = ()
    deny: tuple[str, ...] = ()
    """Globs beside the usual ones. `!` in front allows a usual one again."""
    backups: BackupSpec = BackupSpec()
