"""What people asked for, and what runs, outlives every death of Holdfast itself."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.client.keeper_connection import KeeperConnection
from tests.harness import Hold, forbid_marks, is_alive, program, quick, started, wait_for
from tests.scenarios.test_pains_death import kill_holdfast


def test_a_stop_through_the_keeper_holds_when_the_supervisor_wakes_up(hold: Hold) -> None:
    """Who hung while a person stopped a service takes its end for no crash."""
    hold.services(web=quick(), other=quick())
    hold.up()
    web, other = hold.service("web"), hold.service("other")
    supervisor = hold.supervisor_pid
    os.kill(supervisor, signal.SIGSTOP)
    try:
        with closing(KeeperConnection(str(hold.runtime / "keeper.sock"))) as keeper:
            keeper.ask("end", run_id=web["run_id"])
            wait_for(lambda: not is_alive(web["pid"]))
    finally:
        os.kill(supervisor, signal.SIGCONT)
    stopped = hold.wait_status("web", "stopped")
    assert (stopped["desired"], stopped["restart_count"]) == ("stopped", 0)
    assert hold.json("alerts")["alerts"] == []
    hold.cli("up", "-d", "--unless-stopped")
    assert hold.service("web")["status"] == "stopped"
    assert hold.service("other")["pid"] == other["pid"]


def test_a_stop_of_what_has_ended_holds_when_the_supervisor_wakes_up(hold: Hold) -> None:
    """Who died while the supervisor hung, and was stopped by a person then, stays off."""
    hold.services(web=quick())
    hold.up()
    web = hold.service("web")
    supervisor = hold.supervisor_pid
    os.kill(supervisor, signal.SIGSTOP)
    try:
        os.kill(web["pid"], signal.SIGKILL)
        wait_for(lambda: not is_alive(web["pid"]))
        told = hold.json("stop", "web")["services"]["web"]
        assert told["outcome"] == "already_stopped"
    finally:
        os.kill(supervisor, signal.SIGCONT)
    assert hold.wait_status("web", "stopped")["desired"] == "stopped"
    hold.kill_supervisor()
    assert hold.wait_status("web", "stopped")["run"] == web["run"]


def test_run_takes_over_what_others_left(hold: Hold) -> None:
    """After a crash of both, a command that is run makes nobody forget the survivors."""
    hold.services(web=quick(), guest=quick(survivors="stop"))
    hold.up()
    hold.cli("run", "--name", "older", "--", "sleep", "300")
    before = {name: hold.service(name)["pid"] for name in ("web", "guest", "older")}
    kill_holdfast(hold)
    hold.cli("run", "--name", "newer", "--", "sleep", "300")
    assert {name: hold.service(name)["pid"] for name in before} == before
    hold.up()
    now = {name: hold.wait_status(name, "running")["pid"] for name in before}
    assert (now["web"], now["older"]) == (before["web"], before["older"])
    assert now["guest"] != before["guest"]
    hold.cli("down")
    assert not any(is_alive(pid) for pid in (*before.values(), *now.values()))


def test_adopt_takes_over_what_others_left(hold: Hold) -> None:
    """Whichever verb comes first after a crash of both, nothing is forgotten."""
    hold.cli("run", "--name", "older", "--", "sleep", "300")
    older = hold.service("older")["pid"]
    kill_holdfast(hold)
    with started(["sleep", "300"]) as other:
        hold.cli("adopt", "found", "--pid", other.pid)
        assert hold.service("older")["pid"] == older
        hold.cli("down")
    assert not is_alive(older)


def test_survivors_stay_known_after_an_up_in_vain(hold: Hold) -> None:
    """A configuration that is wrong after a crash of both makes nobody forget them."""
    hold.services(web=quick())
    hold.up()
    pid = hold.service("web")["pid"]
    kill_holdfast(hold)
    hold.write({"services": {"web": {"comand": "x"}}})
    hold.cli("up", "-d", expect=7)
    assert is_alive(pid)
    for verb in ("status", "down"):
        assert "1 service outlived" in hold.cli(verb, expect=4).stderr
    assert str(hold.project) in hold.cli("ls").stdout
    hold.services(web=quick())
    hold.up()
    assert hold.service("web")["pid"] == pid
    hold.cli("down")
    assert "nothing runs here" in hold.cli("status", expect=4).stderr
    assert not (hold.state / "keeper.json").exists()


@pytest.mark.parametrize("is_frozen", [True, False])
def test_what_is_paused_stays_paused(hold: Hold, is_frozen: bool) -> None:
    """A service that was paused before a crash of both is told so, and can be resumed."""
    hold.services(web=quick(["sh", "-c", "while sleep 0.1; do echo on; done"]))
    hold.up()
    pid = hold.service("web")["pid"]
    if is_frozen:
        hold.cli("pause", "web")
    else:  # as it is paused where there are no cgroups
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: Path(f"/proc/{pid}/stat").read_text().split()[2] == "T")
    kill_holdfast(hold)
    hold.up()
    web = hold.service("web")
    assert (web["status"], web["pid"], web["desired"]) == ("paused", pid, "running")
    printed = len(hold.raw("web"))
    assert hold.json("resume", "web")["services"]["web"]["outcome"] == "resumed"
    assert hold.service("web")["status"] == "running"
    wait_for(lambda: len(hold.raw("web")) > printed)


def test_a_change_made_around_a_crash_is_not_swallowed(hold: Hold) -> None:
    """What a survivor was started with is known again: only what differs is restarted."""
    hold.services(web=quick(env={"V": "v1"}), other=quick(env={"V": "v1"}))
    hold.up()
    before = {name: hold.service(name)["pid"] for name in ("web", "other")}
    kill_holdfast(hold)
    hold.services(web=quick(env={"V": "v2"}), other=quick(env={"V": "v1"}))
    assert "web is still running with the old configuration" in hold.cli("up", "-d").stderr
    hold.kill_supervisor()
    told = hold.json("plan", expect=None)["services"]
    assert {name: step["action"] for name, step in told.items()} == {
        "web": "restart",
        "other": "unchanged",
    }
    hold.cli("reload")
    assert hold.service("web")["pid"] != before["web"]
    assert hold.service("other")["pid"] == before["other"]
    assert "nothing to change" in hold.cli("plan").stdout


def test_a_survivor_with_its_old_declaration_is_left_alone(hold: Hold) -> None:
    """A change that is taken back after a crash restarts nobody; neither does a second crash."""
    hold.services(web=quick(env={"V": "v1"}))
    hold.up()
    pid = hold.service("web")["pid"]
    kill_holdfast(hold)
    hold.services(web=quick(env={"V": "v2"}))
    hold.up()
    kill_holdfast(hold)
    hold.cli("run", "--name", "other", "--", "sleep", "300")
    hold.services(web=quick(env={"V": "v1"}))
    hold.up()
    assert hold.json("plan")["services"]["web"]["action"] == "unchanged"
    hold.cli("reload")
    assert hold.service("web")["pid"] == pid


SLOW_TO_END = """
trap 'echo told; until [ -e go ]; do sleep 0.02; done; exit 0' TERM
echo up
while :; do sleep 0.02; done
"""


@pytest.mark.parametrize(
    ("verb", "fields"), [("restart web", {}), ("restart web", {"autostart": False}), ("down", {})]
)
def test_what_was_being_ended_is_no_survivor(
    hold: Hold, verb: str, fields: dict[str, bool]
) -> None:
    """Who had its signal when both were killed is not taken for a service that goes on: it is
    ended, and what was asked for, a restart or this `up`, begins it anew."""
    spec = quick(["sh", "-c", SLOW_TO_END], stop={"grace": "60s"}, restart_policy="on_failure")
    hold.services(web={**spec, **fields})
    hold.up()
    hold.cli("start", "web")
    wait_for(lambda: b"up" in hold.raw("web"))
    pid = hold.service("web")["pid"]
    with started(hold.command(*verb.split()), cwd=hold.project, env=hold.environ):
        wait_for(lambda: b"told" in hold.raw("web"))
        with closing(sqlite3.connect(hold.state / "holdfast.db")) as database:
            query = "SELECT 1 FROM services WHERE CAST(record AS TEXT) LIKE '%\"stopping\"%'"
            wait_for(lambda: database.execute(query).fetchall())
        kill_holdfast(hold)
    with started(hold.command("up", "-d"), cwd=hold.project, env=hold.environ) as up:
        wait_for(lambda: hold.json("status", expect=None).get("services"))
        assert is_alive(pid)
        (hold.project / "go").touch()
        wait_for(lambda: not is_alive(pid))
        assert up.wait() == 0
    web = hold.wait_status("web", "running")
    assert (web["desired"], web["restart_count"], web["run"]) == ("running", 0, 2)


def test_who_died_unseen_is_not_said_to_run(hold: Hold) -> None:
    """Whichever verb comes first after a crash of both, a run that is over has an end."""
    hold.services(web=quick())
    hold.up()
    pid = hold.service("web")["pid"]
    kill_holdfast(hold)
    os.kill(pid, signal.SIGKILL)
    hold.cli("run", "--name", "other", "--", "sleep", "300")
    hold.up()
    assert hold.cli("runs", "web").stdout.count("still running") == 1


def test_other_arguments_end_with_a_crash_of_both(hold: Hold) -> None:
    """The run that has them goes on; the next start is the configured one."""
    hold.services(web=quick("sh", args=["-c", "echo configured; exec sleep 300"]))
    hold.up()
    hold.ask("restart", service="web", args=["-c", "echo other; exec sleep 300"])
    web = hold.service("web")
    assert web["overrides"]
    kill_holdfast(hold)
    hold.up()
    after = hold.service("web")
    assert (after["pid"], after.get("overrides")) == (web["pid"], None)
    hold.cli("restart", "web")
    wait_for(lambda: hold.raw("web").split() == [b"configured", b"other", b"configured"])


def test_the_grace_of_a_stop_outlives_the_supervisor(hold: Hold) -> None:
    """A stop with a grace of its own, longer than the declared one, is not cut short."""
    script = "trap 'sleep 2; echo tidy; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    hold.services(web=quick(["sh", "-c", script], stop={"grace": "100ms"}))
    hold.up()
    wait_for(lambda: b"up" in hold.raw("web"))
    stop = hold.command("stop", "web", "--grace", "60s")
    with started(stop, cwd=hold.project, env=hold.environ) as asked:
        hold.wait_status("web", "stopping")
        asked.kill()
    hold.kill_supervisor()
    hold.wait_status("web", "stopped")
    assert b"tidy" in hold.raw("web")


@contextmanager
def titled(hold: Hold, **options: Any) -> Iterator[int]:
    """The pid of a service `web` that overwrote its environment; nothing of it stays behind."""
    hold.services(web=quick(program("titled.py")))
    hold.cli("up", "-d", **options)
    wait_for(lambda: b"titled" in hold.raw("web"))
    pid = int(hold.service("web")["pid"])
    assert b"HOLDFAST" not in Path(f"/proc/{pid}/environ").read_bytes()
    try:
        yield pid
    finally:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("lost", [None, "holdfast.db", "runs.jsonl"])
def test_a_survivor_without_its_environment_is_recognised(hold: Hold, lost: str | None) -> None:
    """A service that overwrote its environment is adopted after a crash of both, not doubled;
    either record of it, the history or the keeper's list, is enough."""
    with titled(hold) as pid:
        kill_holdfast(hold)
        for path in hold.state.glob(f"{lost}*"):
            path.unlink()
        assert f"web pid {pid}" in hold.cli("status", expect=4).stderr
        hold.up()
        web = hold.service("web")
        assert (web["pid"], web["run"], web["adopted"]) == (pid, 1, True)
        hold.cli("down")
        assert not is_alive(pid)


