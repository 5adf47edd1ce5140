"""Reload is plan and apply: exactly what differs is touched, on real processes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.client.connection import Connection
from tests.harness import Hold, kill_9, wait_for

SLEEP = ["sleep", "1000"]


TALKER = {"command": ["sh", "-c", "echo hello; exec sleep 1000"], "start_seconds": 0}


def sleeper(**keys: Any) -> dict[str, Any]:
    return {"command": SLEEP, "start_seconds": 0, "stop": {"grace": "2s"}, **keys}


def pids(hold: Hold) -> dict[str, int | None]:
    return {name: it["pid"] for name, it in hold.status()["services"].items()}


def test_who_follows_is_restarted_once() -> None:
    """Along edges with `restart: true`: each once, after what it needs, before the answer."""

    def chain(env: dict[str, str]) -> dict[str, Any]:
        follow = {"condition": "ready", "restart": True}
        return {
            "db": sleeper(env=env),
            "cache": sleeper(depends_on={"db": follow}),
            "api": sleeper(env=env, depends_on={"db": follow, "cache": follow}),
            "web": sleeper(depends_on={"api": follow, "cache": follow}),
            "other": sleeper(depends_on={"db": {"condition": "ready"}}),
        }

    with Hold() as hold:
        hold.services(**chain({}))
        hold.up()
        hold.services(**chain({"A": "1"}))
        plan = hold.json("plan")["services"]
        assert plan["cache"] == {**plan["cache"], "action": "unchanged", "follows": ["db"]}
        assert plan["web"]["follows"] == ["api", "cache"]
        done = hold.json("reload")["services"]
        assert {it["outcome"] for it in done.values()} == {"restarted"}
        assert list(done) == ["db", "cache", "api", "web"]
        numbers = {name: it["run"] for name, it in hold.status()["services"].items()}
        assert numbers == {"db": 2, "cache": 2, "api": 2, "web": 2, "other": 1}


def test_only_what_differs_is_touched() -> None:
    """One is added, one removed, one restarted, one changed in place; the rest keeps its pid."""
    with Hold() as hold:
        hold.services(
            same=sleeper(), other=sleeper(), gone=TALKER, soft=sleeper(), resting=sleeper()
        )
        hold.up()
        hold.cli("stop", "resting")
        wait_for(lambda: hold.raw("gone"))
        before = pids(hold)
        assert hold.json("plan", "--exit-code")["changes"] is False
        hold.services(
            same=sleeper(),
            other=sleeper(env={"TOKEN": "hunter2"}),
            soft=sleeper(stop={"signal": "INT", "grace": "9s"}),
            resting=sleeper(command=["sleep", "2000"]),
            new=sleeper(depends_on=["other"]),
            manual=sleeper(autostart=False),
        )
        plan = hold.json("plan", "--exit-code", expect=8)
        steps = {name: (it["action"], it["fields"]) for name, it in plan["services"].items()}
        assert steps == {
            "same": ("unchanged", []),
            "other": ("restart", ["env.TOKEN"]),
            "gone": ("remove", []),
            "soft": ("change", ["stop.signal", "stop.grace"]),
            "resting": ("change", ["command"]),
            "new": ("add", []),
            "manual": ("add", []),
        }
        assert plan["services"]["resting"]["at_next_start"] is True
        assert "hunter2" not in json.dumps(plan)
        assert list(hold.json("plan", "other", "new")["services"]) == ["other", "new"]
        assert "nothing to change" in hold.cli("plan", "same").stdout
        done = hold.json("reload")
        after = pids(hold)
        assert {name: it["outcome"] for name, it in done["services"].items()} == {
            "gone": "removed", "soft": "changed", "resting": "changed", "other": "restarted",
            "new": "started", "manual": "added",
        }  # fmt: skip
        assert (after["same"], after["soft"]) == (before["same"], before["soft"])
        assert after["other"] not in (None, before["other"])
        assert "gone" not in after
        assert after["new"]
        assert after["manual"] is None
        assert after["resting"] is None
        assert hold.json("plan", "--exit-code")["changes"] is False
        event = next(it for it in hold.ask("events")["events"] if it["kind"] == "config:reloaded")
        assert event["data"]["restarted"] == ["other"]
        assert event["data"]["unchanged"] == 1
        assert "hunter2" not in json.dumps(hold.ask("events"))
        assert hold.raw("gone") == b"hello\n", "the log of a removed service stays"
        hold.cli("start", "resting")
        assert wait_for(lambda: pids(hold)["resting"])


def test_spelling_is_no_change() -> None:
    """Comments, order and other spellings of the same values restart nothing."""
    with Hold() as hold:
        path = hold.project / "holdfast.yaml"
        path.write_text(
            "services:\n  web:\n    command: sleep 1000\n    env: {A: '1', B: '2'}\n"
            "    stop: {grace: 2s}\n    start_seconds: 0\n"
        )
        hold.up()
        before = pids(hold)
        path.write_text(
            "# a comment\nservices:\n  web:\n    stop:\n      grace: 2000ms\n"
            "    env: [B=2, A=1]\n    start_seconds: 0s\n    restart: {delay: 5000ms}\n"
            "    command: [sleep, 1000]\n"
        )
        assert hold.json("reload")["changes"] is False
        assert pids(hold) == before
        assert not [e for e in hold.ask("events")["events"] if e["kind"] == "config:reloaded"]


def test_a_bad_file_changes_nothing() -> None:
    """Every problem is told at once, and not one service is touched."""
    with Hold() as hold:
        hold.services(web=sleeper(), db=sleeper())
        hold.up()
        before = pids(hold)
        hold.services(
            web=sleeper(restart_policy="sometimes"), new=sleeper(), db=sleeper(commnad="x")
        )
        for verb in ("plan", "reload"):
            said = hold.cli(verb, expect=7).stderr
            assert "sometimes" in said
            assert "commnad" in said
        assert pids(hold) == before


def test_a_file_that_declares_nothing_removes_nothing() -> None:
    """Blank, only comments, or cut short before the services: refused by each verb that reads it;
    who means it writes `services: {}`."""
    with Hold() as hold:
        hold.services(web=sleeper(), db=sleeper())
        hold.up()
        before = pids(hold)
        cut_short = hold.project / "cut-short.yaml"
        for text in ("\n", "# services:\n#   web: sleep 1\n", "services:\n", "log_level: debug\n"):
            cut_short.write_text(text)
            for verb in ("plan", "reload", "up"):
                said = hold.cli(verb, "-c", "cut-short.yaml", expect=7).stderr
                assert "declares no services" in said, (verb, text)
        assert pids(hold) == before
        hold.cli("stop", "db")
        cut_short.write_text("# nothing\n")
        hold.cli("up", "-c", "cut-short.yaml", expect=7)
        assert sorted(pids(hold)) == ["db", "web"]
        cut_short.write_text("services: {}\n")
        assert hold.json("reload", "-c", "cut-short.yaml")["changes"] is True
        assert pids(hold) == {}
        cut_short.write_text("log_level: debug\n")
        hold.cli("reload", "-c", "cut-short.yaml")
        cut_short.write_text("# nothing\n")
        assert "declares no services" in hold.cli("reload", "-c", "cut-short.yaml", expect=7).stderr


def test_the_last_up_decides_about_variables() -> None:
    """A reload reads the file with the environment of `up`, not with the caller's."""
    with Hold() as hold:
        hold.services(web=sleeper(env={"MODE": "${MODE}"}))
        hold.up(environ={"MODE": "one"})
        before = pids(hold)
        assert hold.json("reload", environ={"MODE": "two"})["changes"] is False
        kill_9(hold.supervisor_pid)
        assert wait_for(lambda: hold.json("reload", expect=None))["changes"] is False
        assert pids(hold) == before
        hold.up(environ={"MODE": "two"})
        assert pids(hold) == before, "up leaves alone what runs"
        assert hold.json("plan")["services"]["web"]["fields"] == ["env.MODE"]
        kill_9(hold.supervisor_pid)
        assert wait_for(lambda: hold.json("plan"))["services"]["web"]["action"] == "restart"
        hold.cli("reload")
        assert pids(hold) != before
        assert hold.json("plan")["changes"] is False


