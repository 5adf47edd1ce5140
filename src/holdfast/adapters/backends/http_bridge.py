"""A program between a session and a model server: reads prompts and writes events, as JSON lines.

It is a run of the keeper, so a conversation with a model server outlives the supervisor like every
other. It is started by its path and uses the standard library only. It never ends because the
server is not there: it says so, and tries again.

One thread reads what is asked; the other talks to the server, one request at a time. An interrupt
shuts the socket of that request down, which ends the request at the server, too. After three
failures in a row the breaker opens: prompts are refused at once, until the server has listed its
models, for which it is asked at growing distances.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

KEY = "HOLDFAST_MODEL_KEY"
"""The variable with the key of the server."""
LEVELS = ("none", "reachable", "models", "answers")
CONNECT_SECONDS = 5.0
LIST_SECONDS = 10.0
LONGEST_LINE = 4 << 20
LONGEST_ERROR = 300
RETRY_SECONDS = (0.25, 0.75)
"""Before the second and the third attempt of a request that has answered nothing yet."""
MOST_FAILURES = 3
FIRST_OPEN_SECONDS = 1.0
LONGEST_OPEN_SECONDS = 30.0
_REFUSED = (401, 403)
_UNAVAILABLE = 500
_SHORTEST_KEY = 6
Facts = dict[str, Any]


class ServerError(Exception):
    """The server did not do what was asked; the text says why, and never has the key."""

    def __init__(self, text: str, *, is_down: bool, status: int | None = None) -> None:
        super().__init__(text)
        self.is_down = is_down
        """Whether the server fails, rather than refuses this request."""
        self.status = status


class Interrupted(Exception):
    """The turn was interrupted."""


class Piece:
    """A part of an answer."""

    def __init__(self, facts: Facts) -> None:
        self.text = _text(facts.get("text"))
        self.thought = _text(facts.get("thought"))
        self.usage: Facts | None = facts.get("usage")
        self.is_end: bool = facts.get("is_end", False)


class OpenAi:
    """The dialect of OpenAI, which LM Studio, llama.cpp and many others speak."""

    alive = models = "/v1/models"
    chat = "/v1/chat/completions"

    def names(self, facts: Facts) -> list[str]:
        return [_text(one.get("id")) for one in facts.get("data") or () if isinstance(one, dict)]

    def request(self, model: str, messages: list[Facts], most: int | None) -> Facts:
        asked: Facts = {"model": model, "messages": messages, "stream": True}
        asked["stream_options"] = {"include_usage": True}
        return asked | ({"max_tokens": most} if most is not None else {})

    def read(self, line: bytes) -> Piece | None:
        if not line.startswith(b"data:"):
            return None
        data = line[5:].strip()
        if data == b"[DONE]":
            return Piece({"is_end": True})
        facts = _parse(data)
        _raise_error_in(facts)
        choice = next((one for one in facts.get("choices") or () if isinstance(one, dict)), {})
        delta = choice.get("delta") or {}
        used = facts.get("usage")
        usage = used and (used.get("prompt_tokens"), used.get("completion_tokens"))
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        return Piece({"text": delta.get("content"), "thought": thought, "usage": _usage(usage)})


class Ollama:
    """Ollama's own dialect: JSON lines, the last with `done`."""

    alive, models, chat = "/api/version", "/api/tags", "/api/chat"

    def names(self, facts: Facts) -> list[str]:
        found = facts.get("models") or ()
        return [_text(one.get("name")) for one in found if isinstance(one, dict)]

    def request(self, model: str, messages: list[Facts], most: int | None) -> Facts:
        asked: Facts = {"model": model, "messages": messages, "stream": True}
        return asked | ({"options": {"num_predict": most}} if most is not None else {})

    def read(self, line: bytes) -> Piece | None:
        if not line.strip():
            return None
        facts = _parse(line)
        _raise_error_in(facts)
        message = facts.get("message") or {}
        is_end = facts.get("done") is True
        usage = (facts.get("prompt_eval_count"), facts.get("eval_count")) if is_end else None
        thought = message.get("thinking")
        said = {"text": message.get("content"), "thought": thought}
        return Piece({**said, "usage": _usage(usage), "is_end": is_end})


DIALECTS: dict[str, type[OpenAi | Ollama]] = {
    "openai": OpenAi,
    "lm_studio": OpenAi,
    "ollama": Ollama,
}


