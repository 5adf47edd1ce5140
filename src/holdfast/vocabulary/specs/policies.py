"""What a configuration says about requests: policies, filters, how many are taken."""

from __future__ import annotations

from typing import Literal

import msgspec

PolicyEffect = Literal["confirm", "deny", "allow"]
Mode = Literal["proxy", "advanced"]
MODES: tuple[Mode, ...] = ("proxy", "advanced")
MODE_VARIABLES = ("HOLDFAST_RUNTIME_MODE", "MAGICTUNNEL_RUNTIME_MODE")
"""The variables in which the mode is told."""
ALL_DAY = 24 * 60


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Times of a week. Minutes count from midnight. An end before the begin is on the next day."""

    days: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)
    """Monday is 0."""
    begin: int = 0
    end: int = ALL_DAY
    zone: str | None = None
    """None: the time zone of the machine."""


class PolicySpec(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests a policy matches, and what happens to them. None in a field matches all."""

    name: str
    effect: PolicyEffect
    reason: str = ""
    """The reason that people are shown."""
    actors: tuple[str, ...] | None = None
    roles: tuple[str, ...] | None = None
    doors: tuple[str, ...] | None = None
    commands: tuple[str, ...] | None = None
    services: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    paths: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None
    """Patterns of tools of MCP servers, as SERVER__TOOL."""
    times: tuple[Window, ...] | None = None
    approve_within: float = 600.0
    approvers: Literal["operator", "admin"] = "admin"


class FilterSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What the arguments of a request may not contain."""

    max_length: int | None = None
    """Characters of one text."""
    control_characters: bool = True
    """Whether a text may contain them. Line breaks and tabs are always allowed."""
    forbid: tuple[str, ...] = ()
    """Patterns that no text may match, whatever its case."""


class RateLimit(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests one actor may make through one network door."""

    requests_per_second: float = 1000.0
    burst: int = 2000