def test_what_applies_in_place_does() -> None:
    """A new stop signal and grace count for the run that is live."""
    with Hold() as hold:
        code = "trap '' TERM; trap 'exit 0' INT; echo up; while :; do sleep 0.05; done"
        command = ["sh", "-c", code]
        hold.services(web=sleeper(command=command, stop={"grace": "60s"}))
        hold.up()
        wait_for(lambda: b"up" in hold.raw("web"))
        before = pids(hold)
        hold.services(web=sleeper(command=command, stop={"signal": "INT", "grace": "60s"}))
        hold.cli("reload")
        assert pids(hold) == before
        hold.cli("stop", "web", timeout=60)
        assert hold.service("web")["exit_code"] == 0


def test_a_failed_service_is_started_when_its_command_is_mended() -> None:
    """Fixing the command of a service that gave up brings it back."""
    with Hold() as hold:
        hold.services(web=sleeper(command=["false"], start_seconds=1, start_retries=0))
        hold.up(expect=None)
        hold.wait_status("web", "failed")
        hold.services(web=sleeper())
        assert hold.json("reload")["services"]["web"]["outcome"] == "restarted"
        assert hold.service("web")["status"] == "running"


def test_services_brought_in_by_hand_are_left_alone() -> None:
    """What was run without a configuration is neither removed nor shown; overrides are shown."""
    with Hold() as hold:
        hold.services(web=sleeper(), old=sleeper())
        hold.up()
        hold.cli("run", "--name", "extra", "--", *SLEEP)
        hold.cli("restart", "web", "--args", "1234")
        before = pids(hold)
        hold.services(web=sleeper())
        plan = hold.json("plan")
        assert set(plan["services"]) == {"web", "old"}
        assert plan["services"]["web"]["overrides"]["args"] == ["1234"]
        assert "started with other args" in hold.cli("plan").stdout
        hold.cli("reload")
        after = pids(hold)
        assert after == {"web": before["web"], "extra": before["extra"]}