class Request:
    """One request, which another thread may interrupt."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.interrupted = threading.Event()

    def attach(self, connected: socket.socket) -> None:
        with self._lock:
            self._socket = connected
        self.check()

    def interrupt(self) -> None:
        self.interrupted.set()
        with self._lock:
            if self._socket is not None:
                try:
                    self._socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    return  # it is closed already

    def check(self) -> None:
        if self.interrupted.is_set():
            raise Interrupted


class Server:
    """A model server. Its methods block, and raise ServerError."""

    def __init__(self, settings: Facts, key: str) -> None:
        parts = urlsplit(settings["url"])
        self._is_tls = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port
        self._path = parts.path.rstrip("/").removesuffix("/v1")
        self._dialect = DIALECTS[settings["dialect"]]()
        self._first, self._gap = float(settings["first_token"]), float(settings["gap"])
        self.model: str | None = settings["model"]
        self._key = key

    def version(self) -> str | None:
        """Return its version, if it tells it; the server answers if this returns."""
        found = self._get(self._dialect.alive).get("version")
        return found if isinstance(found, str) else None

    def models(self) -> list[str]:
        return [name for name in self._dialect.names(self._get(self._dialect.models)) if name]

    def has_model(self, models: list[str]) -> bool:
        """Whether the wanted model is there; whether any is, if none is named."""
        if self.model is None:
            return bool(models)
        return self.model in models or f"{self.model}:latest" in models

    def answer(
        self, messages: list[Facts], request: Request, most: int | None = None
    ) -> Iterator[Piece]:
        """Yield the pieces of an answer up to its end; whatever comes later is too late."""
        model = self.model
        if model is None:
            model = next(iter(self.models()), None)
        if model is None:
            raise ServerError("the server has no model", is_down=False)
        body = json.dumps(self._dialect.request(model, messages, most)).encode()
        limit, what = self._first, "first token"
        until = time.monotonic() + limit
        connection, response = self._open("POST", self._dialect.chat, body, request, self._first)
        wire = connection.sock or getattr(response.fp, "raw", None)
        wire = getattr(wire, "_sock", wire)
        try:
            while True:
                left = until - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                if wire is not None:
                    wire.settimeout(left)
                line = response.readline(LONGEST_LINE)
                request.check()
                if not line:
                    text = "the stream ended without saying that it is done"
                    raise ServerError(text, is_down=True)
                piece = self._dialect.read(line)
                if piece is None:
                    continue
                if piece.text or piece.thought:
                    limit, what = self._gap, "next token"
                    until = time.monotonic() + limit
                yield piece
                if piece.is_end:
                    return
        except TimeoutError:
            request.check()
            raise ServerError(f"no {what} within {limit:g} s", is_down=True) from None
        except (OSError, ValueError, AttributeError, http.client.HTTPException) as error:
            request.check()
            raise ServerError(f"the stream broke off: {_why(error)}", is_down=True) from None
        finally:
            response.close()
            connection.close()

    def _get(self, path: str) -> Facts:
        connection, response = self._open("GET", path, None, Request(), LIST_SECONDS)
        try:
            return _parse(response.read(LONGEST_LINE))
        except (OSError, ValueError, http.client.HTTPException) as error:
            text = f"{path} is not understood: {_why(error)}"
            raise ServerError(text, is_down=True) from None
        finally:
            connection.close()

    def _open(
        self, method: str, path: str, body: bytes | None, request: Request, seconds: float
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        made = http.client.HTTPSConnection if self._is_tls else http.client.HTTPConnection
        connection = made(self._host, self._port, timeout=CONNECT_SECONDS)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            request.check()
            connection.connect()
            request.attach(connection.sock)
            connection.sock.settimeout(seconds)
            connection.request(method, self._path + path, body, headers)
            response = connection.getresponse()
            if response.status == http.client.OK:
                return connection, response
            said = response.read(LONGEST_LINE)
        except Interrupted:
            connection.close()
            raise
        except (OSError, ValueError, http.client.HTTPException) as error:
            connection.close()
            request.check()
            text = f"connection error: {_why(error)}"
            if isinstance(error, TimeoutError) and connection.sock is None:
                text = f"no answer within {seconds:g} s"
            raise ServerError(text, is_down=True) from None
        connection.close()
        status = response.status
        text = f"{status} {response.reason}: {_error_in(said)}".rstrip(": ")
        raise ServerError(text, is_down=status >= _UNAVAILABLE, status=status)


class Breaker:
    """Counts failures in a row, and says when the server is asked again."""

    def __init__(self) -> None:
        self._failures, self._wait = 0, 0.0
        self._until: float | None = None

    @property
    def is_open(self) -> bool:
        return self._until is not None

    @property
    def seconds_left(self) -> float | None:
        """How long it stays open; None: it is closed."""
        return None if self._until is None else max(0.0, self._until - time.monotonic())

    def succeed(self) -> None:
        self._failures, self._wait, self._until = 0, 0.0, None

    def fail(self) -> None:
        self._failures += 1
        if self.is_open or self._failures >= MOST_FAILURES:
            self.open()

    def open(self) -> None:
        self._wait = min(max(FIRST_OPEN_SECONDS, 2 * self._wait), LONGEST_OPEN_SECONDS)
        self._until = time.monotonic() + self._wait


class Bridge:
    """A conversation."""

    def __init__(self, settings: Facts, key: str) -> None:
        self._settings, self._key = settings, key
        self._server = Server(settings, key)
        self._breaker = Breaker()
        self._messages: list[Facts] = []
        self._asked: queue.SimpleQueue[Facts] = queue.SimpleQueue()
        self._requests: dict[int, Request] = {}
        """By turn; those that are not over."""
        self._last_error = ""

    def run(self) -> None:
        """Do what the lines of standard input ask, up to their end."""
        threading.Thread(target=self._work, daemon=True).start()
        for line in sys.stdin.buffer:
            facts = _parse(line)
            turn = facts.get("turn", 0)
            if facts.get("do") == "interrupt":
                request = self._requests.get(turn)
                if request is not None:
                    request.interrupt()
                continue
            if facts.get("do") == "prompt":
                self._requests[turn] = Request()
            self._asked.put(facts)

    def _work(self) -> None:
        while True:
            try:
                facts = self._asked.get(timeout=self._breaker.seconds_left)
            except queue.Empty:
                self._probe()
                continue
            if facts.get("do") == "begin":
                self._begin()
            elif facts.get("do") == "prompt":
                turn = facts.get("turn", 0)
                self._answer(facts.get("text", ""), self._requests[turn])
                self._requests.pop(turn, None)

    def _begin(self) -> None:
        history, session = self._settings["history"], self._settings["session"]
        if self._settings["is_resumed"]:
            try:
                self._messages = messages_in(history)
            except OSError as error:
                text = f"conversation not found: its transcript cannot be read ({error.strerror})"
                self._tell("warning", text=text, is_final=True)
                return
        inherited = {"history": self._messages} if self._settings["is_fork"] else {}
        self._tell("session.bound", provider_id=session, model=self._server.model, **inherited)
        self._probe()

    def _probe(self) -> None:
        """Ask for the list of models, which closes the breaker, or keeps it open for longer."""
        was_open = self._breaker.is_open
        try:
            models = self._server.models()
        except ServerError as error:
            self._last_error = str(error)
            if error.is_down:
                self._breaker.open()
                wait = self._breaker.seconds_left or 0.0
                self._tell("retrying", delay=round(wait, 1), cause=self._last_error)
                return
            self._tell("warning", text=self._last_error)
        else:
            if not self._server.has_model(models):
                names = ", ".join(models[:20]) or "none"
                self._tell("warning", text=f"no model {self._server.model}; there are: {names}")
        self._breaker.succeed()
        if was_open:
            self._tell("session.bound", provider_id=self._settings["session"])

    def _answer(self, text: str, request: Request) -> None:
        if self._breaker.is_open:
            wait = self._breaker.seconds_left or 0.0
            why = f"connection error: the server failed ({self._last_error})"
            self._end("failed", f"{why}; it is asked again in {wait:.0f} s")
            return
        self._messages.append({"role": "user", "content": text})
        said: list[str] = []
        reason, why = "done", ""
        try:
            self._try(said, request)
        except Interrupted:
            reason = "interrupted"
        except ServerError as error:
            reason, why = "failed", str(error)
            if error.status in _REFUSED:
                why = f"authentication required: {why}"
        if said:
            self._messages.append({"role": "assistant", "content": "".join(said)})
        else:
            self._messages.pop()
        self._end(reason, why)

    def _try(self, said: list[str], request: Request) -> None:
        """Stream the answer; again, if the server fails before it says anything."""
        for attempt, delay in enumerate((*RETRY_SECONDS, None), start=2):
            has_begun = False
            try:
                for piece in self._server.answer(self._messages, request):
                    has_begun = has_begun or bool(piece.text or piece.thought)
                    self._stream(piece, said)
            except ServerError as error:
                self._last_error = str(error)
                if not error.is_down:
                    self._breaker.succeed()
                    raise
                self._breaker.fail()
                is_late = str(error).startswith("no ")
                if has_begun or is_late or delay is None or self._breaker.is_open:
                    raise
                cause = self._last_error
                self._tell(
                    "retrying", attempt=attempt, most=MOST_FAILURES, delay=delay, cause=cause
                )
                request.interrupted.wait(delay)
                request.check()
                continue
            self._breaker.succeed()
            return

    def _stream(self, piece: Piece, said: list[str]) -> None:
        if piece.thought:
            self._tell("thought.delta", text=piece.thought)
        if piece.text:
            said.append(piece.text)
            self._tell("text.delta", text=piece.text)
        if piece.usage:
            self._tell("usage", **piece.usage)

    def _end(self, reason: str, why: str) -> None:
        self._tell("turn.finished", reason=reason, **({"text": why} if why else {}))

    def _tell(self, kind: str, **facts: Any) -> None:
        write({"kind": kind, **facts}, self._key)


def messages_in(path: str) -> list[Facts]:
    """Return the conversation that a transcript tells. A turn without an answer is left out."""
    messages: list[Facts] = []
    asked, said = "", ""
    with open(path, "rb") as file:
        for line in file:
            facts = _parse(line)
            kind, text = facts.get("kind"), _text(facts.get("text"))
            if kind == "session.bound" and isinstance(facts.get("history"), list):
                messages = list(facts["history"])
            elif kind == "turn.started":
                asked, said = text, ""
            elif kind == "text.delta":
                said += text
            elif kind == "turn.finished" and said:
                messages.append({"role": "user", "content": asked})
                messages.append({"role": "assistant", "content": said})
                said = ""
    return messages


def check(settings: Facts, key: str) -> Facts:
    """Return how well a server is, up to the level that is asked for."""
    server = Server(settings, key)
    found: Facts = {"level": "none", "version": None, "models": [], "error": None, "status": None}
    try:
        found["version"] = server.version()
        found["level"] = "reachable"
        found["models"] = server.models()
        if not server.has_model(found["models"]):
            found["error"] = (
                f"it has no model {server.model}" if server.model else "it has no model"
            )
            return found
        found["level"] = "models"
        if settings["health"] == "answers":
            for _ in server.answer([{"role": "user", "content": "Hi"}], Request(), most=1):
                found["level"] = "answers"
    except ServerError as error:
        found["error"], found["status"] = str(error), error.status
        if error.status is not None and found["level"] == "none":
            found["level"] = "reachable"
    return found


def write(facts: Facts, key: str) -> None:
    """Print facts as a line, without the key of the server."""
    line = json.dumps(facts, ensure_ascii=False)
    if len(key) >= _SHORTEST_KEY:
        line = line.replace(key, "[redacted]")
    sys.stdout.buffer.write(line.encode("utf-8", "backslashreplace") + b"\n")
    sys.stdout.buffer.flush()


def _parse(line: bytes) -> Facts:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _raise_error_in(facts: Facts) -> None:
    if facts.get("error"):
        text = _error_in(json.dumps(facts).encode())
        raise ServerError(f"the server says: {text}", is_down=True)


def _error_in(body: bytes) -> str:
    """Return the words in the body of a refusal."""
    facts = _parse(body)
    error = facts.get("error", facts)
    text = error.get("message") if isinstance(error, dict) else error
    text = _text(text) or body.decode("utf-8", "replace")
    return " ".join(text.split())[:LONGEST_ERROR]


def _why(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (text or type(error).__name__)[:LONGEST_ERROR]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _usage(counts: object) -> Facts | None:
    if not isinstance(counts, tuple):
        return None
    names = ("input_tokens", "output_tokens")
    known = {name: n for name, n in zip(names, counts, strict=True) if isinstance(n, int)}
    return known or None


def main() -> None:
    settings: Facts = json.loads(sys.argv[2])
    key = os.environ.pop(KEY, "")
    if sys.argv[1] == "check":
        write(check(settings, key), key)
    else:
        Bridge(settings, key).run()


if __name__ == "__main__":
    main()
