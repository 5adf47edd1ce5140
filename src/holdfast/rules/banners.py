"""Which banners there are, in which words and in which order. Pure.

A banner is made of facts that other parts know, so it is true for as long as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.vocabulary.alerts import Alert, AlertCause
from holdfast.vocabulary.authority import LockdownInfo
from holdfast.vocabulary.banners import (
    Banner,
    BannerAction,
    BannerKind,
    BannerProgress,
    BannerSeverity,
)
from holdfast.vocabulary.workflows import UnderWay

MOST_FAILURES = 5
"""Failures with a banner of their own; the rest is counted."""
EDITED = "edited"
LOOP_COUNT = 3
"""So many crashes are a loop."""
_ORDER: tuple[BannerKind, ...] = (
    *("lockdown", "switch", "restart", "approval", "failure", "history", "resource"),
    *("rolling", "workflow", "configuration", "notice"),
)
_TITLES: dict[str, str] = {
    AlertCause.UNHEALTHY.value: "{name} is unhealthy",
    AlertCause.CRASH.value: "{name} keeps crashing",
    AlertCause.START_FAILURE.value: "{name} does not start",
    AlertCause.SUPPRESSED.value: "{name} failed too often",
    AlertCause.LIMIT.value: "{name} reached a limit",
    AlertCause.UNKILLABLE.value: "{name} does not end",
    AlertCause.WORKFLOW.value: "A workflow failed",
    AlertCause.DOOR.value: "A door is closed",
    AlertCause.KEEPER.value: "The keeper was replaced",
    AlertCause.HISTORY.value: "The history was begun anew",
    AlertCause.DELIVERY.value: "Alerts do not arrive",
}
_REPEATING = (AlertCause.CRASH.value, AlertCause.START_FAILURE.value)
_SEVERITIES: dict[str, BannerSeverity] = {
    "critical": "error",
    "warning": "warning",
    "info": "info",
}


class RollingProgress(msgspec.Struct, frozen=True):
    """A rolling restart that is under way."""

    service: str
    step: int
    steps: int
    since: float


class BannerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the banners are made of."""

    now: float
    lockdown: LockdownInfo | None = None
    approvals: int = 0
    alerts: Sequence[Alert] = ()
    under_way: Sequence[UnderWay] = ()
    rolling: RollingProgress | None = None
    edited: Sequence[str] = ()
    """Files of the configuration that differ from what was loaded."""
    outdated: Sequence[str] = ()
    """Services whose process was started with an older declaration."""
    unrecorded: str | None = None
    unclaimed: Sequence[dict[str, Any]] = ()
    notices: Sequence[Banner] = ()
    dismissed: frozenset[str] = frozenset()


def banners(facts: BannerFacts) -> list[Banner]:
    """Return the banners of this moment, the most urgent first."""
    found = [*_of_all(facts), *_failures(facts.alerts, facts.dismissed)]
    found += [_workflow(one, facts.now) for one in facts.under_way]
    if facts.rolling is not None:
        found.append(_rolling(facts.rolling))
    found += facts.notices
    shown = [one for one in found if not (one.is_dismissible and one.id in facts.dismissed)]
    return sorted(shown, key=_urgency)


def _urgency(banner: Banner) -> tuple[int, bool]:
    return _ORDER.index(banner.kind), banner.severity != "error"


def _of_all(facts: BannerFacts) -> list[Banner]:
    found = []
    if (lockdown := facts.lockdown) is not None:
        found.append(
            Banner(
                id="lockdown",
                kind="lockdown",
                severity="error",
                title="LOCKED DOWN",
                detail=f"{lockdown.reason}, by {lockdown.by}",
                since=lockdown.since,
                actions=[BannerAction(label="Unlock", command="unlock")],
                hint="holdfast unlock",
            )
        )
    if count := facts.approvals:
        found.append(
            Banner(
                id="approvals",
                kind="approval",
                severity="warning",
                title=f"{count} command{'s wait' if count > 1 else ' waits'} for approval",
                hint="holdfast approvals",
            )
        )
    if facts.unrecorded:
        found.append(
            Banner(
                id="unrecorded",
                kind="history",
                severity="error",
                title="History cannot be written",
                detail=facts.unrecorded,
                hint="holdfast doctor",
            )
        )
    if facts.unclaimed:
        found.append(_unclaimed(facts.unclaimed))
    if facts.edited:
        found.append(_edited(facts.edited))
    if facts.outdated:
        found.append(_outdated(facts.outdated))
    return found


