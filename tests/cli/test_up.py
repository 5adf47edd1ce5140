"""`launch`: a Holdfast that was started for nothing is ended again, also by a later turn."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.cli.call import Call
from holdfast.cli.parser.arguments import parse
from holdfast.cli.up import launch
from holdfast.client.launch import KeeperProcess
from holdfast.vocabulary.errors import ConfigError, ShuttingDown
from tests.harness import Hold


@pytest.fixture
def call(hold: Hold) -> Iterator[Call]:
    """An `up` within this process, whose child the keeper is."""
    hold.services(web=["sleep", "300"])
    made = Call(parse(["-C", str(hold.project), "up"]), hold.environ)
    yield made
    made.close()


class TwoTurns:
    """Asks in vain at the first turn: somebody switches the supervisor off meanwhile."""

    def __init__(self, hold: Hold, error: Exception | None) -> None:
        self.hold, self.error, self.asked, self.keeper = hold, error, 0, 0

    def __call__(self) -> dict[str, Any]:
        self.asked += 1
        if self.asked == 1:
            self.keeper = self.hold.keeper_pid
            self.hold.cli("down", "--keep-running")
            raise ShuttingDown("Holdfast is being shut down")
        if self.error is not None:
            raise self.error
        return {}


def test_a_failure_of_the_second_turn_undoes_the_first(hold: Hold, call: Call) -> None:
    """The Holdfast of the first turn is still the one this call started."""
    ask = TwoTurns(hold, ConfigError("it cannot be read"))
    with pytest.raises(ConfigError):
        launch(call, ask)
    assert KeeperProcess(ask.keeper).exit_code(20) == 0


def test_the_second_turn_knows_whose_holdfast_it_is(hold: Hold, call: Call) -> None:
    """So Ctrl-C in the foreground still ends it."""
    ask = TwoTurns(hold, None)
    launched, _ = launch(call, ask)
    assert ask.asked == 2
    assert launched.keeper is not None
    assert launched.keeper.pid == ask.keeper
    hold.cli("down")
    assert launched.keeper.exit_code(20) == 0


def test_up_has_a_keeper_started_before_it_loads_much(hold: Hold) -> None:
    """While keeper and supervisor load, nothing else keeps a processor busy."""
    hold.services(web=["sleep", "300"])
    heavy = ["holdfast.cli.run", "holdfast.logbook", "json", "re", "signal", "socket", "typing"]
    code = (
        "import os, sys\n"
        "from holdfast.cli.main import main\n"
        "spawn = os.posix_spawn\n"
        "def noted(*words, **options):\n"
        f"    print('HEAVY', [name for name in {heavy} if name in sys.modules], flush=True)\n"
        "    return spawn(*words, **options)\n"
        "os.posix_spawn = noted\n"
        "assert main(['up', '-d', '--no-wait']) == 0\n"
    )
    # Without `site`, which loads what others have installed.
    path = [entry for entry in sys.path if entry]
    code = f"import sys; sys.path[:0] = {path!r}\n{code}"
    argv = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(
        argv, cwd=hold.project, env=hold.environ, capture_output=True, text=True, check=True
    )
    assert "HEAVY []" in done.stdout, done.stdout
