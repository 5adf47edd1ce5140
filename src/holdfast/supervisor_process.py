"""The life of a supervisor process: it takes over, serves until it is told to go, leaves in order.

The keeper starts it with one end of the link, and it ends when the keeper retires it. If the keeper
dies without a word, it turns into a keeper itself. A replaced supervisor has finished its work, but
stays as a standby until the next one has everything that a successor of the keeper needs. So two
processes may see the keeper die; a token decides between them. What a supervisor is made of is in
`supervisor`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING

import holdfast
from holdfast.adapters import own_log
from holdfast.adapters.keeper_link import KeeperLink, log_refusal
from holdfast.adapters.own_log import logger
from holdfast.supervisor import Supervisor
from holdfast.system import claims, own_process
from holdfast.system.module_pack import Pack

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import Notice

PRELOAD_AFTER_SECONDS = 2.0
PARENT_SECONDS = 2.0
SWITCH_SECONDS = 0.0005
COURTESY_SECONDS = 0.3
_SHARED = ("link", "lock", "claim", "token")
_log = logger("supervisor")


def main(pack: Pack) -> None:
    """Run a supervisor for the keeper that started this process."""
    # Options come in pairs from the keeper; argparse would add 12 ms to the first answer.
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    state, runtime = options["--state"], options["--runtime"]
    shared = {name: int(options[f"--{name}"]) for name in _SHARED if f"--{name}" in options}
    umask = os.umask(0o077)
    for fd in shared.values():
        os.set_inheritable(fd, False)
    # The loop must not wait for whole time slices of the writer or the importer.
    sys.setswitchinterval(SWITCH_SECONDS)
    own_process.raise_descriptor_limit()
    own_process.widen_descriptor_table()
    own_process.lower_oom_score()
    style = os.environ.get("HOLDFAST_LOG_STYLE", "human")
    own_log.open_log(os.path.join(state, "holdfast.log"), style=style, is_held=True)
    process = SupervisorProcess(state, runtime, shared, umask, pack)
    asyncio.run(process.run())
    process.after_loop()


class SupervisorProcess:
    """One process, from its start by the keeper to its end."""

    def __init__(
        self, state: str, runtime: str, shared: dict[str, int], umask: int, pack: Pack
    ) -> None:
        self._umask = umask
        self._pack = pack
        self._state = state
        self._runtime = runtime
        self._shared = shared
        self._started_mono = time.monotonic()
        self._keeper_pid = os.getppid()
        self._is_keeper_gone = False
        self._is_replaced = self._is_dismissed = False
        self._supervisor: Supervisor | None = None
        self._early: list[Notice] = []
        self._has_spares: asyncio.Event
        self._end: asyncio.Event

    async def run(self) -> None:
        """Take over, serve until told to go, and leave in order."""
        loop = asyncio.get_running_loop()
        self._end, self._has_spares = asyncio.Event(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._end.set)
        self._link = KeeperLink(
            socket.socket(fileno=self._shared["link"]),
            loop,
            on_notice=self._on_notice,
            on_gone=self._on_keeper_gone,
        )
        beginning = asyncio.create_task(self._begin(loop))
        ending = asyncio.create_task(self._end.wait())
        # A keeper that dies while we begin will never answer.
        await asyncio.wait({beginning, ending}, return_when=asyncio.FIRST_COMPLETED)
        if beginning.done():
            beginning.result()
            await ending
        else:
            beginning.cancel()
        if self._supervisor is not None:
            await self._close(self._supervisor)
        if not self._is_keeper_gone:
            self._link.flush()
            if self._stands_by:
                self._link.leave_loop()
            else:
                self._link.close()

    async def _close(self, supervisor: Supervisor) -> None:
        """Close in order. A failure here must not keep us from taking the keeper's place."""
        try:
            await supervisor.close()
        except Exception:
            if not self._is_keeper_gone and not self._stands_by:
                raise
            _log.exception("the supervisor did not end in order")

    async def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        facts = await self._link.hello(holdfast.__version__)
        supervisor = Supervisor(
            self._link, loop, state=self._state, runtime=self._runtime, began=self._started_mono
        )
        supervisor.restore(facts)
        self._supervisor = supervisor
        early, self._early = self._early, []
        for notice in early:
            supervisor.on_notice(notice)
        await self._has_spares.wait()
        if (facts.get("supervisor") or {}).get("standbys"):
            self._link.request({"do": "ready"}, log_refusal)
        await supervisor.open_doors()
        _log.info("supervisor %s is up, pid %d", holdfast.__version__, os.getpid())
        loop.call_later(PRELOAD_AFTER_SECONDS, self._preload)

    def after_loop(self) -> None:
        """If the keeper died, become the keeper; nothing else runs in this process any more."""
        own_log.release()
        if not self._is_keeper_gone and self._stands_by:
            self._is_keeper_gone = self._link.stand_by()
        if not self._is_keeper_gone:
            return
        is_gone = own_process.is_orphaned(self._keeper_pid, PARENT_SECONDS)
        if not is_gone or not self._link.has_table:
            # Two keepers would fight over the same services. A living keeper starts another
            # supervisor; and without its table we could not take its place.
            _log.error("the link to keeper %d broke; leaving", self._keeper_pid)
            sys.exit(1)
        if self._is_replaced:
            # The next supervisor knows more, if it is ready.
            time.sleep(COURTESY_SECONDS)
        elif not self._has_spares.is_set():
            time.sleep(2 * COURTESY_SECONDS)
        token = self._shared.get("token")
        if token is not None and not claims.take_token(token):
            _log.info("another process takes the place of keeper %d", self._keeper_pid)
            return
        self._link.turn_into_keeper(
            lock_fd=self._shared["lock"],
            claim_fd=self._shared.get("claim"),
            state=self._state,
            runtime=self._runtime,
            umask=self._umask,
        )

    @property
    def _stands_by(self) -> bool:
        """Whether we were told to stand by, and can."""
        return self._is_replaced and not self._is_dismissed and self._link.has_table

    def _on_notice(self, notice: Notice) -> None:
        match notice["notice"]:
            case "spares_done":
                self._has_spares.set()
            case "retire":
                self._is_replaced = bool(notice.get("standby"))
                self._is_dismissed = not self._is_replaced
                self._end.set()
            case _ if self._supervisor is None:
                self._early.append(notice)
            case _:
                self._supervisor.on_notice(notice)

    def _on_keeper_gone(self) -> None:
        """The link is closed: the end if the keeper dismissed us; otherwise we take its place."""
        if not self._is_dismissed:
            self._is_keeper_gone = True
            self._end.set()

    def _preload(self) -> None:
        """Import now what is needed later, so that code never mixes with newly installed files."""
        own_log.release()
        gc.freeze()
        gc.enable()
        threading.Thread(target=self._import_the_rest, name="preload", daemon=True).start()

    def _import_the_rest(self) -> None:
        from holdfast.preloading import preload

        try:
            preload()
        except Exception:  # noqa: BLE001 - a broken install must not end what runs
            _log.exception("something could not be loaded ahead of time")
            return
        self._pack.leave()
        try:
            self._pack.pass_on()
        except Exception as error:  # noqa: BLE001 - sources may be replaced in this very moment
            _log.debug("the next supervisor loads its modules one by one: %r", error)
