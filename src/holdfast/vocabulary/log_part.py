"""What of a log may be asked for when it is taken as a file."""

from __future__ import annotations

from typing import Literal

import msgspec


class LogPart(msgspec.Struct, frozen=True, kw_only=True):
    """All that is given must agree; without anything, the whole log up to now is meant."""

    cursor: str | None = None
    """From here on, as an answer gave it."""
    until_cursor: str | None = None
    """Up to here."""
    since: float | None = None
    """Unix seconds: what was printed from then on."""
    until: float | None = None
    """Unix seconds: what was printed before."""
    run: int | None = None
    """Of this run only; -1 is the last."""
    tail: int | None = None
    """The last lines only."""
    stream: Literal["out", "err"] | None = None
    format: Literal["raw", "text"] = "raw"
    """raw: the bytes as they were printed; text: without control sequences."""