def test_another_file_and_dry_run() -> None:
    """Another file is used from then on; a dry run only tells."""
    with Hold() as hold:
        hold.services(web=sleeper())
        hold.up()
        before = pids(hold)
        other = hold.write({"services": {"api": sleeper()}}, "other.json")
        shown = hold.cli("reload", "--dry-run", "-c", other).stdout
        assert "+ api  add" in shown
        assert "- web  remove" in shown
        assert pids(hold) == before
        hold.cli("reload", "-c", other)
        assert list(pids(hold)) == ["api"]
        assert hold.json("plan")["config"] == str(other)
        assert hold.status()["supervisor"]["config"] == str(other)


def test_two_reloads_at_once() -> None:
    """Reloads do not mix: one process per service, the plan is empty at the end."""
    with Hold() as hold:
        hold.services(**{f"s{n}": sleeper() for n in range(4)})
        hold.up()
        hold.services(**{f"s{n}": sleeper(env={"X": "1"}) for n in range(5)})
        peers = [Connection(str(hold.runtime / "line.sock")) for _ in range(4)]
        asked = [peer.send("reload") for peer in peers]
        for peer, request in zip(peers, asked, strict=True):
            peer.answer(request, 60)
            peer.close()
        assert hold.json("plan")["changes"] is False
        runs = {name: it["run"] for name, it in hold.status()["services"].items()}
        assert runs == {"s0": 2, "s1": 2, "s2": 2, "s3": 2, "s4": 1}


def test_up_names_what_reload_applies() -> None:
    """`up` leaves alone what runs, and says which verb applies the change."""
    with Hold() as hold:
        hold.services(web=sleeper(), old=sleeper())
        hold.up()
        hold.services(web=sleeper(env={"A": "1"}))
        said = hold.cli("up", "-d").stderr
        assert "web is still running with the old configuration" in said
        assert "holdfast reload" in said


@pytest.mark.parametrize("command", ["plan", "reload"])
def test_without_a_configuration(command: str) -> None:
    """Before the first `up` there is nothing to reload, and that is said."""
    with Hold() as hold:
        hold.cli("run", "--name", "web", "--", *SLEEP)
        said = hold.cli(command, expect=7).stderr
        assert "holdfast up" in said


