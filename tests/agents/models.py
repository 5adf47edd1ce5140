"""A model server on loopback that plays a script, so that real assistants run without a network.

It speaks the wire formats of Anthropic (`/v1/messages`), OpenAI (`/v1/responses` and
`/v1/chat/completions`) and Gemini (`:streamGenerateContent`), and keeps every request: what a test
finds there is what the model was shown. A request without tools (titles, counts, summaries) is
answered with a fixed text and takes nothing from the script.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, cast

MODEL = "mock"
LAST_WORDS = "Done."
"""What the model says when its script is over."""
USAGE_IN, USAGE_OUT = 11, 7


class Say(NamedTuple):
    """The model says this, and its turn is over."""

    text: str


class Call(NamedTuple):
    """The model calls a tool. `tool` is the end of the name that the assistant gave it."""

    tool: str
    arguments: dict[str, Any] = {}


class Fail(NamedTuple):
    """The server answers with this HTTP status."""

    status: int
    message: str = "the script wants it"


class Stall(NamedTuple):
    """The server answers nothing until the caller hangs up or the test ends."""


Turn = Say | Call | Fail | Stall
Step = Turn | Callable[["Request"], Turn]


@dataclass(frozen=True)
class Request:
    """One request of an assistant for the model's next words."""

    wire: str
    """anthropic, responses, chat or gemini."""
    body: dict[str, Any]

    @property
    def tools(self) -> list[Tool]:
        return list(_tools_of(self.wire, self.body))

    def tool(self, end: str) -> Tool:
        """Return the tool whose name is `end`, or ends with it after a separator."""
        found = [one for one in self.tools if one.name == end or one.name.endswith(f"_{end}")]
        if not found:
            raise AssertionError(f"no tool {end}; known: {[one.name for one in self.tools]}")
        return min(found, key=lambda one: len(one.name))

    @property
    def results(self) -> list[str]:
        """The results of tools that the model has been shown in this conversation, in order."""
        return list(_results_of(self.wire, self.body))

    @property
    def text(self) -> str:
        """Everything in the request, as one text."""
        return json.dumps(self.body, ensure_ascii=False)


class Tool(NamedTuple):
    """A tool as the model sees it."""

    name: str
    description: str
    space: str | None = None
    """The namespace that a call must name, where the wire format has one."""


@dataclass
class Script:
    """What the model does, step by step, and every request that it got."""

    steps: Iterator[Step]
    requests: list[Request] = field(default_factory=list)
    all_requests: list[Request] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    is_over: threading.Event = field(default_factory=threading.Event)

    def next_turn(self, request: Request) -> tuple[Turn, Tool | None]:
        with self.changed:
            self.all_requests.append(request)
            if not request.tools:
                self.changed.notify_all()
                return Say(LAST_WORDS), None
            self.requests.append(request)
            step = next(self.steps, Say(LAST_WORDS))
            self.changed.notify_all()
        try:
            turn = step(request) if callable(step) else step
            return turn, request.tool(turn.tool) if isinstance(turn, Call) else None
        except AssertionError as error:
            self.errors.append(str(error))
            return Say(f"the script failed: {error}"), None


