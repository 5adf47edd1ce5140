"""Random edits of a configuration: only what the plan says gets another process, and once."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.harness import Hold, wait_for

KEYS: dict[str, list[Any]] = {
    "args": [["1000"], ["2000"]],
    "env": [{}, {"A": "1"}, {"A": "2", "B": "1"}],
    "umask": ["022", "077"],
    "restart_policy": ["always", "never"],
    "stop": [{"grace": "2s"}, {"signal": "INT", "grace": "2s"}, {"grace": 2}],
    "log": [{"total_size": "1MiB"}, {"total_size": "2MiB"}],
    "start_seconds": [0, "0s"],
    "essential": [False],
}
service = st.fixed_dictionaries(
    {"args": st.sampled_from(KEYS["args"])},
    optional={name: st.sampled_from(values) for name, values in KEYS.items() if name != "args"},
)
Drawn = dict[str, tuple[dict[str, Any], dict[str, Any]]]
"""Services, and what they need."""
edge = st.fixed_dictionaries(
    {
        "condition": st.sampled_from(["started", "ready"]),
        "restart": st.sampled_from([True, True, False]),
    }
)
edges = st.dictionaries(st.sampled_from("abc"), edge, max_size=3)
configuration = st.dictionaries(st.sampled_from("abcd"), st.tuples(service, edges), max_size=4)
history = st.lists(configuration, min_size=1, max_size=4)


def written(drawn: Drawn) -> dict[str, Any]:
    """Services that need others which are declared, too, and stand before them."""
    return {
        name: {
            "command": "sleep",
            "start_seconds": 0,
            "depends_on": {it: how for it, how in needs.items() if it in drawn and it < name},
            **keys,
        }
        for name, (keys, needs) in drawn.items()
    }


def runs(hold: Hold) -> dict[str, tuple[int | None, int | None]]:
    return {name: (it["pid"], it["run"]) for name, it in hold.status()["services"].items()}


def test_only_what_the_plan_says_changes() -> None:
    """Whatever was edited: the plan is carried out, nothing else, and is empty afterwards."""
    with Hold() as hold:
        hold.services()
        hold.up()

        @settings(
            max_examples=60,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(history)
        def edits(versions: list[Drawn]) -> None:
            for drawn in versions:
                hold.write({"services": written(drawn)})
                before = runs(hold)
                plan = hold.ask("plan")
                assert runs(hold) == before, "a plan changes nothing"
                done = hold.ask("reload")
                assert done["plan"] == plan["services"]
                after = runs(hold)
                assert set(after) == set(drawn)
                for name, step in plan["services"].items():
                    if step["action"] == "remove":
                        assert name not in after
                    elif step["action"] == "add":
                        assert name not in before
                        assert after[name][0] is not None
                    elif step["action"] == "restart" or step["follows"]:
                        assert after[name][0] not in (None, before[name][0]), name
                        assert after[name][1] == (before[name][1] or 0) + 1, (name, "once")
                    else:
                        assert after[name] == before[name], (name, step)
                assert hold.ask("plan")["changes"] is False
                assert hold.ask("reload")["changes"] is False
                assert runs(hold) == after, "a reload without a change restarts nothing"

        edits()
        hold.services()
        hold.ask("reload")
        wait_for(lambda: not hold.status()["services"])
