"""Reads small files that the kernel has in memory, on the loop: nothing waits, so no thread is
needed.

A file that is not in memory, is large, or lies on a file system that may wait for others is left to
the threads. It is opened like every file: beneath its root, whatever others rename. Only
`Files.read_at_once` uses it; without it every read goes to a thread.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from holdfast.adapters.files import beneath
from holdfast.adapters.files.beneath import Opener, check_file

MOST_BYTES = 64 * 1024
_MOST_DEVICES = 100
_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)


class PageCacheReader:
    """Reads at once, or not at all."""

    def __init__(self, opener: Opener) -> None:
        self._ways = beneath.at_once(opener) if _NOWAIT else None
        self._devices: dict[int, bool] = {}

    def learn(self, descriptor: int, facts: os.stat_result) -> None:
        """Find out, in a thread, whether files like this one can be read so."""
        if self._ways is None or facts.st_dev in self._devices:
            return
        try:
            os.preadv(descriptor, [bytearray(1)], 0, _NOWAIT)
            can_tell = True
        except OSError as error:
            # Only file systems on this machine's own disks know what they have in memory.
            can_tell = error.errno == errno.EAGAIN
        if len(self._devices) >= _MOST_DEVICES:
            self._devices.clear()
        self._devices[facts.st_dev] = can_tell

    def read(self, root: str, names: Sequence[str]) -> tuple[bytes, os.stat_result] | None:
        """Return the whole file and its facts; None: read it in a thread."""
        if self._ways is None or not self._devices:
            return None
        anywhere, below = self._ways
        try:
            folder = anywhere(-1, (root,), beneath.STEP)
            try:
                opened, facts = beneath.open_file(below, folder, names, self._admit)
            finally:
                os.close(folder)
            try:
                buffer = bytearray(facts.st_size + 1)
                count = os.preadv(opened, [buffer], 0, _NOWAIT)
            finally:
                os.close(opened)
        except OSError:
            return None
        return (bytes(buffer[:count]), facts) if count == facts.st_size else None

    def _admit(self, facts: os.stat_result) -> None:
        check_file(facts)
        if facts.st_size > MOST_BYTES or not self._devices.get(facts.st_dev):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
