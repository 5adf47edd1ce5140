"""What a configuration says about git."""

from __future__ import annotations

import msgspec


class GitSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a repository may do beyond being read and changed."""

    allow_hooks: bool = False
    """Whether its hooks are run."""
    allow_programs: bool = False
    """Whether filters, merge drivers and signers of its configuration are run."""
    allow_outside: bool = False
    """Whether its data may lie outside every root, as with worktrees or borrowed objects."""
    checkpoints: bool = True
    """Whether a checkpoint is made before the first change of a session."""
    program: str | None = None
