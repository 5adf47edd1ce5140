"""Who asks: an actor has a role. What a role may do is decided in `rules.permissions`."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Role(str, Enum):
    """What an actor is to this Holdfast."""

    OWNER = "owner"
    AGENT = "agent"
    STRANGER = "stranger"


class Actor(NamedTuple):
    """Who asks."""

    role: Role
    name: str
    run_id: str | None = None
