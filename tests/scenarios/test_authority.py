"""Lockdown, modes and approvals of a real Holdfast, over deaths and through its doors."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.harness import Hold, kill_9, quick, wait_for
from tests.scenarios.test_tcp import NetHold, Wire

CONFIRM = {"effect": "confirm", "commands": ["restart"], "services": ["db"], "reason": "the data"}


@pytest.fixture
def hold() -> Iterator[Hold]:
    with Hold() as made:
        made.write({"services": {"web": quick()}})
        made.up()
        yield made


def records(hold: Hold, command: str) -> list[dict[str, Any]]:
    told = hold.cli("audit", "--json", "--command", command).stdout
    return [json.loads(line) for line in told.splitlines()]


def kinds(hold: Hold) -> list[str]:
    return [event["kind"] for event in hold.ask("events", limit=1000)["events"]]


def new_supervisor(hold: Hold, old: int) -> None:
    wait_for(lambda: hold.supervisor_pid != old, what="a new supervisor")


def test_a_lockdown_outlives_every_death(hold: Hold) -> None:
    """Of the supervisor, of both, and of everything; then nothing is started until it ends."""
    told = hold.json("lockdown", "--reason", "a token leaked")
    assert told["lockdown"]["reason"] == "a token leaked"
    wait_for(lambda: hold.ask("get_mode")["runtime_mode"] == "advanced")
    web = hold.service("web")["pid"]
    assert "a token leaked" in hold.cli("restart", "web", expect=5).stderr
    supervisor = hold.supervisor_pid
    kill_9(supervisor)
    new_supervisor(hold, supervisor)
    assert "unlock" in hold.cli("restart", "web", expect=5).stderr
    assert "LOCKED DOWN" in hold.cli("status").stdout
    supervisor, keeper = hold.supervisor_pid, hold.keeper_pid
    kill_9(keeper)
    kill_9(supervisor)
    hold._disconnect()
    assert "lockdown" in hold.cli("up", "-d", expect=5).stderr
    hold.cli("unlock")
    hold.up()
    assert hold.service("web")["pid"] == web
    assert [one["outcome"] for one in records(hold, "restart")] == ["refused", "refused"]


def test_what_crashes_is_restarted_in_a_lockdown(hold: Hold) -> None:
    """Supervision goes on; admins may stop things, and unlock; all is on record."""
    hold.json("lockdown", "--reason", "leak")
    wait_for(lambda: hold.ask("get_mode")["runtime_mode"] == "advanced")
    before = hold.service("web")["pid"]
    kill_9(before)
    wait_for(lambda: hold.service("web")["pid"] not in (None, before), what="a restart")
    assert hold.ask("hello")["lockdown"]["reason"] == "leak"
    assert hold.status()["supervisor"]["lockdown"]["reason"] == "leak"
    assert "LOCKED DOWN" in hold.cli("explain", "web").stdout
    assert "lockdown" in hold.cli("mode", "proxy", expect=5).stderr
    hold.cli("stop", "web")
    hold.cli("unlock")
    hold.cli("start", "web")
    for command in ("lockdown", "unlock"):
        assert [one["outcome"] for one in records(hold, command)] == ["ok"]
    wait_for(lambda: {"lockdown:began", "lockdown:ended"} <= set(kinds(hold)))


def test_a_broken_file_keeps_it_locked(hold: Hold) -> None:
    """Fail closed: what cannot be read is a lockdown, and can be unlocked."""
    (hold.state / "lockdown.json").write_text("{")
    supervisor = hold.supervisor_pid
    kill_9(supervisor)
    new_supervisor(hold, supervisor)
    assert "cannot be read" in hold.cli("restart", "web", expect=5).stderr
    hold.cli("unlock")
    hold.cli("restart", "web")


def test_a_mode_is_switched_under_running_services(hold: Hold) -> None:
    """The supervisor is another one, with the mode in its environment; the service is not."""
    before, supervisor = hold.service("web"), hold.supervisor_pid
    told = hold.cli("mode", "advanced").stdout
    assert "Mode switching..." in told
    assert "emergency_lockdown" in told
    after = hold.service("web")
    assert (after["pid"], after["run_id"]) == (before["pid"], before["run_id"])
    assert hold.supervisor_pid != supervisor
    with open(f"/proc/{hold.supervisor_pid}/environ", "rb") as file:
        environ = file.read().split(b"\0")
    assert b"HOLDFAST_RUNTIME_MODE=advanced" in environ
    assert b"MAGICTUNNEL_RUNTIME_MODE=advanced" in environ
    supervisor = hold.supervisor_pid
    kill_9(supervisor)
    new_supervisor(hold, supervisor)
    found = hold.json("mode")
    assert found["runtime_mode"] == "advanced"
    assert found["service_count"] == len(found["proxy_services"]) + len(found["advanced_services"])
    hold.cli("mode", "proxy")
    assert hold.json("mode")["advanced_services"] is None
    assert hold.service("web")["pid"] == before["pid"]
    wanted = ["mode:switching", "mode:switched"] * 2
    wait_for(lambda: [kind for kind in kinds(hold) if kind.startswith("mode:")] == wanted)
    viewer = hold.cli("token", "create", "eyes", "--role", "operator").stdout.strip()
    caller = {"token": viewer, "door": "rest"}
    with pytest.raises(Exception, match="not administer"):
        hold.ask("set_mode", mode="advanced", caller=caller)


MODES_TOLD = 'echo "$NAME $MAGICTUNNEL_RUNTIME_MODE|$API_MODE|"; exec sleep 1000'


def test_a_mode_switch_reaches_the_services_that_follow_it(hold: Hold) -> None:
    """As the source draws it: the banner, a restart with the variable set, the service is healthy.
    Also if the supervisor that should restart them is killed; a plain restart keeps the mode."""
    plain = quick()
    told = {"command": ["sh", "-c", MODES_TOLD], "start_seconds": 0.1}
    hold.services(
        web=plain, api={**told, "mode_env": "API_MODE"}, mt={**told, "follows_mode": True}
    )
    hold.up()
    wait_for(lambda: hold.raw("api") == b" |proxy|\n" and hold.raw("mt") == b" proxy||\n")
    before = hold.status()["services"]
    answer = hold.ask("set_mode", mode="advanced")
    assert (answer["message"], answer["restarts"]) == ("Mode switching...", ["api", "mt"])
    wait_for(lambda: hold.raw("api").endswith(b" |advanced|\n"))
    wait_for(lambda: hold.raw("mt").endswith(b" advanced||\n"))
    hold.wait_status("mt", "running")
    after = hold.status()["services"]
    assert after["web"]["pid"] == before["web"]["pid"]
    assert after["api"]["run"] == after["mt"]["run"] == 2
    found = hold.ask("events", limit=1000)["events"]
    switching = next(event for event in found if event["kind"] == "mode:switching")
    assert switching["data"]["services"] == ["api", "mt"]
    assert "restarted for what it follows" in hold.cli("explain", "api").stdout
    hold.cli("restart", "api")
    wait_for(lambda: hold.raw("api").count(b"|advanced|") == 2)
    hold.cli("custom-restart", "api", "--env", "API_MODE=other")
    wait_for(lambda: hold.raw("api").endswith(b"|other|\n"))
    assert "restarted with it: api, mt" in hold.cli("mode", "proxy").stdout
    kill_9(hold.supervisor_pid)
    wait_for(lambda: hold.raw("api").endswith(b"|proxy|\n"))
    wait_for(lambda: hold.raw("mt").endswith(b" proxy||\n"))
    hold.wait_status("api", "running")


@contextmanager
def doors() -> Iterator[NetHold]:
    with NetHold() as hold:
        hold.write(
            {
                "runtime_mode": "advanced",
                "port": hold.port,
                "services": {"web": quick(), "db": quick()},
                "policies": [
                    {"effect": "allow", "actors": ["trusted"], "services": ["db"]},
                    CONFIRM,
                    {"effect": "deny", "commands": ["stop"], "doors": ["tcp"]},
                ],
                "security": {"filters": {"forbid": ["*DROP TABLE*"]}},
            }
        )
        hold.up()
        yield hold


def waiting(hold: Hold) -> dict[str, Any]:
    found: dict[str, Any] = wait_for(lambda: hold.ask("approvals")["waiting"])[0]
    return found


def test_an_approval_over_two_doors() -> None:
    """Asked over TCP, approved at the command line; never with the token that asked."""
    with doors() as hold:
        admin = hold.cli("token", "create", "ci", "--role", "admin").stdout.strip()
        trusted = hold.cli("token", "create", "trusted", "--role", "operator").stdout.strip()
        before = hold.service("db")["pid"]
        with Wire(hold.port) as wire, Wire(hold.port) as other:
            wire.send(f"token {admin}", "restart db")
            assert wire.line() == "hello, token ci"
            assert "waiting for approval" in wire.line()
            approval = waiting(hold)
            assert approval["actor"] == "token ci"
            other.send(f"token {admin}", f"approve {approval['approval']}", "approvals", "stop web")
            assert other.line() == "hello, token ci"
            assert "the same token" in other.line()
            assert approval["approval"] in other.line()
            assert "policy" in other.line()
            assert hold.service("db")["pid"] == before
            hold.cli("approve", approval["approval"], "--reason", "go on")
            assert "restarted" in wire.line()
            after = hold.service("db")["pid"]
            assert after != before
            wire.send("restart db")
            wire.line()
            hold.cli("reject", waiting(hold)["approval"], "--reason", "not now")
            assert "not now" in wire.line()
            wire.send("restart web")
            assert "restarted" in wire.line()
            wire.send('{"command": "restart", "services": ["db"], "args": ["; drop table x"]}')
            assert "forbidden" in wire.line()
            other.send(f"token {trusted}", "restart db")
            other.line()
            assert "restarted" in other.line()
        assert [one["outcome"] for one in records(hold, "restart")] == (
            ["ok", "refused", "ok", "refused", "ok"]
        )
        assert "approved by uid" in records(hold, "restart")[0]["reason"]
        assert [one["outcome"] for one in records(hold, "approve")] == ["refused", "ok"]
        assert [one["outcome"] for one in records(hold, "reject")] == ["ok"]
        security = hold.ask("metrics")["security"]
        causes = {one["reason"] for one in security["refusals"]}
        assert {"approval", "policy", "filter"} <= causes
        assert security["approvals"] == {"approved": 1, "rejected": 1}
        told = hold.cli("metrics", "--format", "prometheus").stdout
        assert 'holdfast_refusals_total{door="tcp",reason="policy",role="admin"} 1' in told


def test_who_does_not_wait_is_not_served() -> None:
    """A request is void when who asked hangs up, loses its token, or the supervisor dies."""
    with doors() as hold:
        before = hold.service("db")["pid"]
        asking = subprocess.Popen(
            hold.command("restart", "db"), cwd=hold.project, env=hold.environ,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        with asking:
            waiting(hold)
            asking.kill()
        wait_for(lambda: not hold.ask("approvals")["waiting"])
        assert "did not wait" in hold.ask("approvals")["over"][0]["why"]
        token = hold.cli("token", "create", "ci", "--role", "operator").stdout.strip()
        with Wire(hold.port) as wire:
            wire.send(f"token {token}", "restart db")
            approval = waiting(hold)["approval"]
            hold.cli("token", "revoke", "ci")
            hold.cli("approve", approval)
            wire.line()
            wire.line()
            assert "taken back" in wire.line()
        asking = subprocess.Popen(
            hold.command("restart", "db"), cwd=hold.project, env=hold.environ,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        with asking:
            approval = waiting(hold)["approval"]
            supervisor = hold.supervisor_pid
            kill_9(supervisor)
            new_supervisor(hold, supervisor)
            assert asking.wait(60) != 0
        assert "the supervisor was replaced" in hold.cli("approve", approval, expect=1).stderr
        assert hold.service("db")["pid"] == before
        outcomes = [one["outcome"] for one in records(hold, "restart")]
        assert outcomes == ["cancelled", "refused", "cancelled"]


def test_too_many_requests_are_refused() -> None:
    """On the network, with how long to wait; never at the owner's own socket."""
    with NetHold() as hold:
        limit = {"rate_limit": {"requests_per_second": 0.1, "burst": 3}}
        hold.write({"port": hold.port, "security": limit, "services": {"web": quick()}})
        hold.up()
        token = (hold.state / "admin.token").read_text().strip()
        with Wire(hold.port) as wire:
            wire.send(f"token {token}", *['{"command": "hello"}'] * 5)
            wire.line()
            answers = [wire.json() for _ in range(5)]
        assert [one["ok"] for one in answers] == [True, True, True, False, False]
        other = hold.ask("create_token", token_name="ci", role="operator")["text"]
        with Wire(hold.port) as wire:
            again = '{"command": "start", "services": ["web"], "key": "once"}'
            wire.send(f"token {other}", *[again] * 5)
            wire.line()
            assert [wire.json()["ok"] for _ in range(5)] == [True, True, True, False, False]
        error = answers[-1]["error"]
        assert error["code"] == "too_many_requests"
        assert error["details"]["retry_after"] > 0
        for _ in range(20):
            hold.ask("hello")
        assert [one["outcome"] for one in records(hold, "hello")] == ["refused"]


