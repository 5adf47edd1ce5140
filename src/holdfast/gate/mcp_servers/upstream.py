"""One run of an MCP server, as the gate speaks with it: handshake, requests, and what it asks.

A request has the id of its call, so that whoever speaks with the server next can take its answer.
What the server asks of its client is answered here (roots), passed to the one client whose call is
under way, or refused. Decides nothing about calls.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import holdfast
from holdfast.gate.mcp_servers.links import Link, LinkLost, Message, NotSent

PROTOCOL = "2025-11-25"
MOST_PAGES = 100
MOST_EARLY = 64
PING_AFTER_SECONDS = 30.0
_METHOD_NOT_FOUND = -32601
_REFUSED = -32600
_OWN = "holdfast-"
"""The ids of our own requests begin so."""
_log = logging.getLogger(__name__)

Asker = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Passes a request of the server on to a client and returns the client's result."""
Progress = Callable[[dict[str, Any]], Awaitable[None]]


class ServerError(Exception):
    """The server answered a request with an error of the protocol."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(str(error.get("message") or "an error without a message"))
        self.error = error


class Withdrawn(Exception):
    """Nobody waits for this answer any more."""


class Request:
    """A request that the server has not answered yet."""

    __slots__ = ("answer", "ask", "place", "progress")

    def __init__(
        self,
        answer: asyncio.Future[Message],
        ask: Asker | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.answer = answer
        self.ask = ask
        self.progress = progress
        self.place: int | None = None
        """Where it began among all that was sent; None: an earlier gate sent it."""


class Upstream:
    """A conversation with one run of a server."""

    def __init__(
        self,
        service: str,
        run_id: str,
        *,
        roots: list[str],
        samples: bool = False,
        on_unclear: Callable[[Upstream], None] = lambda _: None,
        on_changed: Callable[[Upstream], None],
        on_lost: Callable[[Upstream], None],
    ) -> None:
        self.service = service
        self.run_id = run_id
        self.handshake: dict[str, Any] = {}
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the handshake is; LinkLost if it failed."""
        self.requests: dict[str, Request] = {}
        self._link: Link | None = None
        self._roots = roots
        self._samples = samples
        self._on_unclear = on_unclear
        self._on_changed = on_changed
        self._on_lost = on_lost
        self._count = 0
        self._work: set[asyncio.Task[None]] = set()
        self._last_word = asyncio.get_running_loop().time()
        self._early: OrderedDict[str, Message] = OrderedDict()
        """Answers to requests of an earlier gate that nobody has asked for yet."""

    def use(self, link: Link) -> None:
        self._link = link

    @property
    def is_ready(self) -> bool:
        """Whether the handshake has succeeded."""
        return self.ready.done() and self.ready.exception() is None

    @property
    def silent_seconds(self) -> float:
        """How long it has said nothing."""
        return asyncio.get_running_loop().time() - self._last_word

    async def shake_hands(self) -> None:
        """Say who we are, as the first thing to a new run."""
        params = {
            "protocolVersion": PROTOCOL,
            "capabilities": {
                "roots": {"listChanged": False},
                "elicitation": {},
                **({"sampling": {}} if self._samples else {}),
            },
            "clientInfo": {"name": "holdfast", "version": holdfast.__version__},
        }
        self.handshake = await self.ask("initialize", params)
        await self.notify("notifications/initialized", {})

    async def list_all(self, method: str, key: str) -> list[dict[str, Any]]:
        """Return every page of a list; a server without such a list has none."""
        found: list[dict[str, Any]] = []
        cursor: Any = None
        for _ in range(MOST_PAGES):
            page = await self.ask(method, {} if cursor is None else {"cursor": cursor})
            found += [one for one in page.get(key) or () if isinstance(one, dict)]
            cursor = page.get("nextCursor")
            if not cursor:
                break
        return found

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request of our own."""
        self._count += 1
        message = await self.request(f"{_OWN}{self._count}", method, params)
        if "error" in message:
            raise ServerError(message["error"])
        result = message.get("result")
        return result if isinstance(result, dict) else {}

    async def request(
        self,
        wire: str,
        method: str,
        params: dict[str, Any],
        *,
        ask: Asker | None = None,
        progress: Progress | None = None,
    ) -> Message:
        """Send a request and return the whole answer."""
        if progress is not None:
            params = {**params, "_meta": {**(params.get("_meta") or {}), "progressToken": wire}}
        waiting = self.expect(wire, ask, progress)
        if self._link is None:
            raise NotSent("it is not connected")
        message = {"jsonrpc": "2.0", "id": wire, "method": method, "params": params}
        self.requests[wire].place = self._link.place
        sending: asyncio.Task[Any] = asyncio.ensure_future(self._link.send(message))
        try:
            both: list[asyncio.Future[Any]] = [sending, waiting]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                sending.result()
                if self._link.is_answered_at_once and not waiting.done():
                    raise LinkLost("it closed the connection without an answer")
            return await waiting
        finally:
            sending.cancel()
            self.requests.pop(wire, None)

    def expect(
        self, wire: str, ask: Asker | None = None, progress: Progress | None = None
    ) -> asyncio.Future[Message]:
        """Return the answer to a request that was sent, perhaps by an earlier gate."""
        known = self.requests.get(wire)
        if known is not None:
            return known.answer
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        if (early := self._early.pop(wire, None)) is not None:
            future.set_result(early)
        self.requests[wire] = Request(future, ask, progress)
        return future

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        if self._link is not None:
            await self._link.send({"jsonrpc": "2.0", "method": method, "params": params})

    async def close(self) -> None:
        for task in self._work:
            task.cancel()
        self.lose()
        if self._link is not None:
            await self._link.close()

    # What it says

    def on_message(self, message: Message) -> None:
        self._last_word = asyncio.get_running_loop().time()
        method, number = message.get("method"), message.get("id")
        if isinstance(method, str) and number is not None:
            self._begin(self._answer(method, number, message.get("params")))
        elif isinstance(method, str):
            self._on_notification(method, message.get("params"))
        elif (request := self.requests.get(str(number))) is not None:
            if not request.answer.done():
                request.answer.set_result(message)
        else:
            self._early[str(number)] = message
            while len(self._early) > MOST_EARLY:
                self._early.popitem(last=False)

    def lose(self) -> None:
        """It says nothing any more: every request is lost."""
        if not self.ready.done():
            self.ready.set_exception(LinkLost("it ended before it answered the handshake"))
            self.ready.exception()
        for request in self.requests.values():
            if not request.answer.done():
                request.answer.set_exception(self._loss_of(request))
                request.answer.exception()

    def _loss_of(self, request: Request) -> LinkLost:
        place, link = request.place, self._link
        if link is not None and place is not None and not link.has_read(place):
            return NotSent("it ended before it read the request")
        return LinkLost("it ended")

    def on_lost(self) -> None:
        self.lose()
        self._on_lost(self)

    def _on_notification(self, method: str, params: Any) -> None:
        params = params if isinstance(params, dict) else {}
        if method == "notifications/progress":
            request = self.requests.get(str(params.get("progressToken")))
            if request is not None and request.progress is not None:
                self._begin(_quietly(request.progress(params)))
        elif method in ("notifications/tools/list_changed", "notifications/prompts/list_changed"):
            self._on_changed(self)

    async def _answer(self, method: str, number: Any, params: Any) -> None:
        answer: Message = {"jsonrpc": "2.0", "id": number}
        params = params if isinstance(params, dict) else {}
        try:
            answer["result"] = await self._result_of(method, params)
        except ServerError as error:
            answer["error"] = error.error
        if self._link is not None:
            try:
                await self._link.send(answer)
            except LinkLost:
                return

    async def _result_of(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "ping":
            return {}
        if method == "roots/list":
            return {"roots": [{"uri": f"file://{path}", "name": path} for path in self._roots]}
        if method not in ("elicitation/create", "sampling/createMessage"):
            raise ServerError({"code": _METHOD_NOT_FOUND, "message": f"no method {method[:100]}"})
        if method == "sampling/createMessage" and not self._samples:
            raise ServerError({"code": _METHOD_NOT_FOUND, "message": "sampling is off here"})
        # Such a request names no call, so with several under way nobody knows who is meant.
        calls = [one for wire, one in self.requests.items() if not wire.startswith(_OWN)]
        asker = calls[0].ask if len(calls) == 1 else None
        if asker is None:
            why = "no client is there that can be asked"
            if len(calls) > 1:
                why = "several calls are under way, so nobody knows who is meant; call again"
                self._on_unclear(self)
            raise ServerError({"code": _REFUSED, "message": why})
        return await asker(method, params)

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)


async def _quietly(work: Awaitable[None]) -> None:
    try:
        await work
    except Exception as error:  # noqa: BLE001 - the border to a client that may be gone
        _log.info("progress was not passed on: %s", error)
