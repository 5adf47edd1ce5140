"""The anchor of the audit: further places for the head of its chain."""

from __future__ import annotations

import msgspec


class AnchorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Places that somebody who can change the audit should not be able to change as well."""

    file: str | None = None
    """A file that heads are appended to."""
    syslog: bool = False
    url: str | None = None
    """An address that gets each head by POST."""
    every: float = 60.0
    """Seconds between two heads, while there are new records."""

    @property
    def is_empty(self) -> bool:
        return self.file is None and not self.syslog and self.url is None
