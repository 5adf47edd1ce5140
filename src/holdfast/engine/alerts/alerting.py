"""Alerts, their deliveries, and the last good run of each service: built and restored together."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.adapters.store.state_store import StateStore
from holdfast.engine.alerts.alerts import SAVED_AS, OpenAlerts
from holdfast.engine.alerts.delivery import Deliveries, delivery_context
from holdfast.engine.alerts.good_runs import GoodRuns
from holdfast.engine.event_bus import EventBus
from holdfast.engine.roster import Roster
from holdfast.engine.runner.environment import RunnerEnvironment
from holdfast.engine.tasks import Tasks


class Alerting:
    """Holds the three."""

    def __init__(
        self,
        store: StateStore,
        bus: EventBus,
        tasks: Tasks,
        roster: Roster,
        environment: RunnerEnvironment,
        project: str,
    ) -> None:
        self.alerts = OpenAlerts(store, bus)
        self.deliveries = Deliveries(
            store, self.alerts, tasks, delivery_context(roster, environment, project)
        )
        self.good_runs = GoodRuns(environment)

    def restore(self, kept: Mapping[str, str], meta: Mapping[str, str], last_seq: int) -> None:
        """Restore all. Call it before this supervisor's first event, in the same turn."""
        self.alerts.restore(meta.get(SAVED_AS), last_seq)
        self.deliveries.restore(meta)
        self.good_runs.restore(kept)

    def start(self) -> None:
        self.alerts.start()
        self.deliveries.start()

    def close(self) -> None:
        self.deliveries.close()
        self.alerts.close()
