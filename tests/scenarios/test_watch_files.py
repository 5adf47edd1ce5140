"""Watched files restart their service: once a burst, never one that was stopped by hand."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
from pathlib import Path
from typing import Any

from tests.harness import Hold, kill_9, wait_for

SLEEP = {"command": ["sleep", "1000"], "start_seconds": 0, "restart": {"delay": "10ms"}}


def changes(hold: Hold, kind: str = "watch:changed") -> list[dict[str, Any]]:
    return [it["data"] for it in hold.ask("events", limit=1000)["events"] if it["kind"] == kind]


def watching(hold: Hold, **keys: Any) -> Path:
    """A service that watches `src`, and is up."""
    source = hold.project / "src"
    source.mkdir()
    (source / "a.py").write_text("1")
    watch = {"paths": ["src/**/*.py"], "debounce": "100ms", **keys.pop("watch", {})}
    hold.services(web={**SLEEP, "watch": watch, **keys})
    hold.up()
    wait_watched(hold)
    return source


def wait_watched(hold: Hold, folders: int = 1) -> None:
    """Until the kernel has been asked to tell of changes in so many folders."""
    infos = Path(f"/proc/{hold.supervisor_pid}/fdinfo")

    def is_told() -> bool:
        for info in infos.iterdir():
            try:
                if info.read_text().count("inotify wd:") >= folders:
                    return True
            except OSError:
                continue
        return False

    if infos.is_dir():
        wait_for(is_told)


def runs(hold: Hold) -> int:
    number: int = hold.service("web")["run"]
    return number


def test_a_burst_is_one_restart() -> None:
    """A thousand changed files restart once; the event names the first few."""
    with Hold() as hold:
        source = watching(hold)
        supervisor = hold.supervisor_pid
        os.kill(supervisor, signal.SIGSTOP)  # or a pause of ours would be the end of the burst
        for number in range(1000):
            (source / f"f{number}.py").write_text("x")
        os.kill(supervisor, signal.SIGCONT)
        wait_for(lambda: changes(hold))
        wait_for(lambda: hold.service("web")["status"] == "running" and runs(hold) == 2)
        (told,) = changes(hold)
        assert told["count"] == 1000
        assert len(told["paths"]) == 5
        assert told["action"] == "restart"
        assert runs(hold) == 2


def test_what_counts() -> None:
    """Folders that come later count, also with files in them; ignored and other files do not."""
    with Hold() as hold:
        source = watching(hold, watch={"ignore": ["*_gen.py"]})
        for path in ("a.txt", "x_gen.py", ".a.py.swp", "__pycache__/a.py"):
            (source / path).parent.mkdir(exist_ok=True)
            (source / path).write_text("x")
        later = hold.project / "later" / "deep"
        later.mkdir(parents=True)
        (later / "b.py").write_text("x")
        shutil.move(str(hold.project / "later"), source / "later")
        wait_for(lambda: runs(hold) == 2)
        (source / "later" / "deep" / "c.py").write_text("x")
        wait_for(lambda: runs(hold) == 3)
        (source / "later" / "deep" / "c.py").unlink()
        wait_for(lambda: runs(hold) == 4)
        names = [{Path(path).name for path in told["paths"]} for told in changes(hold)]
        assert names == [{"b.py"}, {"c.py"}, {"c.py"}]


def test_a_folder_that_does_not_exist_yet() -> None:
    """A pattern may name a folder that comes later."""
    with Hold() as hold:
        hold.services(web={**SLEEP, "watch": ["gen/out/*.json", "settings.ini"]})
        hold.up()
        wait_watched(hold)
        out = hold.project / "gen" / "out"
        out.mkdir(parents=True)
        (out / "a.json").write_text("{}")
        wait_for(lambda: runs(hold) == 2)
        (hold.project / "settings.ini").write_text("x")
        wait_for(lambda: runs(hold) == 3)


def test_stopped_by_hand_stays_stopped_and_failed_comes_back() -> None:
    """A change starts what failed, with its failures forgotten; never what somebody stopped."""
    with Hold() as hold:
        script = hold.project / "src" / "run.py"
        script.parent.mkdir()
        script.write_text("exit 3")
        watch = {"paths": ["src"], "debounce": "50ms"}
        web = {"command": ["sh", "src/run.py"], "start_retries": 0, "start_seconds": "200ms"}
        hold.services(web={**web, "watch": watch}, other={**SLEEP, "watch": watch})
        hold.up(expect=None)
        wait_watched(hold)
        hold.wait_status("web", "failed")
        script.write_text("exec sleep 1000")
        hold.wait_status("web", "running")
        assert hold.service("web")["start_failures"] == 0
        hold.cli("stop", "web")
        before, others = runs(hold), hold.service("other")["run"]
        script.write_text("exec sleep 2000")
        wait_for(lambda: hold.service("other")["run"] == others + 1)
        assert (runs(hold), hold.service("web")["pid"]) == (before, None)


def test_a_signal_instead() -> None:
    """`action: signal HUP` keeps the process and tells it."""
    with Hold() as hold:
        code = "trap 'echo again' HUP; echo up; while :; do sleep 0.05; done"
        source = watching(hold, command=["sh", "-c", code], watch={"action": "signal HUP"})
        wait_for(lambda: b"up" in hold.raw("web"))
        before = hold.service("web")["pid"]
        (source / "a.py").write_text("2")
        wait_for(lambda: b"again" in hold.raw("web"))
        assert hold.service("web")["pid"] == before
        assert changes(hold)[0]["action"] == "SIGHUP"


def test_a_new_supervisor_watches_on() -> None:
    """After the supervisor was killed its successor watches the same files."""
    with Hold() as hold:
        source = watching(hold)
        old = hold.supervisor_pid
        kill_9(old)
        wait_for(lambda: hold.supervisor_pid != old)
        wait_watched(hold)
        (source / "a.py").write_text("2")
        wait_for(lambda: runs(hold) == 2)


def test_reload_changes_what_is_watched() -> None:
    """Another `watch:` applies without a restart, and nobody's files count as changed by it."""
    with Hold() as hold:
        source = watching(hold)
        before = hold.service("web")["pid"]
        hold.services(web={**SLEEP, "watch": {"paths": ["lib/*.js"], "debounce": "50ms"}})
        (hold.project / "lib").mkdir()
        (hold.project / "lib" / "a.js").write_text("x")
        assert hold.json("reload")["plan"]["web"]["fields"] == ["watch.paths", "watch.debounce"]
        (source / "a.py").write_text("2")
        assert hold.service("web")["pid"] == before

        tries = itertools.count()

        def is_restarted() -> bool:
            if next(tries) % 30 == 0:
                (hold.project / "lib" / "a.js").write_text("y")
            return bool(hold.service("web")["pid"] != before)

        wait_for(is_restarted)
        assert all(path.endswith(".js") for told in changes(hold) for path in told["paths"])


def test_polling() -> None:
    """Where asked for, files are compared again and again, new folders included."""
    with Hold() as hold:
        source = hold.project / "src"
        source.mkdir()
        hold.services(web={**SLEEP, "watch": {"paths": ["src/**"], "polling": True}})
        hold.up()

        tries = itertools.count()

        def is_restarted() -> bool:
            if (number := next(tries)) % 100 == 0:
                (source / "new").mkdir(exist_ok=True)
                (source / "new" / "a.py").write_text(str(number))
            return runs(hold) > 1

        wait_for(is_restarted)
