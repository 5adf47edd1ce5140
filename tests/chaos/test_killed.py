"""kill -9 of each of our processes under load: nothing is lost."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.chaos.load import Load
from tests.chaos.test_replaced import Installed
from tests.harness import Hold, is_alive, kill_9, program, quick, started, wait_for


def test_supervisor_killed_again_and_again(hold: Hold) -> None:
    """No line lost or doubled, no pid changed, every exit code known, status answers."""
    load = Load(hold)
    rng = random.Random(11)
    for _ in range(6):
        time.sleep(rng.uniform(0.0, 0.3))
        hold.kill_supervisor()
        load.check_same_processes()
    load.check_nothing_lost()
    assert hold.keeper_pid == hold.status()["supervisor"]["keeper_pid"]


def test_keeper_killed_again_and_again(hold: Hold) -> None:
    """No service dies, no line is lost; exit codes are right or said to be unknown."""
    load = Load(hold)
    rng = random.Random(12)
    for _ in range(3):
        old = hold.keeper_pid
        time.sleep(rng.uniform(0.0, 0.3))
        kill_9(old)
        wait_for(lambda old=old: hold.status()["supervisor"]["keeper_pid"] != old)
        load.check_same_processes()
    load.check_nothing_lost(codes_known=False)


def test_a_recovered_keeper_starts_services_as_before(hold: Hold) -> None:
    """After the keeper's death a service still gets its environment, limits and umask."""
    code = 'echo "$COLOUR $(umask) $(ulimit -n)"; sleep 300'
    hold.services(web=["sh", "-c", code])
    hold.up(environ={"COLOUR": "green"})
    first = wait_for(lambda: hold.raw("web"))
    old = hold.keeper_pid
    kill_9(old)
    wait_for(lambda: hold.status()["supervisor"]["keeper_pid"] != old)
    hold.cli("restart", "web")
    assert wait_for(lambda: hold.raw("web", "--run", 2)) == first


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_a_recovered_keeper_keeps_its_oom_score_to_itself() -> None:
    """What a recovered keeper starts has the score that the first keeper was born with."""
    with Installed() as hold:
        # Who may not go below zero can still be born high, and lower itself to the middle.
        path = hold.site / "holdfast" / "system" / "own_process.py"
        path.write_text(path.read_text().replace("_OOM_SCORE = -900", "_OOM_SCORE = 500"))
        hold.services(web=["sh", "-c", "cat /proc/self/oom_score_adj; sleep 300"])
        born = ["sh", "-c", 'echo 1000 >/proc/self/oom_score_adj; exec "$@"', "sh"]
        subprocess.run([*born, *hold.command("up", "-d")], cwd=hold.project, env=hold.environ)
        assert wait_for(lambda: hold.raw("web")) == b"1000\n"
        for run in (2, 3):
            old = hold.keeper_pid
            kill_9(old)
            wait_for(lambda old=old: hold.status()["supervisor"]["keeper_pid"] != old)
            hold.cli("restart", "web")
            assert wait_for(lambda run=run: hold.raw("web", "--run", run)) == b"1000\n"
            for pid in (hold.keeper_pid, hold.supervisor_pid):
                assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "500\n"


