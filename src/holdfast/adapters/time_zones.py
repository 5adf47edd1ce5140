"""Time zones by name, and the machine's own zone."""

from __future__ import annotations

import os
from datetime import timezone, tzinfo
from zoneinfo import ZoneInfo

from holdfast.adapters.own_log import logger

LOCAL = "/etc/localtime"
_log = logger("time_zones")


def is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (OSError, ValueError):
        # ZoneInfoNotFoundError is a KeyError; names with dots or slashes in front are ValueErrors.
        return False
    except KeyError:
        return False
    return True


def zone(name: str | None) -> tzinfo:
    """Return the named zone; without a name the machine's, with its daylight saving time."""
    if name is not None:
        if is_zone(name):
            return ZoneInfo(name)
        _log.error("the time zone %s is not there any more; the machine's is used", name)
    own = os.environ.get("TZ", "").removeprefix(":")
    if own and is_zone(own):
        return ZoneInfo(own)
    try:
        with open(LOCAL, "rb") as file:
            return ZoneInfo.from_file(file, "local")
    except (OSError, ValueError):
        return timezone.utc
