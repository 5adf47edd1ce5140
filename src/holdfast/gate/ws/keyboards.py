"""Who has the keyboard of which service: one viewer at most. Only it is listened to, and its
size counts; so what the terminals of watchers answer by themselves goes nowhere.

Whether somebody may type at all is not decided here.
"""

from __future__ import annotations

from typing import Protocol


class Typist(Protocol):
    """A viewer, as far as the keyboard is concerned."""

    service: str

    def told_keyboard(self, *, is_mine: bool, is_held: bool) -> None: ...


class Keyboards:
    def __init__(self) -> None:
        self._holders: dict[str, Typist] = {}
        self._viewers: dict[str, set[Typist]] = {}

    def join(self, viewer: Typist) -> None:
        self._viewers.setdefault(viewer.service, set()).add(viewer)

    def leave(self, viewer: Typist) -> None:
        self.release(viewer)
        viewers = self._viewers.get(viewer.service, set())
        viewers.discard(viewer)
        if not viewers:
            self._viewers.pop(viewer.service, None)

    def holder(self, service: str) -> Typist | None:
        return self._holders.get(service)

    def take(self, viewer: Typist, *, force: bool = False) -> bool:
        """Says whether the viewer has it now."""
        holder = self._holders.get(viewer.service)
        if holder is viewer:
            return True
        is_here = viewer in self._viewers.get(viewer.service, ())
        if not is_here or (holder is not None and not force):
            return False
        self._holders[viewer.service] = viewer
        self._tell(viewer.service)
        return True

    def release(self, viewer: Typist) -> None:
        if self._holders.get(viewer.service) is viewer:
            del self._holders[viewer.service]
            self._tell(viewer.service)

    def _tell(self, service: str) -> None:
        holder = self._holders.get(service)
        for viewer in list(self._viewers.get(service, ())):
            viewer.told_keyboard(is_mine=viewer is holder, is_held=holder is not None)
