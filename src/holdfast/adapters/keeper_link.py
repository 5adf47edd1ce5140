"""The only speaker to the keeper: requests, notices, and spare descriptors never read.

Owns the link's socket and the copies of everything the keeper holds. When the keeper dies
without a word, `turn_into_keeper` makes this process a keeper from those copies; no service
notices. Decides nothing about services.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from holdfast.adapters.own_log import logger
from holdfast.keeper import handover, wire
from holdfast.vocabulary.errors import Failed, KeeperGone, SpawnFailed

PROTOCOL = 1
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
        self._inbox, self._outbox = wire.Inbox(), wire.Outbox()
        self._pending: dict[int, Then] = {}
        self._next_id = 1
        self._is_open = True
        self._is_corked = False
        self.facts: Message = {}
        """The keeper's answer to hello, without its lists."""
        self.kept: dict[str, str] = {}
        self.held: dict[str, int] = {}
        self.runs: dict[str, Message] = {}
        self._spares: dict[str, dict[str, int]] = {}
        self._began: dict[str, float] = {}
        loop.add_reader(sock.fileno(), self._on_readable)

    @property
    def boot_id(self) -> str:
        return str(self.facts.get("boot_id") or "")

    @property
    def keeper_pid(self) -> int:
        return int(self.facts.get("pid") or 0)

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
        now = time.monotonic()
        for run in facts.get("runs") or ():
            self.runs[run["run_id"]] = dict(run)
            self._began[run["run_id"]] = now - (run.get("age") or 0.0)
        for ended in facts.get("exits") or ():
            if ended["run_id"] in self.runs:
                self.runs[ended["run_id"]]["exit"] = ended
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
        self._pending[number] = then
        self._note_request(message)
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
        self.request({"do": "keep", "key": key, "value": value}, _ignore)

    def forget(self, run_ids: list[str]) -> None:
        self.request({"do": "forget", "run_ids": run_ids}, _ignore)

    def hold(self, name: str, fd: int) -> None:
        """Let the keeper hold a copy of this descriptor."""
        self.held[name] = fd
        self.request({"do": "hold", "name": name}, _ignore, (fd,))

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._sock.fileno())
            self._loop.remove_writer(self._sock.fileno())
            self._sock.close()

    def flush(self) -> None:
        """Send what waits, as far as the socket takes it."""
        if not self._is_open or self._outbox.is_empty:
            return
        try:
            is_done = self._outbox.flush(self._sock)
        except OSError:
            return  # the reader will see the end
        if is_done:
            self._loop.remove_writer(self._sock.fileno())
        else:
            self._loop.add_writer(self._sock.fileno(), self.flush)

    def turn_into_keeper(self, *, lock_fd: int, state: str, runtime: str) -> NoReturn:
        """Become the keeper that died: same lock, same runs, same descriptors."""
        now = time.monotonic()
        runs = [
            {**run, "age": now - self._began.get(run_id, now), "parts": self._spares[run_id]}
            for run_id, run in self.runs.items()
            if run_id in self._spares
        ]
        table = {
            "lock": lock_fd,
            "state": state,
            "runtime": runtime,
            "started_at": self.facts.get("started_at"),
            "kept": self.kept,
            "held": self.held,
            "runs": runs,
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
        # Requests of one turn go out in one piece, those with descriptors by themselves.
        self._outbox.put(message, fds)
        if not self._is_corked:
            self._is_corked = True
            self._loop.call_soon(self._uncork)

    def _uncork(self) -> None:
        self._is_corked = False
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
            self._note_notice(message, fds)
            self._call(self._on_notice, message)
            return
        if "parts" in message and fds:
            # The run this reply belongs to is remembered with its request.
            message["spares"] = dict(zip(message["parts"], fds, strict=False))
        elif fds:
            _close_all(fds)
        then = self._pending.pop(message.get("id") or 0, None)
        if then is not None:
            self._call(then, message)

    def _call(self, callback: Callable[[Message], None], message: Message) -> None:
        try:
            callback(message)
        except Exception:  # noqa: BLE001 - the border to the keeper
            _log.exception("a message of the keeper was not taken: %s", _brief(message))

    def _note_request(self, message: Message) -> None:
        """Remember what a successor of the keeper would have to know."""
        word, run_id = message["do"], message.get("run_id")
        if word in ("spawn", "adopt") and isinstance(run_id, str):
            then = self._pending[message["id"]]
            facts = {key: value for key, value in message.items() if key not in _NOT_FACTS}

            def started(reply: Message) -> None:
                if reply.get("ok"):
                    spares = reply.pop("spares", {})
                    known = {key: value for key, value in reply.items() if key not in _REPLY_FIELDS}
                    has_stdin = bool({"stdin", "terminal"} & spares.keys())
                    own = {"has_stdin": has_stdin, "adopted": word == "adopt"}
                    self.runs[run_id] = {**_RUN_DEFAULTS, **facts, **own, **known}
                    self._spares[run_id] = spares
                    self._began[run_id] = time.monotonic() - (reply.get("age") or 0.0)
                then(reply)

            self._pending[message["id"]] = started
        elif run_id in self.runs:
            run = self.runs[run_id]
            match word:
                case "pause" | "resume":
                    run["paused"] = word == "pause"
                case "end":
                    run["ending"] = run["is_end_asked"] = True
                    run["end"] = {**run["stop"], **_given(message, "signal", "grace")}
                case "lease":
                    run["lease"] = _given(message, "seconds", "kind")
                case "resize":
                    run["cols"], run["rows"] = message["cols"], message["rows"]
                case "write" if message.get("eof") and "stdin" in self._spares.get(run_id, {}):
                    # A spare copy left open would hide the end of input from the service.
                    os.close(self._spares[run_id].pop("stdin"))
                case _:
                    pass

    def _note_notice(self, message: Message, fds: list[int]) -> None:
        match message["notice"]:
            case "spare":
                self._drop_spares(message["run_id"])
                self._spares[message["run_id"]] = dict(zip(message["parts"], fds, strict=False))
            case "held":
                name = message["name"]
                if name in self.held:
                    os.close(self.held[name])
                self.held[name] = fds[0]
            case "exit" if message.get("empty", True):
                self._drop_run(message["run_id"])
            case "exit" if message["run_id"] in self.runs:
                facts = {key: value for key, value in message.items() if key != "notice"}
                self.runs[message["run_id"]]["exit"] = facts
            case "ended" if message.get("empty", True):
                self._drop_run(message["run_id"])
            case _:
                _close_all(fds)

    def _drop_run(self, run_id: str) -> None:
        self.runs.pop(run_id, None)
        self._began.pop(run_id, None)
        self._drop_spares(run_id)

    def _drop_spares(self, run_id: str) -> None:
        _close_all(list(self._spares.pop(run_id, {}).values()))


_NOT_FACTS = frozenset({"do", "id", "argv", "env", "cwd", "user", "rlimits", "umask", "nice"})
_REPLY_FIELDS = frozenset({"ok", "id", "parts", "fds"})
_RUN_DEFAULTS: Message = {
    "kind": "service", "paused": False, "ending": False, "cgroup": None, "lease": None,
    "hidden": False, "cols": None, "rows": None,
}  # fmt: skip


def error_of(reply: Message) -> Failed | SpawnFailed | KeeperGone:
    """The keeper's refusal as an error of ours."""
    error = reply.get("error") or {}
    code, message = error.get("code"), str(error.get("message") or "the keeper refused")
    if code == "keeper_gone":
        return KeeperGone(message, "it is being replaced; try again")
    if code == "spawn_failed":
        return SpawnFailed(message, "", {"stage": error.get("stage")})
    return Failed(message, "", {"keeper_code": code})


def _ignore(reply: Message) -> None:
    if not reply.get("ok"):
        _log.warning("the keeper refused: %s", reply.get("error"))


def _given(message: Message, *keys: str) -> Message:
    return {key: message[key] for key in keys if message.get(key) is not None}


def _brief(message: Message) -> str:
    return str({key: message[key] for key in ("notice", "id", "run_id") if key in message})


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
