"""Finds the adapter of a kind: our own, or one that an installed package adds.

A package adds adapters by entry points of the group `holdfast.backends`: the name is the kind, the
value an object with the methods of `Adapter`. Nothing is imported before its kind is asked for.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import cast

from holdfast.adapters.backends.adapter import Adapter
from holdfast.vocabulary.errors import Failed

GROUP = "holdfast.backends"
BUILT_IN = {
    "claude": "claude",
    "codex": "codex",
    "gemini": "acp",
    "opencode": "acp",
    "acp": "acp",
    "ollama": "model_servers",
    "lm_studio": "model_servers",
    "openai": "model_servers",
}
"""The module of this package for each kind of ours."""


@lru_cache
def adapter_for(kind: str) -> Adapter:
    """Return the adapter; raises Failed if nothing that is installed knows the kind."""
    module = BUILT_IN.get(kind)
    if module is not None:
        found = import_module(f"holdfast.adapters.backends.{module}")
        return cast("Adapter", found.adapter_for(kind))
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP, name=kind):
        return cast("Adapter", point.load())
    known = ", ".join(BUILT_IN)
    hint = f"known kinds: {known}; a package adds others (entry point {GROUP})"
    raise Failed(f'no adapter for backends of the kind "{kind}"', hint)
