"""Pains of users about configuration, environment, secrets, history and assistants."""

from __future__ import annotations

import base64
import json
import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness import PYTHON, Hold, is_alive, kill_9, wait_for

SLEEP = ["sleep", "300"]


def pids(hold: Hold) -> dict[str, int]:
    return {name: service["pid"] for name, service in hold.status()["services"].items()}


def test_up_again_touches_nothing(hold: Hold) -> None:
    """An update that changes nothing bounces the database all the same."""
    hold.services(web=SLEEP, db=SLEEP)
    hold.up()
    before, last = pids(hold), hold.ask("events")["last"]
    answer = hold.json("up", "-d")
    assert (answer["added"], answer["changed"], answer["removed"]) == ([], [], [])
    assert pids(hold) == before
    assert hold.ask("events", since=last)["events"] == []


def test_one_more_service_restarts_no_other(hold: Hold) -> None:
    """One worker more cannot be had without a restart of all the rest."""
    hold.services(web=SLEEP, db=SLEEP)
    hold.up()
    before = pids(hold)
    hold.services(web=SLEEP, db=[*SLEEP, "1"], more=SLEEP)
    answer = hold.json("up", "-d")
    assert (answer["added"], answer["changed"]) == (["more"], ["db"])
    assert {name: pids(hold)[name] for name in before} == before
    hold.cli("restart", "db")
    assert pids(hold)["web"] == before["web"]
    assert hold.json("ps")["services"]["db"][0]["command"] == "sleep 300 1"


def test_a_removed_variable_is_gone(hold: Hold) -> None:
    """A variable that was deleted from the file or the shell comes back at every restart."""
    code = ["sh", "-c", 'echo "<$FROM_FILE><$FROM_SHELL>"; exec sleep 300']
    hold.services(web={"command": code, "env": {"FROM_FILE": "a"}})
    hold.up(environ={"FROM_SHELL": "b"})
    wait_for(lambda: hold.raw("web") == b"<a><b>\n")
    hold.services(web={"command": code})
    hold.up()
    hold.cli("restart", "web")
    wait_for(lambda: hold.raw("web") == b"<a><b>\n<><>\n")
    old = hold.service("web")["pid"]
    hold.environ.pop("FROM_SHELL", None)
    kill_9(hold.supervisor_pid)
    wait_for(lambda: hold.json("restart", "web")["services"]["web"]["pid"] not in (None, old))
    wait_for(lambda: hold.raw("web").endswith(b"<><>\n<><>\n"))


def every_byte_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("moment", ["running", "replaced", "down"])
def test_no_secret_is_stored_or_shown(hold: Hold, moment: str) -> None:
    """Every secret of the environment lies readable in a dump file and in the status."""
    secrets = {name: f"hush-{name}-{os.urandom(6).hex()}" for name in ("file", "shell", "inline")}
    (hold.project / ".env").write_text(f"export API_KEY='{secrets['file']}'\n")
    hold.services(
        web={
            "command": [PYTHON, "-I", "-c", "import os, time\n"
                        "print(sum(v.startswith('hush-') for v in os.environ.values()), "
                        "flush=True)\ntime.sleep(300)"],
            "env_file": ".env",
            "env": {"TOKEN": "${INLINE}"},
        }
    )  # fmt: skip
    # `${INLINE}` is in the caller's environment too, so four variables hold three secrets.
    shell = {"SHELL_SECRET": secrets["shell"], "INLINE": secrets["inline"]}
    hold.up(environ=shell)
    wait_for(lambda: hold.raw("web") == b"4\n")
    shown = "".join(
        hold.cli(*verb, "--json").stdout
        for verb in (["status"], ["events", "--since", 0], ["ps"], ["runs", "web"], ["doctor"])
    )
    own = hold.status()["supervisor"]
    if moment == "replaced":
        kill_9(own["keeper_pid"])
        wait_for(lambda: hold.status()["supervisor"]["keeper_pid"] != own["keeper_pid"])
        own = hold.status()["supervisor"]
    for pid in (own["pid"], own["keeper_pid"]):
        for name in ("cmdline", "environ"):
            shown += Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    state = hold.state
    if moment == "down":
        hold.cli("down")
    stored = every_byte_of(state)
    assert stored
    for secret in secrets.values():
        assert secret not in shown
        assert secret.encode() not in stored
        assert base64.b64encode(secret.encode())[:-4] not in stored


