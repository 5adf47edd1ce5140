"""Reading a small file that the kernel has in memory: nobody waits, so no thread is needed.

What it does not have there, what is large, and what lies on a file system that may wait for others
is left to who may wait. It is opened as every file is: beneath its root, whatever others rename.
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
        """Find out whether files like this one can be read so; for who may wait."""
        if self._ways is None or facts.st_dev in self._devices:
            return
        try:
            os.preadv(descriptor, [bytearray(1)], 0, _NOWAIT)
            can_tell = True
        except OSError as error:
            # Only those of this machine's own disks know what they have.
            can_tell = error.errno == errno.EAGAIN
        if len(self._devices) >= _MOST_DEVICES:
            self._devices.clear()
        self._devices[facts.st_dev] = can_tell

    def read(self, root: str, names: Sequence[str]) -> tuple[bytes, os.stat_result] | None:
        """All of a file and its facts; None: who wants it has to wait."""
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
