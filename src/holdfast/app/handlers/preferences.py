"""Handlers of commands about preferences: finds out whose they are."""

from __future__ import annotations

from holdfast.app.context import Context
from holdfast.app.registry import handles
from holdfast.vocabulary.actors import Actor
from holdfast.vocabulary.command import Door
from holdfast.vocabulary.preferences import Preferences, PreferencesResult, SetPreferences


@handles(Preferences)
def preferences(context: Context, command: Preferences, actor: Actor) -> PreferencesResult:
    return PreferencesResult(values=context.preferences.of(_account(context, actor)))


@handles(SetPreferences)
async def set_preferences(
    context: Context, command: SetPreferences, actor: Actor
) -> PreferencesResult:
    changed = context.preferences.change(_account(context, actor), command.values)
    await context.store.written()
    return PreferencesResult(values=changed)


def _account(context: Context, actor: Actor) -> str:
    """Return whose preferences these are. The name of a login is new each time, and so is the
    process that the owner asks with."""
    if actor.door is Door.CLI or actor.token is None:
        return f"{actor.role.value}"
    token = context.tokens.get(actor.token)
    return f"browser {actor.role.value}" if token and token.kind == "browser" else actor.name
