"""The only speaker to the keeper: requests go out, replies and notices come in.

Owns the link's socket. When the keeper dies without a word, `turn_into_keeper` makes this
process a keeper from what `succession` remembers; no service notices. A supervisor that is
replaced stands by for that until its successor can do the same. Decides nothing about services.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

import msgspec

from holdfast.adapters.own_log import logger
from holdfast.adapters.succession import Succession, close_all
from holdfast.keeper import handover
from holdfast.keeper.protocol import wire
from holdfast.vocabulary.errors import Failed, KeeperGone, SpawnFailed

PROTOCOL = 1
RETRY_SECONDS = 0.05
_FIRST_PIECE_BYTES, _PIECE_BYTES = 512, 8192
_MOST_UNSENT = 64
_log = logger("keeper_link")

Message = dict[str, Any]
Then = Callable[[Message], None]


class KeeperLink:
    """One end of the socket pair; the other end is the keeper's."""

    def __init__(
        self,
        sock: socket.socket,
        loop: asyncio.AbstractEventLoop,
        *,
        on_notice: Callable[[Message], None],
        on_gone: Callable[[], None],
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._loop = loop
        self._on_notice = on_notice
        self._on_gone = on_gone
        self._inbox, self._outbox = wire.Inbox(load=_load), wire.Outbox(_encode)
        self._unsent: dict[str, str | None] = {}
        self._pending: dict[int, tuple[Then | None, Then]] = {}
        self._is_standing_by = False
        self._next_id = 1
        self._is_open = True
        self._is_corked, self._piece = False, _FIRST_PIECE_BYTES
        self.facts: Message = {}
        """The keeper's answer to hello, without its lists."""
        self.kept: dict[str, str] = {}
        self._succession = Succession()
        self.runs, self.held = self._succession.runs, self._succession.held
        """Every run of the keeper by its id; our copies of descriptors that it holds by name."""
        loop.add_reader(sock.fileno(), self._on_readable)

    @property
    def boot_id(self) -> str:
        return str(self.facts.get("boot_id") or "")

    @property
    def keeper_pid(self) -> int:
        return int(self.facts.get("pid") or 0)

    @property
    def cgroup_root(self) -> str | None:
        """The cgroup beneath which runs are, where the keeper has one."""
        root = (self.facts.get("host") or {}).get("cgroup")
        return str(root) if root else None

    @property
    def ceilings(self) -> list[int]:
        """The hard limits of all that this keeper, and killed ones before it, started
        (`run_marks`); empty where they tell nothing."""
        return (self.facts.get("host") or {}).get("ceilings") or []

    async def hello(self, version: str) -> Message:
        """Say who we are; answers the keeper's facts with runs, exits and kept."""
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
        self.facts = {
            key: value for key, value in facts.items() if key not in ("runs", "exits", "kept")
        }
        return facts

    def request(self, message: Message, then: Then, fds: tuple[int, ...] = ()) -> None:
        """Send a request; `then` gets the reply, in the turn in which it arrives."""
        if not self._is_open:
            error = {"code": "keeper_gone", "message": "the keeper is gone"}
            self._loop.call_soon(then, {"ok": False, "error": error})
            return
        number, self._next_id = self._next_id, self._next_id + 1
        message["id"] = number
        if self._unsent:
            message["kept"], self._unsent = self._unsent, {}
        self._pending[number] = self._succession.noting(message), then
        self._send(message, fds)

    async def ask(self, message: Message, fds: tuple[int, ...] = ()) -> Message:
        """Send a request and wait; raises what the keeper refused."""
        future: asyncio.Future[Message] = self._loop.create_future()

        def then(reply: Message) -> None:
            if not future.done():
                future.set_result(reply)

        self.request(message, then, fds)
        reply = await future
        if not reply.get("ok"):
            raise error_of(reply)
        return reply

    def keep(self, key: str, value: str | None) -> None:
        """Put something into the keeper's memory."""
        if value is None:
            self.kept.pop(key, None)
        elif self.kept.get(key) == value:
            return
        else:
            self.kept[key] = value
        # Travels with the next request: what is wanted and what is asked arrive together. Of
        # very much the keeper takes the first in already, while we go on.
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
        """Hear nothing more in the loop, and keep the connection for `stand_by`."""
        if self._is_open:
            self._loop.remove_reader(self._sock.fileno())
            self._loop.remove_writer(self._sock.fileno())

    def stand_by(self) -> bool:
        """Wait until the keeper says that another supervisor could take its place; True: it died
        before. Called when no loop runs any more: whatever is told is noted and acted on no more.
        """
        if not self._is_open:
            return True
        self._is_standing_by = True
        self._sock.setblocking(True)
        number, self._next_id = self._next_id, self._next_id + 1
        try:
            self._outbox.put({"do": "stand_by", "id": number})
            while not self._outbox.flush(self._sock):
                time.sleep(RETRY_SECONDS)  # the kernel has no memory for it just now
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
        """Send what waits, as far as the socket takes it."""
        if not self._is_open or self._outbox.is_empty:
            return
        try:
            is_done = self._outbox.flush(self._sock)
        except OSError:
            return  # the reader will see the end
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
        """Become the keeper that died: same lock, same claim, same runs, same descriptors."""
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

    def _send(self, message: Message, fds: tuple[int, ...]) -> None:
        # Requests of one turn go out in pieces, the first soon: the keeper begins meanwhile.
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
        # What these messages made us ask goes out now, not a turn later.
        self.flush()
        if not data:
            self._end()

    def _end(self) -> None:
        self.close()
        pending, self._pending = self._pending, {}
        _log.warning("the keeper closed the link; %d requests were open", len(pending))
        self._on_gone()

    def _take(self, message: Message, fds: list[int]) -> None:
        if "notice" in message:
            self._call(lambda notice: self._succession.on_notice(notice, fds), message)
            if message["notice"] == "kept":
                self._on_kept(message["kept"])
            elif not self._is_standing_by:
                self._call(self._on_notice, message)
            return
        if "parts" in message and fds:
            # The run this reply belongs to is remembered with its request.
            message["spares"] = dict(zip(message["parts"], fds, strict=False))
        elif fds:
            close_all(fds)
        noted, then = self._pending.pop(message.get("id") or 0, (None, None))
        if noted is not None:
            self._call(noted, message)
        if then is not None and not self._is_standing_by:
            self._call(then, message)

    def _on_kept(self, values: dict[str, str | None]) -> None:
        """Another supervisor has put this into the keeper's memory."""
        for key, value in values.items():
            if value is None:
                self.kept.pop(key, None)
            else:
                self.kept[key] = value

    def _call(self, callback: Callable[[Message], None], message: Message) -> None:
        try:
            callback(message)
        except Exception:  # noqa: BLE001 - the border to the keeper
            word, run_id = message.get("notice", "reply"), message.get("run_id")
            _log.exception("a message of the keeper was not taken: %s %s", word, run_id)


def error_of(reply: Message) -> Failed | SpawnFailed | KeeperGone:
    """The keeper's refusal as an error of ours."""
    error = reply.get("error") or {}
    code, message = error.get("code"), str(error.get("message") or "the keeper refused")
    if code == "keeper_gone":
        return KeeperGone(message, "it is being replaced; try again")
    if code == "spawn_failed":
        return SpawnFailed(message, "", {"stage": error.get("stage")})
    return Failed(message, "", {"keeper_code": code})


def log_refusal(reply: Message) -> None:
    """For requests whose answer nobody waits for; that the keeper is gone is told elsewhere."""
    error = reply.get("error") or {}
    if not reply.get("ok") and error.get("code") != "keeper_gone":
        _log.warning("the keeper refused: %s", error)


def _is_dismissal(notice: Message) -> bool:
    word = notice.get("notice")
    return word == "leave" or (word == "retire" and not notice.get("standby"))


def _encode(message: Message) -> bytes:
    try:
        return msgspec.json.encode(message) + b"\n"
    except UnicodeEncodeError:
        return wire.encode(message)  # bytes of the system that are no UTF-8


def _load(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        return json.loads(line)  # takes text that is no UTF-8, too
