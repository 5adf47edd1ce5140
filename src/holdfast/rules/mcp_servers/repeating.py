"""What follows when a call was interrupted: it is repeated, awaited, or its outcome is unknown.
Pure.

A request that was never sent may always be sent. One that was sent is sent again only if its
approved definition says that twice is no different from once.
"""

from __future__ import annotations

from enum import Enum


class Interruption(str, Enum):
    """Why a call has no answer yet."""

    NOT_SENT = "not_sent"
    """The request did not reach the server."""
    SERVER_DIED = "server_died"
    """The server ended after the request was sent."""
    GATE_DIED = "gate_died"
    """The process that would have read the answer ended; the server goes on."""
    LATE = "late"
    """The time for it is over."""


class Step(str, Enum):
    """What is done about it."""

    SEND = "send"
    AWAIT = "await"
    """The server may still answer the request that it was sent."""
    UNKNOWN = "unknown"


MOST_REPEATS = 1
"""How often a call is repeated because its server died under it."""
MOST_SENDS = 8
"""How often a call is sent in all, also because a gate died: a call may be what kills it."""


def next_step(why: Interruption, *, may_repeat: bool, deaths: int, sends: int) -> Step:
    """`deaths` counts how often the server died under this call; `sends`, how often it was sent."""
    if why is Interruption.LATE:
        return Step.UNKNOWN
    if why is Interruption.NOT_SENT:
        return Step.SEND
    if sends >= MOST_SENDS:
        return Step.UNKNOWN
    if why is Interruption.GATE_DIED:
        return Step.SEND if may_repeat else Step.AWAIT
    return Step.SEND if may_repeat and deaths <= MOST_REPEATS else Step.UNKNOWN
