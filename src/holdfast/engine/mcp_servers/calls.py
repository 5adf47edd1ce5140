"""Calls of tools that are under way: sent once, answered, or said to be unknown.

A call is carried from its first sending to its end, whatever dies meanwhile. The keeper's memory
has every call before it is sent, so the next supervisor knows which were. What an interruption
leads to is decided by `rules.mcp_servers.repeating`; here it is carried out.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.adapters import keeper_memory
from holdfast.adapters.own_log import logger
from holdfast.engine.runner.environment import Clock, KeeperApi
from holdfast.rules.mcp_servers.repeating import Interruption
from holdfast.vocabulary.readers import reader

FORGET_SECONDS = 300.0
"""A call of an earlier supervisor that nobody asks for again is forgotten after this time."""
_log = logger("calls")


class SentCall(msgspec.Struct, frozen=True, kw_only=True):
    """What the keeper remembers of a call: it may have been sent."""

    service: str
    run_id: str
    tool: str
    wire: str
    """The id of the request as the server sees it; each sending has its own."""
    sends: int
    deaths: int = 0
    at: float = 0.0
    """When it was sent, by the monotonic clock, which all processes of the machine share."""


class Answered(msgspec.Struct, frozen=True):
    """The server has answered."""

    result: dict[str, Any] | None
    is_error: bool
    size: int


class Interrupted(msgspec.Struct, frozen=True):
    """There is no answer, for this reason."""

    why: Interruption
    reason: str = ""
    wire: str = ""
    """The request that it is about: one that was sent again since is another."""


Report = Answered | Interrupted
_decode = reader(SentCall)


class OpenCall:
    """One call, from its first sending to its end."""

    def __init__(self, identity: str, sent: SentCall | None = None) -> None:
        self.identity = identity
        self.sent = sent
        """None: it was not sent yet."""
        self.reports: asyncio.Queue[Report] = asyncio.Queue()
        self.is_carried = False
        """Whether somebody waits for its end."""
        self.milliseconds = 0.0

    def take(self, report: Report) -> None:
        """Note what became of the request that was sent last."""
        if isinstance(report, Interrupted) and self.sent is not None:
            report = msgspec.structs.replace(report, wire=self.sent.wire)
        self.reports.put_nowait(report)

    async def next_report(self) -> Report:
        """Return what became of the request that was sent last."""
        while True:
            report = await self.reports.get()
            sent = self.sent
            if isinstance(report, Answered) or sent is None or report.wire in ("", sent.wire):
                return report


class Tally:
    """How the calls of one server went."""

    def __init__(self) -> None:
        self.calls = self.failed = self.unknown = self.under_way = 0
        self.last_call: float | None = None
        self._milliseconds: deque[float] = deque(maxlen=100)

    def over(self, milliseconds: float) -> None:
        self._milliseconds.append(milliseconds)

    @property
    def p50(self) -> float | None:
        if not self._milliseconds:
            return None
        return round(sorted(self._milliseconds)[len(self._milliseconds) // 2], 2)


class Calls:
    """All calls under way, by their ids."""

    def __init__(self, keeper: KeeperApi, clock: Clock) -> None:
        self._keeper = keeper
        self._clock = clock
        self.open: dict[str, OpenCall] = {}
        self.tallies: dict[str, Tally] = {}

    def tally(self, server: str) -> Tally:
        return self.tallies.setdefault(server, Tally())

    def restore(self, kept: Mapping[str, str]) -> None:
        """Know the calls that an earlier supervisor had sent."""
        for identity, text in list(keeper_memory.mcp_call.entries(kept)):
            try:
                self.open[identity] = OpenCall(identity, _decode(text))
            except msgspec.MsgspecError as error:
                _log.error("a call is not known any more: %s", error)
                self._keeper.keep(keeper_memory.mcp_call(identity), None)

    def begin(self, identity: str) -> OpenCall:
        """Return the call of this id: the one under way, or a new one."""
        self._forget_old()
        call = self.open.get(identity)
        if call is None:
            call = self.open[identity] = OpenCall(identity)
        return call

    def note_sent(self, call: OpenCall, service: str, run_id: str, tool: str) -> None:
        """Remember that it is about to be sent, before it is."""
        before = call.sent
        call.sent = SentCall(
            service=service,
            run_id=run_id,
            tool=tool,
            wire=os.urandom(12).hex(),
            sends=(before.sends if before is not None else 0) + 1,
            deaths=before.deaths if before is not None else 0,
            at=self._clock.monotonic(),
        )
        self._remember(call)

    def note_not_sent(self, call: OpenCall) -> None:
        """Take back that it was sent: the server has seen nothing of it."""
        assert call.sent is not None
        call.sent = msgspec.structs.replace(call.sent, sends=call.sent.sends - 1)
        self._remember(call)

    def note_death(self, call: OpenCall) -> None:
        """Count that its server died under it."""
        assert call.sent is not None
        call.sent = msgspec.structs.replace(call.sent, deaths=call.sent.deaths + 1)
        self._remember(call)

    def end(self, call: OpenCall) -> None:
        """Forget it: it has an answer, or its outcome is unknown and said to be."""
        if self.open.pop(call.identity, None) is not None and call.sent is not None:
            self._keeper.keep(keeper_memory.mcp_call(call.identity), None)

    def report(self, identity: str, report: Report) -> None:
        """Take what the gate says of a call."""
        call = self.open.get(identity)
        if call is not None:
            call.take(report)

    def interrupt(self, why: Interruption, run_id: str | None = None, reason: str = "") -> None:
        """Interrupt every call that was sent, or those that were sent to one run."""
        for call in self.open.values():
            if call.sent is not None and run_id in (None, call.sent.run_id):
                call.take(Interrupted(why, reason))

    def _remember(self, call: OpenCall) -> None:
        text = msgspec.json.encode(call.sent).decode()
        self._keeper.keep(keeper_memory.mcp_call(call.identity), text)

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        for call in list(self.open.values()):
            is_old = call.sent is not None and now - call.sent.at > FORGET_SECONDS
            if is_old and not call.is_carried:
                self.end(call)
