"""The file of a lockdown in force: of mode 0600, apart from the history. Fails closed.

A file that cannot be read counts as a lockdown, so breaking the file does not end one.
"""

from __future__ import annotations

import os

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.system.private_files import read_plain, replace_file
from holdfast.vocabulary.authority import LockdownInfo
from holdfast.vocabulary.readers import reader

NAME = "lockdown.json"
_LARGEST = 64 * 1024
_log = logger("lockdown")
_decode = reader(LockdownInfo)


class LockdownFile:
    """The lockdown file of one state folder."""

    def __init__(self, state: str) -> None:
        self.path = os.path.join(state, NAME)

    def read(self) -> LockdownInfo | None:
        """Return the lockdown in force; None only if there is certainly no file."""
        try:
            return _decode(read_plain(self.path, _LARGEST))
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            _log.error("%s cannot be read, so a lockdown is in force: %s", self.path, error)
            return LockdownInfo(reason=f"{NAME} cannot be read ({error})", by="nobody knows")

    def write(self, lockdown: LockdownInfo) -> None:
        replace_file(self.path, msgspec.json.format(msgspec.json.encode(lockdown)))

    def remove(self) -> None:
        """Remove the file durably: it stays gone even after a power cut."""
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            return
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
