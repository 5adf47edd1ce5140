"""The runtime mode, and the services that it loads.

`proxy` is the core; `advanced` adds what an organisation wants. A supervisor learns its mode from
its environment, into which the keeper puts what it was asked to remember. A mode set by hand takes
effect with the next supervisor; one from a configuration, at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.adapters import keeper_memory
from holdfast.adapters.own_log import logger
from holdfast.engine.authority.security_counters import SecurityCounters
from holdfast.engine.runner.environment import HistoryRecorder, KeeperApi
from holdfast.rules.authority import modes as rules
from holdfast.vocabulary.authority import ModeResult
from holdfast.vocabulary.events import EventKind
from holdfast.vocabulary.specs.policies import MODE_VARIABLES, MODES, FilterSpec, Mode, PolicySpec
from holdfast.vocabulary.specs.settings import Settings

BANNER = "Mode switching..."
SWITCH_SECONDS = 0.1
"""Clients read the announcement before their connection is closed."""
CORE = (
    *("process_supervision", "health_monitoring", "metrics", "alerts"),
    *("roles", "allowlists", "redaction", "audit"),
)
REGISTRY = ("registry", "tool_discovery")
"""What is loaded where other MCP servers are configured."""
BY_DOOR = {"tcp": "tcp_control", "http": "web_dashboard"}
ADVANCED = (
    *("security_policies", "approvals", "request_filtering"),
    *("emergency_lockdown", "security_metrics"),
)

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import Reply, SuperviseRequest
_log = logger("modes")


class AdvancedServices:
    """What only mode `advanced` has."""

    names = ADVANCED

    def __init__(self, counters: SecurityCounters) -> None:
        self.policies: tuple[PolicySpec, ...] = ()
        self.filters = FilterSpec()
        self.counters = counters

    def use(self, settings: Settings) -> None:
        self.policies = settings.policies
        self.filters = settings.filters or FilterSpec()


class ServiceContainer:
    """The services of one mode."""

    def __init__(self, mode: Mode, doors: Mapping[str, str], counters: SecurityCounters) -> None:
        self.runtime_mode = mode
        self._doors = doors
        self.has_registry = False
        self.advanced_services = AdvancedServices(counters) if mode == "advanced" else None

    @property
    def proxy_services(self) -> list[str]:
        registry = REGISTRY if self.has_registry else ()
        return [*registry, *CORE, *(name for door, name in BY_DOOR.items() if door in self._doors)]

    @property
    def service_count(self) -> int:
        own = self.advanced_services
        return len(self.proxy_services) + (len(own.names) if own is not None else 0)

    def describe(self, **more: Any) -> ModeResult:
        own = self.advanced_services
        return ModeResult(
            runtime_mode=self.runtime_mode,
            proxy_services=self.proxy_services,
            advanced_services=list(own.names) if own is not None else None,
            service_count=self.service_count,
            **more,
        )


class Modes:
    """The mode in force, and how it changes."""

    def __init__(
        self,
        keeper: KeeperApi,
        recorder: HistoryRecorder,
        environ: Mapping[str, str],
        doors: Mapping[str, str],
    ) -> None:
        self._keeper = keeper
        self._recorder = recorder
        self._doors = doors
        self._settings = Settings()
        self.counters = SecurityCounters()
        found = next((environ[name] for name in MODE_VARIABLES if environ.get(name) in MODES), None)
        mode: Mode = "advanced" if found == "advanced" else "proxy"
        self.container = ServiceContainer(mode, doors, self.counters)
        self.on_changed: Callable[[], None] = lambda: None
        """Called when the configuration has changed the mode of this very supervisor."""

    @property
    def now(self) -> Mode:
        return self.container.runtime_mode

    def restore(self, kept: dict[str, str]) -> None:
        """Record the switch if this supervisor was started for another mode."""
        before = kept.get(keeper_memory.MODE_FROM)
        if before is not None:
            self._keeper.keep(keeper_memory.MODE_FROM, None)
            self._recorder.event(EventKind.MODE_SWITCHED, **{"from": before, "to": self.now})

    def on_settings(self, settings: Settings) -> None:
        self._settings = settings
        wanted = rules.effective(
            by_hand=self._by_hand(),
            configured=settings.runtime_mode or self.now,
            needs_advanced=bool(settings.policies or settings.filters),
        )
        if wanted != self.now:
            self._recorder.event(EventKind.MODE_SWITCHED, **{"from": self.now, "to": wanted})
            self.container = ServiceContainer(wanted, self._doors, self.counters)
            self._remember(wanted)
            self.on_changed()
        self.container.has_registry = bool(settings.mcp_servers)
        if self.container.advanced_services is not None:
            self.container.advanced_services.use(settings)

    def count_decision(self, state: str) -> None:
        """Count how an approval ended."""
        if self.container.advanced_services is not None:
            self.container.advanced_services.counters.decided(state)

    def why_not(self, mode: Mode) -> str | None:
        """Return why a mode cannot be set: it would ignore configured restrictions."""
        settings = self._settings
        if mode == "proxy" and (settings.policies or settings.filters):
            what = "policies" if settings.policies else "security.filters"
            return f"the configuration has {what}, which only mode advanced heeds"
        return None

    def switch(self, mode: Mode, by: str, restarts: Sequence[str] = ()) -> Callable[[], None]:
        """Announce the switch, and which services it restarts; return the function that replaces
        the supervisor."""
        before = self.now
        facts: dict[str, Any] = {"from": before, "to": mode, "by": by}
        if restarts:
            facts["services"] = list(restarts)
        self._recorder.event(EventKind.MODE_SWITCHING, message=BANNER, **facts)
        self._keeper.keep(keeper_memory.MODE_BY_HAND, mode)
        self._keeper.keep(keeper_memory.MODE_FROM, before)
        self._remember(mode)
        return self._relaunch

    def _remember(self, mode: Mode) -> None:
        self._keeper.keep(
            keeper_memory.SUPERVISOR_ENVIRONMENT, json.dumps(dict.fromkeys(MODE_VARIABLES, mode))
        )

    def _relaunch(self) -> None:
        request: SuperviseRequest = {"do": "supervise", "on": True, "again": True}
        self._keeper.request(request, _log_refusal)

    def _by_hand(self) -> Mode | None:
        kept = self._keeper.kept.get(keeper_memory.MODE_BY_HAND)
        return next((mode for mode in MODES if mode == kept), None)


def _log_refusal(reply: Reply) -> None:
    if not reply.get("ok"):
        _log.error("the keeper would not replace the supervisor: %s", reply.get("error"))
