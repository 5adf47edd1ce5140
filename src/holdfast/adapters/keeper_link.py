"""The supervisor's end of the link to the keeper: requests go out, replies and notices come in.

Owns the link's socket; no other module of the supervisor speaks to the keeper. When the keeper
dies, `turn_into_keeper` makes this process a keeper from what `succession` remembers, and no
service notices. A supervisor that is replaced stands by for that, until its successor can do the
same. Decides nothing about services.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, overload

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.adapters.succession import Succession, close_all
from holdfast.keeper import handover
from holdfast.keeper.protocol import wire
from holdfast.vocabulary.errors import Failed, KeeperGone, SpawnFailed

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import (
        AdoptReply,
        AdoptRequest,
        EndRestReply,
        EndRestRequest,
        HelloRequest,
        KeeperFacts,
        ListRequest,
        Notice,
        PruneReply,
        PruneRequest,
        RefusalFacts,
        Reply,
        Request,
        SpawnReply,
        SpawnRequest,
        StandByRequest,
        StraysReply,
        StraysRequest,
        TreeReply,
        TreeRequest,
        UpgradeReply,
        UpgradeRequest,
    )

PROTOCOL = 1
RETRY_SECONDS = 0.05
_FIRST_PIECE_BYTES, _PIECE_BYTES = 512, 8192
_MOST_UNSENT = 64
_log = logger("keeper_link")

Message = dict[str, Any]
"""A message as it came, before its kind is known."""
Descriptors = tuple[int, ...]


class KeeperLink:
    """One end of the socket pair; the other end is the keeper's."""

    def __init__(
        self,
        sock: socket.socket,
        loop: asyncio.AbstractEventLoop,
        *,
        on_notice: Callable[[Notice], None],
        on_gone: Callable[[], None],
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._loop = loop
        self._on_notice = on_notice
        self._on_gone = on_gone
        self._inbox, self._outbox = wire.Inbox(load=_load), wire.Outbox(_encode)
        self._unsent: dict[str, str | None] = {}
        self._pending: dict[int, tuple[Callable[[Any], None] | None, Callable[[Any], None]]] = {}
        """By request: what succession makes of its reply, and what the caller does."""
        self._is_standing_by = False
        self._next_id = 1
        self._is_open = True
        self._is_corked, self._piece = False, _FIRST_PIECE_BYTES
        self.facts: KeeperFacts = {}
        """The keeper's answer to hello, without the lists of runs and exits."""
        self.kept: dict[str, str] = {}
        self._succession = Succession()
        self.runs, self.held = self._succession.runs, self._succession.held
        """Every run of the keeper by its id; our copies of the descriptors that it holds."""
        loop.add_reader(sock.fileno(), self._on_readable)

    @property
    def boot_id(self) -> str:
        return str(self.facts.get("boot_id") or "")

    @property
    def keeper_pid(self) -> int:
        return int(self.facts.get("pid") or 0)

    @property
    def cgroup_root(self) -> str | None:
        """The cgroup that contains those of all runs, if the keeper has one."""
        host = self.facts.get("host")
        return (host.get("cgroup") or None) if host else None

    @property
    def ceilings(self) -> list[int]:
        """The hard limits of the processes that this keeper, and killed ones before it, started
        (`run_marks`); empty if they tell nothing."""
        host = self.facts.get("host")
        return (host.get("ceilings") or []) if host else []

    async def hello(self, version: str) -> Message:
        """Introduce this supervisor; returns the keeper's facts with runs, exits and `kept`."""
        facts = await self.ask(
            {"do": "hello", "protocol": PROTOCOL, "role": "supervisor", "version": version}
        )
        if int(facts.get("protocol") or 0) < PROTOCOL:
            raise KeeperGone(
                f"the keeper speaks protocol {facts.get('protocol')}, this supervisor {PROTOCOL}",
                "`holdfast upgrade` swaps both",
            )
        self.kept = dict(facts.get("kept") or {})
        self._succession.begin(facts)
        self.facts = facts.copy()
        self.facts.pop("runs", None)
        self.facts.pop("exits", None)
        self.facts.pop("kept", None)
        return {**facts}

    @overload
    def request(
        self, message: SpawnRequest, then: Callable[[SpawnReply], None], fds: Descriptors = ()
    ) -> None: ...
    @overload
    def request(
        self, message: Request, then: Callable[[Reply], None], fds: Descriptors = ()
    ) -> None: ...
    def request(self, message: Any, then: Callable[[Any], None], fds: Descriptors = ()) -> None:
        """Send a request; `then` gets the reply, in the turn of the loop in which it arrives."""
        if not self._is_open:
            error = {"code": "keeper_gone", "message": "the keeper is gone"}
            self._loop.call_soon(then, {"ok": False, "error": error})
            return
        number, self._next_id = self._next_id, self._next_id + 1
        message["id"] = number
        if self._unsent:
            message["kept"], self._unsent = self._unsent, {}
        self._pending[number] = self._succession.on_request(message), then
        self._send(message, fds)

    @overload
    async def ask(self, message: HelloRequest | ListRequest) -> KeeperFacts: ...
    @overload
    async def ask(self, message: SpawnRequest) -> SpawnReply: ...
    @overload
    async def ask(self, message: AdoptRequest) -> AdoptReply: ...
    @overload
    async def ask(self, message: StraysRequest) -> StraysReply: ...
    @overload
    async def ask(self, message: EndRestRequest) -> EndRestReply: ...
    @overload
    async def ask(self, message: TreeRequest) -> TreeReply: ...
    @overload
    async def ask(self, message: PruneRequest) -> PruneReply: ...
    @overload
    async def ask(self, message: UpgradeRequest) -> UpgradeReply: ...
    @overload
    async def ask(self, message: Request) -> Reply: ...
    async def ask(self, message: Any) -> Any:
        """Send a request and wait for its reply; a refusal is raised as an error of ours."""
        future: asyncio.Future[Any] = self._loop.create_future()

        def then(reply: Any) -> None:
            if not future.done():
                future.set_result(reply)

        self.request(message, then)
        reply = await future
        if not reply.get("ok"):
            raise error_of(reply)
        return reply

    def keep(self, key: str, value: str | None) -> None:
        """Put a text into the keeper's memory (`keeper_memory` lists the keys); None forgets it."""
        if value is None:
            self.kept.pop(key, None)
        elif self.kept.get(key) == value:
            return
        else:
            self.kept[key] = value
        # It travels with the next request, so that what is kept and what is asked arrive
        # together. Many values are sent in parts: the keeper takes in the first meanwhile.
        self._unsent[key] = value
        if len(self._unsent) < _MOST_UNSENT:
            self._cork()
        else:
            self.request({"do": "keep"}, log_refusal)
            self.flush()

    def forget(self, run_ids: list[str]) -> None:
        self.request({"do": "forget", "run_ids": run_ids}, log_refusal)

    def hold(self, name: str, fd: int) -> None:
        """Let the keeper hold a copy of this descriptor, which is the link's from now on."""
        if (old := self.held.pop(name, None)) is not None:
            os.close(old)
        self.held[name] = fd
        self.request({"do": "hold", "name": name}, log_refusal, (fd,))

    def release(self, name: str) -> None:
        """Let go of a held descriptor, on both sides."""
        if (fd := self.held.pop(name, None)) is not None:
            os.close(fd)
            self.request({"do": "release", "name": name}, log_refusal)

    def channel_of(self, run_id: str) -> tuple[int, int] | None:
        """Our copies of the ends of a run's channel, which somebody else may be lent: its standard
        input and its standard output. None: it has no channel, or there is no room for copies."""
        return self._succession.channel_of(run_id)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._sock.fileno())
            self._loop.remove_writer(self._sock.fileno())
            self._sock.close()

    @property
    def has_table(self) -> bool:
        """Whether the keeper has told what its successor must know."""
        return bool(self.facts)

    def leave_loop(self) -> None:
        """Stop reading in the loop, and keep the connection for `stand_by`."""
        if self._is_open:
            self._loop.remove_reader(self._sock.fileno())
            self._loop.remove_writer(self._sock.fileno())

    def stand_by(self) -> bool:
        """Wait until the keeper says that another supervisor could take its place. Returns True if
        the keeper died before that. No loop runs any more: notices are remembered for a
        succession, and nothing else is done about them."""
        if not self._is_open:
            return True
        self._is_standing_by = True
        self._sock.setblocking(True)
        number, self._next_id = self._next_id, self._next_id + 1
        try:
            request: StandByRequest = {"do": "stand_by", "id": number}
            self._outbox.put(request)
            while not self._outbox.flush(self._sock):
                time.sleep(RETRY_SECONDS)  # the kernel has no memory for it at the moment
            while True:
                data, fds = wire.receive(self._sock)
                if not data:
                    return True
                for message, own_fds in self._inbox.feed(data, fds):
                    is_refused = message.get("id") == number and not message.get("ok")
                    if is_refused or _is_dismissal(message):
                        return False
                    self._take(message, own_fds)
        except (OSError, wire.WireError) as error:
            _log.error("the link to the keeper broke: %s", error)
            return True

    def flush(self) -> None:
        """Send what waits, as much as the socket takes."""
        if not self._is_open or self._outbox.is_empty:
            return
        try:
            is_done = self._outbox.flush(self._sock)
        except OSError:
            return  # the reader will notice the end of the link
        if self._outbox.is_refused:
            self._loop.call_later(RETRY_SECONDS, self.flush)
        if is_done or self._outbox.is_refused:
            self._loop.remove_writer(self._sock.fileno())
        else:
            self._loop.add_writer(self._sock.fileno(), self.flush)

    def turn_into_keeper(
        self,
        *,
        lock_fd: int,
        state: str,
        runtime: str,
        umask: int,
        claim_fd: int | None = None,
    ) -> NoReturn:
        """Replace this process by a keeper with the lock, claim, runs and descriptors of the one
        that died."""
        table = {
            "lock": lock_fd,
            "claim": claim_fd,
            "state": state,
            "runtime": runtime,
            "umask": umask,
            "started_at": self.facts.get("started_at"),
            "kept": self.kept,
            "held": self.held,
            "runs": self._succession.table(),
            "pending": self._succession.pending(),
        }
        package_parent = os.path.dirname(os.path.dirname(os.path.dirname(handover.__file__)))
        table_fd = handover.write(table)
        handover.set_inheritable(handover.descriptors(table), True)
        argv = handover.recover_argv(
            sys.executable,
            package_parent,
            state,
            runtime,
            table_fd,
            os.pathsep.join(path for path in sys.path if path and os.path.isdir(path)),
        )
        os.execv(argv[0], argv)

    def _send(self, message: Request, fds: Descriptors) -> None:
        # The requests of one turn go out in parts, the first one soon, so that the keeper begins.
        self._outbox.put(message, fds)
        if self._outbox.size > self._piece:
            self._piece = min(2 * self._piece, _PIECE_BYTES)
            self.flush()
        else:
            self._cork()

    def _cork(self) -> None:
        if not self._is_corked:
            self._is_corked = True
            self._loop.call_soon(self._uncork)

    def _uncork(self) -> None:
        self._is_corked, self._piece = False, _FIRST_PIECE_BYTES
        if self._unsent:
            self.request({"do": "keep"}, log_refusal)
        self.flush()

    def _on_readable(self) -> None:
        try:
            data, fds = wire.receive(self._sock)
            messages = self._inbox.feed(data, fds) if data else []
        except BlockingIOError:
            return
        except (OSError, wire.WireError) as error:
            _log.error("the link to the keeper broke: %s", error)
            data, messages = b"", []
        for message, own_fds in messages:
            self._take(message, own_fds)
        # The requests that these messages caused go out now, not a turn later.
        self.flush()
        if not data:
            self._end()

    def _end(self) -> None:
        self.close()
        pending, self._pending = self._pending, {}
        _log.warning("the keeper closed the link; %d requests were open", len(pending))
        self._on_gone()

    def _take(self, message: Any, fds: list[int]) -> None:
        if "notice" in message:
            notice: Notice = message
            self._call(lambda notice: self._succession.on_notice(notice, fds), notice)
            if notice["notice"] == "kept":
                self._on_kept(notice["kept"])
            elif not self._is_standing_by:
                self._call(self._on_notice, notice)
            return
        if "parts" in message and fds:
            # Which run they belong to is known from the request.
            message["spares"] = dict(zip(message["parts"], fds, strict=False))
        elif fds:
            close_all(fds)
        noted, then = self._pending.pop(message.get("id") or 0, (None, None))
        if noted is not None:
            self._call(noted, message)
        if then is not None and not self._is_standing_by:
            self._call(then, message)

    def _on_kept(self, values: dict[str, str | None]) -> None:
        """Another supervisor has put these values into the keeper's memory."""
        for key, value in values.items():
            if value is None:
                self.kept.pop(key, None)
            else:
                self.kept[key] = value

    def _call(self, callback: Callable[[Any], None], message: Any) -> None:
        try:
            callback(message)
        except Exception:  # noqa: BLE001 - the border to the keeper
            word, run_id = message.get("notice", "reply"), message.get("run_id")
            _log.exception("a message of the keeper was not taken: %s %s", word, run_id)


def error_of(reply: Reply) -> Failed | SpawnFailed | KeeperGone:
    """The keeper's refusal as an error of ours."""
    error: RefusalFacts = reply.get("error") or {}
    code, message = error.get("code"), str(error.get("message") or "the keeper refused")
    if code == "keeper_gone":
        return KeeperGone(message, "it is being replaced; try again")
    if code == "spawn_failed":
        return SpawnFailed(message, "", {"stage": error.get("stage")})
    return Failed(message, "", {"keeper_code": code})


def log_refusal(reply: Reply) -> None:
    """Log the refusal of a request that nobody waits for. A keeper that is gone is logged
    elsewhere."""
    error: RefusalFacts = reply.get("error") or {}
    if not reply.get("ok") and error.get("code") != "keeper_gone":
        _log.warning("the keeper refused: %s", error)


def _is_dismissal(notice: Message) -> bool:
    word = notice.get("notice")
    return word == "leave" or (word == "retire" and not notice.get("standby"))


def _encode(message: wire.Message) -> bytes:
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:
        return wire.encode(message)  # a path or an argument that is no UTF-8


def _load(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return json.loads(line)  # accepts text that is no UTF-8
