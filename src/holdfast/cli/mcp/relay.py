"""The relay between an assistant's standard input and output and the gate's socket.

It copies lines, and reads of them only what it needs to go on when the gate or the supervisor
dies: it connects again and repeats the handshake, the subscriptions and every request that is not
answered yet. A call carries a key, so that a call that was done already is answered and not done
again. The handshake and the list of tools it answers itself (`first_answers`), so that a client is
not kept waiting where nothing runs yet. One relay runs for every assistant, so it imports little
and stays small.
"""

from __future__ import annotations

import _socket
import os
import select
import time

from holdfast.cli.mcp.first_answers import FirstAnswers, is_modern
from holdfast.cli.mcp.session import decide, lasting_refusal
from holdfast.system.lean_json import dumps, encoded, loads
from holdfast.system.lines import LineBuffer, LineTooLong
from holdfast.vocabulary.errors import HoldfastError, NoDaemon, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.cli.mcp.session import SessionOpener
    from holdfast.system.places import Places

    Message = dict[str, Any]

KEY, BEGAN = "io.holdfast/key", "io.holdfast/began"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
SUBSCRIPTION = f'"{SUBSCRIPTION_ID}"'.encode()
TOOLS_CHANGED = "notifications/tools/list_changed"
ACKNOWLEDGED = b'"notifications/subscriptions/acknowledged"'
APPROVAL = b'"io.holdfast/approval"'
INTERRUPTED = b'"resultType":"input_required"'
OWN = "holdfast-relay-"
GIVE_UP_SECONDS = 30.0
CHECK_SECONDS = 2.0
"""After this time without a gate, check whether Holdfast runs at all."""
RETRY_SECONDS = 0.05
GREETING_SECONDS = 10.0
QUIET_SECONDS = 0.3
"""A client that asks nothing for so long has begun; then the gate is called up in advance."""
AGAIN_SECONDS = 1.0
MOST_AGAIN = 30
"""So often a gate that went away is called up again for a client that asks nothing."""
NOT_AVAILABLE = -32001
INVALID_REQUEST = -32600
LONGEST_REQUEST = 8 * 1024 * 1024 - 64 * 1024
"""The supervisor refuses a longer line."""
MOST_FORGIVEN_SECONDS = 6.0
"""Clients give up at 60 seconds, and a call may take 54."""
MOST_HELD = 2 * LONGEST_REQUEST
NO_RESOURCES: Message = {"resources": [], "ttlMs": 0, "cacheScope": "private"}
"""Where nothing runs, there are none."""
TRIES = 5
_READ_SIZE = 64 * 1024
_WRITE_SIZE = 4096
"""What a writable pipe takes without blocking the writer."""
_HEAD = b'{"jsonrpc":"2.0","id":'
_KINDS = (b',"result"', b',"error"', b',"method"')