def test_a_lockdown_ends_workflows_and_sessions() -> None:
    """Nothing that was asked for goes on; a token of an agent sees nothing any more."""
    with Hold() as hold:
        flow = {"steps": ["sleep 1000"]}
        hold.write({"services": {"web": quick()}, "workflows": {"long": flow}})
        hold.up()
        working = subprocess.Popen(
            hold.command("workflow", "long"), cwd=hold.project, env=hold.environ,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        under_way = wait_for(lambda: hold.ask("workflows")["under_way"])[0]["id"]
        session = hold.ask("open_session", client="claude")
        caller = {"token": session["token"], "door": "mcp"}
        assert hold.ask("status", caller=caller)["services"]
        told = hold.json("lockdown", "--reason", "leak")
        assert {session["session"]["session"], under_way} <= set(told["cancelled"])
        with working:
            assert working.wait(60) != 0
        wait_for(lambda: hold.ask("get_mode")["runtime_mode"] == "advanced")
        with pytest.raises(Exception, match="not known"):
            hold.ask("status", caller=caller)
        agent = "holdfast token create bot --role agent"
        assert "lockdown" in hold.cli(*agent.split()[1:], expect=5).stderr


@pytest.mark.parametrize("verb", ["rolling-restart", "reload"])
def test_a_lockdown_ends_what_restarts_one_by_one(verb: str) -> None:
    """The step it is in is finished; the others keep their runs, and the answer says so."""
    with Hold() as hold:
        web = {**quick(["sh", "-c", "test ! -e slow || sleep 3; echo up; exec sleep 1000"])}
        web |= {"instances": 2, "readiness": {"log": "^up", "interval": "60s"}}
        config = {"runtime_mode": "advanced", "services": {"web": web}}
        hold.write(config)
        hold.up()
        old = hold.service("web@2")["pid"]
        (hold.project / "slow").touch()
        if verb == "reload":
            new = quick(depends_on=["web"])
            hold.write({**config, "services": {"web": {**web, "env": {"A": "1"}}, "new": new}})
        words = [verb, "web"] if verb != "reload" else [verb]
        asking = subprocess.Popen(
            hold.command(*words, "--json"), cwd=hold.project, env=hold.environ,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        with asking:
            wait_for(lambda: hold.service("web@1")["run"] == 2)
            hold.cli("lockdown", "--reason", "leak")
            told = json.loads(asking.communicate(timeout=30)[0])["services"]
        added = {"new": "not_restarted"} if verb == "reload" else {}
        assert {name: it["outcome"] for name, it in told.items()} == {
            "web@1": "restarted", "web@2": "not_restarted", **added,
        }  # fmt: skip
        assert hold.service("web@2")["pid"] == old
        hold.kill_supervisor()
        assert all(hold.service(name)["desired"] == "stopped" for name in added)
