"""The examples of the guides on dependencies and instances really run."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.harness import Hold, wait_for

ROOT = Path(__file__).parents[2]


def use(hold: Hold, name: str) -> None:
    source = ROOT / "examples" / name / "holdfast.yaml"
    guide = (ROOT / "docs" / "guides" / f"{name}.md").read_text()
    services = source.read_text().partition("\n")[2]
    assert services in guide, "the guide shows the example as it is"
    shutil.copy(source, hold.project)


def test_dependencies(hold: Hold) -> None:
    """The shop comes up in its order."""
    use(hold, "dependencies")
    hold.up()
    events = hold.ask("events", limit=500)["events"]
    begun = [it["service"] for it in events if it["kind"] == "process:started"]
    assert begun == ["db", "migrate", "api", "web"]


def test_instances(hold: Hold) -> None:
    """Three workers, a server that is relieved, and one that needs all workers."""
    use(hold, "instances")
    hold.up()
    before = hold.service("web")
    assert len(hold.status()["services"]) == 5
    assert hold.json("rolling-restart", "web")["services"]["web"]["outcome"] == "restarted"
    wait_for(lambda: "beside" not in hold.service("web"))
    assert hold.service("web")["run"] == before["run"] + 1
