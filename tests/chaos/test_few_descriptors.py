"""A small limit of open files: what is started can be taken over, the rest is refused."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness import Hold, is_alive, kill_9, wait_for

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc")

CODE = "n=0; while :; do n=$$((n+1)); echo line $$n; echo again $$n >&2; sleep 0.1; done"


class Limited(Hold):
    """Everything that it starts has this hard limit."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def command(self, *args: object) -> list[str]:
        wrapped = f'ulimit -n {self.limit} && exec "$@"'
        return ["sh", "-c", wrapped, "sh", sys.executable, "-m", "holdfast", *map(str, args)]


@pytest.fixture(params=[64, 128])
def limited(request: pytest.FixtureRequest) -> Iterator[Limited]:
    with Limited(request.param) as one:
        yield one


def test_what_was_started_has_a_successor(limited: Limited) -> None:
    """Starts beyond the limit are refused with the reason and the cure; of those within it every
    line is recorded after a death of the keeper, and `down` ends them all."""
    hold = limited
    hold.services(**{f"s{n}": ["bash", "-c", CODE] for n in range(hold.limit // 5)})
    refused = hold.cli("up", "-d", expect=1)
    assert f"the limit of {hold.limit} open files has no room for another service" in refused.stdout
    assert "ulimit -Hn" in refused.stdout
    status = hold.json("status")
    pids = {name: it["pid"] for name, it in status["services"].items() if it["pid"]}
    assert len(pids) >= (hold.limit - 40) // 6
    hold._keepers.add(hold.keeper_pid)
    for _ in range(2):
        keeper = status["supervisor"]["keeper_pid"]
        kill_9(keeper)
        wait_for(lambda keeper=keeper: hold.keeper_pid != keeper, what="a successor")
        status = hold.json("status")
        assert {name: status["services"][name]["pid"] for name in pids} == pids
    for name in pids:
        mark = _numbers(hold, name)[-1]
        wait_for(lambda name=name, mark=mark: _numbers(hold, name)[-1] > mark + 2)
        numbers = _numbers(hold, name)
        assert numbers == [*range(1, len(numbers) + 1)]
    hold.cli("down", "--now")
    assert not any(map(is_alive, pids.values()))


def _numbers(hold: Hold, name: str) -> list[Any]:
    lines = hold.raw(name).split(b"\n")
    return [int(line.split()[1]) for line in lines if line.startswith(b"line ")]
