"""Writes what happened into Holdfast's own log, a line an event.

What a person looks for when something went wrong is told at `info`; the steps in between at
`debug`. Events hold no value of an environment, so neither does the log.
"""

from __future__ import annotations

import logging

from holdfast.adapters.own_log import logger
from holdfast.vocabulary.events import Event, Kind

_log = logger("events")
_STEPS = frozenset(
    kind.value
    for kind in (Kind.TRANSITION, Kind.PROCESS_STARTED, Kind.TREE_ENDED, Kind.SERVICE_ADDED)
)


def tell(events: list[Event]) -> None:
    for event in events:
        level = logging.DEBUG if event.kind in _STEPS else logging.INFO
        if _log.isEnabledFor(level):
            _log.log(level, "%s", line(event))


def line(event: Event) -> str:
    """An event in one line: who, what, and its plain facts."""
    words = [f"{event.service}:"] if event.service else []
    words.append(event.kind)
    words += [
        f"{key}={value}"
        for key, value in event.data.items()
        if isinstance(value, (str, int, float)) and not isinstance(value, bool)
    ]
    return " ".join(words)
