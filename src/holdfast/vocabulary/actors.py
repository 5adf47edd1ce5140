"""Who asks: an actor has a role. What a role may do is decided in `rules.authority.permissions`."""

from __future__ import annotations

from enum import Enum

import msgspec

from holdfast.vocabulary.command import Door


class Role(str, Enum):
    """What an actor is to this Holdfast."""

    OWNER = "owner"
    ADMIN = "admin"
    OPERATOR = "operator"
    VIEWER = "viewer"
    AGENT = "agent"
    STRANGER = "stranger"


TOKEN_ROLES = (Role.VIEWER, Role.OPERATOR, Role.ADMIN, Role.AGENT)
"""The roles that a token can carry."""


class Scopes(msgspec.Struct, frozen=True, kw_only=True):
    """What a token is limited to; nothing said is no limit. A role is never widened by it."""

    commands: tuple[str, ...] | None = None
    services: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    paths: tuple[str, ...] | None = None


UNLIMITED = Scopes()


class Target(msgspec.Struct, frozen=True):
    """A service that a command is about."""

    name: str
    tags: tuple[str, ...] = ()
    asked: str = ""
    """The name that was used for it; a group or a tag stands for several."""


class Actor(msgspec.Struct, frozen=True):
    """Who asks, and through which door."""

    role: Role
    name: str
    run_id: str | None = None
    """The supervised run that it is, or belongs to."""
    door: Door = Door.CLI
    scopes: Scopes = UNLIMITED
    session: str | None = None
    behind: Actor | None = None
    """Who opened its session: what that one may not do, it may not either."""
    token: str | None = None
    """The id of the token that it showed."""
    call: str | None = None
    """The tool call that it asks through, as its client names it."""
    origin: str | None = None
    """The id of the token that its own was made with, or that one with, and so on."""

    @property
    def identity(self) -> str:
        """Who it is, the same over all its connections."""
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
        """Whose share of something bounded it uses: all sessions of an opener have one."""
        opener = self.behind or self
        return self.run_id or opener.token or opener.identity
