"""Actors, the callers of commands. `rules.authority.permissions` decides what a role may do."""

from __future__ import annotations

from enum import Enum

import msgspec

from holdfast.vocabulary.command import Door


class Role(str, Enum):
    """The relation of an actor to this Holdfast."""

    OWNER = "owner"
    ADMIN = "admin"
    OPERATOR = "operator"
    VIEWER = "viewer"
    AGENT = "agent"
    STRANGER = "stranger"


TOKEN_ROLES = (Role.VIEWER, Role.OPERATOR, Role.ADMIN, Role.AGENT)
"""The roles that a token can carry."""


class Scopes(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a token; None is no limit. Scopes never widen a role."""

    commands: tuple[str, ...] | None = None
    services: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    paths: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None
    """Patterns of tools of MCP servers, as SERVER__TOOL."""


UNLIMITED = Scopes()


class Target(msgspec.Struct, frozen=True):
    """A service that a command is about."""

    name: str
    tags: tuple[str, ...] = ()
    asked: str = ""
    """The name in the request; a group or a tag stands for several services."""
    template: str | None = None
    """The service that it is an instance of."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which limits and policies may mean it."""
        return (self.name,) if self.template is None else (self.name, self.template)


class Actor(msgspec.Struct, frozen=True):
    """A caller of commands, and the door that it uses."""

    role: Role
    name: str
    run_id: str | None = None
    """The supervised run that it belongs to."""
    door: Door = Door.CLI
    scopes: Scopes = UNLIMITED
    session: str | None = None
    behind: Actor | None = None
    """The actor that opened its session, whose rights it never exceeds."""
    token: str | None = None
    """The id of its token."""
    call: str | None = None
    """The tool call of the request, as the client names it."""
    origin: str | None = None
    """The id of the first token in the chain of tokens that its own was made with."""

    @property
    def identity(self) -> str:
        """A name that is the same over all its connections."""
        if self.session is not None:
            return self.session
        if self.run_id is not None:
            return self.run_id
        if self.token is not None:
            # Not its name: a token that was revoked and made again is another one.
            return f"token {self.token}"
        return self.role.value if self.role is Role.OWNER else self.name

    @property
    def account(self) -> str:
        """The account whose share of bounded things it uses; all sessions of an opener have one."""
        opener = self.behind or self
        return self.run_id or opener.token or opener.identity
