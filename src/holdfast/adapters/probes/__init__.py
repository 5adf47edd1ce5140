"""Ways to find out how a service is, one file an outside thing. Each answers a Finding."""

from __future__ import annotations

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """What one check found."""

    is_passed: bool
    reason: str
    """Why it failed, or what was seen. Holds no secret of the configuration."""
    seconds: float = 0.0
