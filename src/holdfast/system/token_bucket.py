"""How many requests an actor may make: a bucket that fills with time. Pure."""

from __future__ import annotations

import msgspec

from holdfast.vocabulary.specs.policies import RateLimit


class Bucket(msgspec.Struct, frozen=True):
    """How many requests were left, and when."""

    left: float
    at: float


def take(bucket: Bucket | None, limit: RateLimit, now: float) -> tuple[Bucket, float]:
    """The bucket after one more request, and how long who asked has to wait; 0: may pass.

    Who has to wait takes nothing: asking too often makes nobody wait for longer.
    """
    burst, rate = float(max(1, limit.burst)), limit.requests_per_second
    left = burst
    if bucket is not None:
        # A clock that stands still or goes back fills nothing.
        left = min(burst, bucket.left + max(0.0, now - bucket.at) * rate)
    if left >= 1.0:
        return Bucket(left - 1.0, now), 0.0
    return Bucket(left, now), (1.0 - left) / rate


def is_full(bucket: Bucket, limit: RateLimit, now: float) -> bool:
    """Whether it is as if nobody had asked."""
    return bucket.left + (now - bucket.at) * limit.requests_per_second >= limit.burst