def test_both_killed_survivors_are_adopted(hold: Hold) -> None:
    """Keeper and supervisor killed at once: the next up adopts what lives, and no line is lost."""
    truth = hold.folder / "truth"
    quiet = ["sh", "-c", f"while :; do sleep 0.2; test -e {hold.folder}/go && break; done; "
             "while :; do echo tick; sleep 0.05; done"]  # fmt: skip
    hold.services(quiet=quiet, loud=program("count.py", truth, 100000, 0.01, 0))
    hold.up()
    status = hold.status()
    pid = status["services"]["quiet"]["pid"]
    run_id = status["services"]["quiet"]["run_id"]
    wait_for(lambda: hold.raw("loud"), what="a first line to be recorded")
    for own in (status["supervisor"]["pid"], status["supervisor"]["keeper_pid"]):
        kill_9(own)
    wait_for(lambda: not is_alive(status["supervisor"]["pid"]))
    assert is_alive(pid)
    hold.up()
    again = hold.wait_status("quiet", "running")
    assert (again["pid"], again["run_id"], again["adopted"]) == (pid, run_id, True)
    kill_9(hold.supervisor_pid)
    later = hold.json("status")["services"]["quiet"]
    assert later["uptime"] > again["uptime"], "its age is kept"
    (hold.folder / "go").touch()
    wait_for(lambda: b"tick" in hold.raw("quiet"), what="its output to be recorded again")
    loud = hold.service("loud")
    assert (loud["pid"], loud["adopted"]) == (status["services"]["loud"]["pid"], True)
    hold.cli("stop", "quiet", "loud")
    assert not is_alive(pid)
    recorded, wrote = hold.raw("loud").splitlines(), truth.read_bytes().splitlines()
    # It may have been ended between its two writes of one line.
    assert recorded in (wrote, wrote[:-1])
    assert hold.raw("loud", "--run", 1) == hold.raw("loud"), "its log is one run's"
    assert hold.service("loud")["log_bytes"] == len(hold.raw("loud"))


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
def test_both_killed_and_a_survivor_prints_to_a_pipe_of_its_own(hold: Hold) -> None:
    """What it says to its own child is not ours to read, neither before nor after the adoption."""
    own = hold.folder / "own"
    code = f"exec > >(cat >>{own}); for ((n = 0; ; n++)); do echo line $n; sleep 0.02; done"
    hold.services(web=quick(["bash", "-c", code.replace("$", "$$")]), other=["sleep", "300"])
    hold.up()
    wait_for(lambda: own.exists() and b"line 5\n" in own.read_bytes())
    status = hold.status()
    for pid in (status["supervisor"]["pid"], status["supervisor"]["keeper_pid"]):
        kill_9(pid)
    wait_for(lambda: not is_alive(status["supervisor"]["keeper_pid"]))
    hold.up()
    assert hold.service("web")["pid"] == status["services"]["web"]["pid"]
    count = own.read_bytes().count(b"\n") + 50
    wait_for(lambda: b"line %d\n" % count in own.read_bytes(), what="it to go on")
    numbers = [int(line.split()[1]) for line in own.read_bytes().split(b"\n")[:-1]]
    assert numbers == list(range(len(numbers)))
    assert hold.raw("web") == b""


def test_both_killed_survivors_are_stopped_if_so_configured(hold: Hold) -> None:
    """survivors: stop ends what outlived us and starts afresh: one instance, ever."""
    hold.services(web={"command": ["sleep", "300"], "survivors": "stop"})
    hold.up()
    status = hold.status()
    pid = status["services"]["web"]["pid"]
    for own in (status["supervisor"]["pid"], status["supervisor"]["keeper_pid"]):
        kill_9(own)
    wait_for(lambda: not is_alive(status["supervisor"]["pid"]))
    hold.up()
    wait_for(lambda: hold.service("web")["pid"] not in (None, pid))
    assert not is_alive(pid)


@pytest.mark.parametrize("ended", ["before", "meanwhile"])
def test_both_killed_and_a_service_ended(hold: Hold, ended: str) -> None:
    """What it left running is ended before its next run begins, and its last words are kept."""
    left, go, begun, met = (hold.folder / name for name in ("left", "go", "begun", "met"))
    loop = f"trap : TERM; while :; do test -e {begun} && touch {met}; sleep 0.05; done"
    code = (
        f"test -e {left} && touch {begun} && exec sleep 300; setsid sh -c '{loop}' 2>/dev/null & "
        f"echo $$! >{left}; while ! test -e {go}; do sleep 0.02; done; echo last words; exit 3"
    )
    stop = {"grace": "60s" if ended == "before" else "500ms"}
    hold.services(web=quick(["sh", "-c", code], stop=stop))
    hold.up()
    first = hold.wait_status("web", "running")
    rest = int(wait_for(lambda: left.exists() and left.read_text()))
    own = hold.status()["supervisor"]
    if ended == "before":
        go.touch()
        wait_for(lambda: hold.service("web")["exit_code"] == 3)
    for pid in (own["pid"], own["keeper_pid"]):
        kill_9(pid)
    go.touch()
    wait_for(lambda: not any(map(is_alive, (own["pid"], own["keeper_pid"], first["pid"]))))
    assert is_alive(rest)
    hold.services(web=quick(["sh", "-c", code]))
    hold.up()
    assert not is_alive(rest)
    assert hold.wait_status("web", "running")["run"] == 2
    assert hold.raw("web", "--run", 1) == hold.raw("web") == b"last words\n"
    wait_for(begun.exists)
    assert not met.exists()
    hold.kill_supervisor()
    assert hold.wait_status("web", "running")["run"] == 2


