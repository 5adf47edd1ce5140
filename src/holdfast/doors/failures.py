"""What a client hears when a command fails, through whatever door it came."""

from __future__ import annotations

from holdfast.adapters.own_log import logger
from holdfast.secrets.redaction import redact, redact_value
from holdfast.vocabulary.errors import HoldfastError, Internal

_log = logger("doors")


def told(error: Exception) -> HoldfastError:
    """What the client hears; a mistake of ours is logged with its traceback."""
    if isinstance(error, HoldfastError):
        return _redacted(error)
    _log.error("a command failed unexpectedly", exc_info=error)
    known = Internal(
        f"an error inside Holdfast: {type(error).__name__}: {error}",
        "holdfast.log in the state folder has the details; please report it",
    )
    return _redacted(known)


def _redacted(error: HoldfastError) -> HoldfastError:
    """Errors repeat what was asked, and pass through many hands before somebody reads them."""
    error.message, error.hint = redact(error.message), redact(error.hint)
    error.details = redact_value(error.details)
    return error
