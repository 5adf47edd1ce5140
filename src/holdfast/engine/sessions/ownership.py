"""Which service runs for which session. Kept in the keeper's memory, with the runs.

A service belongs to the session that started it while it did not run, from that start until
somebody stops it. What the configuration wants running belongs to no session. Changes no state:
when a session ends, `sessions` asks the roster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.own_log import logger
from holdfast.engine.runner.environment import KeeperApi
from holdfast.engine.runner.observers import RunObserver
from holdfast.engine.runner.runner import Runner
from holdfast.rules import sessions as rules
from holdfast.vocabulary.readers import reader
from holdfast.vocabulary.sessions import Owner
from holdfast.vocabulary.states import Desired, State

_OVER = (State.STOPPED, State.EXITED, State.FAILED)
_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = reader(Owner)
_log = logger("ownership")


class Ownership(RunObserver):
    """The owner of each service; each runner carries its own for others to read."""

    def __init__(self, keeper: KeeperApi, runners: Callable[[], Mapping[str, Runner]]) -> None:
        self._keeper = keeper
        self._runners = runners
        self.on_owner: Callable[[Runner], None] = lambda runner: None
        """Called for each run that begins for a session, and for each change of an owner."""

    def restore(self, kept: Mapping[str, str]) -> None:
        for name, text in keeper_memory.owner.entries(kept):
            runner = self._runners().get(name)
            try:
                if runner is not None:
                    runner.set_owner(_decode(text))
            except msgspec.MsgspecError as error:
                _log.warning("the owner of %s is not known any more: %s", name, error)

    def claim(self, names: Iterable[str], new: Owner | None) -> None:
        """Note the owner that is about to start these: a session, or a person (None)."""
        for name in names:
            runner = self._runners()[name]
            is_users = rules.is_users(runner.declaration.spec, runner.desired, runner.owner)
            session = None if new is None or is_users else new.session
            owner = rules.claimed(runner.owner, session, new, is_running=is_wanted(runner))
            self.set(runner, owner)

    def set(self, runner: Runner, owner: Owner | None) -> None:
        if runner.owner != owner:
            runner.set_owner(owner)
            # It travels with the start itself: the keeper never has one without the other.
            self._keeper.keep(
                keeper_memory.owner(runner.name), _encode(owner).decode() if owner else None
            )
            self.on_owner(runner)

    def of(self, session: str) -> list[tuple[Runner, Owner]]:
        """Return the runners that run for a session, each with its owner."""
        return [
            (runner, owner)
            for runner in self._runners().values()
            if (owner := runner.owner) is not None
            and not owner.ended
            and (owner.session == session or session in owner.with_others)
        ]

    def run_began(self, runner: Runner) -> None:
        if runner.owner is not None:
            self.on_owner(runner)

    def changed(self, runner: Runner) -> None:
        if runner.owner is not None and runner.desired is Desired.STOPPED and runner.run is None:
            self.set(runner, None)

    def removed(self, runner: Runner) -> None:
        self.set(runner, None)


def is_wanted(runner: Runner) -> bool:
    """Return whether it runs, or was asked for and is about to run."""
    return runner.run is not None or (
        runner.desired is Desired.RUNNING and runner.state not in _OVER
    )
