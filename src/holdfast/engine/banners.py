"""The part of the banners that has a memory: short notices, a rolling restart, dismissals.

Everything else that banners tell is asked of its owner at the moment it is shown. A notice is about
a success and leaves after seconds; failures are alerts. The keeper remembers what was put away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.own_log import logger
from holdfast.rules.banners import RollingProgress
from holdfast.vocabulary.banners import Banner
from holdfast.vocabulary.events import Event, EventKind

NOTICE_SECONDS = 10.0
SWITCH_SECONDS = 60.0
"""The longest that a supervisor is being replaced; after that the banner would be wrong."""
MOST_NOTICES = 20
MOST_DISMISSED = 200
_NAMED = 3
_log = logger("banners")


class BannerMemory:
    """Notices, and banners that were put away."""

    def __init__(self, keep: Callable[[str, str], None], clock: Callable[[], float]) -> None:
        self._keep = keep
        self._clock = clock
        self._notices: dict[str, Banner] = {}
        self._dismissed: dict[str, None] = {}
        self.rolling: RollingProgress | None = None

    def restore(self, kept: dict[str, str]) -> None:
        if (text := kept.get(keeper_memory.DISMISSED_BANNERS)) is not None:
            try:
                self._dismissed = dict.fromkeys(msgspec.json.decode(text, type=list[str]))
            except msgspec.MsgspecError as error:
                _log.warning("the banners that were put away are not understood: %s", error)

    @property
    def dismissed(self) -> frozenset[str]:
        return frozenset(self._dismissed)

    def dismiss(self, banner: str) -> None:
        if self._notices.pop(banner, None) is not None:
            return
        self._dismissed[banner] = None
        for oldest in list(self._dismissed)[:-MOST_DISMISSED]:
            del self._dismissed[oldest]
        text = msgspec.json.encode(list(self._dismissed)).decode()
        self._keep(keeper_memory.DISMISSED_BANNERS, text)

    def notices(self) -> list[Banner]:
        """Return the notices that still hold."""
        if self._notices:
            now = self._clock()
            self._notices = {
                name: notice
                for name, notice in self._notices.items()
                if notice.expires_at is msgspec.UNSET or notice.expires_at > now
            }
        return list(self._notices.values())

    def take(self, events: Iterable[Event]) -> None:
        """Follow the events."""
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        data = event.data
        match event.kind:
            case EventKind.MODE_SWITCHING:
                what = f"from {data.get('from')} to {data.get('to')}, by {data.get('by')}"
                self._add(event, "switch", "info", "Mode switching…", what, SWITCH_SECONDS)
            case EventKind.MODE_SWITCHED:
                title = f"The mode is {data.get('to')}"
                self._add(event, "switch", "success", title, f"it was {data.get('from')}")
            case EventKind.HOLDFAST_STOPPING:
                self._add(event, "restart", "warning", "Holdfast is stopping", "", SWITCH_SECONDS)
            case EventKind.HOLDFAST_UPGRADED:
                what = f"from {data.get('from')} to {data.get('to')}"
                self._add(event, "notice", "success", "Holdfast was upgraded", what)
            case EventKind.CONFIG_RELOADED:
                title = "The configuration was reloaded"
                self._add(event, "configuration", "success", title, _reloaded(data))
            case EventKind.WORKFLOW_FINISHED if data.get("outcome") == "done":
                self._add(event, "workflow", "success", f"{data.get('name')} is done")
            case EventKind.ROLLING_STEP:
                since = event.time if self.rolling is None else self.rolling.since
                step, steps = int(data.get("step") or 0), int(data.get("of") or 0)
                self.rolling = RollingProgress(event.service or "?", step, steps, since)
            case EventKind.ROLLING_FINISHED:
                self.rolling = None
                self._rolled(event)
            case _:
                pass

    def _rolled(self, event: Event) -> None:
        restarted, remaining = event.data.get("restarted") or [], event.data.get("remaining") or []
        if remaining:
            what = f"{event.data.get('reason')}; not restarted: {_names(remaining)}"
            self._add(event, "rolling", "error", "The rolling restart broke off", what, None)
        elif restarted:
            title = "The rolling restart is done"
            self._add(event, "rolling", "success", title, _names(restarted))

    def _add(
        self,
        event: Event,
        kind: Any,
        severity: Any,
        title: str,
        detail: str = "",
        seconds: float | None = NOTICE_SECONDS,
    ) -> None:
        """Add a notice for some seconds, or until somebody puts it away."""
        name = f"notice:{event.seq}"
        self._notices[name] = Banner(
            id=name,
            kind=kind,
            severity=severity,
            title=title,
            detail=detail,
            service=event.service,
            since=event.time,
            is_dismissible=severity in ("success", "error"),
            expires_at=msgspec.UNSET if seconds is None else event.time + seconds,
        )
        for oldest in list(self._notices)[:-MOST_NOTICES]:
            del self._notices[oldest]


def _names(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _reloaded(data: dict[str, Any]) -> str:
    parts = [
        f"{_names(data[what])} {what}"
        for what in ("added", "restarted", "changed", "removed")
        if data.get(what)
    ]
    return "; ".join(parts) or "nothing changed"
