"""The keeper's upgrade: it executes a newer version of itself and keeps everything it holds.

Rehearses the new code in a child, on a copy of the table, and then executes it. A failure before
that leaves everything as it was. The prose in `handover` explains the steps.
"""

from __future__ import annotations

import os
import signal
import sys

from holdfast.keeper import handover, stderr
from holdfast.keeper.runs.launch import Launch, SpawnError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.keeper.keeper import Keeper

_REHEARSAL_SECONDS = 20.0


class UpgradeError(Exception):
    """The new version cannot take over, and this one goes on."""


class UpgradeAttempt:
    """One attempt. Calls back only if it fails; success never returns."""

    def __init__(
        self,
        keeper: Keeper,
        prefix: list[str],
        package: str,
        import_path: list[str],
        on_failure: Callable[[str, str], None],
    ) -> None:
        self._keeper = keeper
        self._program = os.path.join(package, "holdfast", "keeper", "__main__.py")
        self._prefix = prefix
        self._import_path = import_path
        self._on_failure = on_failure
        self._output = -1

    def rehearse(self) -> None:
        """Let the new code read a copy of the table in a child."""
        keeper = self._keeper
        table_fd = handover.write(keeper.table())
        self._output, writer = os.pipe()
        options = keeper.options(self._import_path)
        argv = [*self._prefix, self._program, *options, "--check", str(table_fd)]
        null = keeper.spawner.null
        launch = Launch(argv, dict(os.environ), "/", stdio=(null, writer, writer))
        try:
            pid = keeper.spawner.spawn(launch)
        except SpawnError as error:
            os.close(self._output)
            raise UpgradeError(str(error)) from None
        finally:
            os.close(writer)
            os.close(table_fd)
        timer = keeper.loop.call_later(_REHEARSAL_SECONDS, lambda: os.kill(pid, signal.SIGKILL))

        def on_exit(status: int) -> None:
            timer.cancel()
            # After the reaping of other children, so that the table is complete.
            keeper.loop.at_turn_end(lambda: self._on_rehearsed(status))

        keeper.children.others[pid] = on_exit

    def _on_rehearsed(self, status: int) -> None:
        os.set_blocking(self._output, False)
        try:
            said = os.read(self._output, 65536).decode(errors="replace").strip()
        except BlockingIOError:
            said = ""
        os.close(self._output)
        if status != 0:
            outcome = os.waitstatus_to_exitcode(status)
            stderr.say(f"the rehearsal of an upgrade: {said[-2000:]}")
            why = said.splitlines()[-1] if said else "it said nothing"
            self._on_failure(
                "upgrade_failed", f"the new version failed its check ({outcome}): {why}"
            )
            return
        if self._keeper.is_shutting_down:
            self._on_failure("busy", "a shutdown is under way")
            return
        try:
            self._execute()
        except Exception as error:  # noqa: BLE001 - a peer waits for an answer
            why = f"executing the new keeper: {type(error).__name__}: {error}"
            self._on_failure("upgrade_failed", why)

    def _execute(self) -> None:
        keeper = self._keeper
        keeper.children.exits.reap()
        table = keeper.table()
        fds = handover.descriptors(table)
        table_fd = handover.write(table)
        argv = [*self._prefix, self._program, *keeper.options(self._import_path)]
        # Between two program images no handler exists, so signals wait.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        handover.set_inheritable(fds, True)
        try:
            os.execv(argv[0], [*argv, "--resume", str(table_fd)])
        finally:
            handover.set_inheritable(fds, False)
            os.close(table_fd)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def own_prefix() -> list[str]:
    return [sys.executable, "-I", "-S"]


def own_package() -> str:
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