def _unclaimed(processes: Sequence[dict[str, Any]]) -> Banner:
    listed = ", ".join(f"{one.get('name', '?')} ({one.get('pid')})" for one in processes[:3])
    more = f" and {len(processes) - 3} more" if len(processes) > 3 else ""
    plural = "es belong" if len(processes) > 1 else " belongs"
    return Banner(
        id="unclaimed",
        kind="resource",
        severity="warning",
        title=f"{len(processes)} process{plural} to no service",
        detail=listed + more,
        hint="holdfast down",
    )


def _edited(files: Sequence[str]) -> Banner:
    plural = "were" if len(files) > 1 else "was"
    return Banner(
        id=EDITED,
        kind="configuration",
        severity="info",
        title=f"{', '.join(files)} {plural} edited after loading",
        hint="`holdfast plan` shows what differs, `holdfast reload` applies it",
    )


def _outdated(names: Sequence[str]) -> Banner:
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return Banner(
        id=f"outdated:{','.join(sorted(names))}"[:200],
        kind="configuration",
        severity="info",
        title=f"{listed} still run{'s' if len(names) == 1 else ''} with the old configuration",
        detail="a restart applies the new one",
        service=names[0] if len(names) == 1 else None,
        actions=[
            BannerAction(label="Restart", command="restart", arguments={"services": list(names)})
        ],
        hint=f"holdfast restart {' '.join(names) if len(names) <= 3 else 'NAME…'}",
        is_dismissible=True,
    )


def _failures(alerts: Sequence[Alert], dismissed: frozenset[str]) -> list[Banner]:
    """Return a banner for each alert that somebody should act on, and one that counts the rest."""
    serious = [alert for alert in alerts if _is_serious(alert) and _id_of(alert) not in dismissed]
    order = {"critical": 0, "warning": 1}
    serious.sort(key=lambda alert: (order.get(alert.severity, 2), -alert.last_at))
    found = [_failure(alert) for alert in serious[:MOST_FAILURES]]
    if more := len(serious) - len(found):
        found.append(
            Banner(
                id="failures",
                kind="failure",
                severity="warning",
                title=f"{more} more open alert{'s' if more > 1 else ''}",
                hint="holdfast alerts",
            )
        )
    return found


def _is_serious(alert: Alert) -> bool:
    if alert.cause in _REPEATING:
        return alert.count >= LOOP_COUNT
    return alert.cause in _TITLES or alert.severity == "critical"


def _id_of(alert: Alert) -> str:
    # A further crash of the same loop is no news; a loop that began anew has another id.
    return f"alert:{alert.id}"


def _failure(alert: Alert) -> Banner:
    name = alert.service or "Holdfast"
    title = _TITLES.get(alert.cause, "{name} is in trouble").format(name=name)
    times = f", {alert.count} times" if alert.count > 1 else ""
    hint = f"holdfast explain {alert.service}" if alert.service else "holdfast alerts"
    return Banner(
        id=_id_of(alert),
        kind="resource" if alert.cause == AlertCause.LIMIT.value else "failure",
        severity=_SEVERITIES.get(alert.severity, "warning"),
        title=title,
        detail=_after(alert.message, name) + times,
        service=alert.service,
        since=alert.since,
        hint=hint,
        is_dismissible=True,
    )


def _workflow(one: UnderWay, now: float) -> Banner:
    return Banner(
        id=one.id,
        kind="workflow",
        severity="info",
        title=f"{one.name} of {one.service}" if one.service else one.name,
        detail=f"by {one.by}",
        service=one.service,
        since=now - one.seconds,
        progress=BannerProgress(step=one.step, steps=one.steps, what=one.what),
        actions=[
            BannerAction(label="Cancel", command="cancel_workflow", arguments={"workflow": one.id})
        ],
        hint=f"holdfast workflow --cancel {one.id}",
    )


def _rolling(one: RollingProgress) -> Banner:
    return Banner(
        id="rolling",
        kind="rolling",
        severity="info",
        title="Rolling restart",
        since=one.since,
        progress=BannerProgress(step=one.step, steps=one.steps, what=f"restarting {one.service}"),
    )


def _after(message: str, name: str) -> str:
    """Return a message about a service without the part that the title says already."""
    begin, _, rest = message.partition(": ")
    return rest if rest and begin.startswith(name) else message
