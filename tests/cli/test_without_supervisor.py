"""When the supervisor cannot start: status, logs, stop and down ask the keeper."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.client.discovery import connect
from holdfast.client.launch import ensure_running
from holdfast.system.places import find_places, lock_is_held
from holdfast.vocabulary.errors import NoDaemon
from tests.cli.fake_daemon import FakeDaemon
from tests.client.fake_keeper import FakeKeeper, exit_of


@pytest.fixture
def keeper(project: Path) -> Iterator[FakeKeeper]:
    fake = FakeKeeper(find_places(str(project), os.environ))
    yield fake
    fake.close()


def test_status_tells_what_the_keeper_holds(
    keeper: FakeKeeper, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs are shown, and standard error says why the supervisor is away and where to look."""
    assert main(["status", "web", "--json"]) == 0
    said = capsys.readouterr()
    answer = json.loads(said.out)
    assert answer["services"]["web"]["pid"] == 4242
    assert answer["supervisor"]["status"] == "backoff"
    assert "ImportError: broken" in said.err
    assert "supervisor.err" in said.err
    assert main(["status"]) == 0
    table = capsys.readouterr().out
    assert "db" in table
    assert "None" not in table
    assert main(["status", "wbe"]) == 3


def test_status_tells_how_runs_ended(
    keeper: FakeKeeper, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only success is `exited`; what ended badly is `failed`, what was stopped is `stopped`."""
    keeper.runs = []
    keeper.exits = [
        exit_of("good", code=1),
        exit_of("good", code=0),
        exit_of("bad", code=3),
        exit_of("shot", signal=9),
        exit_of("halted", signal=15, is_end_asked=True),
        exit_of("lost", unknown=True),
        exit_of("holdfast.gate", signal=15),
    ]
    assert main(["status", "--json"]) == 0
    services = json.loads(capsys.readouterr().out)["services"]
    found = {
        name: (it["status"], it["exit_code"], it["signal"], it["reason"])
        for name, it in services.items()
    }
    after = " while no supervisor ran"
    assert found == {
        "good": ("exited", 0, None, "exit code 0" + after),
        "bad": ("failed", 3, None, "exit code 3" + after),
        "shot": ("failed", None, "SIGKILL", "killed by SIGKILL" + after),
        "halted": ("stopped", None, "SIGTERM", "stopped" + after),
        "lost": ("failed", None, None, "exit code unknown" + after),
    }
    assert main(["status"]) == 0
    table = capsys.readouterr().out
    assert re.search(r"bad +failed .*exit code 3 while", table)
    assert re.search(r"halted +stopped .*stopped while", table)


def test_stop_ends_the_run(keeper: FakeKeeper, capsys: pytest.CaptureFixture[str]) -> None:
    """stop asks the keeper to end that run only, with the grace that was asked for."""
    assert main(["stop", "db", "--grace", "1s"]) == 0
    assert "db: stopped" in capsys.readouterr().out
    ends = [word for word in keeper.words if word["do"] == "end"]
    assert [(end["run_id"], end["grace"]) for end in ends] == [("run-db", 1.0)]


def test_stop_of_what_has_ended_is_success(
    keeper: FakeKeeper, capsys: pytest.CaptureFixture[str]
) -> None:
    """What status lists can be stopped, and stopping it again does nothing."""
    keeper.exits = [exit_of("halted", signal=15, is_end_asked=True), exit_of("bad", code=3)]
    assert main(["stop", "halted", "bad", "db", "--json"]) == 0
    services = json.loads(capsys.readouterr().out)["services"]
    assert {name: (it["outcome"], it["status"]) for name, it in services.items()} == {
        "halted": ("already_stopped", "stopped"),
        "bad": ("already_stopped", "failed"),
        "db": ("stopped", "stopped"),
    }
    assert [word["run_id"] for word in keeper.words if word["do"] == "end"] == ["run-db"]


def test_down_shuts_the_keeper_down(
    keeper: FakeKeeper, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """down returns when the lock is free."""
    assert main(["down", "--now"]) == 0
    assert next(word for word in keeper.words if word["do"] == "shutdown")["grace"] == 0
    assert not lock_is_held(find_places(str(project), os.environ).state)
    assert "Holdfast is down" in capsys.readouterr().out


def test_other_verbs_say_what_still_works(
    keeper: FakeKeeper, capsys: pytest.CaptureFixture[str]
) -> None:
    """A verb that needs the supervisor exits 4 and names what works without it."""
    assert main(["start", "web"]) == 4
    said = capsys.readouterr().err
    assert "`status`, `logs`, `stop` and `down` still work" in said
    tries = "it failed 5 times in a row, and is tried again in [345] s: ImportError: broken"
    assert re.search(f"the supervisor cannot start: {tries}", said)
    trace = 'Traceback (most recent call last):\n  File "x"\nImportError: broken\n'
    keeper.supervisor.update(last_error=trace)
    assert main(["start", "web"]) == 4
    said = capsys.readouterr().err
    assert "s: ImportError: broken\n" in said, "of a traceback, its last line"
    keeper.supervisor.update(last_error=None, next_in=None, failures=3)
    assert main(["start", "web"]) == 4
    said = capsys.readouterr().err
    assert "it failed 3 times in a row, and is tried again: exit code 1" in said


def test_a_full_disk_is_told(
    keeper: FakeKeeper, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who finds no room cannot write why it ends; so the disk is looked at."""
    keeper.supervisor.update(last_error=None)
    monkeypatch.setattr("holdfast.client.discovery.NEEDED_BYTES", 1 << 62)
    assert main(["start", "web"]) == 4
    assert "no room left" in capsys.readouterr().err


def test_a_folder_that_is_gone_is_told(
    keeper: FakeKeeper, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without it no supervisor can start, nor say why."""
    keeper.supervisor.update(last_error=None)

    def refuse(path: str) -> None:
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr("os.statvfs", refuse)
    assert main(["start", "web"]) == 4
    assert "is gone" in capsys.readouterr().err


def test_up_switches_the_supervisor_on(project: Path) -> None:
    """After `down --keep-running`, up asks the keeper for a supervisor and joins it."""
    places = find_places(str(project), os.environ)
    keeper = FakeKeeper(places, state="off", failures=0)
    started: list[FakeDaemon] = []

    def supervise() -> None:
        while not any(word["do"] == "supervise" for word in list(keeper.words)):
            if stop.wait(0.005):
                return
        started.append(FakeDaemon(str(project)))

    stop = threading.Event()
    thread = threading.Thread(target=supervise, daemon=True)
    thread.start()
    try:
        launched = ensure_running(places, os.environ)
        assert launched.keeper is None
        launched.connection.close()
    finally:
        stop.set()
        thread.join(30)
        for daemon in started:
            daemon.close()
        keeper.close()


def test_a_supervisor_on_its_way_is_waited_for(project: Path) -> None:
    """While the keeper says that a supervisor runs, a closed door is only a matter of time."""
    places = find_places(str(project), os.environ)
    keeper = FakeKeeper(places, state="running", failures=0)
    daemons: list[FakeDaemon] = []
    timer = threading.Timer(0.3, lambda: daemons.append(FakeDaemon(str(project))))
    timer.start()
    try:
        connect(places).close()
    finally:
        timer.join()
        for daemon in daemons:
            daemon.close()
        keeper.close()


def test_a_stale_socket_is_nobody(project: Path) -> None:
    """Sockets that a crash left behind do not count, and are not waited for."""
    places = find_places(str(project), os.environ)
    leave_sockets(places.line_socket, places.keeper_socket)
    with pytest.raises(NoDaemon, match="nothing runs here"):
        connect(places)


def leave_sockets(*paths: str) -> None:
    import socket

    for path in paths:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        left = socket.socket(socket.AF_UNIX)
        left.bind(path)
        left.close()


def test_a_replaced_supervisor_is_asked_again(daemon: FakeDaemon) -> None:
    """If it dies before it answers, what is safe to repeat is asked once more."""
    answer = daemon.answers["stop"]

    def die_once(_: object) -> object:
        daemon.answers["stop"] = answer
        daemon.hang_up()
        return answer

    daemon.answers["stop"] = die_once
    assert main(["stop", "web"]) == 0
    assert daemon.commands().count("stop") == 2


def test_versions_too_far_apart_are_refused(
    daemon: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    """The daemon's version is checked with each call; the message names the fix."""
    hello = daemon.answers["hello"]
    assert isinstance(hello, dict)
    hello["version"] = "7.0.0"
    assert main(["status"]) == 5
    assert "holdfast upgrade" in capsys.readouterr().err
