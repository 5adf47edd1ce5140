"""Long results of other servers' tools: cut for the model, and the rest kept for a while.

A result that fits is passed on as it is. Of one that does not, each text ends at the end of a line
and the whole is read on with the tool `read`. What is kept belongs to the client that called.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from holdfast.gate.mcp.answers import FRAME_BYTES, MOST_BYTES, Answer
from holdfast.gate.mcp.call import McpClient
from holdfast.vocabulary.errors import NotFound, UsageError

PREFIX = "result:"
MOST_TEXT = MOST_BYTES
PIECE = MOST_BYTES - FRAME_BYTES
MOST_BINARY = 4 * 1024 * 1024
MOST_KEPT = 64 * 1024 * 1024
KEPT_SECONDS = 3600.0


class _Kept(NamedTuple):
    token: str
    data: bytes
    until: float


class KeptResults:
    """What was cut away, by the id in the answer."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def fitting(self, client: McpClient, result: dict[str, Any]) -> dict[str, Any]:
        """Return a result of a size that a model can take."""
        parts = result.get("content")
        parts = parts if isinstance(parts, list) else []
        texts = [one["text"] for one in parts if _is_text(one)]
        is_long = sum(map(len, texts)) > MOST_TEXT
        if not is_long and not any(_binary_bytes(part) > MOST_BINARY for part in parts):
            return result
        fitted: list[Any] = [_without_binary(part) for part in parts if not _is_text(part)]
        if is_long:
            fitted.insert(0, {"type": "text", "text": self._cut(client, "\n".join(texts))})
        else:
            fitted += [part for part in parts if _is_text(part)]
        rest = {key: value for key, value in result.items() if key != "structuredContent"}
        return {**rest, "content": fitted}

    def _cut(self, client: McpClient, text: str) -> str:
        data = text.encode("utf-8", "replace")
        identity = os.urandom(8).hex()
        self._forget_old(len(data))
        if len(data) <= MOST_KEPT:
            until = time.monotonic() + KEPT_SECONDS
            self._kept[identity] = _Kept(client.caller.token, data, until)
        return _piece(identity, data, 0, PIECE, is_kept=identity in self._kept)

    def _forget_old(self, more: int) -> None:
        now = time.monotonic()
        size = more + sum(len(one.data) for one in self._kept.values())
        for identity, one in list(self._kept.items()):
            if one.until < now or size > MOST_KEPT:
                size -= len(self._kept.pop(identity).data)

    def read(self, client: McpClient, identity: str, given: Mapping[str, Any]) -> Answer:
        """Return a piece of what is kept, from a byte on."""
        kept = self._kept.get(identity)
        if kept is None or kept.until < time.monotonic() or kept.token != client.caller.token:
            raise NotFound(f"{PREFIX}{identity[:40]} is not kept any more", "call the tool again")
        start = given.get("from_byte") or 0
        most = given.get("max_bytes") or PIECE
        if not isinstance(start, int) or not isinstance(most, int) or start < 0 or most < 1:
            raise UsageError("from_byte and max_bytes are numbers", "as the last answer says")
        return Answer(_piece(identity, kept.data, start, min(most, PIECE), is_kept=True))


def _piece(identity: str, data: bytes, start: int, most: int, *, is_kept: bool) -> str:
    """Return a piece that ends at the end of a line, if there is one, and how to go on."""
    end = min(start + most, len(data))
    if end < len(data):
        line_end = data.rfind(b"\n", start, end)
        end = line_end + 1 if line_end > start else _character_end(data, end)
    text = data[start:end].decode("utf-8", "replace")
    if end >= len(data):
        return f"{text}\n-- end of {len(data)} bytes"
    how = (
        f'read with path "{PREFIX}{identity}" and from_byte {end} goes on'
        if is_kept
        else ("the rest is too long to be kept")
    )
    return f"{text}\n-- {start} to {end} of {len(data)} bytes; {how}"


def _character_end(data: bytes, end: int) -> int:
    """Return the nearest place before that is no place within a character."""
    while end > 0 and data[end] & 0xC0 == 0x80:
        end -= 1
    return end


def key_of(tool: str, arguments: Mapping[str, Any] | None) -> str | None:
    """Return the id of a kept result that a call asks for."""
    path = (arguments or {}).get("path")
    if tool not in ("read", "read_file") or not isinstance(path, str):
        return None
    return path[len(PREFIX) :] if path.startswith(PREFIX) else None


def _is_text(part: Any) -> bool:
    return (
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    )


def _binary_bytes(part: Any) -> int:
    """Return about how many bytes a picture, a sound or an embedded file has."""
    if not isinstance(part, dict):
        return 0
    inner = part.get("resource")
    data = part.get("data") or (inner.get("blob") if isinstance(inner, dict) else None)
    return len(data) * 3 // 4 if isinstance(data, str) else 0


def _without_binary(part: Any) -> Any:
    size = _binary_bytes(part)
    if size <= MOST_BINARY:
        return part
    kind = str(part.get("mimeType") or part.get("type"))[:100]
    return {
        "type": "text",
        "text": f"{kind} of {size} bytes is left out: too large to be passed on",
    }
