"""The emergency lockdown: whether one is in force, across every restart.

It is stored in its own file and in the keeper's memory, so removing the file does not end it. This
only says that it is in force; the permission rules refuse changes.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.lockdown_file import LockdownFile
from holdfast.adapters.own_log import logger
from holdfast.engine.runner.environment import Clock, HistoryRecorder, KeeperApi
from holdfast.secrets.redaction import redact
from holdfast.vocabulary.authority import LockdownInfo
from holdfast.vocabulary.errors import Failed, UsageError
from holdfast.vocabulary.events import EventKind

LONGEST_REASON = 500
_log = logger("lockdown")


class LockdownSwitch:
    """The lockdown in force, if any."""

    def __init__(
        self, file: LockdownFile, keeper: KeeperApi, recorder: HistoryRecorder, clock: Clock
    ) -> None:
        self._file = file
        self._keeper = keeper
        self._recorder = recorder
        self._clock = clock
        self.on_began: Callable[[], None] = lambda: None
        self.now: LockdownInfo | None = None
        self.on_change: Callable[[], None] = lambda: None
        """Called when one began or ended."""

    def restore(self, kept: dict[str, str]) -> None:
        """Restore what an earlier supervisor left. Call it before any command is accepted."""
        self.now = self._file.read()
        if self.now is None and keeper_memory.LOCKDOWN in kept:
            _log.error("%s was removed, but the lockdown is in force", self._file.path)
            self.now = _decoded(kept[keeper_memory.LOCKDOWN])
            self._store(self.now)

    def begin(self, reason: str, by: str) -> str | None:
        """Begin at once; return what went wrong with storing it, if anything."""
        reason = redact(reason.strip())
        if not reason or len(reason) > LONGEST_REASON or not reason.isprintable():
            raise UsageError(
                "a lockdown needs a reason", f"at most {LONGEST_REASON} printable letters"
            )
        lockdown = LockdownInfo(reason=reason, by=by, since=round(self._clock.time(), 3))
        self.now = lockdown
        self.on_began()
        self._keeper.keep(keeper_memory.LOCKDOWN, msgspec.json.encode(lockdown).decode())
        self._recorder.event(EventKind.LOCKDOWN_BEGAN, reason=reason, by=by)
        self.on_change()
        return self._store(lockdown)

    def end(self, by: str) -> LockdownInfo | None:
        """End it, and return it; raises Failed if its file cannot be removed."""
        over = self.now
        try:
            self._file.remove()
        except OSError as error:
            raise Failed(
                f"the lockdown stays: {self._file.path} cannot be removed: {error}",
                "remove it, and say `holdfast unlock` again",
            ) from error
        self._keeper.keep(keeper_memory.LOCKDOWN, None)
        self.now = None
        if over is not None:
            self._recorder.event(EventKind.LOCKDOWN_ENDED, reason=over.reason, by=by)
        self.on_change()
        return over

    def _store(self, lockdown: LockdownInfo) -> str | None:
        try:
            self._file.write(lockdown)
        except OSError as error:
            _log.error("the lockdown is in force, but cannot be stored: %s", error)
            return f"it is not stored ({error}) and would not survive the machine"
        return None


def _decoded(text: str) -> LockdownInfo:
    try:
        return msgspec.json.decode(text, type=LockdownInfo)
    except msgspec.MsgspecError:
        return LockdownInfo(reason="the keeper remembers one", by="nobody knows")
