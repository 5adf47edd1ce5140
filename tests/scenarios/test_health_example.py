"""The example of readiness and health does what its comments say."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from urllib.request import urlopen

from tests.harness import Hold, wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "health"


def test_the_example() -> None:
    """Everything becomes ready; a broken web server is restarted; a silent port only reported."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    with Hold(HEALTH_PORT=str(port)) as hold:
        shutil.copytree(EXAMPLE, hold.project, dirs_exist_ok=True)
        (hold.project / "started").unlink(missing_ok=True)
        hold.up()
        services = hold.status()["services"]
        assert {name: it.get("ready") for name, it in services.items()} == {
            "web": True,
            "cache": True,
            "worker": True,
            "batch": None,
        }
        assert services["batch"]["status"] == "running"
        wait_for(lambda: "jobs done" in hold.service("worker").get("said", ""), what="a status")
        urlopen(f"http://127.0.0.1:{port}/break", timeout=30).close()
        wait_for(lambda: hold.service("web")["run"] == 2, what="a restart")
        wait_for(lambda: hold.service("web").get("health") == "healthy", what="health")
        wait_for(lambda: hold.service("cache").get("health") == "unhealthy", what="a report")
        assert {name: hold.service(name)["run"] for name in ("cache", "worker", "batch")} == {
            "cache": 1,
            "worker": 1,
            "batch": 1,
        }
