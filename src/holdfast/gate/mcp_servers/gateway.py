"""Speaks with the MCP servers: does what the supervisor says, item by item.

The supervisor decides which server is asked what. Here a request is sent, its answer is taken, and
what became of it is reported. The result of a call that came through this gate stays here, for the
client that waits for it. When the supervisor is replaced, the conversations go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any, NamedTuple

import msgspec

from holdfast.client.channel import Channel
from holdfast.client.connection import Unreachable
from holdfast.gate.mcp_servers.http_link import HttpLink, LoginNeeded, SessionLost, is_http
from holdfast.gate.mcp_servers.links import LinkLost, Message, NotSent, StdioLink, borrow
from holdfast.gate.mcp_servers.logins import Login, LoginFailed, LoginFlow, revoke
from holdfast.gate.mcp_servers.upstream import (
    PING_AFTER_SECONDS,
    PROTOCOL,
    Asker,
    Progress,
    ServerError,
    Upstream,
    Withdrawn,
)
from holdfast.system import deadlines
from holdfast.vocabulary.errors import HoldfastError, Refused

FOLLOW_AGAIN_SECONDS = 0.2
CONNECT_AGAIN_SECONDS = 0.2
REPORT_SECONDS = 60.0
"""A report that reaches no supervisor for so long is given up."""
MOST_KEPT = 64
MOST_KEPT_BYTES = 64 * 1024 * 1024
"""Results that nobody has fetched yet."""
_METHOD_NOT_FOUND = -32601
_log = logging.getLogger(__name__)
Item = dict[str, Any]


class Waiting(NamedTuple):
    """A client of this gate that waits for the result of its call."""

    answer: asyncio.Future[Message]
    ask: Asker | None
    progress: Progress | None


class Gateway:
    """All conversations with MCP servers."""

    def __init__(self, line_socket: str) -> None:
        self._line_socket = line_socket
        self._channel = Channel(line_socket)
        self._upstreams: dict[str, Upstream] = {}
        self._waiting: dict[str, Waiting] = {}
        self._kept: OrderedDict[str, tuple[Message, int]] = OrderedDict()
        self._calls: dict[str, tuple[Upstream, str, str | None]] = {}
        """By call: whom it was sent to, the id of the request, and who waits for it."""
        self._flows: dict[str, LoginFlow] = {}
        """Logins that users have begun, by server."""
        self._work: set[asyncio.Task[None]] = set()
        self._following: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Follow the supervisor for as long as this process lives."""
        self._following = asyncio.get_running_loop().create_task(self._follow())

    async def _follow(self) -> None:
        while True:
            channel = Channel(self._line_socket)
            attached = {name: one.run_id for name, one in self._upstreams.items()}
            fields = {"attached": attached, "calls": list(self._calls)}
            try:
                async for item in channel.stream("serve_mcp_servers", fields, None):
                    self._do(item)
            except Unreachable:
                pass
            except Refused as error:
                _log.info("MCP servers are not this gate's affair: %s", error.message)
                return
            except HoldfastError as error:
                _log.error("MCP servers cannot be followed: %s", error.message)
            finally:
                await channel.close()
            await asyncio.sleep(FOLLOW_AGAIN_SECONDS)

    # Clients of this gate

    def expect(self, asked: str, ask: Asker | None, progress: Progress | None) -> Waiting:
        """Return what will hold the answer to a call of a client."""
        waiting = Waiting(asyncio.get_running_loop().create_future(), ask, progress)
        if (kept := self._kept.pop(asked, None)) is not None:
            waiting.answer.set_result(kept[0])
        else:
            self._waiting[asked] = waiting
        return waiting

    def leave(self, asked: str) -> None:
        """The client has its answer, or waits no more."""
        self._waiting.pop(asked, None)

    def finish(self, asking: asyncio.Future[Any]) -> None:
        """Let a question to the supervisor end, whose answer nobody waits for."""
        self._begin(_end_of(asking))

    def cancel(self, asked: str, reason: str) -> None:
        """The client does not want the call any more: tell its server."""
        for upstream, wire, whose in list(self._calls.values()):
            if whose == asked:
                self._begin(self._cancel(upstream, wire, reason))

    async def _cancel(self, upstream: Upstream, wire: str, reason: str) -> None:
        """Tell the server that nobody waits any more; it answers nothing then."""
        request = upstream.requests.get(wire)
        if request is not None and not request.answer.done():
            request.answer.set_exception(Withdrawn(reason))
            request.answer.exception()
        try:
            params = {"requestId": wire, "reason": reason}
            await upstream.notify("notifications/cancelled", params)
        except LinkLost:
            return

    # What the supervisor says

    def _do(self, item: Item) -> None:
        match item.get("do"):
            case "attach":
                self._begin(self._attach(item))
            case "detach":
                self._begin(self._detach(item["service"], item["run_id"]))
            case "call":
                self._begin(self._call(item, is_sent=False))
            case "await":
                self._begin(self._call(item, is_sent=True))
            case "cancel" if item["call"] in self._calls:
                upstream, wire, _ = self._calls[item["call"]]
                self._begin(self._cancel(upstream, wire, "it took too long"))
            case "login" | "finish_login" | "logout":
                self._begin(self._log_in(item))
            case "probe":
                self._begin(self._probe(item))
            case "changed":
                self.on_changed()
            case _:
                pass  # a word of a later supervisor

    def on_changed(self) -> None:
        """Other tools are offered. Replaced by whoever tells the clients."""

    async def _attach(self, item: Item) -> None:
        service, run_id = item["service"], item["run_id"]
        known = self._upstreams.get(service)
        if known is not None and known.run_id == run_id:
            if known.is_ready and not item.get("handshake"):
                # This supervisor does not know yet what it offers.
                await self._tell_again(known)
            return
        upstream = Upstream(
            service,
            run_id,
            roots=item.get("roots") or [],
            samples=bool(item.get("sampling")),
            on_unclear=lambda one: self._begin(
                self._report(one.service, one.run_id, kind="asks", reason="it asks its client")
            ),
            on_changed=lambda one: self._begin(self._list_again(one)),
            on_lost=self._on_lost,
        )
        self._upstreams[service] = upstream
        if known is not None:
            await known.close()
        try:
            await deadlines.wait_for(self._converse(upstream, item), float(item["seconds"]))
        except (LinkLost, ServerError, TimeoutError) as error:
            why = str(error) or "it did not answer the handshake in time"
            if isinstance(error, TimeoutError):
                why = f"it did not answer the handshake within {item['seconds']:g} s"
            if not upstream.ready.done():
                upstream.ready.set_exception(LinkLost(why))
                upstream.ready.exception()
            if is_http(item) and self._upstreams.get(service) is upstream:
                # So that it is tried again when somebody asks.
                del self._upstreams[service]
                await upstream.close()
            await self._report(service, run_id, kind=_kind_of(error), reason=why)

    async def _converse(self, upstream: Upstream, item: Item) -> None:
        """Connect, shake hands unless an earlier gate has, and tell the tools."""
        if is_http(item):
            await self._converse_over_http(upstream, item)
            return
        link = StdioLink(upstream.on_message, upstream.on_lost, upstream.service)
        await link.open(*await borrow(item["socket"], item["ticket"]))
        upstream.use(link)
        handshake = item.get("handshake")
        if handshake:
            link.skip_torn_line()
            upstream.handshake = handshake
            upstream.ready.set_result(None)
            return
        await upstream.shake_hands()
        if not upstream.ready.done():
            upstream.ready.set_result(None)
        await self._tell_listing(upstream)

    async def _converse_over_http(self, upstream: Upstream, item: Item) -> None:
        """A server that was just started listens a little later."""
        login = self._login_of(upstream, item["login"]) if item.get("login") else None
        link = HttpLink(item["url"], item.get("headers") or {}, upstream.on_message, login)
        upstream.use(link)
        while True:
            try:
                await upstream.shake_hands()
                break
            except NotSent:
                if item["transport"] == "remote":
                    raise
                await asyncio.sleep(CONNECT_AGAIN_SECONDS)
        link.speak(str(upstream.handshake.get("protocolVersion") or PROTOCOL))
        if not upstream.ready.done():
            upstream.ready.set_result(None)
        await self._tell_listing(upstream)

    def _login_of(self, upstream: Upstream, facts: dict[str, Any]) -> Login:
        def on_renewed(renewed: dict[str, Any]) -> None:
            about = {"service": upstream.service, "run_id": upstream.run_id}
            self._begin(self._report(**about, kind="login", login=renewed))

        return Login(facts, on_renewed)

    async def _log_in(self, item: Item) -> None:
        """Do one step of a login, and tell how it went."""
        server = item["service"]
        about = {"service": server, "run_id": "", "call": item["call"]}
        try:
            match item["do"]:
                case "login":
                    if (earlier := self._flows.pop(server, None)) is not None:
                        earlier.close()
                    flow = self._flows[server] = LoginFlow(item["url"], item["callback"])
                    await self._report(**about, kind="login_step", reason=await flow.begin())
                case "finish_login":
                    if server not in self._flows:
                        raise LoginFailed("no login is under way")
                    facts = await self._flows[server].finish(item["address"])
                    self._flows.pop(server, None)
                    await self._report(**about, kind="login", login=facts)
                case _:
                    is_done = await revoke(item["login"])
                    await self._report(**about, kind="login_step", reason="yes" * is_done)
        except LoginFailed as error:
            await self._report(**about, kind="login_step", is_error=True, reason=str(error))

    async def _shake_hands_again(self, upstream: Upstream) -> None:
        """The server was restarted and has forgotten us."""
        try:
            await upstream.shake_hands()
        except (LinkLost, ServerError) as error:
            _log.info("%s: no new session: %s", upstream.service, error)

    async def _tell_again(self, upstream: Upstream) -> None:
        """Tell what it offers, or why it cannot be asked."""
        try:
            try:
                await self._tell_listing(upstream)
            except SessionLost:
                await upstream.shake_hands()
                await self._tell_listing(upstream)
        except (LinkLost, ServerError) as error:
            about = {"service": upstream.service, "run_id": upstream.run_id}
            await self._report(**about, kind=_kind_of(error), reason=str(error))

    async def _list_again(self, upstream: Upstream) -> None:
        try:
            await self._tell_listing(upstream)
        except (LinkLost, ServerError) as error:
            _log.info("%s: its tools cannot be listed: %s", upstream.service, error)

    async def _tell_listing(self, upstream: Upstream) -> None:
        told = upstream.handshake.get("capabilities")
        capabilities = told if isinstance(told, dict) else {}
        listing: dict[str, Any] = {"handshake": upstream.handshake, "tools": []}
        for capability, method in (("tools", "tools/list"), ("prompts", "prompts/list")):
            if capability not in capabilities and capability != "tools":
                continue
            try:
                listing[capability] = await upstream.list_all(method, capability)
            except ServerError as error:
                if error.error.get("code") != _METHOD_NOT_FOUND:
                    raise
        await self._report(upstream.service, upstream.run_id, kind="listed", listing=listing)

    async def _detach(self, service: str, run_id: str) -> None:
        upstream = self._upstreams.get(service)
        if upstream is not None and upstream.run_id == run_id:
            del self._upstreams[service]
            await upstream.close()

    def _on_lost(self, upstream: Upstream) -> None:
        if self._upstreams.get(upstream.service) is upstream:
            del self._upstreams[upstream.service]

    async def _call(self, item: Item, *, is_sent: bool) -> None:
        service, run_id, call = item["service"], item["run_id"], item["call"]
        upstream, asked, wire = self._upstreams.get(service), item.get("asked"), item["wire"]
        about = {"service": service, "run_id": run_id, "call": call}
        if upstream is None or upstream.run_id != run_id:
            kind = "lost" if is_sent else "not_sent"
            await self._report(**about, kind=kind, reason="it is not connected")
            return
        try:
            await asyncio.shield(upstream.ready)
        except LinkLost as error:
            kind = "lost" if is_sent else "not_sent"
            await self._report(**about, kind=kind, reason=str(error))
            return
        waiting = self._waiting.get(asked or "")
        self._calls[call] = (upstream, wire, asked)
        try:
            if is_sent:
                answer = await upstream.expect(wire)
            else:
                params = {"name": item["tool"], "arguments": item["arguments"]}
                ask, progress = (waiting.ask, waiting.progress) if waiting else (None, None)
                answer = await upstream.request(
                    wire, "tools/call", params, ask=ask, progress=progress
                )
        except Withdrawn as error:
            await self._report(**about, kind="called", is_error=True, reason=str(error))
            return
        except LinkLost as error:
            if isinstance(error, SessionLost):
                await self._shake_hands_again(upstream)
            if isinstance(error, LoginNeeded):
                await self._report(service, run_id, kind="needs_login", reason=str(error))
            kind = "not_sent" if isinstance(error, NotSent) else "lost"
            await self._report(**about, kind=kind, reason=str(error))
            return
        finally:
            upstream.requests.pop(wire, None)
            self._calls.pop(call, None)
        await self._tell_answer(about, answer, asked)

    async def _tell_answer(self, about: dict[str, str], answer: Message, asked: str | None) -> None:
        result = answer.get("result")
        size = len(msgspec.json.encode(answer))
        if "error" in answer or not isinstance(result, dict):
            error = answer.get("error") or {"message": "an answer without a result"}
            text = str(error.get("message") or error)
            is_error, plain = True, {"content": [{"type": "text", "text": text}], "isError": True}
        else:
            is_error, plain = result.get("isError") is True, result
        if asked is not None:
            self._deliver(asked, answer, size)
            plain = {}
        elif size > 6 * 1024 * 1024:
            text = f"the answer has {size} bytes, which is too much for this door"
            is_error, plain = True, {"content": [{"type": "text", "text": text}], "isError": True}
        more: dict[str, Any] = {} if asked is not None else {"result": plain}
        await self._report(**about, kind="called", is_error=is_error, bytes=size, **more)

    def _deliver(self, asked: str, answer: Message, size: int) -> None:
        """Give the answer to the client, or keep it: the client may ask again in a moment."""
        waiting = self._waiting.pop(asked, None)
        if waiting is not None:
            if not waiting.answer.done():
                waiting.answer.set_result(answer)
            return
        self._kept[asked] = (answer, size)
        while len(self._kept) > MOST_KEPT or sum(n for _, n in self._kept.values()) > (
            MOST_KEPT_BYTES
        ):
            self._kept.popitem(last=False)

    async def _probe(self, item: Item) -> None:
        service, run_id = item["service"], item["run_id"]
        upstream = self._upstreams.get(service)
        if upstream is None or upstream.run_id != run_id:
            return
        about = {"service": service, "run_id": run_id, "kind": "probed"}
        if upstream.silent_seconds < PING_AFTER_SECONDS and not upstream.requests:
            await self._report(**about, reason="it has answered lately")
            return
        try:
            await upstream.ask("ping", {})
        except ServerError:
            pass  # an error is an answer, too
        except LinkLost as error:
            await self._report(**about, is_error=True, reason=str(error))
            return
        await self._report(**about, reason="it answered a ping")

    async def _report(self, service: str, run_id: str, **said: Any) -> None:
        """Tell the supervisor, also if it is being replaced just now."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + REPORT_SECONDS
        fields = {"service": service, "run_id": run_id, **said}
        while True:
            try:
                await self._channel.ask("report_mcp_server", fields, None, is_repeatable=True)
                return
            except Unreachable:
                if loop.time() > deadline:
                    _log.error("nobody took the report about %s", service)
                    return
                await asyncio.sleep(FOLLOW_AGAIN_SECONDS)
            except HoldfastError as error:
                _log.error("a report about %s was refused: %s", service, error.message)
                return

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a conversation with an MCP server failed", exc_info=error)


def _kind_of(error: Exception) -> str:
    return "needs_login" if isinstance(error, LoginNeeded) else "failed"


async def _end_of(asking: asyncio.Future[Any]) -> None:
    try:
        await asking
    except HoldfastError as error:
        _log.info("a call ended otherwise for the supervisor: %s", error.message)
