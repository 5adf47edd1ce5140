"""The health of MCP servers: they have started when they have told their tools, and they are well
as long as the protocol answers. Asked through the gate; a process that merely lives is not enough.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from msgspec.structs import replace

from holdfast.adapters.probes import Finding
from holdfast.engine.health.probes import ProbeCheck, Then
from holdfast.engine.mcp_servers.servers import McpServers
from holdfast.engine.runner.observers import MonitoredRun
from holdfast.system import deadlines
from holdfast.vocabulary.specs.probes import ProbeSpec


def open_check(
    servers: McpServers, run: MonitoredRun, probe: ProbeSpec, on_answer: Callable[[], None]
) -> ProbeCheck:
    """Return how a probe of a server asks."""
    if "startup" in probe.roles:
        return _ListedCheck(servers, run, on_answer)
    return _AnswerCheck(servers, run, probe)


class _ListedCheck:
    """Passes once the server has told its tools."""

    def __init__(
        self, servers: McpServers, run: MonitoredRun, on_answer: Callable[[], None]
    ) -> None:
        self._servers = servers
        self._run = run
        self._on_answer = on_answer
        self._stop: Callable[[], None] | None = None

    def begin(self) -> None:
        self._stop = self._servers.when_told(self._run.name, self._look)

    def _look(self) -> None:
        if self._servers.is_listed(self._run).is_passed:
            self._on_answer()

    def ask(self, then: Then) -> None:
        then(self._servers.is_listed(self._run))

    def drop(self) -> None:
        """Do nothing: every question is answered at once."""

    def close(self) -> None:
        if self._stop is not None:
            self._stop()
            self._stop = None


class _AnswerCheck:
    """Passes while the server answers the protocol."""

    def __init__(self, servers: McpServers, run: MonitoredRun, probe: ProbeSpec) -> None:
        self._servers = servers
        self._run = run
        self._probe = probe
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Do nothing: the first question needs no preparation."""

    def ask(self, then: Then) -> None:
        self._task = asyncio.get_running_loop().create_task(self._ask(then))

    async def _ask(self, then: Then) -> None:
        began = time.monotonic()
        try:
            finding = await deadlines.wait_for(self._servers.probe(self._run), self._probe.timeout)
        except TimeoutError:
            finding = Finding(False, f"no answer within {self._probe.timeout:g} s")
        self._task = None
        then(replace(finding, seconds=time.monotonic() - began))

    def drop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def close(self) -> None:
        self.drop()
