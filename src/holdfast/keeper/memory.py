"""Texts that the supervisor puts into the keeper, so that they outlive the supervisor.

`adapters/keeper_memory.py` lists all keys. The keeper understands few of them. A spawn may name a
kept environment by its key, so that the environment is sent once. A service that a person stops
while no supervisor answers is noted as stopped, and what services say over their notify sockets
meanwhile is kept, too. Never written to a disk.
"""

from __future__ import annotations

from holdfast.system.lean_json import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


DESIRED = "desired:"
"""Followed by a service: its desired state."""
HEARD = "heard:"
"""Followed by a service: its newest notify messages."""
SUPERVISOR_ENVIRONMENT = "supervisor_environment"
"""Variables for the environment of the next supervisor, as JSON."""


class Memory:
    """Texts by key."""

    def __init__(self, values: Mapping[str, str] | None) -> None:
        self.values: dict[str, str] = dict(values or {})
        self._environments: dict[str, dict[str, str]] = {}
        self.on_kept: Callable[[Mapping[str, str | None]], None] | None = None

    def keep(self, values: Mapping[str, str | None]) -> None:
        """Remember these texts; None forgets one."""
        for key, value in values.items():
            self._environments.pop(key, None)
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = str(value)
        if self.on_kept is not None:
            self.on_kept(values)

    def environment(self, key: str) -> dict[str, str]:
        """The environment that is kept under this key; KeyError if there is none."""
        found = self._environments.get(key)
        if found is None:
            found = self._environments[key] = loads(self.values[key].encode())
        return found
