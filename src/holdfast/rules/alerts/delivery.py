"""Which target gets which alert, when it is repeated, and how a failing target is retried. Pure.

The progress of a target is small and durable: the number of the last event it has dealt with, and
when it last got which alert. Times come in; nothing here knows a clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from holdfast.vocabulary.alerts import SEVERITIES, Alert, AlertCause, TargetSpec

MOST_REMEMBERED = 500
FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 300.0
PATIENCE_SECONDS = 300.0
"""A target that fails for so long becomes an alert itself."""
MOST_REFUSALS = 5
"""So often is one alert offered to a target that rejects this very message."""
MOST_BEHIND = 1000
"""A target that is further behind does not get the oldest alerts."""


class LastDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """When a target last got an alert."""

    alert: str
    at: float


class TargetProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a target, from which deliveries continue after a restart."""

    seq: int = 0
    """Alert events up to this one are dealt with."""
    told: dict[str, LastDelivery] = {}
    """By service, cause and subject."""
    delivered: int = 0
    skipped: int = 0
    failing_since: float | None = None
    failures: int = 0
    """Failed attempts in a row."""
    reason: str | None = None
    """Why the last attempt failed."""
    last_delivered_at: float | None = None
    is_reported: bool = False
    """Whether its failing was made an alert."""


def place_of(alert: Alert) -> str:
    """Return the key that a cooldown counts by."""
    return "\n".join((alert.service or "", alert.cause, alert.subject))


def is_meant(target: TargetSpec, alert: Alert, tags: Collection[str], template: str | None) -> bool:
    """Return whether a target gets this alert at all."""
    if alert.cause == AlertCause.DELIVERY.value and alert.subject == target.name:
        return False  # it cannot deliver the news of its own failing
    if SEVERITIES.index(alert.severity) < SEVERITIES.index(target.severity):
        return False
    if target.causes and alert.cause not in target.causes:
        return False
    if not target.services and not target.tags:
        return True
    if alert.service is None:
        return False
    names = {alert.service, template}
    return bool(names & set(target.services)) or bool(set(tags) & set(target.tags))


def is_told(target: TargetSpec, memory: TargetProgress, alert: Alert, now: float) -> bool:
    """Return whether this raising or clearing is delivered, after `is_meant`."""
    last = memory.told.get(place_of(alert))
    if alert.cleared_at is None or alert.cleared_at == alert.since:
        return last is None or last.alert == alert.id or now - last.at >= target.cooldown
    # A target that did not get the beginning need not get the end.
    return target.cleared and last is not None and last.alert == alert.id


def seconds_until(due: float, now: float, repeat: float) -> float:
    """Return the seconds left; 0 for a time too far away, because the clock was set back."""
    left = due - now
    return left if 0 < left <= repeat else 0.0


def reminder_at(target: TargetSpec, memory: TargetProgress, alert: Alert) -> float | None:
    """Return when an open alert is repeated; None: never."""
    last = memory.told.get(place_of(alert))
    if target.repeat <= 0 or last is None or last.alert != alert.id:
        return None
    return last.at + target.repeat


def after_success(memory: TargetProgress, alert: Alert, seq: int, now: float) -> TargetProgress:
    told = dict(memory.told)
    told.pop(place_of(alert), None)
    told[place_of(alert)] = LastDelivery(alert=alert.id, at=now)
    for old in list(told)[: max(0, len(told) - MOST_REMEMBERED)]:
        del told[old]
    return msgspec.structs.replace(
        memory,
        seq=max(seq, memory.seq),
        told=told,
        delivered=memory.delivered + 1,
        failing_since=None,
        failures=0,
        reason=None,
        last_delivered_at=now,
        is_reported=False,
    )


def after_failure(memory: TargetProgress, reason: str, now: float) -> TargetProgress:
    since = memory.failing_since if memory.failing_since is not None else now
    return msgspec.structs.replace(
        memory, failing_since=since, failures=memory.failures + 1, reason=reason
    )


def passed_over(memory: TargetProgress, seq: int, *, is_lost: bool = False) -> TargetProgress:
    """Return the progress after an event that is not delivered."""
    skipped = memory.skipped + int(is_lost)
    return msgspec.structs.replace(memory, seq=max(seq, memory.seq), skipped=skipped)


def is_failing_for_long(memory: TargetProgress, now: float) -> bool:
    return (
        not memory.is_reported
        and memory.failing_since is not None
        and now - memory.failing_since >= PATIENCE_SECONDS
    )


def retry_delay(failures: int, random: float) -> float:
    """Return an exponential delay with jitter; `random` is in [0, 1)."""
    delay = min(FIRST_DELAY_SECONDS * 2.0 ** min(max(0, failures - 1), 32), LONGEST_DELAY_SECONDS)
    return delay * (0.75 + random / 2)


def is_refusal(status: int) -> bool:
    """Return whether a status rejects this very message, so that the next one may pass."""
    return status in (400, 405, 406, 411, 413, 414, 415, 422, 431)


def first_seq(seqs: Collection[int]) -> int:
    """Return the first of these alert events that is still delivered to a target so far behind."""
    ordered = sorted(seqs)
    return ordered[max(0, len(ordered) - MOST_BEHIND)] if ordered else 0


def summary(memory: TargetProgress) -> Mapping[str, object]:
    """Return what people see of a target's deliveries."""
    return {
        "delivered": memory.delivered,
        "skipped": memory.skipped,
        "failures": memory.failures,
        "failing_since": memory.failing_since,
        "reason": memory.reason,
        "last_delivered_at": memory.last_delivered_at,
    }