def test_both_killed_and_an_exit_was_journalled(hold: Hold) -> None:
    """What only the keeper had seen is in the history after the next up: no run stays open."""
    go = hold.folder / "go"
    code = f"test -e {go} && exec sleep 300; while ! test -e {go}; do sleep 0.02; done; exit 3"
    hold.services(web=quick(["sh", "-c", code], restart_policy="never"))
    hold.up()
    own = hold.status()["supervisor"]
    os.kill(own["pid"], signal.SIGSTOP)
    go.touch()
    journal = hold.state / "exits.jsonl"
    wait_for(lambda: b'"exit"' in journal.read_bytes(), what="the keeper to see the exit")
    for pid in (own["keeper_pid"], own["pid"]):
        kill_9(pid)
    wait_for(lambda: not is_alive(own["keeper_pid"]) and not is_alive(own["pid"]))
    hold.up()
    wait_for(lambda: hold.service("web")["run"] == 2)
    with closing(sqlite3.connect(hold.state / "holdfast.db")) as database:
        query = "SELECT code, is_unknown FROM runs WHERE number = 1 AND ended_at"
        found = wait_for(lambda: database.execute(query).fetchall())
    assert found == [(3, 0)]


def test_lost_database_costs_only_history(hold: Hold) -> None:
    """The database deleted, destroyed or damaged, or written by a later version: services are
    re-adopted from the keeper."""
    hold.services(web=["sleep", "300"])
    hold.up()
    pid = hold.service("web")["pid"]
    for lose in (_destroy, _delete, _damage, _overtake):
        old = hold.supervisor_pid
        lose(hold.state / "holdfast.db")
        kill_9(old)
        wait_for(lambda old=old: hold.supervisor_pid != old)
        assert hold.service("web")["pid"] == pid
        assert hold.service("web")["status"] == "running"
        assert hold.ask("events")["events"]
        hold.ask("signal", services=["web"], signal="CONT")
        assert hold.ask("events")["events"][-1]["kind"] == "service:signalled"


def _destroy(database: Path) -> None:
    for path in database.parent.glob("holdfast.db*"):
        path.write_bytes(b"\xff" * 8192)


def _delete(database: Path) -> None:
    for path in database.parent.glob("holdfast.db*"):
        path.unlink()


def _damage(database: Path) -> None:
    """All but the first page, which says that it is a database."""
    with closing(sqlite3.connect(database)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with database.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (database.stat().st_size - 4096))


def _overtake(database: Path) -> None:
    """With columns and states that only a later version knows."""
    with closing(sqlite3.connect(database)) as db, db:
        for table in ("services", "runs", "events", "meta"):
            db.execute(f"ALTER TABLE {table} ADD COLUMN later TEXT")
        db.execute("UPDATE services SET record = replace(record, '\"running\"', '\"later\"')")


def test_recycled_pid_is_never_signalled(hold: Hold) -> None:
    """A pid that now belongs to a stranger is left alone by adoption and stop."""
    hold.services(web=["sleep", "300"])
    hold.up()
    status = hold.status()
    pids = [status["supervisor"]["pid"], status["supervisor"]["keeper_pid"]]
    for own in pids:
        kill_9(own)
    kill_9(status["services"]["web"]["pid"])
    wait_for(lambda: not any(is_alive(pid) for pid in pids))
    with started(["sleep", "300"]) as stranger:
        database = sqlite3.connect(hold.state / "holdfast.db")
        with closing(database), database:
            changed = database.execute("UPDATE runs SET pid = ?", (stranger.pid,)).rowcount
        assert changed == 1
        hold.up()
        now = hold.wait_status("web", "running")
        assert now["pid"] != stranger.pid
        hold.cli("down")
        assert stranger.poll() is None


