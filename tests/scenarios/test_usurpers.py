"""Whoever asks is the owner only if no service of this Holdfast can have started it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Hold, kill_9, program, quick, wait_for

DOORS: dict[str, dict[str, Any]] = {
    "line.sock": {"id": 1, "command": "shutdown"},
    "keeper.sock": {"id": 1, "do": "shutdown"},
}


@pytest.mark.parametrize("lowers", [0, 1])
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("cgroup", ["", "off"], ids=["cgroup", "no-cgroup"])
def test_no_orphan_becomes_the_owner_by_killing_the_keeper(
    cgroup: str, door: str, lowers: int
) -> None:
    """Two forks, a new session, no environment, out of the cgroup, and then kill -9 of the parent
    that knew it: it may look, not change. Nor does it help to change its own limit."""
    with Hold(HOLDFAST_CGROUP=cgroup) as hold:
        folder = hold.folder
        hold.services(web=quick(program("usurper.py", folder, lowers)), other=quick())
        hold.up()
        old = hold.keeper_pid
        (folder / "where").write_text(json.dumps([str(hold.runtime / door), DOORS[door]]))
        (folder / "pid").write_text(str(old))
        os.rename(folder / "pid", folder / "go")
        wait_for((folder / "answer").exists, what="an answer")
        told = json.loads((folder / "answer").read_bytes())
        assert told["ok"] is False, told
        assert told["error"]["code"] == "refused", told
        wait_for(lambda: hold.status()["supervisor"]["keeper_pid"] != old)
        assert hold.service("other")["status"] == "running"


WAYS: dict[str, list[str]] = {
    "plain": ["env"],
    "session": ["setsid", "-w"],
    "hangup": ["nohup"],
    "empty": ["env", "-i", "{keep}"],
    "orphan": ["sh", "-c", '("$@"; echo $? > "$0.done") & exit 0'],
    "daemon": ["sh", "-c", 'setsid -f "$@" </dev/null >/dev/null 2>&1'],
}


def ask_as(hold: Hold, way: str, *words: str) -> None:
    """Let the command line be started in this way."""
    prefix = WAYS[way]
    keep = [f"{name}={value}" for name, value in hold.environ.items() if name.startswith("XDG_")]
    start = [it for word in prefix for it in (keep if word == "{keep}" else [word])]
    name = [str(hold.folder / "way")] if way == "orphan" else ["sh"] if "sh" in start else []
    subprocess.run(
        [*start, *name, *hold.command(*words)],
        cwd=hold.project,
        env=hold.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=60,
        check=True,
    )


@pytest.mark.parametrize("is_succeeded", [False, True], ids=["first", "successor"])
def test_a_person_is_the_owner_in_every_way(hold: Hold, is_succeeded: bool) -> None:
    """However the command line is started outside of Holdfast, it may change things; also when
    the keeper was replaced."""
    hold.services(**{way: quick() for way in WAYS})
    hold.up()
    if is_succeeded:
        old = hold.keeper_pid
        kill_9(old)
        wait_for(lambda: hold.status()["supervisor"]["keeper_pid"] != old)
    for way in WAYS:
        ask_as(hold, way, "stop", way)
        hold.wait_status(way, "stopped")


def inner(hold: Hold, **services: Any) -> dict[str, Any]:
    """The declaration of a shell that works in the project of another Holdfast."""
    hold.services(**services)
    return {"working_dir": str(hold.project), "env": hold.environ, "restart_policy": "never"}


def results(hold: Hold) -> dict[str, int]:
    found = [path for path in hold.folder.glob("*.code") if path.read_text().strip()]
    return {path.stem: int(path.read_text()) for path in found}


def script(hold: Hold, *steps: tuple[str, str]) -> list[str]:
    """Runs the command line with these words, one after the other, and writes their exit codes."""
    lines = [f'"$@" {words}; echo $? >{hold.folder}/{name}.code' for name, words in steps]
    return ["sh", "-c", "; ".join([*lines, "exec sleep 600"]), "sh", *hold.command()]


def test_a_holdfast_inside_another_has_its_own_owner() -> None:
    """A shell that one Holdfast runs is the owner of the one it starts, and not of the first. A
    service of the inner one is the owner of neither."""
    with Hold() as nested, Hold() as hold:
        shell = inner(
            nested,
            db=quick(),
            web=quick(),
            agent={"command": script(nested, ("agent", "stop db")), "env": nested.environ},
        )
        steps = ("up", "up -d"), ("stop", "stop web")
        hold.services(shell={"command": script(nested, *steps), **shell}, other=quick())
        hold.up()
        wait_for(lambda: len(results(nested)) == 3, what="the answers")
        told = results(nested)
        assert (told["up"], told["stop"]) == (0, 0)
        assert told["agent"] != 0
        assert nested.service("db")["status"] == "running"
        assert nested.service("web")["status"] == "stopped"


@pytest.mark.parametrize("first", ["outer", "beside"])
def test_a_holdfast_beside_another_has_the_same_owner(first: str) -> None:
    """What one Holdfast runs is not of the other's tree, whichever of the two is older."""
    with Hold() as beside, Hold() as hold:
        shell = inner(beside, web=quick())
        words = script(beside, ("stop", "stop web"))
        go = ["sh", "-c", 'while ! [ -e "$0" ]; do sleep 0.02; done; exec "$@"']
        gate = str(hold.folder / "go")
        hold.services(shell={"command": [*go, gate, *words], **shell})
        for one in (hold, beside) if first == "outer" else (beside, hold):
            one.up()
        Path(gate).touch()
        wait_for(lambda: results(beside) == {"stop": 0}, what="the answer")
        assert beside.service("web")["status"] == "stopped"
