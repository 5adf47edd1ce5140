"""The frames of `/ws`: `{event, data, id?}` as text; output and input also as bytes.

Knows how they are written and read, and what each event may carry; does nothing with them.
"""

from __future__ import annotations

import struct
import time
from typing import Any, Literal, NamedTuple

import msgspec

from holdfast.vocabulary.errors import HoldfastError, UsageError

STDOUT, STDERR, INPUT = 1, 2, 16
"""The first byte of a binary frame."""
BINARY = struct.Struct(">BIQ")
"""Kind, number of the session, position of the first byte in the log."""
_INPUT = struct.Struct(">BI")
STREAM_NAMES = ("stdout", "stderr")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode

Id = int | str | None


class Request(NamedTuple):
    """A frame of a client."""

    event: str
    data: Any
    id: Id


class Input(NamedTuple):
    """What a client types, in a binary frame."""

    session: int
    data: bytes


class _Data(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """What an event carries."""


class Auth(_Data, frozen=True, kw_only=True):
    token: str


class Offsets(_Data, frozen=True, kw_only=True):
    """The next position of each stream."""

    stdout: int
    stderr: int


class Pace(_Data, frozen=True, kw_only=True):
    """How much may be unacknowledged, in bytes, and how long is collected, in milliseconds."""

    buffer_size: int | None = None
    flush_interval: float | None = None


class CreateSession(Pace, frozen=True, kw_only=True):
    service: str
    cursor: str | None = None
    offset: int | Offsets | None = None
    since: float | None = None
    tail: int | None = None
    stream: Literal["stdout", "stderr"] | None = None
    binary: bool = False
    slow: Literal["skip", "lag"] = "lag"
    metrics: float | None = None


class OneSession(_Data, frozen=True, kw_only=True):
    session_id: str


class TerminalInput(OneSession, frozen=True, kw_only=True):
    data: str
    encoding: Literal["utf8", "base64"] = "utf8"


class TerminalSize(OneSession, frozen=True, kw_only=True):
    cols: int
    rows: int


class TakeKeyboard(OneSession, frozen=True, kw_only=True):
    cols: int | None = None
    rows: int | None = None
    force: bool = False


class Subscribe(Pace, frozen=True, kw_only=True):
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


def parse(text: str) -> Request:
    """A client's frame; raises UsageError for what is none."""
    try:
        frame = _decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        hint = 'send {"event": "command:execute", "id": 1, "data": {"command": "status"}}'
        raise UsageError(f"not a frame: {error}", hint) from None
    identity, event = frame.get("id"), frame.get("event")
    if not isinstance(identity, int | str | None) or isinstance(identity, bool):
        raise UsageError("an id is a number or a string")
    if isinstance(identity, str) and len(identity) > 200:
        raise UsageError("an id has at most 200 characters")
    if not isinstance(event, str):
        raise UsageError("a frame needs an event", '{"event": "ping"}')
    return Request(event, frame.get("data"), identity)


def parse_input(data: bytes) -> Input:
    """A client's binary frame; raises UsageError for what is none."""
    if len(data) < _INPUT.size or data[0] != INPUT:
        raise UsageError(
            "not a binary frame that is known", "one byte 16, four bytes number, then the input"
        )
    return Input(_INPUT.unpack_from(data)[1], data[_INPUT.size :])


def carried(request: Request, kind: type[Any]) -> Any:
    """What the event carries, checked; raises UsageError that says what is wrong."""
    try:
        return msgspec.convert({} if request.data is None else request.data, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{request.event}: {error}") from None


def frame(event: str, data: Any, identity: Id = None, **more: Any) -> str:
    made: dict[str, Any] = {"event": event}
    if identity is not None:
        made["id"] = identity
    return _encode({**made, **more, "data": data}).decode()


def message(kind: str, session: str | None, data: Any, **more: Any) -> str:
    """A stream message: type, sessionId, timestamp, data."""
    head = {"type": kind, "sessionId": session, "timestamp": now_ms()}
    return frame(kind, {**head, "data": data, **more})


def failure(error: HoldfastError, identity: Id = None, session: str | None = None) -> str:
    head = {"type": "error", "sessionId": session, "timestamp": now_ms()}
    return frame("error", {**head, "data": error.as_fields()}, identity)


def now_ms() -> int:
    return int(time.time() * 1000)
