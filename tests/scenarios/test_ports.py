"""Stories of ports that are leased, kept, and held by strangers."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.config import load
from holdfast.vocabulary.errors import ConfigError
from tests.harness import PYTHON, Hold, is_alive, kill_9, quick, wait_for

LISTEN = """
import os, socket, sys, time
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen()
print(sys.argv[1:], os.environ["PORT"], os.environ.get("PORT_DEBUG"), flush=True)
time.sleep(300)
"""


def listening(**fields: Any) -> dict[str, Any]:
    command = [PYTHON, "-I", "-S", "-c", LISTEN, "{{ port }}"]
    return quick(command, port="auto", **fields)


@contextmanager
def stranger(port: int) -> Iterator[int]:
    """Somebody who listens on a port, and is no service."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        yield os.getpid()


def span(size: int = 20) -> tuple[int, int]:
    """Some ports that nobody else uses."""
    low = 20000 + os.getpid() % 400 * 25
    return low, low + size - 1


def config(low: int, high: int, **services: Any) -> dict[str, Any]:
    return {"port_range": f"{low}-{high}", "services": services}


def test_a_port_is_leased_told_and_kept() -> None:
    """By variable and in the command; the same after a restart and a killed supervisor."""
    low, high = span()
    with Hold() as hold:
        web = listening(ports={"debug": "auto"}, readiness={"tcp": "{{ port }}", "interval": "1s"})
        web["command"] = [*web["command"], "{{ ports.debug }}"]
        hold.write(config(low, high, web=web, other=listening()))
        hold.up()
        status = hold.wait_status("web", "running")
        port, debug = status["ports"]["port"], status["ports"]["debug"]
        assert {port, debug} | set(hold.service("other")["ports"].values()) == {
            low,
            low + 1,
            low + 2,
        }
        told = f"['{port}', '{debug}'] {port} {debug}"
        assert wait_for(lambda: hold.raw("web").decode().strip() == told)
        wait_for(lambda: hold.service("web").get("ready"), what="the probe at the leased port")
        assert f":{port} debug:{debug}" in hold.cli("status").stdout
        hold.ask("restart", services=["web"])
        assert hold.service("web")["ports"] == {"port": port, "debug": debug}
        kill_9(hold.supervisor_pid)
        wait_for(lambda: hold.service("web")["ports"] == {"port": port, "debug": debug})
        checks = hold.ask("health_check", services=["web"])["services"]["web"]["checks"]
        assert [check["passed"] for check in checks] == [True]
        hold.ask("stop", services=["web"])
        with stranger(port):
            hold.ask("start", services=["web"])
            moved = hold.service("web")
            assert moved["status"] == "running"
            assert moved["ports"]["port"] not in (port, debug)
            assert moved["ports"]["debug"] == debug
        assert is_alive(moved["pid"])


def test_a_fixed_port_that_a_stranger_has_is_told() -> None:
    """The start fails and names who holds it; the stranger is left alone; `ports` tells, too."""
    low, high = span()
    with Hold() as hold, stranger(low) as pid:
        web = quick(port=low, autostart=False, start_retries=0)
        hold.write(config(low, high, web=web, mine=listening()))
        hold.up()
        outcome = hold.ask("start", services=["web"])["services"]["web"]
        assert outcome["outcome"] == "failed"
        assert f"port {low} was used by pid {pid} (" in outcome["reason"]
        explained = hold.cli("explain", "web").stdout
        assert f"port {low} was used by pid {pid}" in explained
        assert f"port {low} is used by pid {pid} (" in hold.cli("ports", f":{low}").stdout
        mine = hold.wait_status("mine", "running")
        port = mine["ports"]["port"]
        held = wait_for(lambda: _held(hold, port))
        assert (held["service"], held["pid"], held["ours"]) == ("mine", mine["pid"], True)
        assert [one["port"] for one in hold.json("ports")["ports"]] == [port]


def _held(hold: Hold, port: int) -> dict[str, Any] | None:
    found: list[dict[str, Any]] = hold.ask("ports", port=port)["ports"]
    return found[0] if found and found[0]["pid"] else None


def test_two_holdfasts_of_a_user_never_get_the_same_port() -> None:
    """They share one registry; each sees whose a port is."""
    low, high = span()
    with Hold() as first, Hold() as second:
        # The same user's: the second has its own project and sockets, but the first one's state.
        second.environ["XDG_STATE_HOME"] = first.environ["XDG_STATE_HOME"]
        for hold in (first, second):
            hold.write(config(low, high, web=listening()))
        try:
            first.up()
            second.cli("up", "-d")
            one = first.json("status")["services"]["web"]["ports"]["port"]
            two = second.json("status")["services"]["web"]["ports"]["port"]
            assert {one, two} == {low, low + 1}
            wait_for(
                lambda: all(
                    [it["pid"] for it in first.json("ports", port)["ports"]] for port in (one, two)
                )
            )
            seen = {it["port"]: it for it in first.json("ports", "--all")["ports"]}
            assert seen[two]["project"] == os.path.realpath(second.project)
            assert (seen[two]["service"], seen[two]["ours"]) == ("web", False)
            path = first.folder / "s" / "holdfast" / "ports.json"
            assert path.stat().st_mode & 0o777 == 0o600
            assert len(json.loads(path.read_text())) == 2
        finally:
            second.cli("down", "--now", expect=None)


@pytest.mark.parametrize(
    ("service", "problem"),
    [
        ({"command": "x {{ port }}"}, "{{ port }} is used"),
        ({"command": "x", "port": "auto", "env": {"A": "{{ ports.api }}"}}, "{{ ports.api }} is"),
        ({"command": "x", "port": "some"}, "is not a whole number"),
        ({"command": "x", "port": 3000, "ports": {"api": 3000}}, "stands here twice"),
        ({"command": "x", "ports": {"a-b": 1, "a_b": 2}}, "the same variable"),
    ],
)
def test_what_makes_no_sense_is_told_before_anything_starts(
    service: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    """The configuration is refused, with the key and the way out."""
    path = tmp_path / "holdfast.json"
    path.write_text(json.dumps({"services": {"web": service}}))
    with pytest.raises(ConfigError) as caught:
        load(str(path), environ={})
    assert problem in caught.value.message
