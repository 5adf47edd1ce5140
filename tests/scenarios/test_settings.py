"""Settings for everything at once: where the own log lies, what services may use, where they run,
and how often their process is looked at."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from tests.harness import Hold, is_alive, kill_9, quick, wait_for


def test_the_own_log_lies_where_the_configuration_says(hold: Hold) -> None:
    """From then on, over the death of a supervisor, a reload that moves it back, and a place that
    cannot be written; the state folder has a link to it."""
    wanted = hold.folder / "var" / "log" / "supervisor.log"
    hold.write({"log_file": str(wanted), "services": {"web": quick()}})
    hold.up()
    usual = hold.state / "holdfast.log"
    hold.cli("restart", "web")
    wait_for(lambda: "service:requested" in wanted.read_text())
    assert usual.is_symlink()
    assert Path(os.path.realpath(usual)) == wanted.resolve()
    assert oct(wanted.stat().st_mode & 0o777) == "0o600"
    supervisor = hold.supervisor_pid
    kill_9(supervisor)
    wait_for(lambda: hold.supervisor_pid != supervisor)
    hold.cli("stop", "web")
    wait_for(lambda: "request=stop" in wanted.read_text())
    hold.write({"log_file": "/proc/no/such.log", "services": {"web": quick()}})
    hold.cli("reload")
    wait_for(lambda: "cannot be written" in wanted.read_text())
    hold.write({"services": {"web": quick()}})
    hold.cli("reload")
    assert not usual.is_symlink()
    before = wanted.read_text()
    hold.cli("start", "web")
    wait_for(lambda: "service:requested" in usual.read_text())
    assert wanted.read_text() == before


def test_a_memory_limit_for_all(hold: Hold) -> None:
    """`resources: {memory_limit: …}` holds for each service that says nothing of its own."""
    hungry = ["python3", "-c", "x = bytearray(200_000_000); import time; time.sleep(1000)"]
    hold.write(
        {
            "resources": {"memory_limit": {"size": "64MB", "action": "warn"}},
            "monitoring_interval": "1s",
            "services": {
                "hungry": quick(hungry),
                "free": quick(hungry, memory_limit={"size": "1GB", "action": "warn"}),
            },
        }
    )
    hold.up()

    def reached() -> list[str]:
        found = hold.ask("events", limit=1000)["events"]
        return [one["service"] for one in found if one["kind"] == "limit:reached"]

    wait_for(reached, 60)
    assert set(reached()) == {"hungry"}


def test_the_folder_of_operations(hold: Hold) -> None:
    """`SUPERVISOR_WORKING_DIR` is where services run that say nothing, also without a target."""
    for name in ("there", "own"):
        (hold.project / name).mkdir()
    tell = ["sh", "-c", "basename $PWD; exec sleep 1000"]
    hold.services(web=quick(tell), other=quick(tell, working_dir="own"))
    hold.up(environ={"SUPERVISOR_WORKING_DIR": "there"})
    wait_for(lambda: hold.raw("web") == b"there\n" and hold.raw("other") == b"own\n")


def test_an_interval_without_an_address_watches_the_process(hold: Hold) -> None:
    """`health_check_interval: 1` shows the service healthy, and says what was looked at."""
    hold.services(web=quick(health_check_interval=1))
    hold.up()
    wait_for(lambda: hold.service("web").get("health") == "healthy")
    told = json.loads(hold.cli("health", "--json").stdout)["services"]["web"]
    looked = [check for check in told["checks"] if check["probe"] == "health_check"]
    assert [(one["check"], one["passed"]) for one in looked] == [("process", True)]
    pid = hold.service("web")["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(pid))
