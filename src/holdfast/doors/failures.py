"""What a client hears when a command fails, through whatever door it came."""

from __future__ import annotations

from holdfast.adapters.own_log import logger
from holdfast.vocabulary.errors import HoldfastError, Internal

_log = logger("doors")


def told(error: Exception) -> HoldfastError:
    """What the client hears; a mistake of ours is logged with its traceback."""
    if isinstance(error, HoldfastError):
        return error
    _log.error("a command failed unexpectedly", exc_info=error)
    return Internal(
        f"an error inside Holdfast: {type(error).__name__}: {error}",
        "holdfast.log in the state folder has the details; please report it",
    )