def test_nothing_of_ours_is_open_to_others(hold: Hold) -> None:
    """Logs and state are left readable to everybody, because the caller's umask was."""
    hold.services(web=["sh", "-c", "echo hi; echo hi >&2; exec sleep 300"])
    hold.up(umask=0)
    hold.cli("token", "create", "other", umask=0)
    wait_for(lambda: hold.raw("web") == b"hi\nhi\n")
    found = [path for folder in (hold.state, hold.runtime) for path in (folder, *folder.rglob("*"))]
    assert {"line.sock", "holdfast.db", "tokens.json", "keeper.err"} < {it.name for it in found}
    assert [path for path in found if path.stat().st_mode & 0o077] == []


def test_stopped_stays_stopped_whatever_dies(hold: Hold) -> None:
    """A service that was stopped starts again by itself, because nobody wrote it down."""
    hold.services(web=SLEEP, db=SLEEP)
    hold.up()
    hold.cli("stop", "db")
    web = hold.service("web")["pid"]
    keeper = hold.keeper_pid
    kill_9(keeper)
    wait_for(lambda: hold.status()["supervisor"]["keeper_pid"] != keeper)
    hold.cli("upgrade")
    for name in hold.state.glob("holdfast.db*"):
        name.unlink()
    old = hold.supervisor_pid
    kill_9(old)
    wait_for(lambda: hold.supervisor_pid != old)
    assert hold.service("db")["status"] == "stopped"
    assert (hold.service("web")["status"], hold.service("web")["pid"]) == ("running", web)


@pytest.mark.parametrize("end", ["down", "power cut"])
def test_stopped_stays_stopped_at_the_next_boot(end: str, hold: Hold) -> None:
    """A service that was stopped by hand is back after every reboot."""
    hold.services(web=SLEEP, db=SLEEP, cron={"command": SLEEP, "autostart": False})
    hold.up()
    hold.cli("stop", "db")
    supervisor = hold.supervisor_pid
    kill_9(supervisor)
    wait_for(lambda: hold.supervisor_pid != supervisor)
    if end == "down":
        hold.cli("down")
    else:
        for pid in (hold.keeper_pid, hold.supervisor_pid, hold.service("web")["pid"]):
            kill_9(pid)
    for _ in range(2):
        answer = hold.json("up", "-d", "--unless-stopped")
        assert (list(answer["services"]), answer["stays_stopped"]) == (["web"], ["db"])
        assert hold.service("web")["status"] == "running"
        assert (hold.service("db")["status"], hold.service("db")["pid"]) == ("pending", None)
    refused = hold.cli("up", "-d", "--unless-stopped", "db", expect=2)
    assert "what is named is started" in refused.stderr
    told = hold.cli("up", "-d", "--unless-stopped").stderr
    assert "db stays stopped, as it was; holdfast start db starts it" in told
    hold.cli("start", "db")
    hold.cli("down")
    assert hold.json("up", "-d", "--unless-stopped")["stays_stopped"] == []
    hold.cli("stop", "db")
    assert list(hold.json("up", "-d")["services"]) == ["web", "db"]


def is_off_for_good(hold: Hold, name: str) -> bool:
    """Whether it is written down that it was stopped by hand."""
    with closing(sqlite3.connect(hold.state / "holdfast.db")) as database:
        found = database.execute("SELECT record FROM services WHERE name = ?", (name,))
        return bool(json.loads(found.fetchone()[0])["stays_off"])


def test_a_stop_under_way_is_carried_out_by_the_next_holdfast(hold: Hold) -> None:
    """Both die while a service that was stopped by hand takes its time."""
    hurried = (
        "n=; trap 'n=x$n; echo got$n; [ $n = xx ] && exit 0' TERM; while :; do sleep 0.1; done"
    )
    hold.services(web={"command": ["sh", "-c", hurried], "stop": {"grace": "60s"}})
    hold.up()
    pid = hold.service("web")["pid"]
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(hold.runtime / "line.sock"))
        line.sendall(b'{"command": "stop", "services": ["web"]}\n')
        wait_for(lambda: "gotx" in hold.cli("logs", "web").stdout)
        wait_for(lambda: is_off_for_good(hold, "web"))
        for victim in (hold.keeper_pid, hold.supervisor_pid):
            kill_9(victim)
    answer = hold.json("up", "-d", "--unless-stopped")
    assert (answer["services"], answer["stays_stopped"]) == ({}, ["web"])
    assert not is_alive(pid)


