"""One list of banners: the same on every door, and over the death of the supervisor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.vocabulary.errors import HoldfastError
from tests.harness import Hold, kill_9, quick, wait_for


@pytest.fixture(scope="module")
def shared() -> Iterator[Hold]:
    with Hold() as made:
        made.services(
            web=quick(), db=quick(), loop=quick(["false"], autostart=False, start_retries=4)
        )
        made.up()
        yield made


def banners(hold: Hold) -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for one in hold.ask("banners")["banners"]}


def test_a_crash_loop_is_told_and_put_away(shared: Hold) -> None:
    """The command, the status and the command line tell the same; dismissed is dismissed for all,
    also after the supervisor died."""
    hold = shared
    hold.cli("start", "loop", "--no-wait")
    told = wait_for(lambda: banners(hold).get("failure"), what="a banner about loop")
    assert told["service"] == "loop"
    hold.wait_status("loop", "failed")
    told = wait_for(
        lambda: next(
            (one for one in hold.ask("banners")["banners"] if one["severity"] == "error"), None
        )
    )
    assert told["title"] == "loop failed too often"
    assert told in hold.status()["supervisor"]["banners"]
    assert "loop failed too often" in hold.cli("status").stdout
    for one in hold.ask("banners")["banners"]:
        assert one["is_dismissible"], one
        hold.ask("dismiss_banner", banner=one["id"])
    assert "failed too often" not in hold.cli("status").stdout
    supervisor = hold.supervisor_pid
    hold.kill_supervisor()
    assert hold.supervisor_pid != supervisor
    assert "failure" not in banners(hold)


def test_a_lockdown_cannot_be_put_away(shared: Hold) -> None:
    """It leaves when it is over."""
    hold = shared
    hold.ask("lockdown", reason="a drill")
    wait_for(lambda: hold.ask("get_mode")["runtime_mode"] == "advanced")
    told = banners(hold)["lockdown"]
    assert told["detail"].startswith("a drill, by ")
    with pytest.raises(HoldfastError, match="a lockdown is in force"):
        hold.ask("dismiss_banner", banner="lockdown")
    hold.ask("unlock")
    assert "lockdown" not in banners(hold)


def test_a_switch_of_the_mode_is_told_by_both_supervisors(shared: Hold) -> None:
    """The old one says that it is switching, the new one that it has switched."""
    hold = shared
    now = hold.ask("get_mode")["runtime_mode"]
    other = "proxy" if now == "advanced" else "advanced"
    before = hold.supervisor_pid
    hold.ask("set_mode", mode=other)
    wait_for(lambda: hold.supervisor_pid != before, what="a new supervisor")
    told = wait_for(lambda: banners(hold).get("switch"), what="a notice about the new mode")
    assert told["title"] == f"The mode is {other}"
    assert told["severity"] == "success"
    assert told["expires_at"] > told["since"]


def test_an_old_declaration_is_told(shared: Hold) -> None:
    """`up` leaves the old process alone; the banner names it until a restart."""
    hold = shared
    web = hold.service("web")["pid"]
    hold.services(web=quick(["sleep", "2000"]), db=quick())
    hold.cli("up", "-d", "--no-wait")
    told = wait_for(lambda: banners(hold).get("configuration"), what="a banner about web")
    assert told["title"] == "web still runs with the old configuration"
    assert told["actions"][0]["arguments"] == {"services": ["web"]}
    assert hold.service("web")["pid"] == web
    hold.ask("restart", services=["web"])
    assert "configuration" not in banners(hold)


def test_preferences_outlive_the_supervisor(shared: Hold) -> None:
    """They are merged, null takes one out, and too many are refused."""
    hold = shared
    hold.ask("set_preferences", values={"theme": "dark", "rows": 20})
    assert hold.ask("set_preferences", values={"rows": None})["values"] == {"theme": "dark"}
    kill_9(before := hold.supervisor_pid)
    wait_for(lambda: hold.supervisor_pid != before, what="a new supervisor")
    assert hold.ask("preferences")["values"] == {"theme": "dark"}
    with pytest.raises(HoldfastError, match="at most 64"):
        hold.ask("set_preferences", values={f"n{number}": 1 for number in range(70)})
