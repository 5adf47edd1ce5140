"""Ways to check the health of a service, one file for each outside thing.

Each returns a Finding.
"""

from __future__ import annotations

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """What one check found."""

    is_passed: bool
    reason: str
    """Why it failed, or what was seen. Holds no secret of the configuration."""
    seconds: float = 0.0
