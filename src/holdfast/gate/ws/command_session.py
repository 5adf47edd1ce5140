"""A session in which a client has commands run, one after the other.

Each is an `execute_command` with the caller's token, so the configuration and the caller's role
decide whether it is run. Its output and its end are told as those of a service, under the id of the
session. Who leaves, or closes the session, ends the command with its whole tree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from holdfast.client.channel import Channel
from holdfast.gate.ws import frames
from holdfast.vocabulary.errors import Refused

if TYPE_CHECKING:
    from holdfast.gate.ws.door import WebSocketConnection

_STREAMS = {"out": "stdout", "err": "stderr"}


class CommandSession:
    """One such session."""

    def __init__(
        self, identity: str, connection: WebSocketConnection, new_channel: Callable[[], Channel]
    ) -> None:
        self.identity = identity
        self._connection = connection
        self._new_channel = new_channel
        self._task: asyncio.Task[Any] | None = None

    async def run(self, wanted: frames.SessionCommand) -> dict[str, Any]:
        """Have a command run to its end; return how it went."""
        if self._task is not None:
            raise Refused("a command runs in this session", "wait for its end, or create another")
        self._task = asyncio.current_task()
        channel = self._new_channel()
        try:
            fields = {**wanted.fields(), "follow": True}
            stream = channel.stream("execute_command", fields, self._connection.caller)
            result: dict[str, Any] = {}
            async with aclosing(stream) as items:
                async for item in items:
                    await self._tell(item)
                    result = item.get("result") or result
            return result
        finally:
            self._task = None
            await channel.close()

    async def end(self) -> None:
        """End the command that runs."""
        task = self._task
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _tell(self, item: dict[str, Any]) -> None:
        match item["kind"]:
            case "started":
                await self._send("status", {"state": "running"})
            case "output":
                is_text = "text" in item
                data = {
                    "stream": _STREAMS[item["stream"]],
                    "content": item["text"] if is_text else item["data"],
                    "encoding": "utf8" if is_text else "base64",
                }
                await self._send("output", data)
            case "lost":
                lost = {"sessionId": self.identity, "bytes": item["bytes"], "reason": "slow"}
                await self._connection.send(frames.frame("output:gap", lost))
            case "finished":
                step = item["result"]["steps"][0]
                ending = {
                    "exitCode": step["exit_code"],
                    "signal": step["signal"],
                    "reason": step["reason"],
                }
                state = "completed" if step["outcome"] == "done" else "failed"
                known = {name: value for name, value in ending.items() if value is not None}
                await self._send("status", {"state": state, **known})

    async def _send(self, kind: str, data: dict[str, Any]) -> None:
        await self._connection.send(frames.message(kind, self.identity, data))
