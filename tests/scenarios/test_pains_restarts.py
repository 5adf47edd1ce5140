"""Pains of users whose services were restarted too little, too much, or never again."""

from __future__ import annotations

from tests.harness import Hold, kill_9, wait_for

QUICK = {"delay": 20, "max_delay": 40, "jitter": 0}


def test_a_long_outage_of_a_database_heals_by_itself(hold: Hold) -> None:
    """The database is away for a while, and everything that needs it is given up for good."""
    flag = hold.folder / "database"
    hold.services(
        crashes={
            "command": ["sh", "-c", f"sleep 0.1; test -e {flag} && exec sleep 300; exit 1"],
            "start_seconds": 0.05,
            "restart": {**QUICK, "max_restarts": "unlimited"},
        },
        refuses={
            "command": ["sh", "-c", f"test -e {flag} && exec sleep 300; exit 1"],
            "start_seconds": 0.2,
            "start_retries": 1000,
            "restart": {**QUICK, "max_restarts": "unlimited"},
        },
    )
    hold.up(expect=None)
    for name in ("crashes", "refuses"):
        wait_for(lambda name=name: (hold.service(name)["run"] or 0) > 5, 40, f"{name} to go on")
        assert hold.service(name)["status"] != "failed"
    flag.touch()
    for name in ("crashes", "refuses"):
        run = hold.wait_status(name, "running")["run"]
        wait_for(lambda name=name: (hold.service(name)["uptime"] or 0) > 0.5)
        assert hold.service(name)["run"] in (run, run + 1)


def test_a_limit_holds_however_soon_it_dies(hold: Hold) -> None:
    """With no time to start up, the limit of retries never trips, and it is tried for ever."""
    hold.services(
        web={
            "command": ["sh", "-c", "exit 7"],
            "start_seconds": 0,
            "restart": {**QUICK, "max_restarts": 2},
        }
    )
    hold.up(expect=None)
    failed = hold.wait_status("web", "failed")
    assert (failed["run"], failed["exit_code"], failed["restart_count"]) == (3, 7, 2)
    assert "max_restarts 2" in failed["reason"]


def test_a_rare_crash_waits_the_first_delay(hold: Hold) -> None:
    """A crash a month waits the longest delay, because the back-off is never reset."""
    hold.services(
        web={
            "command": ["sleep", "300"],
            "start_seconds": 0.05,
            "restart": {"delay": 10, "max_delay": 100_000, "backoff": 100, "jitter": 0,
                        "max_restarts": 3, "reset_after": 300},
        }
    )  # fmt: skip
    hold.up()
    for crash in range(1, 6):
        service = wait_for(lambda: (s := hold.service("web"))["status"] == "running" and s)
        assert service["run"] == crash
        wait_for(lambda: (hold.service("web")["uptime"] or 0) > 0.5)
        assert hold.service("web")["restart_count"] == 0
        kill_9(service["pid"])
        wait_for(lambda crash=crash: hold.service("web")["run"] == crash + 1)


def test_a_start_by_hand_counts_anew(hold: Hold) -> None:
    """Failures of last week are still counted after somebody has started the service again."""
    flag = hold.folder / "flag"
    hold.services(
        web={
            "command": ["sh", "-c", f"sleep 0.1; test -e {flag} && exec sleep 300; exit 1"],
            "start_seconds": 0.05,
            "restart": {**QUICK, "max_restarts": 1},
        }
    )
    hold.up()
    for _ in range(2):
        assert hold.wait_status("web", "failed")["restart_count"] == 1
        run = hold.service("web")["run"]
        hold.cli("start", "web", expect=None)
        wait_for(lambda run=run: hold.service("web")["run"] == run + 2)
    hold.wait_status("web", "failed")
    flag.touch()
    hold.cli("start", "web")
    assert hold.service("web")["restart_count"] == 0
