"""Many runs asked for at once: each is answered, in order, with its descriptors."""

from __future__ import annotations

import resource
from typing import Any

import pytest

from holdfast.system import processes
from tests.keeper.conftest import KeeperProcess


def _ask_for_many(keeper: KeeperProcess, count: int, *argv: str) -> dict[int, str]:
    """The run ids that were asked for, by request."""
    wanted = [keeper.request(*argv, service=f"s{number}") for number in range(count)]
    return {keeper.link.send("spawn", **request): request["run_id"] for request in wanted}


def test_a_run_is_told_of_before_its_end(keeper: KeeperProcess) -> None:
    """Also when it ends while hundreds of others are still being started."""
    told: list[object] = []
    take = keeper.link._take

    def noting(message: dict[str, Any], fds: list[int]) -> None:
        told.append(message["run_id"] if message.get("notice") == "exit" else message.get("id"))
        take(message, fds)

    keeper.link._take = noting  # type: ignore[method-assign]
    asked = _ask_for_many(keeper, 200, "true")
    for request, run_id in asked.items():
        assert keeper.exit_of(run_id)["code"] == 0
        assert keeper.link.wait(request)["ok"]
        assert told.index(request) < told.index(run_id)


def test_every_answer_has_descriptors(keeper: KeeperProcess) -> None:
    """Those of a service that lives: what it prints, and itself."""
    asked = _ask_for_many(keeper, 150, "sleep", "300")
    for request in asked:
        answer = keeper.link.wait(request)
        assert {"out", "err"} <= set(answer["spare"])
    assert len(keeper.link.do("list")["runs"]) == 150


def test_an_upgrade_owes_nothing(keeper: KeeperProcess) -> None:
    """Runs that were asked for in the same breath are answered all the same."""
    asked = _ask_for_many(keeper, 60, "sleep", "300")
    upgrade = keeper.link.send("upgrade")
    for request in asked:
        assert "out" in keeper.link.wait(request)["spare"]
    assert keeper.link.wait(upgrade)["ok"]
    assert len(keeper.link.do("list")["runs"]) == 60


def test_the_start_time_of_what_has_ended_is_its_own(keeper: KeeperProcess) -> None:
    """It is learned before the end is collected: afterwards the pid may be another's."""
    before = processes.ticks_now()
    asked = _ask_for_many(keeper, 100, "true")
    for request in asked:
        told = keeper.link.wait(request)["start_time"]
        assert told, "unknown"
        if before is not None:
            assert int(told) >= before - 1


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of another process")
def test_few_descriptors_are_enough(keeper: KeeperProcess) -> None:
    """Answers do not wait with copies of all descriptors at once: then the last would get none."""
    _, hard = resource.prlimit(keeper.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(keeper.pid, resource.RLIMIT_NOFILE, (500, hard))
    asked = _ask_for_many(keeper, 150, "sleep", "300")
    for request in asked:
        answer = keeper.link.wait(request)
        assert {"out", "err"} <= set(answer.get("spare", ())), answer