def test_two_daemons_are_impossible(hold: Hold) -> None:
    """Many `up` at once make one Holdfast and one instance of each service."""
    pids = hold.folder / "pids"
    hold.services(web=["sh", "-c", f"echo $$$$ >> {pids}; exec sleep 300"])
    ups = [
        subprocess.Popen(hold.command("up", "-d"), cwd=hold.project, env=hold.environ,
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for _ in range(6)
    ]  # fmt: skip
    for one in ups:
        _, err = one.communicate(timeout=60)
        assert one.returncode == 0, err
    assert len(pids.read_text().split()) == 1


def test_stale_files_are_taken_over(hold: Hold) -> None:
    """Sockets and keeper.json of a crashed Holdfast are no reason to ask the user for anything."""
    hold.services(web=["sleep", "300"])
    hold.up()
    status = hold.status()
    for pid in (status["supervisor"]["pid"], status["supervisor"]["keeper_pid"],
                status["services"]["web"]["pid"]):  # fmt: skip
        kill_9(pid)
    wait_for(lambda: not is_alive(status["supervisor"]["pid"]))
    assert os.path.exists(hold.runtime / "line.sock")
    hold.cli("status", expect=4)
    hold.up()
    assert hold.wait_status("web", "running")["pid"] != status["services"]["web"]["pid"]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")
@pytest.mark.parametrize("deleted", ["line.sock", "keeper.sock", ""])
def test_deleted_sockets_are_made_anew(hold: Hold, deleted: str) -> None:
    """Who cleans temporary folders locks nobody out, and no service notices."""
    hold.services(web=["sleep", "300"])
    hold.up()
    pid = hold.service("web")["pid"]
    if deleted:
        (hold.runtime / deleted).unlink()
    else:
        shutil.rmtree(hold.runtime)
    hold._disconnect()
    assert hold.json("status")["services"]["web"]["pid"] == pid
    kill_9(hold.json("status")["supervisor"]["pid"])
    assert hold.json("status")["services"]["web"]["pid"] == pid
    hold.cli("down")
    assert not is_alive(pid)


def delete_files(hold: Hold) -> None:
    """Delete state and sockets of a Holdfast that runs, and that may write while they go."""
    for folder in (hold.runtime, hold.state):
        deleted = folder.rename(hold.folder / f"deleted-{folder.name}")
        while deleted.exists():
            shutil.rmtree(deleted, ignore_errors=True)


@pytest.mark.skipif(sys.platform != "linux", reason="names that cannot be deleted are Linux's")
@pytest.mark.parametrize("verb", ["status", "up"])
def test_without_any_file_it_is_found_and_stays_the_only_one(hold: Hold, verb: str) -> None:
    """Who deletes state and sockets of a Holdfast that runs gets no second one, and can end it."""
    hold.services(web=["sleep", "300"])
    hold.up()
    before, pid = hold.status()["supervisor"]["keeper_pid"], hold.service("web")["pid"]
    delete_files(hold)
    hold._disconnect()
    hold.cli(*(["up", "-d"] if verb == "up" else ["status"]))
    after = hold.json("status")
    assert (after["supervisor"]["keeper_pid"], after["services"]["web"]["pid"]) == (before, pid)
    kill_9(after["supervisor"]["pid"])
    assert hold.json("status")["services"]["web"]["pid"] == pid
    kill_9(before)
    wait_for(lambda: hold.json("status")["supervisor"]["keeper_pid"] != before)
    assert hold.json("status")["services"]["web"]["pid"] == pid
    hold.cli("down")
    assert not is_alive(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="names that cannot be deleted are Linux's")
def test_a_hung_supervisor_without_files_is_not_joined_by_a_second_keeper(hold: Hold) -> None:
    """`up` refuses, names the process that hangs and says how to end it; awake, it takes over."""
    hold.services(web=["sleep", "300"])
    hold.up()
    status = hold.status()
    web, own = status["services"]["web"]["pid"], status["supervisor"]
    delete_files(hold)
    hold._disconnect()
    os.kill(own["pid"], signal.SIGSTOP)
    try:
        kill_9(own["keeper_pid"])
        wait_for(lambda: not is_alive(own["keeper_pid"]))
        refused = hold.cli("up", "-d", expect=1)
        assert "still runs and does not answer" in refused.stderr
        assert f"kill -KILL {own['pid']}`" in refused.stderr
    finally:
        os.kill(own["pid"], signal.SIGCONT)
    wait_for(lambda: hold.cli("status", expect=None).returncode == 0, what="the successor")
    after = hold.json("status")
    assert after["supervisor"]["keeper_pid"] == own["pid"]
    assert after["services"]["web"]["pid"] == web
    hold.cli("down")
    assert not is_alive(web)
