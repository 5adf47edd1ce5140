"""The words of the keeper, spoken over a real link."""

from __future__ import annotations

from tests.keeper.conftest import KeeperProcess


def test_hello(keeper: KeeperProcess) -> None:
    """Hello tells what the keeper is and holds."""
    assert keeper.hello["protocol"] == 1
    assert keeper.hello["pid"] == keeper.pid
    assert keeper.hello["runs"] == []


def test_exit_code(keeper: KeeperProcess) -> None:
    """An exit is announced with its code."""
    answer = keeper.spawn("sh", "-c", "echo hello; exit 3")
    ended = keeper.exit_of(keeper.last)
    assert ended["code"] == 3
    assert ended["pid"] == answer["pid"]
    assert keeper.output(keeper.last) == b"hello\n"