class ModelServer:
    """The server; use as a context manager."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self.script = Script(iter(steps))
        self._server = _Listener(self.script)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def play(self, *steps: Step) -> None:
        """Begin another script; what was requested before is forgotten."""
        self.script.steps = iter(steps)
        self.script.requests.clear()
        self.script.all_requests.clear()
        self.script.errors.clear()

    @property
    def requests(self) -> Sequence[Request]:
        return self.script.requests

    @property
    def results(self) -> list[str]:
        """The results of tools that the model saw last."""
        assert not self.script.errors, self.script.errors
        return self.script.requests[-1].results if self.script.requests else []

    def wait_requests(self, count: int, seconds: float = 60.0) -> None:
        """Wait until the model was asked so often."""
        with self.script.changed:
            is_there = self.script.changed.wait_for(
                lambda: len(self.script.requests) >= count, seconds
            )
        assert is_there, f"{len(self.script.requests)} of {count} requests within {seconds} s"

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.script.is_over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


# What a request holds


def _tools_of(wire: str, body: dict[str, Any]) -> Iterator[Tool]:
    for one in body.get("tools") or ():
        if wire == "gemini":
            for declared in one.get("functionDeclarations") or ():
                yield Tool(declared["name"], declared.get("description", ""))
        elif wire == "chat":
            function = one["function"]
            yield Tool(function["name"], function.get("description", ""))
        elif one.get("type") == "namespace":
            for inner in one.get("tools") or ():
                yield Tool(inner["name"], inner.get("description", ""), one["name"])
        elif "name" in one:
            yield Tool(one["name"], one.get("description", ""))


def _results_of(wire: str, body: dict[str, Any]) -> Iterator[str]:
    if wire == "anthropic":
        for message in body.get("messages") or ():
            for part in _parts(message.get("content")):
                if part.get("type") == "tool_result":
                    yield _text_of(part.get("content"))
    elif wire == "responses":
        for item in body.get("input") or ():
            if str(item.get("type")).endswith("_call_output"):
                yield _text_of(item.get("output"))
    elif wire == "chat":
        for message in body.get("messages") or ():
            if message.get("role") == "tool":
                yield _text_of(message.get("content"))
    else:
        for message in body.get("contents") or ():
            for part in message.get("parts") or ():
                if "functionResponse" in part:
                    response = part["functionResponse"].get("response") or {}
                    yield str(response.get("output") or response.get("error") or response)


def _parts(content: Any) -> list[dict[str, Any]]:
    parts = content if isinstance(content, list) else []
    return [part for part in parts if isinstance(part, dict)]


def _text_of(content: Any) -> str:
    """Return text of a result; a part that is none (an image) is named by its type."""
    if isinstance(content, str):
        return content
    return "\n".join(
        str(part["text"]) if "text" in part else f"<{part.get('type')}>" for part in _parts(content)
    )


# The wire formats


def _anthropic(turn: Turn, tool: Tool | None) -> list[tuple[str, dict[str, Any]]]:
    message: dict[str, Any] = {
        "id": _new_id("msg"), "type": "message", "role": "assistant", "model": MODEL,
        "content": [], "stop_reason": None, "stop_sequence": None,
        "usage": {"input_tokens": USAGE_IN, "output_tokens": 1},
    }  # fmt: skip
    if isinstance(turn, Call) and tool is not None:
        block = {"type": "tool_use", "id": _new_id("toolu"), "name": tool.name, "input": {}}
        text = json.dumps(turn.arguments)
        delta, reason = {"type": "input_json_delta", "partial_json": text}, "tool_use"
    else:
        block = {"type": "text", "text": ""}
        delta, reason = {"type": "text_delta", "text": cast("Say", turn).text}, "end_turn"
    ended = {"stop_reason": reason, "stop_sequence": None}
    bodies: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": {"output_tokens": USAGE_OUT}},
        {"type": "message_stop"},
    ]
    return [(body["type"], body) for body in bodies]


def _anthropic_whole(turn: Turn, tool: Tool | None) -> dict[str, Any]:
    events = [body for _, body in _anthropic(turn, tool)]
    block = dict(events[1]["content_block"])
    if isinstance(turn, Call):
        block["input"] = turn.arguments
    else:
        block["text"] = cast("Say", turn).text
    reason = events[4]["delta"]["stop_reason"]
    return {**events[0]["message"], "content": [block], "stop_reason": reason}


def _responses(turn: Turn, tool: Tool | None) -> list[tuple[str, dict[str, Any]]]:
    response = {"id": _new_id("resp"), "object": "response", "status": "in_progress", "output": []}
    item: dict[str, Any]
    if isinstance(turn, Call) and tool is not None:
        item = {
            "id": _new_id("fc"), "type": "function_call", "status": "completed",
            "call_id": _new_id("call"), "name": tool.name, "arguments": json.dumps(turn.arguments),
            **({"namespace": tool.space} if tool.space else {}),
        }  # fmt: skip
    else:
        text = {"type": "output_text", "text": cast("Say", turn).text, "annotations": []}
        item = {
            "id": _new_id("msg"), "type": "message", "role": "assistant", "status": "completed",
            "content": [text],
        }  # fmt: skip
    usage = {
        "input_tokens": USAGE_IN, "output_tokens": USAGE_OUT,
        "total_tokens": USAGE_IN + USAGE_OUT,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }  # fmt: skip
    done = {**response, "status": "completed", "output": [item], "usage": usage}
    bodies: list[dict[str, Any]] = [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
    ]
    return [(body["type"], body) for body in bodies]


def _chat(turn: Turn, tool: Tool | None) -> list[dict[str, Any]]:
    base = {"id": _new_id("chat"), "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    delta: dict[str, Any]
    if isinstance(turn, Call) and tool is not None:
        function = {"name": tool.name, "arguments": json.dumps(turn.arguments)}
        called = {"index": 0, "id": _new_id("call"), "type": "function", "function": function}
        delta, reason = {"role": "assistant", "tool_calls": [called]}, "tool_calls"
    else:
        delta, reason = {"role": "assistant", "content": cast("Say", turn).text}, "stop"
    usage = {
        "prompt_tokens": USAGE_IN, "completion_tokens": USAGE_OUT,
        "total_tokens": USAGE_IN + USAGE_OUT,
    }  # fmt: skip
    return [
        {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
    ]


def _chat_whole(turn: Turn, tool: Tool | None) -> dict[str, Any]:
    first, last = _chat(turn, tool)
    choice = {**last["choices"][0], "message": first["choices"][0]["delta"]}
    choice.pop("delta")
    return {**last, "object": "chat.completion", "choices": [choice]}


def _gemini(turn: Turn, tool: Tool | None) -> dict[str, Any]:
    part: dict[str, Any]
    if isinstance(turn, Call) and tool is not None:
        part = {"functionCall": {"name": tool.name, "args": turn.arguments}}
    else:
        part = {"text": cast("Say", turn).text}
    content = {"role": "model", "parts": [part]}
    return {
        "candidates": [{"content": content, "index": 0, "finishReason": "STOP"}],
        "usageMetadata": {
            "promptTokenCount": USAGE_IN,
            "candidatesTokenCount": USAGE_OUT,
            "totalTokenCount": USAGE_IN + USAGE_OUT,
        },
        "modelVersion": MODEL,
    }


_GEMINI_ROUTE = {
    "complexity_reasoning": "x",
    "complexity_score": 1,
    "reasoning": "x",
    "model_choice": "flash",
}
"""What Gemini CLI wants to know before it asks for the first words."""


def _new_id(kind: str) -> str:
    return f"{kind}_{time.monotonic_ns():x}"


def _wire_of(path: str) -> str | None:
    if path.endswith("/messages"):
        return "anthropic"
    if path.endswith("/responses"):
        return "responses"
    if path.endswith("/chat/completions"):
        return "chat"
    return "gemini" if "generatecontent" in path.lower() else None


class _Handler(BaseHTTPRequestHandler):
    """One connection of an assistant."""

    protocol_version = "HTTP/1.1"

    @property
    def _script(self) -> Script:
        return cast("_Listener", self.server).script

    def log_message(self, *args: object) -> None:
        return None

    def do_HEAD(self) -> None:
        self._json({})

    def do_GET(self) -> None:
        if "upgrade" in str(self.headers.get("Connection")).lower():
            self._json({"error": {"message": "no WebSocket here"}}, 404)
        elif "/models" in self.path:
            model = {"id": MODEL, "object": "model", "owned_by": "test"}
            self._json({"object": "list", "data": [model], "models": []})
        else:
            self._json({"ok": True})

    def do_POST(self) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            self._post()

    def _post(self) -> None:
        path = self.path.partition("?")[0]
        data = self._body()
        wire = _wire_of(path)
        if path.lower().endswith((":counttokens", "/count_tokens")):
            self._json({"input_tokens": USAGE_IN, "totalTokens": USAGE_IN})
            return
        if wire is None:
            self._json({"ok": True})
            return
        request = Request(wire, json.loads(data))
        turn, tool = self._script.next_turn(request)
        if isinstance(turn, Stall):
            self._script.is_over.wait(600)
        elif isinstance(turn, Fail):
            error = {"type": "api_error", "message": turn.message, "code": turn.status}
            self._json({"type": "error", "error": error}, turn.status)
        else:
            self._answer(request, path, turn, tool)

    def _answer(self, request: Request, path: str, turn: Turn, tool: Tool | None) -> None:
        is_stream = bool(request.body.get("stream"))
        match request.wire:
            case "anthropic" if is_stream:
                self._events(_anthropic(turn, tool))
            case "anthropic":
                self._json(_anthropic_whole(turn, tool))
            case "responses":
                self._events(_responses(turn, tool))
            case "chat" if is_stream:
                self._events([("", one) for one in _chat(turn, tool)], end="[DONE]")
            case "chat":
                self._json(_chat_whole(turn, tool))
            case _ if "stream" in path:
                self._events([("", _gemini(turn, tool))])
            case _:
                self._json(_gemini(Say(json.dumps(_GEMINI_ROUTE)), None))

    def _events(self, events: list[tuple[str, dict[str, Any]]], end: str = "") -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for name, body in events:
            head = f"event: {name}\n" if name else ""
            self.wfile.write(f"{head}data: {json.dumps(body)}\n\n".encode())
            self.wfile.flush()
        if end:
            self.wfile.write(f"data: {end}\n\n".encode())

    def _json(self, body: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _body(self) -> bytes:
        if "chunked" not in (self.headers.get("Transfer-Encoding") or ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        data = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, script: Script) -> None:
        self.script = script
        super().__init__(("127.0.0.1", 0), _Handler)
