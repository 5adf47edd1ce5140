"""Logins at remote MCP servers: the gate makes them, here they are asked for and stored.

Each step goes to the gate under an id, and its answer comes back as a report. Knows nothing of
OAuth.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from holdfast.adapters.mcp_servers.logins import Login, LoginStore
from holdfast.engine.mcp_servers.gate_work import GateWork
from holdfast.system import deadlines
from holdfast.vocabulary.errors import Failed, TimedOut
from holdfast.vocabulary.mcp_servers import ReportMcpServer

STEP_SECONDS = 65.0


class Logins:
    """The logins of all servers."""

    def __init__(self, store: LoginStore, work: GateWork) -> None:
        self._store = store
        self._work = work
        self._steps: dict[str, asyncio.Future[ReportMcpServer]] = {}

    def of(self, server: str, url: str | None) -> Login | None:
        return self._store.of(server, url)

    async def ask(self, what: str, server: str, **fields: Any) -> ReportMcpServer:
        """Have the gate do one step of a login; raises Failed with its reason."""
        identity = os.urandom(12).hex()
        future = asyncio.get_running_loop().create_future()
        self._steps[identity] = future
        try:
            item = {"do": what, "service": server, "call": identity, **fields}
            if not self._work.send(item):
                raise Failed(
                    "the gate, which speaks with it, is not there", "try again in a moment"
                )
            said: ReportMcpServer = await deadlines.wait_for(future, STEP_SECONDS)
        except TimeoutError:
            raise TimedOut(f"the login at {server} takes too long", "try again") from None
        finally:
            self._steps.pop(identity, None)
        if said.is_error:
            raise Failed(f"{server}: {said.reason}", f"`holdfast mcp login {server}` begins again")
        return said

    def take(self, said: ReportMcpServer) -> None:
        """Take a step's answer, or tokens that the gate has renewed."""
        if said.kind == "login" and said.login is not None:
            self._store.set(said.service, said.login)
        step = self._steps.get(said.call or "")
        if step is not None and not step.done():
            step.set_result(said)

    def forget(self, server: str) -> None:
        self._store.set(server, None)
