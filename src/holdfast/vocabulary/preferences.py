"""Preferences: what somebody chose for the pages, kept by the supervisor for each actor."""

from __future__ import annotations

from typing import Any

from holdfast.vocabulary.command import Command, Effect, Permission, Result


class PreferencesResult(Result, frozen=True, kw_only=True):
    values: dict[str, Any]


class Preferences(Command, frozen=True, kw_only=True):
    """Tell what the caller chose for the dashboard: theme, columns, time range and the like.

    Kept for each token by its name. All browsers that log in with the same role share theirs.
    """

    name = "preferences"
    permission = Permission.VIEW
    effect = Effect.READS
    answers = PreferencesResult
    route = ("GET", "/api/preferences")


class SetPreferences(Command, frozen=True, kw_only=True):
    """Change the caller's own preferences; null takes one out. Answers all of them.

    At most 64 names and 16 KiB. Holdfast itself gives them no meaning.
    """

    name = "set_preferences"
    permission = Permission.VIEW
    effect = Effect.CHANGES
    repeatable = True
    masked = frozenset({"values"})
    answers = PreferencesResult
    route = ("POST", "/api/preferences")
    values: dict[str, Any]