def test_instances_and_undeclared_services_without_their_environment(hold: Hold) -> None:
    """Each instance goes on under its own name; a service that the configuration does not name
    any more stays visible and can be stopped."""
    hold.services(web=quick(program("titled.py"), instances=2), old=quick(program("titled.py")))
    hold.up()
    names = ("web@1", "web@2", "old")
    for name in names:
        wait_for(lambda name=name: b"titled" in hold.raw(name))
    before = {name: hold.service(name)["pid"] for name in names}
    try:
        kill_holdfast(hold)
        assert "3 services outlived" in hold.cli("status", expect=4).stderr
        hold.services(web=quick(program("titled.py"), instances=2))
        hold.up()
        assert {name: hold.service(name)["pid"] for name in names} == before
        hold.cli("stop", "old")
        assert not is_alive(before["old"])
        hold.cli("down")
        assert not any(map(is_alive, before.values()))
    finally:
        for pid in before.values():
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.usefixtures("only_unmarked")
@pytest.mark.parametrize("verb", ["up", "start"])
def test_in_doubt_nothing_is_started(hold: Hold, verb: str) -> None:
    """If processes cannot be marked, and one may be the run that was being started when both were
    killed, `up` says so and starts nothing beside it; when it has ended, or by name, the service
    starts."""
    with titled(hold, preexec_fn=forbid_marks) as pid:
        kill_holdfast(hold)
        for path in hold.state.glob("holdfast.db*"):
            path.unlink()
        records = hold.state / "runs.jsonl"
        lines = records.read_text().splitlines(keepends=True)
        records.write_text("".join(line for line in lines if line.startswith('{"begin"')))
        hold.services(web=quick(), other=quick(depends_on=["web"]))
        told = hold.cli("up", "-d", "--timeout", "1s", expect=1, preexec_fn=forbid_marks)
        assert f"{pid} (python" in told.stdout
        assert "holdfast start web" in told.stdout
        assert hold.service("web")["pid"] is None
        assert hold.service("other")["pid"] is None
        hold.kill_supervisor()
        assert hold.service("web")["pid"] is None
        if verb == "up":
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: not is_alive(pid))
            hold.up()
        else:
            hold.cli("up", "-d", "--timeout", "1s", expect=1)
            hold.cli("start", "web")
            assert is_alive(pid)
        hold.wait_status("web", "running")
        hold.wait_status("other", "running")
