"""What every command and every answer has: the name, the permission, the effect, the doors."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Literal

import msgspec


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to a command."""


class Done(Result, frozen=True, kw_only=True):
    """It was done; there is nothing more to say."""

    message: str = ""


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

Toolset = Literal["process", "files", "search", "git", "servers"]
"""A set of tools that assistants are offered together."""


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request. The docstring of each command is its documentation."""

    name: ClassVar[str]
    permission: ClassVar[Permission]
    effect: ClassVar[Effect]
    doors: ClassVar[frozenset[Door]] = EVERY_DOOR
    answers: ClassVar[type[Result]] = Result
    """The type of its answer."""
    route: ClassVar[tuple[str, str] | None] = None
    """HTTP method and path."""
    rest_tag: ClassVar[str | None] = None
    """Its group in the description of the REST interface; None: the name of its subject."""
    toolset: ClassVar[Toolset | None] = None
    """The set of tools through which assistants use it. An assistant that is not offered the set
    may not use the command; reading about services (`process`) is always allowed."""
    mcp_setting: ClassVar[Literal["run", "send", "delegate"] | None] = None
    """The key below `mcp:` that must be on before an assistant may use it."""
    admin_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields that only an actor who may administer can set."""
    streams: ClassVar[bool] = False
    """Whether it answers with items until it is cancelled."""
    reads_content: ClassVar[bool] = False
    """Whether it shows text that services, files or people wrote. Such reads are audited, too."""
    greets: ClassVar[bool] = False
    """Whether it begins, keeps or ends the caller's own stay. The limits of a token and
    `allowed_commands` apply to it as to every other command, unless it is `always_answered`."""
    always_answered: ClassVar[bool] = False
    """Whether the limits of a token and `allowed_commands` do not apply, as long as the command
    names nobody else: the handshake, and what keeps or ends the caller's own stay."""
    repeatable: ClassVar[bool] = False
    """Whether doing it twice has the same result as doing it once. If a supervisor dies while it is
    done, it is done again when it is asked again under the same key."""
    granted_by_name: ClassVar[bool] = False
    """Whether an agent whose token names this very command may use it, although it takes an
    admin."""
    about_agents: ClassVar[bool] = False
    """Whether its `session` is one with an AI backend, which limits know by its service."""
    about_files: ClassVar[bool] = False
    """Whether it is about files or folders. The paths that a token is limited to apply then."""
    is_recursive: ClassVar[bool] = False
    """Whether a folder in a field means everything below that folder."""
    leaves_out: ClassVar[bool] = False
    """Whether it leaves out, or refuses by name, each path that a policy denies to the caller. A
    folder that holds such paths may be named then."""
    path_fields: ClassVar[frozenset[str]] = frozenset()
    """Fields that name files or folders although the command is not about files."""
    carries_commands: ClassVar[bool] = False
    """Whether it names programs to run. The settings decide then whether they may be run."""
    in_lockdown: ClassVar[bool] = False
    """Whether an admin may use it in a lockdown, and everybody if it `greets`: it stops something,
    takes something back, or lets somebody in who only reads."""
    reaches_out: ClassVar[bool] = False
    """Whether it has a program of somebody else do something, although it only reads itself. A
    lockdown refuses it."""
    is_shared: ClassVar[bool] = False
    """Whether equal requests of one moment may share an answer: it is quick and only reads."""
    changes_files: ClassVar[bool] = False
    """Whether it changes files. A checkpoint is made before the first such change of a session."""
    masked: ClassVar[frozenset[str]] = frozenset()
    """Fields that are left out of the audit, because they are long or may hold anything."""

    def may_be_done_again(self) -> bool:
        """Return whether this very request is `repeatable`."""
        return self.repeatable
