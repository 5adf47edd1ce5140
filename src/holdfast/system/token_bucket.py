"""A token bucket: it limits how often something may happen, and allows short bursts.

Owns no clock and no limits. The caller passes both, because limits may change while a bucket
exists. Standard library only.
"""

from __future__ import annotations


class TokenBucket:
    """A bucket that is full at first. It gains `rate` tokens a second, up to `burst`."""

    __slots__ = ("_at", "_left")

    def __init__(self, burst: float, now: float) -> None:
        self._left = max(1.0, burst)
        self._at = now

    def take(self, rate: float, burst: float, now: float) -> float:
        """Take one token and return 0, or return the seconds until there is one.

        A refusal takes nothing: a caller that asks too often does not wait longer for it.
        """
        self._left = self._filled(rate, burst, now)
        self._at = now
        if self._left >= 1.0:
            self._left -= 1.0
            return 0.0
        return (1.0 - self._left) / rate

    def is_full(self, rate: float, burst: float, now: float) -> bool:
        """Return whether a new bucket would be the same, so that this one can be dropped."""
        return self._left + (now - self._at) * rate >= burst

    def _filled(self, rate: float, burst: float, now: float) -> float:
        # A clock that stands still or goes back fills nothing.
        return min(max(1.0, burst), self._left + max(0.0, now - self._at) * rate)
