"""Commands about checkpoints: a work tree as it was, kept in its repository beside all branches."""

from __future__ import annotations

from holdfast.vocabulary.commands.command import Command, Effect, Permission
from holdfast.vocabulary.git_results import Checkpoint, CheckpointsResult, RestoredResult


class MakeCheckpoint(Command, frozen=True, kw_only=True):
    """Keep all files of a work tree as they are now, untracked ones too, as a commit that no
    branch leads to. Work tree and index stay as they are. Ignored files, files that the
    configuration denies and repositories inside are not in it.

    Before the first change of an assistant's session one is made by itself.
    """

    name = "checkpoint"
    is_recursive = True
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    answers = Checkpoint
    route = ("POST", "/api/checkpoints")
    about_files = True
    repository: str | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if len(self.note) > 500:
            raise ValueError("the note is longer than 500 characters")


class Checkpoints(Command, frozen=True, kw_only=True):
    """List checkpoints, the newest first."""

    name = "checkpoints"
    is_recursive = True
    permission = Permission.VIEW
    effect = Effect.READS
    answers = CheckpointsResult
    route = ("GET", "/api/checkpoints")
    about_files = True
    repository: str | None = None
    session: str | None = None
    limit: int = 50


class RestoreCheckpoint(Command, frozen=True, kw_only=True):
    """Bring the files of a work tree back as they were at a checkpoint.

    What is there now is kept in a further checkpoint first, so nothing is lost. Branches,
    commits and the index stay. Without `checkpoint`, the newest of this session is meant, else
    the newest of all.
    """

    name = "restore_checkpoint"
    is_recursive = True
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    changes_files = True
    answers = RestoredResult
    route = ("POST", "/api/checkpoints/restore")
    about_files = True
    checkpoint: str | None = None
    repository: str | None = None
    dry_run: bool = False
