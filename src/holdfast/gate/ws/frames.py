"""The frames of `/ws`: `{event, data, id?}` as text; output and input also as bytes.

Writes and parses frames, and defines the data that each event may carry. It never acts on a frame.
"""

from __future__ import annotations

import base64
import struct
import time
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from holdfast.vocabulary.errors import HoldfastError, UsageError

STDOUT, STDERR, MERGED, INPUT = 1, 2, 3, 16
"""The first byte of a binary frame."""
BINARY = struct.Struct(">BIQ")
"""Kind, number of the session, position of the first byte in the log."""
_INPUT = struct.Struct(">BI")
STREAM_NAMES = ("stdout", "stderr")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode

RequestId = int | str | None
T = TypeVar("T")


class ClientFrame(NamedTuple):
    """A text frame from a client."""

    event: str
    data: Any
    id: RequestId


class Input(NamedTuple):
    """Keyboard input from a client, sent as a binary frame."""

    session: int
    data: bytes


class _Data(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The data of an event."""


class Auth(_Data, frozen=True, kw_only=True):
    token: str


class Offsets(_Data, frozen=True, kw_only=True):
    """The next position of each stream."""

    stdout: int
    stderr: int


class FlowSettings(_Data, frozen=True, kw_only=True):
    """How many bytes may be unacknowledged, and for how many milliseconds output is collected."""

    buffer_size: int | None = None
    flush_interval: float | None = None


class CreateSession(FlowSettings, frozen=True, kw_only=True):
    service: str
    cursor: str | None = None
    offset: int | Offsets | None = None
    since: float | None = None
    tail: int | None = None
    stream: Literal["stdout", "stderr"] | None = None
    binary: bool = False
    slow: Literal["skip", "lag"] = "lag"
    metrics: float | None = None
    cols: int | None = None
    rows: int | None = None


class CreateMerged(FlowSettings, frozen=True, kw_only=True):
    """A session of several services."""

    services: list[str]
    cursors: dict[str, str] = {}
    until: dict[str, str] | None = None
    since: float | None = None
    tail: int | None = None
    run: int | None = None
    slow: Literal["skip", "lag"] = "lag"


class SessionCommand(_Data, frozen=True, kw_only=True):
    """A command to be run in a session of its own."""

    command: str
    args: list[str] | None = None
    command_type: str | None = None
    cwd: str | None = None
    env: dict[str, str] | None = None
    timeout: float | None = None

    def fields(self) -> dict[str, Any]:
        """Return the fields of `execute_command`."""
        asked = {
            "command": self.command,
            "args": self.args,
            "command_type": self.command_type,
            "working_dir": self.cwd,
            "env": self.env,
            "timeout": self.timeout,
        }
        given = {name: value for name, value in asked.items() if value is not None}
        return {"custom_command": given}


class SessionData(_Data, frozen=True, kw_only=True):
    session_id: str


class ExecuteInSession(SessionCommand, frozen=True, kw_only=True):
    session_id: str


class TerminalInput(SessionData, frozen=True, kw_only=True):
    data: str
    encoding: Literal["utf8", "base64"] = "utf8"

    def content(self) -> bytes:
        if self.encoding == "utf8":
            return self.data.encode("utf-8", "replace")
        try:
            return base64.b64decode(self.data, validate=True)
        except ValueError as error:
            raise UsageError(f"terminal:input: data is no base64: {error}") from None


class TerminalSize(SessionData, frozen=True, kw_only=True):
    cols: int
    rows: int


class TakeKeyboard(SessionData, frozen=True, kw_only=True):
    cols: int | None = None
    rows: int | None = None
    force: bool = False


class Subscribe(FlowSettings, frozen=True, kw_only=True):
    since: int | None = None
    services: list[str] = []


class Unsubscribe(_Data, frozen=True, kw_only=True):
    subscription: int


class Ack(_Data, frozen=True, kw_only=True):
    bytes: int
    session_id: str | None = None
    subscription: int | None = None


class Cancel(_Data, frozen=True, kw_only=True):
    target: int | str


def parse(text: str) -> ClientFrame:
    """Parse a client's text frame; raises UsageError if it is malformed."""
    try:
        frame = _decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        hint = 'send {"event": "command:execute", "id": 1, "data": {"command": "status"}}'
        raise UsageError(f"not a frame: {error}", hint) from None
    request_id, event = frame.get("id"), frame.get("event")
    if not isinstance(request_id, int | str | None) or isinstance(request_id, bool):
        raise UsageError("an id is a number or a string")
    if isinstance(request_id, str) and len(request_id) > 200:
        raise UsageError("an id has at most 200 characters")
    if not isinstance(event, str):
        raise UsageError("a frame needs an event", '{"event": "ping"}')
    return ClientFrame(event, frame.get("data"), request_id)


def parse_input(data: bytes) -> Input:
    """Parse a client's binary frame; raises UsageError if it is malformed."""
    if len(data) < _INPUT.size or data[0] != INPUT:
        raise UsageError(
            "not a binary frame that is known", "one byte 16, four bytes number, then the input"
        )
    return Input(_INPUT.unpack_from(data)[1], data[_INPUT.size :])


def data_of(request: ClientFrame, kind: type[T]) -> T:
    """Return the event's data as this type; raises UsageError that says what is wrong."""
    try:
        return msgspec.convert({} if request.data is None else request.data, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{request.event}: {error}") from None


def frame(event: str, data: Any, request_id: RequestId = None, **more: Any) -> str:
    head: dict[str, Any] = {"event": event}
    if request_id is not None:
        head["id"] = request_id
    return _encode({**head, **more, "data": data}).decode()


def message(kind: str, session: str | None, data: Any, **more: Any) -> str:
    """Write a stream message: type, sessionId, timestamp, data."""
    head = {"type": kind, "sessionId": session, "timestamp": now_ms()}
    return frame(kind, {**head, "data": data, **more})


def failure(error: HoldfastError, request_id: RequestId = None, session: str | None = None) -> str:
    head = {"type": "error", "sessionId": session, "timestamp": now_ms()}
    return frame("error", {**head, "data": error.as_fields()}, request_id)


def now_ms() -> int:
    return int(time.time() * 1000)
