"""Banners: what concerns everybody who looks at this Holdfast now, and the commands about them.

The supervisor owns the list. The dashboard, `holdfast status`, REST and assistants show the same.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.vocabulary.command import Command, Done, Effect, Permission, Result

BannerKind = Literal[
    "lockdown",
    "approval",
    "failure",
    "resource",
    "history",
    "switch",
    "restart",
    "workflow",
    "rolling",
    "configuration",
    "notice",
]
BannerSeverity = Literal["error", "warning", "info", "success"]


class BannerProgress(Result, frozen=True, kw_only=True):
    """How far something has come that takes a while."""

    step: int
    steps: int
    what: str = ""


class BannerAction(Result, frozen=True, kw_only=True):
    """A command that can be given because of a banner."""

    label: str
    command: str
    arguments: dict[str, Any] = {}


class Banner(Result, frozen=True, kw_only=True):
    """One thing that concerns everybody, in a sentence."""

    id: str
    """The same as long as it is about the same thing."""
    kind: BannerKind
    severity: BannerSeverity
    title: str
    detail: str = ""
    service: str | None = None
    """The service that it is about; None: all of them."""
    since: float | None = None
    progress: BannerProgress | None = None
    actions: list[BannerAction] = []
    hint: str = ""
    """The command line that does something about it."""
    is_dismissible: bool = False
    """Whether a person can put it away with `dismiss_banner`."""
    expires_at: float | msgspec.UnsetType = msgspec.UNSET
    """When it leaves by itself; unset: when its cause is gone."""


class BannersResult(Result, frozen=True, kw_only=True):
    banners: list[Banner]
    """The most urgent first."""


class Banners(Command, frozen=True, kw_only=True):
    """Tell what concerns everybody now: a lockdown, approvals that wait, failures, what is under
    way, a switch of the mode. The most urgent comes first.
    """

    name = "banners"
    rest_tag = "trouble"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = BannersResult
    route = ("GET", "/api/banners")
    is_shared = True
    services: list[str] = []


class DismissBanner(Command, frozen=True, kw_only=True):
    """Put a banner away for everybody. It comes back if its cause happens again.

    What is still under way, a lockdown and waiting approvals cannot be put away.
    """

    name = "dismiss_banner"
    rest_tag = "trouble"
    permission = Permission.OPERATE
    effect = Effect.CHANGES
    repeatable = True
    answers = Done
    route = ("POST", "/api/banners/dismiss")
    banner: str
