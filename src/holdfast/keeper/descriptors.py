"""Descriptors that the keeper holds for the supervisor, by name: listening and notify sockets.

They outlive every supervisor, so a relaunch refuses no connection. The store owns its copies, and
closes those that it replaces or releases.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Descriptors:
    """Held descriptors by name, in their order of arrival."""

    def __init__(self, held: dict[str, int] | None = None) -> None:
        self._held = dict(held or {})

    def hold(self, name: str, fd: int) -> None:
        old = self._held.pop(name, None)
        self._held[name] = fd
        if old is not None:
            os.close(old)

    def release(self, name: str) -> bool:
        fd = self._held.pop(name, None)
        if fd is not None:
            os.close(fd)
        return fd is not None

    def get(self, name: str) -> int | None:
        return self._held.get(name)

    def names(self) -> list[str]:
        return list(self._held)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(list(self._held.items()))

    def table(self) -> dict[str, int]:
        return dict(self._held)
