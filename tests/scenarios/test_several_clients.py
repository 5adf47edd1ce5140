"""Several clients at once, on real processes: one instance ever, and everybody is answered."""

from __future__ import annotations

import json
import random
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.client.connection import Connection
from holdfast.client.keeper_connection import KeeperConnection
from holdfast.vocabulary.errors import HoldfastError
from tests.harness import Hold, program, quick, wait_for

Answer = dict[str, Any]


def at_once(hold: Hold, *requests: Answer) -> list[Answer]:
    """The answers to requests that arrive together, in the order of the requests."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(30)
        client.connect(str(hold.runtime / "line.sock"))
        frames = [json.dumps({"id": number, **it}) for number, it in enumerate(requests)]
        client.sendall("".join(f"{frame}\n" for frame in frames).encode())
        found: dict[int, Answer] = {}
        with client.makefile("rb") as lines:
            while len(found) < len(requests):
                answer = json.loads(lines.readline())
                found[answer["id"]] = answer
    return [found[number] for number in range(len(requests))]


def live_runs(hold: Hold) -> list[str]:
    keeper = KeeperConnection(str(hold.runtime / "keeper.sock"))
    try:
        runs = keeper.ask("list")["runs"]
    finally:
        keeper.close()
    return sorted(run["service"] for run in runs if run["kind"] != "task")


def test_what_is_being_removed_is_not_started_beside_it(hold: Hold) -> None:
    """A start that comes in while logs are deleted leaves no process that nobody knows."""
    hold.services(web=quick(), db=quick())
    hold.up()
    hold.ask("stop", services=["web"])
    removed, started = at_once(
        hold,
        {"command": "remove", "services": ["web"]},
        {"command": "start", "services": ["web"]},
    )
    assert removed["result"]["services"]["web"]["outcome"] == "removed"
    assert started["error"]["code"] == "unknown_service"
    assert live_runs(hold) == ["db"]


def test_what_was_started_again_is_not_removed(hold: Hold) -> None:
    """Who removes a service that somebody starts while it ends is told that it is still there."""
    hold.services(web=quick())
    hold.up()
    removed, started = at_once(
        hold,
        {"command": "remove", "services": ["web"]},
        {"command": "start", "services": ["web"]},
    )
    outcome = removed["result"]["services"]["web"]
    assert (outcome["outcome"], outcome["reason"]) == ("failed", "it was started again meanwhile")
    assert started["result"]["services"]["web"]["outcome"] == "started"
    assert live_runs(hold) == ["web"]


@pytest.mark.parametrize("condition", ["running", "ready", "log:never"])
def test_nobody_waits_for_what_was_removed(hold: Hold, condition: str) -> None:
    """Who waits for a service, or for its start, is told at once that it is gone."""
    db = quick("exit 1", shell=True, start_retries=0)
    hold.services(db=db, web=quick(depends_on={"db": "completed"}))
    hold.cli("up", "-d", expect=None)
    hold.write({"services": {"db": db}})
    waited, up = at_once(
        hold,
        {"command": "wait", "service": "web", "condition": condition, "timeout": 25},
        {"command": "up", "environment": hold.environ, "config": str(config_of(hold))},
    )
    assert up["result"]["removed"] == ["web"]
    assert waited["result"]["met"] is False
    assert waited["result"]["seconds"] < 20


def config_of(hold: Hold) -> Path:
    return hold.project / "holdfast.json"


def test_one_instance_whatever_is_asked_and_whoever_dies(hold: Hold) -> None:
    """Clients that start, stop, remove, scale and reload at once, and a supervisor that dies in
    between: no two processes of a service ever meet, and what is told is what runs."""
    folder = hold.folder / "locks"
    folder.mkdir()
    alone = quick(program("alone.py", folder))
    hold.services(web=alone, db=alone, many={**alone, "instances": 2})
    hold.up()
    mistakes: list[str] = []

    def requests(choose: random.Random) -> list[tuple[str, dict[str, Any]]]:
        name = choose.choice(["web", "db", "many", "many@1", "many@3"])
        one: dict[str, Any] = {"services": [name]}
        lazy = {"wait": choose.random() < 0.3}
        up = {"config": str(config_of(hold)), "environment": hold.environ}
        return [
            ("start", {**one, **lazy, "timeout": 5}),
            ("stop", one),
            ("restart", {**one, **lazy, "timeout": 5}),
            ("remove", one),
            ("signal", {**one, "signal": "KILL"}),
            ("pause", one),
            ("resume", one),
            ("scale", {"instances": {"many": choose.randrange(4)}, **lazy}),
            ("reload", lazy),
            ("up", {**up, **lazy}),
        ]

    def client(seed: int) -> None:
        choose = random.Random(seed)
        connection: Connection | None = None
        for _ in range(25):
            verb, fields = choose.choice(requests(choose))
            try:
                connection = connection or Connection(str(hold.runtime / "line.sock"))
                connection.ask(verb, **fields)
            except OSError:
                # The supervisor died; it may have done it.
                if connection is not None:
                    connection.close()
                connection = None
            except HoldfastError as error:
                if error.code == "internal":
                    mistakes.append(error.message)
        if connection is not None:
            connection.close()

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(5)]
    for thread in threads:
        thread.start()
    for _ in range(4):
        threads[0].join(1.0)
        hold.kill_supervisor()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "somebody was not answered"
    assert not mistakes
    hold.cli("up", "-d", "web", "db")
    wait_for(lambda: is_settled(hold), what="all states to be settled")
    assert not (folder / "collisions").exists(), (folder / "collisions").read_text()
    told = [name for name, one in hold.status()["services"].items() if one["pid"]]
    assert live_runs(hold) == sorted(told)
    assert {"web", "db"} <= set(told)


def is_settled(hold: Hold) -> bool:
    states = {one["status"] for one in hold.status()["services"].values()}
    return not states & {"starting", "stopping"}
