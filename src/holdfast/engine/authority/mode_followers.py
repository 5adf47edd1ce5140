"""Services that are told the runtime mode: it is among their variables, and a switch restarts them.

A service asks for it with `follows_mode: true`, or with `mode_env: NAME` for a variable of its own
choice. A switch that replaces the supervisor leaves a note with the keeper, so that the next
supervisor restarts them even if the one before it dies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from holdfast.adapters import keeper_memory
from holdfast.engine.runner.environment import KeeperApi
from holdfast.engine.runner.observers import RunObserver
from holdfast.vocabulary.specs.policies import MODE_VARIABLES, Mode
from holdfast.vocabulary.specs.services import ServiceSpec

if TYPE_CHECKING:
    from holdfast.engine.runner.declaration import Overrides
    from holdfast.engine.runner.run_slot import RunSlot
    from holdfast.engine.runner.runner import Runner
    from holdfast.keeper.protocol.messages import SpawnRequest


class ModeFollowers(RunObserver):
    """The services that follow the mode."""

    def __init__(
        self,
        keeper: KeeperApi,
        mode: Callable[[], Mode],
        runners: Callable[[], Mapping[str, Runner]],
    ) -> None:
        self._keeper = keeper
        self._mode = mode
        self._runners = runners

    def names(self) -> list[str]:
        """Return the services that a switch restarts."""
        return [
            name
            for name, runner in self._runners().items()
            if variables_of(runner.declaration.spec) and runner.run is not None
        ]

    def leave_note(self) -> None:
        """Let the next supervisor restart them."""
        self._keeper.keep(keeper_memory.MODE_FOLLOWED, "no")

    def resume(self) -> None:
        """Restart them if the supervisor before this one left the note."""
        if keeper_memory.MODE_FOLLOWED in self._keeper.kept:
            self.restart()
            self._keeper.keep(keeper_memory.MODE_FOLLOWED, None)

    def restart(self) -> None:
        """Restart what runs with another mode among its variables."""
        for name in self.names():
            runner = self._runners()[name]
            variables = variables_of(runner.declaration.spec)
            runner.restart_after(
                f"the runtime mode is {self._mode()}", forgetting=variables, cause="mode"
            )

    def spawning(self, runner: Runner, message: SpawnRequest) -> None:
        self._tell(runner.declaration.spec, runner.overrides, message)

    def candidate_spawning(self, candidate: RunSlot, message: SpawnRequest) -> None:
        self._tell(candidate.declaration.spec, candidate.overrides, message)

    def _tell(self, spec: ServiceSpec, overrides: Overrides | None, message: SpawnRequest) -> None:
        asked = overrides.env_vars if overrides is not None else {}
        told = {name: self._mode() for name in variables_of(spec) if name not in asked}
        if told:
            message["env"] = {**message["env"], **told}


def variables_of(spec: ServiceSpec) -> tuple[str, ...]:
    """Return the variables in which a service is told the mode."""
    chosen = (spec.mode_env,) if spec.mode_env is not None else ()
    return (*chosen, *(MODE_VARIABLES if spec.follows_mode else ()))
