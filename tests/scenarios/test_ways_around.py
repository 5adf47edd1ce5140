"""Ways around the one decision, tried on a real Holdfast: none of them leads anywhere."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness import kill_9, quick, wait_for
from tests.scenarios.test_tcp import NetHold, Wire

DEAF = "trap '' TERM; echo here; while :; do sleep 0.1; done"


@pytest.fixture(scope="module")
def hold() -> Iterator[NetHold]:
    with NetHold() as made:
        made.write(
            {
                "runtime_mode": "advanced",
                "port": made.port,
                "services": {
                    "web": quick(),
                    "db": {**quick(), "tags": ["data"]},
                    "many": {**quick(), "instances": 2},
                    "deaf": {**quick(), "command": ["sh", "-c", DEAF], "stop": {"grace": "2s"}},
                },
                "workflows": {"bad": {"steps": ["false"]}, "asked": {"steps": ["true"]}},
                "policies": [
                    {"effect": "deny", "roles": ["operator", "admin"], "services": ["db"],
                     "commands": ["scale", "shutdown"]},
                    {"effect": "deny", "roles": ["admin"], "services": ["many"],
                     "commands": ["signal", "logs"]},
                    {"effect": "confirm", "commands": ["restart"], "services": ["db"]},
                    {"effect": "confirm", "commands": ["run_workflow"], "roles": ["admin"]},
                ],
            }
        )  # fmt: skip
        made.up()
        yield made


def token(hold: NetHold, name: str, by: str | None = None, **limits: Any) -> str:
    caller = {"caller": {"token": by, "door": "rest"}} if by else {}
    fields = {"token_name": name, "role": "admin", **limits}
    return str(hold.ask("create_token", **fields, **caller)["text"])


def through(text: str) -> dict[str, str]:
    return {"token": text, "door": "rest"}


def test_a_second_token_does_not_approve_for_the_first(hold: NetHold) -> None:
    """Nor does a sister of it; one of the owner's does."""
    first = token(hold, "first")
    second, third = token(hold, "second", by=first), token(hold, "third", by=first)
    fourth = token(hold, "fourth", by=second)
    before = hold.service("db")["pid"]
    for asker, approver in ((first, second), (second, third), (first, fourth), (fourth, first)):
        with Wire(hold.port) as wire:
            wire.send(f"token {asker}", "restart db")
            assert wire.line()
            assert "waiting for approval" in wire.line()
            waiting = wait_for(lambda: hold.ask("approvals")["waiting"])[0]["approval"]
            with pytest.raises(Exception, match="the same token"):
                hold.ask("approve", approval=waiting, caller=through(approver))
            hold.ask("reject", approval=waiting)
    assert hold.service("db")["pid"] == before


def test_a_limited_token_makes_no_wider_one(hold: NetHold) -> None:
    """By commands, paths, services or tags; one as narrow it may make."""
    maker = token(hold, "maker", commands=["create_token", "status"])
    for limits in ({}, {"commands": ["*"]}, {"commands": ["status", "stop"]}):
        with pytest.raises(Exception, match="limited to the commands"):
            token(hold, "wide", by=maker, **limits)
    assert token(hold, "narrow", by=maker, commands=["status"])
    pathless = token(hold, "of a folder", paths=["docs/**"])
    with pytest.raises(Exception, match="limited to the paths"):
        token(hold, "wide", by=pathless)
    webs = token(hold, "of web", services=["web"])
    for limits in ({}, {"services": ["web"]}, {"services": ["web"], "tags": ["data"]}):
        with pytest.raises(Exception, match="this is about all"):
            token(hold, "wide", by=webs, **limits)


def test_a_policy_about_a_service_is_about_all_that_touches_it(hold: NetHold) -> None:
    """Another number of instances, and the end of everything."""
    admin = through(token(hold, "ender"))
    with pytest.raises(Exception, match="policy"):
        hold.ask("scale", instances={"db": 0}, caller=admin)
    with pytest.raises(Exception, match="policy"):
        hold.ask("shutdown", caller=admin)
    with pytest.raises(Exception, match="instances"):
        hold.ask("scale", instances={"web": 1}, caller=admin)


