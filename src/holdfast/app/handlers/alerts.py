"""The handler of `alerts`: open alerts, past alerts, and the targets that they are sent to."""

from __future__ import annotations

from holdfast.adapters.store.state_store import SHORT_SECONDS
from holdfast.app.context import Context
from holdfast.app.registry import handles
from holdfast.engine.alerts.alerts import ALERT_KINDS, alert_of
from holdfast.engine.alerts.delivery import TargetDelivery
from holdfast.rules.alerts.delivery import summary
from holdfast.vocabulary.alerts import SEVERITIES, Alert, Alerts, AlertsResult, TargetStatus

_MOST = 1000


@handles(Alerts)
async def alerts(context: Context, command: Alerts) -> AlertsResult:
    wanted = set(context.roster.names(command.services)) if command.services else None
    found = [
        alert
        for alert in context.alerting.alerts.open.values()
        if wanted is None or alert.service in wanted
    ]
    found.sort(key=lambda alert: (-SEVERITIES.index(alert.severity), alert.since))
    if command.history:
        found += await _over(context, command, wanted, {alert.id for alert in found})
    targets = [_status(target) for target in context.alerting.deliveries.targets.values()]
    return AlertsResult(alerts=found, targets=targets)


async def _over(
    context: Context, command: Alerts, wanted: set[str] | None, is_open: set[str]
) -> list[Alert]:
    """Return the alerts that are over, the newest first."""
    limit = max(1, min(command.limit, _MOST))
    services = sorted(wanted) if wanted is not None else []
    await context.store.written(SHORT_SECONDS)
    events = await context.store.newest_events_of(ALERT_KINDS, services, 2 * limit)
    found: dict[str, Alert] = {}
    for event in reversed(events):
        alert = alert_of(event)
        if alert.cleared_at is not None and alert.id not in is_open:
            found.setdefault(alert.id, alert)
    return list(found.values())[:limit]


def _status(target: TargetDelivery) -> TargetStatus:
    spec = target.spec
    way = "webhook" if spec.webhook else "desktop" if spec.desktop else "command"
    return TargetStatus(
        name=spec.name,
        way=way,
        severity=spec.severity,
        **summary(target.memory),  # type: ignore[arg-type]
    )
