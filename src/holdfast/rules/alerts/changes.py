"""What happens to alerts, as values: raised, repeated, cleared; and the alerts that are open.

Pure. `alerts` says which event does what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from holdfast.vocabulary.alerts import Alert, AlertCause, Severity
from holdfast.vocabulary.events import Event

Key = tuple[str | None, str, str]
"""Service, cause and subject: at most one alert of these is open."""
Open = Mapping[Key, Alert]


class Change(NamedTuple):
    """What an event does to one alert. `told` is raised and over at once."""

    what: Literal["raised", "repeated", "cleared", "told"]
    alert: Alert


def key_of(alert: Alert) -> Key:
    return (alert.service, alert.cause, alert.subject)


def applied(alerts: Open, changes: Iterable[Change]) -> dict[Key, Alert]:
    """The alerts that are open after these changes."""
    result = dict(alerts)
    for what, alert in changes:
        if what == "cleared":
            result.pop(key_of(alert), None)
        elif what != "told":
            result[key_of(alert)] = alert
    return result


def raise_(
    alerts: Open,
    event: Event,
    cause: AlertCause,
    severity: Severity,
    message: str,
    *,
    subject: str = "",
    told: bool = False,
    counts: bool = True,
    times: int = 1,
) -> list[Change]:
    known = alerts.get((event.service, cause.value, subject))
    if known is None:
        alert = Alert(
            id=f"alert-{event.seq}",
            service=event.service,
            cause=cause.value,
            severity=severity,
            message=message,
            since=event.time,
            last_at=event.time,
            subject=subject,
            run_id=event.run_id,
            count=times,
            cleared_at=event.time if told else None,
        )
        return [Change("told" if told else "raised", alert)]
    again = msgspec.structs.replace(
        known,
        message=message,
        last_at=event.time,
        count=known.count + times if counts else known.count,
        run_id=event.run_id or known.run_id,
    )
    return [Change("repeated", again)] if again != known else []


def clear(
    alerts: Open,
    event: Event,
    because: str,
    is_meant: Callable[[Alert], bool],
    *,
    times: int = 0,
) -> list[Change]:
    """End alerts; `times` is how often more they were repeated until now."""
    return [
        Change(
            "cleared",
            msgspec.structs.replace(
                alert,
                count=alert.count + times,
                cleared_at=event.time,
                cleared_because=because,
            ),
        )
        for alert in alerts.values()
        if is_meant(alert)
    ]


def clear_causes(
    alerts: Open, event: Event, because: str, causes: Iterable[AlertCause]
) -> list[Change]:
    if not alerts:
        return []
    names = {cause.value for cause in causes}
    return clear(
        alerts, event, because, lambda it: it.service == event.service and it.cause in names
    )


def word(value: Any) -> str:
    """A fact of an event as text; what is missing is empty."""
    return "" if value is None or isinstance(value, bool) else str(value)