def test_of_several_configurations_the_one_that_is_read_is_told(hold: Hold) -> None:
    """By every verb that reads one, on standard error; not where it was named."""
    hold.services(web=sleeper())
    hold.up()
    empty = hold.write({"services": {}}, "holdfast.yml")
    words = f"{hold.project / 'holdfast.json'} is read; holdfast.yml beside it is not"
    for verb in (["plan"], ["reload"]):
        assert words in hold.cli(*verb).stderr, "the one in use"
    words = f"{empty} is read; holdfast.json beside it is not"
    for verb in (["check", "--json"], ["up", "-d"]):
        assert words in hold.cli(*verb).stderr
        assert hold.cli(*verb, "-c", "holdfast.json").stderr.count("beside") == 0


def test_config_is_what_a_reload_would_read() -> None:
    """With the variables of `up`, whatever the caller's are; values of variables go to the owner
    alone."""
    with Hold(MODE="of-up") as hold:
        hold.services(web={"command": ["sleep", "${SECONDS_:-1000}"], "env": {"A": "${MODE}"}})
        hold.up()
        asked = {
            tuple(each["path"]): each for each in hold.ask("config", services=["web"])["values"]
        }
        assert asked["services", "web", "env", "A"]["value"] == "of-up"
        assert asked["services", "web", "env", "A"]["variables"] == ["MODE"]
        assert asked["services", "web", "command"]["value"] == ["sleep", "1000"]
        hold.services(web={"command": ["sleep", "2000"], "env": {"A": "edited"}})
        read = {tuple(each["path"]): each for each in hold.json("config")["values"]}
        assert read["services", "web", "env", "A"]["value"] == "edited"
        assert read["services", "web", "env", "A"]["line"] > 1
        caller = {"token": (hold.state / "admin.token").read_text().strip(), "door": "rest"}
        others = hold.ask("config", caller=caller)["values"]
        assert [each["value"] for each in others if each["path"][-1] == "A"] == ["[hidden]"]


def test_an_edited_file_is_noticed() -> None:
    """status, start, restart and explain say so in a line, until the edit is applied or undone;
    also under another supervisor."""
    with Hold() as hold:
        hold.services(web=sleeper())
        hold.up()
        file = hold.project / "holdfast.json"
        text = file.read_text()
        words = "holdfast.json was edited after loading"
        assert words not in hold.cli("status").stdout
        file.write_text(text.replace('"web"', '"web2"'))
        wait_for(lambda: words in hold.cli("status").stdout)
        for verb in ("start", "restart", "explain"):
            said = hold.cli(verb, "web").stderr
            assert words in said
            assert "holdfast reload" in said
        hold.kill_supervisor()
        wait_for(lambda: words in hold.cli("status").stdout)
        file.write_text(text)
        assert words not in hold.cli("restart", "web").stderr
        file.write_text(text.replace('"web"', '"web2"'))
        hold.cli("reload")
        wait_for(lambda: words not in hold.cli("status").stdout)


def test_every_restart_is_counted_by_its_cause() -> None:
    """By request, after a failure, by a reload; kept over the supervisor's death and `down`."""
    with Hold() as hold:
        hold.services(web=sleeper(restart={"delay": "0s"}))
        hold.up()
        assert "restarts" not in hold.service("web")
        hold.cli("restart", "web")
        assert hold.service("web")["restarts"] == {"request": 1}
        kill_9(hold.service("web")["pid"])
        wait_for(lambda: hold.service("web").get("restarts") == {"request": 1, "failure": 1})
        hold.services(web=sleeper(restart={"delay": "0s"}, env={"A": "1"}))
        hold.cli("reload")
        counted = {"request": 1, "failure": 1, "reload": 1}
        assert hold.service("web")["restarts"] == counted
        hold.kill_supervisor()
        wait_for(lambda: hold.service("web").get("restarts") == counted)
        assert "3 (1 request, 1 failure, 1 reload)" in hold.cli("status").stdout
        hold.cli("stop", "web")
        hold.cli("start", "web")
        hold.cli("down")
        hold.up()
        assert hold.service("web")["restarts"] == counted
