"""The key `git`: what repositories may do beyond being read and changed."""

from __future__ import annotations

from holdfast.adapters.config.blocks import Block, Key, Values
from holdfast.adapters.config.kinds import Boolean, Text
from holdfast.vocabulary.specs.git import GitSpec

GIT_BLOCK = Block(
    [
        Key("allow_hooks", Boolean(), "Run the hooks of a repository.", False),
        Key(
            "allow_programs",
            Boolean(),
            "Run filters, merge drivers and signers that a repository configures.",
            False,
        ),
        Key(
            "allow_outside",
            Boolean(),
            "Take repositories whose data lie below no root, as worktrees may.",
            False,
        ),
        Key("checkpoints", Boolean(), "Make one before the first change of a session.", True),
        Key("program", Text(), "Which git to run.", "git"),
    ],
    definition="git",
    synonyms={"hooks": "allow_hooks", "filters": "allow_programs", "checkpoint": "checkpoints"},
)
GIT = Key("git", GIT_BLOCK, "What git repositories may do.")


def git_of(values: Values) -> GitSpec:
    return GitSpec(**values.get("git", {}))