def test_only_what_was_stopped_by_hand_stays_off(hold: Hold) -> None:
    """The end of Holdfast, however hasty, and that of a survivor are nobody's wish."""
    hold.services(
        web={"command": SLEEP, "depends_on": ["db"]},
        db=SLEEP,
        mail={"command": SLEEP, "survivors": "stop"},
    )
    hold.up()
    hold.cli("stop", "db", "web")
    wait_for(lambda: all(is_off_for_good(hold, name) for name in ("db", "web")))
    for pid in (hold.keeper_pid, hold.supervisor_pid):
        kill_9(pid)
    answer = hold.json("up", "-d", "--unless-stopped")
    assert answer["stays_stopped"] == ["web", "db"]
    assert answer["services"]["mail"]["outcome"] == "started", "its survivor was stopped first"
    hold.cli("start", "web", "db")
    hold.cli("stop", "db")
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(hold.runtime / "line.sock"))
        line.settimeout(30)
        line.sendall(b'{"command": "shutdown"}\n{"command": "shutdown", "now": true}\n')
        while line.recv(65536):
            pass
    answer = hold.json("up", "-d", "--unless-stopped")
    assert set(answer["services"]) == {"web", "db", "mail"}
    assert answer["stays_stopped"] == [], "web needs db"


def test_a_service_without_a_file_is_not_forgotten(hold: Hold) -> None:
    """The list of services is emptied by a crash, and all that was started by hand is lost."""
    hold.cli("run", "--name", "job", "--", "sh", "-c", "echo up; exec sleep 300")
    for path in hold.state.glob("holdfast.db*"):
        path.write_bytes(b"")
    old = hold.supervisor_pid
    kill_9(old)
    wait_for(lambda: hold.supervisor_pid != old)
    pid = hold.service("job")["pid"]
    hold.cli("restart", "job")
    assert hold.service("job")["pid"] not in (None, pid)
    wait_for(lambda: hold.raw("job") == b"up\nup\n")


def test_a_late_reader_gets_every_event(hold: Hold) -> None:
    """A queue of a few events overflows before its reader has come: «running» is never seen."""
    names = [f"s{i}" for i in range(40)]
    hold.services(**dict.fromkeys(names, SLEEP))
    hold.up()
    old = hold.supervisor_pid
    kill_9(old)
    wait_for(lambda: hold.supervisor_pid != old)
    hold.cli("restart", *names)
    last = hold.ask("events")["last"]
    assert last > 250
    told = list(map(json.loads, hold.cli("events", "--since", 0, "--json").stdout.splitlines()))
    assert [event["seq"] for event in told if event["seq"] <= last] == list(range(1, last + 1))
    for name in names:
        kinds = [event["kind"] for event in told if event["service"] == name]
        assert kinds.count("process:started") == 2


def test_an_assistant_signals_by_name_and_cannot_end_its_host(hold: Hold) -> None:
    """An assistant kills a pid that it guessed, and with it itself or its neighbours."""
    answers = hold.folder / "answers"
    verbs = [["status"], ["stop", "web"], ["signal", "KILL", "web"], ["down"], ["run", "--", "ls"]]
    code = (
        "import subprocess, time\n"
        f"codes = [subprocess.run({hold.command()!r} + verb, capture_output=True).returncode\n"
        f"         for verb in {verbs!r}]\n"
        f"open({str(answers)!r}, 'w').write(repr(codes))\n"
        "time.sleep(300)"
    )
    hold.services(web=SLEEP, assistant=[PYTHON, "-c", code])
    hold.up()
    wait_for(lambda: answers.exists() and answers.read_text().endswith("]"), 30)
    assert answers.read_text() == "[0, 5, 5, 5, 5]"
    web = hold.service("web")["pid"]
    assert is_alive(web)
    hold.cli("signal", "HUP", "web")
    assert hold.wait_status("web", "failed", "backoff")["signal"] == "SIGHUP"
