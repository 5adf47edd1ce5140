"""What every command carries: its name, what it needs, what it does, where it is offered."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

import msgspec

from holdfast.vocabulary.results import Result


class Permission(str, Enum):
    """What an actor must be allowed to do."""

    VIEW = "view"
    OPERATE = "operate"
    ADMINISTER = "administer"


class Effect(str, Enum):
    """Whether a command reads, changes, or disrupts what runs."""

    READS = "reads"
    CHANGES = "changes"
    DISRUPTS = "disrupts"


class Door(str, Enum):
    """An interface that commands come through."""

    CLI = "cli"
    REST = "rest"
    WEBSOCKET = "websocket"
    TCP = "tcp"
    MCP = "mcp"
    GATE = "gate"
    """The gate itself, when it asks for nobody else."""


EVERY_DOOR = frozenset(Door)
LOCAL = frozenset({Door.CLI})


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request. The docstring of each command is its documentation."""

    name: ClassVar[str]
    permission: ClassVar[Permission]
    effect: ClassVar[Effect]
    doors: ClassVar[frozenset[Door]] = EVERY_DOOR
    answers: ClassVar[type[Result]] = Result
    """What it answers."""
    route: ClassVar[tuple[str, str] | None] = None
    """HTTP method and path."""
    admin_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields that only who administers may give."""
    streams: ClassVar[bool] = False
    """Whether it answers with items until it is cancelled."""
    reads_content: ClassVar[bool] = False
    """Whether it tells what services, files or people wrote: such reads are audited, too."""
    greets: ClassVar[bool] = False
    """Whether it begins, keeps or ends the caller's own stay. Limits of a token and
    `allowed_commands` bind it like every other command, unless it is `always_answered`."""
    always_answered: ClassVar[bool] = False
    """Whether limits of a token and `allowed_commands` do not bind it, as long as it names nobody
    else: the handshake, and what keeps or ends the caller's own stay."""
    repeatable: ClassVar[bool] = False
    """Whether doing it twice ends as doing it once: then it is done again under the same key
    where nobody knows whether it was done."""
    granted_by_name: ClassVar[bool] = False
    """Whether an agent may ask it whose token names this very command, though it takes an admin."""
    about_files: ClassVar[bool] = False
    """Whether it is about files or folders: the paths that a token is limited to count."""
    is_recursive: ClassVar[bool] = False
    """Whether a folder that it names stands for everything below that folder."""
    leaves_out: ClassVar[bool] = False
    """Whether it leaves out, or refuses by name, each path that a policy denies to the caller. A
    folder that holds such paths may then be named."""
    path_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields that name files or folders although the command is not about files."""
    carries_commands: ClassVar[bool] = False
    """Whether it has programs run that it names: the settings have to be asked about them."""
    in_lockdown: ClassVar[bool] = False
    """Whether an admin may still ask it in a lockdown, and everybody if it `greets`: it stops
    something, takes it back, or lets somebody in who looks."""
    is_shared: ClassVar[bool] = False
    """Whether equal requests of one moment may share an answer: it is quick, and only reads."""
    changes_files: ClassVar[bool] = False
    """Whether it changes files: before the first such change of a session a checkpoint is made."""
    masked: ClassVar[frozenset[str]] = frozenset()
    """Fields that the audit must not repeat, because they are long or may hold anything."""