class Relay:
    """Relays for one assistant."""

    def __init__(self, places: Places, greeting: dict[str, Any], sessions: SessionOpener) -> None:
        self._places = places
        self._greeting = greeting
        self._sessions = sessions
        self._first = FirstAnswers(greeting, sessions.offer, places.state)
        self._calls_left = 0
        """How often the gate is still called up while nothing is asked."""
        self._token: str | None = None
        self._client = "assistant"
        self._sock: _socket.socket | None = None
        self._from_client = LineBuffer(MOST_HELD)
        self._waiting: list[bytes] = []
        """Lines of the client that are not handled yet."""
        self._waiting_bytes = 0
        self._from_gate = LineBuffer()
        self._early: list[bytes] = []
        """Lines of the gate that came with its greeting."""
        self._handshake: bytes | None = None
        self._is_initialized = False
        self._subscriptions: dict[str, bytes] = {}
        self._open: dict[str, bytes] = {}
        """Requests that are not answered yet, by their id as JSON, in order."""
        self._tries: dict[str, int] = {}
        self._unsent: dict[str, float] = {}
        """Calls that no gate was sent yet, and since when they wait for one."""
        self._asked: set[str] = set()
        """Ids of the gate's requests to the client."""
        self._questions: dict[str, str] = {}
        """Approvals that the client was asked for, by the id of the request."""
        self._states: set[str] = set()
        """Request states of calls that were interrupted to ask for an approval."""
        self._own: set[str] = set()
        self._acknowledged: set[str] = set()
        """Streams whose opening was acknowledged to the client."""
        self._relistened: set[str] = set()
        self._prefix = os.urandom(12).hex()
        self._count = 0

    def run(self) -> int:
        """Relay until the client closes its end."""
        while True:
            while self._waiting:
                # One at a time, because handling one may read more of them.
                line = self._waiting.pop(0)
                self._waiting_bytes -= len(line)
                if line.strip():
                    self._on_line(line)
            reading: list[Any] = [0] if self._sock is None else [0, self._sock]
            ready, _, _ = select.select(reading, [], [], self._patience())
            if not ready:
                self._call_up()
            if self._sock is not None and self._sock in ready:
                self._read_gate()
            if 0 in ready:
                data = os.read(0, _READ_SIZE)
                if not data:
                    return 0
                self._take(data)

    def _patience(self) -> float | None:
        """Return how long to wait for the client before the gate is called up."""
        if self._sock is not None or not self._calls_left:
            return None
        return QUIET_SECONDS if self._calls_left == MOST_AGAIN else AGAIN_SECONDS

    def _call_up(self) -> None:
        """Connect to a gate that is there, so that the client learns about changed tools and its
        first call is quick."""
        left = self._calls_left - 1
        try:
            self._sock = self._connect(time.monotonic() + GREETING_SECONDS)
            self._replay()
        except OSError:
            self._hang_up()
            self._calls_left = left
        except HoldfastError:
            self._calls_left = 0  # nothing runs here, or it does not let us in

    def _hang_up(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    # What the client says

    def _take(self, data: bytes) -> None:
        """Add input."""
        try:
            lines = self._from_client.feed(data)
        except LineTooLong:
            # A line without an end is replaced by this text, which is no valid message.
            self._from_client.clear()
            lines = self._from_client.feed(b"too long ")
        self._waiting += lines
        self._waiting_bytes += sum(map(len, lines))

    def _on_line(self, line: bytes) -> None:
        try:
            message = loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            self._send(line)
            return
        method, number = message.get("method"), message.get("id")
        if isinstance(number, bool) or not isinstance(number, (str, int, type(None))):
            # Its answer could not be told from the answer to another request.
            self._refuse("null", INVALID_REQUEST, "an id is a text or a whole number")
        elif number is None:
            self._on_notification(message, line)
        elif method is None:
            # Only the gate that asked can use the answer, not its successor.
            if dumps(number) in self._asked:
                self._asked.discard(dumps(number))
                if (approval := self._questions.pop(dumps(number), None)) is not None:
                    decide(self._places, self._client, approval, message.get("result"))
                self._send(line)
        else:
            self._on_request(str(method), dumps(number), message, line)

    def _on_notification(self, message: Message, line: bytes) -> None:
        if message.get("method") == "notifications/initialized":
            self._is_initialized = True
            self._calls_left = MOST_AGAIN
        elif message.get("method") == "notifications/cancelled":
            params = message.get("params")
            self._forget(dumps(params.get("requestId") if isinstance(params, dict) else None))
        self._send(line)

    def _on_request(self, method: str, number: str, message: Message, line: bytes) -> None:
        params = message.get("params")
        if not isinstance(params, dict):
            params = {}
        if method == "initialize":
            self._handshake, self._is_initialized = line, False
            self._learn(params.get("clientInfo"))
        elif method == "resources/subscribe":
            self._subscriptions[str(params.get("uri"))] = line
        elif method == "resources/unsubscribe":
            self._subscriptions.pop(str(params.get("uri")), None)
        elif method == "tools/call":
            meta = params.get("_meta")
            meta = dict(meta) if isinstance(meta, dict) else {}
            meta |= {KEY: self._key_of(params), BEGAN: time.monotonic()}
            message["params"] = {**params, "_meta": meta}
            line = encoded(message)
        if self._token is None and isinstance(params.get("_meta"), dict):
            self._learn(params["_meta"].get(CLIENT_INFO))
        if len(line) > LONGEST_REQUEST:
            why = f"a request has at most {LONGEST_REQUEST} bytes"
            self._refuse(number, INVALID_REQUEST, why)
            return
        if self._sock is None or method not in ("initialize", "ping"):
            result = self._first.answer(method, params)
            if result is not None:
                if is_modern(params) and self._sock is None:
                    self._calls_left = MOST_AGAIN
                self._write(_answer(number, result))
                return
        self._open[number] = line
        if self._sock is None and method == "tools/call":
            self._unsent[number] = time.monotonic()
        self._send(line)

    def _key_of(self, params: Message) -> str:
        """A new key for a new call; the first key for a call that was interrupted by a question."""
        state = params.get("requestState")
        if isinstance(state, str) and state in self._states:
            self._states.discard(state)
            approval, _, key = state.partition("|")
            answer = (params.get("inputResponses") or {}).get("approval")
            decide(self._places, self._client, approval, answer)
            return key
        self._count += 1
        return f"{self._prefix}-{self._count}"

    def _learn(self, info: Any) -> None:
        """Learn the name of the client, which people see as the name of this session."""
        if isinstance(info, dict) and isinstance(info.get("name"), str):
            name = "".join(letter for letter in info["name"] if letter.isprintable())
            self._client = name.strip()[:60] or self._client

    def _send(self, line: bytes) -> None:
        if self._sock is None:
            if self._open:
                self._join()  # which sends every open request
            return
        try:
            self._sock.sendall(line + b"\n")
        except OSError:
            self._lost()

    # What the gate says

    def _read_gate(self) -> None:
        assert self._sock is not None
        try:
            data = self._sock.recv(_READ_SIZE)
        except OSError:
            data = b""
        if not data:
            self._lost()
            return
        kept = [line + b"\n" for line in self._lines_in(data) if self._is_for_client(line)]
        self._write(b"".join(kept))

    def _is_for_client(self, line: bytes) -> bool:
        found = _id_of(line)
        if found is None:
            return not self._is_repeated_ack(line)
        number, is_question = found
        if APPROVAL in line or INTERRUPTED in line:
            self._note_question(number, loads(line))
        if is_question:
            self._asked.add(number)
            return True
        if number in self._own:
            self._own.discard(number)
            return False
        return self._forget(number)

    def _note_question(self, number: str, message: Message) -> None:
        """Remember a question to the person at the client, asked within a call or by interrupting
        it."""
        if message.get("method") == "elicitation/create":
            meta = (message.get("params") or {}).get("_meta") or {}
            self._questions[number] = str(meta.get("io.holdfast/approval"))
        elif (message.get("result") or {}).get("resultType") == "input_required":
            self._states.add(str(message["result"].get("requestState")))

    def _is_repeated_ack(self, line: bytes) -> bool:
        """Return whether this acknowledges a stream that was opened again after a reconnect; the
        client has seen its acknowledgement already."""
        if ACKNOWLEDGED not in line:
            return False
        for number in self._open:
            if SUBSCRIPTION + b":" + number.encode() in line:
                is_repeated = number in self._relistened
                self._relistened.discard(number)
                self._acknowledged.add(number)
                return is_repeated
        return False

    def _write(self, data: bytes) -> None:
        """Write to the client. A client that does not read delays only itself, and its own input is
        still read."""
        for place in range(0, len(data), _WRITE_SIZE):
            piece = data[place : place + _WRITE_SIZE]
            while piece:
                reading = [0] if self._waiting_bytes < 16 * _READ_SIZE else []
                ready, writable, _ = select.select(reading, [1], [])
                if writable:
                    piece = piece[os.write(1, piece) :]
                elif ready:
                    more = os.read(0, _READ_SIZE)
                    if not more:
                        raise BrokenPipeError
                    self._take(more)

    # When the other side is lost

    def _lost(self) -> None:
        self._hang_up()
        self._from_gate.clear()
        self._early = []
        self._asked.clear()
        self._questions.clear()
        self._own.clear()
        if self._open or self._subscriptions:
            self._join()
        else:
            self._calls_left = MOST_AGAIN

    def _join(self) -> None:
        """Connect and go on; if that fails for too long, answer open requests with an error."""
        deadline = time.monotonic() + GIVE_UP_SECONDS
        next_check = time.monotonic() + CHECK_SECONDS
        while True:
            try:
                self._sock = self._connect(deadline, is_asked=True)
                self._replay()
                return
            except HoldfastError as error:
                self._give_up(error)
                return
            except OSError as error:
                self._hang_up()
                if time.monotonic() >= next_check:
                    next_check = deadline
                    if (refusal := lasting_refusal(self._places)) is not None:
                        self._give_up(refusal)
                        return
                if time.monotonic() >= deadline:
                    why = f"the gate does not answer: {error.strerror or error}"
                    self._give_up(NoDaemon(why, "`holdfast status` tells how things are"))
                    return
                time.sleep(RETRY_SECONDS)

    def _connect(self, deadline: float, *, is_asked: bool = False) -> _socket.socket:
        """Connect to the gate, which accepts our token."""
        if self._token is None:
            may_launch = is_asked and any(map(_starts_holdfast, self._open.values()))
            self._token = self._sessions.open(
                self._client, may_launch=may_launch, is_patient=is_asked
            )
        sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            sock.connect(self._places.relay_socket)
            sock.settimeout(min(GREETING_SECONDS, max(0.1, deadline - time.monotonic())))
            sock.sendall(encoded({**self._greeting, "token": self._token}) + b"\n")
            answer = self._line_of(sock)
        except BaseException:
            sock.close()
            raise
        if "error" in answer:
            sock.close()
            if answer["error"].get("code") == "unauthorized" and self._token is not None:
                # The session has ended; the client goes on in a new one.
                self._token = None
                raise OSError(answer["error"].get("message", "refused"))
            raise Refused(answer["error"].get("message", ""), answer["error"].get("hint", ""))
        sock.settimeout(None)
        self._calls_left = 0
        if self._first.learn(answer):
            self._tell_of_other_tools()
        return sock

    def _replay(self) -> None:
        """Repeat to the new gate what the last one was told."""
        assert self._sock is not None
        open_lines = list(self._open.values())
        if self._handshake is not None and self._handshake not in open_lines:
            self._repeat(self._handshake)
            while self._own:
                for line in self._lines():
                    self._is_for_client(line)
            if self._is_initialized:
                notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
                self._sock.sendall(encoded(notification) + b"\n")
        for line in self._subscriptions.values():
            if line not in open_lines:
                self._repeat(line)
        for number, line in list(self._open.items()):
            self._tries[number] = self._tries.get(number, 0) + 1
            if self._tries[number] > TRIES and number not in self._acknowledged:
                # This request may be what kills the gate.
                self._refuse(number, NOT_AVAILABLE, "every gate that was asked this went away")
                continue
            if number in self._acknowledged:
                self._relistened.add(number)
            if (asked := self._unsent.pop(number, None)) is not None:
                line = self._open[number] = _begun_later(line, asked)
            self._sock.sendall(line + b"\n")

    def _repeat(self, line: bytes) -> None:
        """Send a request again under an id of our own; its answer is not for the client."""
        assert self._sock is not None
        self._count += 1
        number = f"{OWN}{self._count}"
        self._own.add(dumps(number))
        self._sock.sendall(encoded({**loads(line), "id": number}) + b"\n")

    def _lines(self) -> list[bytes]:
        assert self._sock is not None
        data = self._sock.recv(_READ_SIZE)
        if not data:
            raise OSError("it went away")
        return self._lines_in(data)

    def _lines_in(self, data: bytes) -> list[bytes]:
        lines, self._early = [*self._early, *self._from_gate.feed(data)], []
        return lines

    def _line_of(self, sock: _socket.socket) -> dict[str, Any]:
        self._from_gate.clear()
        lines: list[bytes] = []
        while not lines:
            data = sock.recv(_READ_SIZE)
            if not data:
                raise OSError("it went away")
            lines = self._from_gate.feed(data)
        first, *self._early = lines
        answer: dict[str, Any] = loads(first)
        return answer

    def _tell_of_other_tools(self) -> None:
        """Tell the client to list the tools again: on each stream that asked for it, or, with a
        handshake, at once."""
        notice: Message = {"jsonrpc": "2.0", "method": TOOLS_CHANGED}
        if self._is_initialized:
            self._write(encoded(notice) + b"\n")
        for line in self._open.values():
            request = loads(line)
            if request.get("method") == "subscriptions/listen" and _wants_tools(request):
                meta = {SUBSCRIPTION_ID: request["id"]}
                self._write(encoded({**notice, "params": {"_meta": meta}}) + b"\n")

    def _give_up(self, error: HoldfastError) -> None:
        """Answer every open request with this error; the next request tries again."""
        parts = [part for part in (error.message, error.hint) if part]
        for number, line in list(self._open.items()):
            request = loads(line)
            method, is_gone = request.get("method"), type(error) is NoDaemon
            if method == "tools/call":
                # In a result, because an error of the protocol may not reach the model.
                self._forget(number)
                content = [{"type": "text", "text": "\n".join(parts)}]
                self._write(
                    _answer(number, {**_form(request), "content": content, "isError": True})
                )
            elif method == "resources/list" and is_gone:
                self._forget(number)
                self._write(_answer(number, {**_form(request), **NO_RESOURCES}))
            else:
                self._refuse(number, NOT_AVAILABLE, "; ".join(parts))

    def _refuse(self, number: str, code: int, text: str) -> None:
        self._forget(number)
        failure = dumps({"code": code, "message": text})
        answer = f'{{"jsonrpc":"2.0","id":{number},"error":{failure}}}\n'
        self._write(answer.encode("utf-8", "replace"))

    def _forget(self, number: str) -> bool:
        """Forget a request that is over; returns whether it was open."""
        self._acknowledged.discard(number)
        self._tries.pop(number, None)
        self._unsent.pop(number, None)
        return self._open.pop(number, None) is not None


def _answer(number: str, result: Message) -> bytes:
    return f'{{"jsonrpc":"2.0","id":{number},"result":{dumps(result)}}}\n'.encode()


def _form(request: Message) -> Message:
    """Return what a result of the request's revision begins with."""
    return {"resultType": "complete"} if is_modern(request.get("params") or {}) else {}


def _begun_later(line: bytes, asked: float) -> bytes:
    """Return a call as if it began now: it does not pay for the time that it waited for a gate,
    unless that was so long that its client would give up."""
    message = loads(line)
    message["params"]["_meta"][BEGAN] = min(time.monotonic(), asked + MOST_FORGIVEN_SECONDS)
    return encoded(message)


def _starts_holdfast(line: bytes) -> bool:
    """Return whether a request is reason enough to start Holdfast, where that is wanted. Clients
    list the resources although nobody asked them to do anything."""
    return b'"resources/list"' not in line


def _wants_tools(request: Message) -> bool:
    """Return whether a stream wants to know about changed tools."""
    notifications = (request.get("params") or {}).get("notifications") or {}
    return bool(notifications.get("toolsListChanged"))


def _id_of(line: bytes) -> tuple[str, bool] | None:
    """The id in a line of the gate, and whether the line is a request; None if it has no id."""
    if line.startswith(_HEAD):
        for kind in _KINDS:
            number, found, _ = line[len(_HEAD) :].partition(kind)
            is_id = number[:1] == b'"' or number.removeprefix(b"-").isdigit()
            # Within a JSON text every quote is escaped, except the last.
            if found and is_id and b',"' not in number[:-1]:
                return number.decode("utf-8", "replace"), kind is _KINDS[-1]
    return None