def test_a_policy_about_a_service_is_about_its_instances(hold: NetHold) -> None:
    """By their own names, by that of the service, and where all are meant."""
    admin = through(token(hold, "stopper"))
    before = hold.service("many@1")["pid"]
    for names in (["many"], ["many@1"], ["web", "many@2"]):
        with pytest.raises(Exception, match="policy"):
            hold.ask("signal", services=names, signal="TERM", caller=admin)
    with pytest.raises(Exception, match="policy"):
        hold.ask("logs", service="many@1", caller=admin)
    assert hold.service("many@1")["pid"] == before
    limited = through(token(hold, "of many", services=["many"]))
    seen = hold.ask("status", caller=limited)["services"]
    assert sorted(seen) == ["many@1", "many@2"]


def test_nobody_pushes_the_audit_out(hold: NetHold) -> None:
    """What is refused leaves a record that is small, however large it was."""
    eyes = through(token(hold, "eyes", role="viewer"))
    names = [f"{number:x}" * 400 for number in range(0x1000, 0x1400)]
    size = sum(file.stat().st_size for file in (hold.state / "audit").iterdir())
    for fields in ({"services": names}, {"services": ["x" * 500_000]}):
        with pytest.raises(Exception, match="not change"):
            hold.ask("restart", **fields, caller=eyes)
    with pytest.raises(Exception, match="not change"):
        hold.ask("scale", instances=dict.fromkeys(names, 1), caller=eyes)
    narrow = through(token(hold, "narrow eyes", role="operator", services=["web"]))
    with pytest.raises(Exception, match="limited to web"):
        hold.ask("restart", services=["x" * 500_000], caller=narrow)
    grown = sum(file.stat().st_size for file in (hold.state / "audit").iterdir()) - size
    assert grown < 20_000


def ends(hold: NetHold, command: str) -> list[str]:
    found = hold.ask("audit", about=command)["records"]
    return [one["outcome"] for one in found if one["actor"] != "token eyes"]


def test_a_death_hides_nothing_that_was_under_way(hold: NetHold) -> None:
    """What a killed supervisor was doing is on record, once, whoever dies after it."""
    wait_for(lambda: "here" in hold.cli("logs", "deaf").stdout)
    asking = subprocess.Popen(
        hold.command("stop", "deaf"), cwd=hold.project, env=hold.environ,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with asking:
        wait_for(lambda: hold.service("deaf")["status"] == "stopping")
        asking.kill()  # it would ask the next supervisor again
        for _ in range(2):
            supervisor = hold.supervisor_pid
            kill_9(supervisor)
            wait_for(lambda old=supervisor: hold.supervisor_pid != old, what="a new one")
    assert ends(hold, "stop") == ["unknown_outcome"]
    hold.ask("start", services=["web"])
    supervisor = hold.supervisor_pid
    kill_9(supervisor)
    wait_for(lambda: hold.supervisor_pid != supervisor, what="a new one")
    assert ends(hold, "start") == ["ok"]
    assert hold.ask("audit", verify=True)["verdict"]["whole"]


def test_what_is_followed_is_on_record_with_its_end(hold: NetHold) -> None:
    """That a workflow failed is not hidden by its progress; nor does approval end it."""
    assert hold.cli("workflow", "bad", expect=1).stdout
    assert ends(hold, "run_workflow") == ["failed"]
    asking = token(hold, "asking")
    with Wire(hold.port) as wire:
        asked = {"command": "run_workflow", "id": 1, "name": "asked", "follow": True}
        wire.send(f"token {asking}", json.dumps(asked))
        wire.line()
        waiting = wait_for(lambda: hold.ask("approvals")["waiting"])[0]["approval"]
        hold.ask("approve", approval=waiting)
        items = [wire.json()]
        while "item" in items[-1]:
            items.append(wire.json())
    assert items[-1]["ok"]
    assert items[-2]["item"]["result"]["outcome"] == "done"
    assert ends(hold, "run_workflow") == ["failed", "ok"]
