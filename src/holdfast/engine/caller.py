"""Whose configuration it is: the environment and the settings of the last `up`.

Kept in the keeper's memory, as environments hold secrets. A reload from any door reads the
file with these, so that it does not depend on who asks.
"""

from __future__ import annotations

import msgspec

from holdfast.engine.ports import Keeper

KEPT = "caller"


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    environment: dict[str, str] = {}
    settings: dict[str, str] = {}
    """What the command line set: log level, port."""


def remember(keeper: Keeper, caller: Caller) -> None:
    keeper.keep(KEPT, msgspec.json.encode(caller, order="deterministic").decode())


def recall(kept: dict[str, str]) -> Caller | None:
    """None before the first `up`."""
    return msgspec.json.decode(kept[KEPT], type=Caller) if KEPT in kept else None
