"""Kill −9 of the supervisor while alerts come and go: none lost, none doubled, all delivered."""

from __future__ import annotations

import time
from typing import Any

from holdfast.rules.alerts import folding as rules
from holdfast.rules.alerts.folding import Key, applied
from holdfast.vocabulary.alerts import Alert
from holdfast.vocabulary.events import Event
from tests.harness import Hold, wait_for
from tests.scenarios.test_alerts import webhook

KILLS = 6
# Every second run lasts long enough to be stable: alerts are raised and cleared all the time.
FLAPPING = """
n=$$(cat count 2>/dev/null || echo 0); echo $$((n + 1)) > count
if [ $$((n % 2)) = 1 ]; then sleep 0.7; else sleep 0.15; fi
exit 1
"""


def test_alerts_through_deaths() -> None:
    """The stored alerts are exactly those of the stored events, and each was delivered."""
    with webhook() as hook, Hold() as hold:
        services = {}
        for name in ("a", "b", "c"):
            (hold.project / name).mkdir()
            restart = {"delay": "20ms", "reset_after": "300ms", "max_restarts": "unlimited"}
            services[name] = {
                "command": ["sh", "-c", FLAPPING], "working_dir": name, "start_seconds": 0.1,
                "restart": restart,
            }  # fmt: skip
        hold.write({"services": services, "alerts": [{"webhook": hook.url, "severity": "info"}]})
        hold.up(expect=None)
        for _ in range(KILLS):
            time.sleep(0.4)
            hold.kill_supervisor()
        hold.cli("stop")
        wait_for(lambda: not hold.ask("alerts")["alerts"])

        def stored() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
            events = hold.ask("events", since=0, limit=10_000)["events"]
            alerts = [it for it in events if it["kind"].startswith("alert:")]
            return [(it["kind"], it["data"]["id"]) for it in alerts], _folded(events)

        # The last ones are cleared at once, and stored a moment later.
        wait_for(lambda: len(stored()[0]) >= len(stored()[1]))
        told, folded = stored()
        assert told == folded
        assert len(told) >= len(services)
        wanted = {(kind.removeprefix("alert:"), alert) for kind, alert in told}
        wait_for(lambda: {(it["event"], it["alert"]["id"]) for it in hook.got} == wanted)


def _folded(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What the rules make of these events, in order."""
    state: dict[Key, Alert] = {}
    found = []
    for fields in events:
        changes = rules.fold(state, Event(**fields))
        state = applied(state, changes)
        found += [(f"alert:{it.what}", it.alert.id) for it in changes if it.what != "repeated"]
    return found
