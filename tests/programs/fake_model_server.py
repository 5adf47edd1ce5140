"""A fake of model servers, written from their documentation: the dialects of Ollama and OpenAI.

Usage: fake_model_server.py PORT [KEY]. Standard library only. The last prompt says what it does:
`say TEXT`, `count N`, `history`, `hang` after a first piece, `silent`, `cut` before the end,
`break` in a piece, `die`. GET /counts tells how many chats there were, and how many of them
the client ended.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PORT, KEY = int(sys.argv[1]), (sys.argv[2] if len(sys.argv) > 2 else "")
COUNTS = {"chats": 0, "closed": 0, "lists": 0}
LOCK = threading.Lock()


def count(name: str) -> None:
    with LOCK:
        COUNTS[name] += 1


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, facts: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(facts).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def is_refused(self) -> bool:
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if KEY and given != KEY:
            self.answer({"error": {"message": f"Incorrect API key provided: {given}"}}, 401)
            return True
        return False

    def do_GET(self) -> None:
        if self.path == "/counts":
            self.answer(COUNTS)
        elif self.is_refused():
            return
        elif self.path == "/api/version":
            self.answer({"version": "0.9.9"})
        elif self.path == "/api/tags":
            count("lists")
            self.answer({"models": [{"name": "tiny:latest"}, {"name": "other:7b"}]})
        elif self.path == "/v1/models":
            count("lists")
            self.answer({"object": "list", "data": [{"id": "tiny"}, {"id": "other"}]})
        else:
            self.answer({"error": "not found"}, 404)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.is_refused():
            return None
        count("chats")
        is_ollama = self.path == "/api/chat"
        if asked["model"] not in ("tiny", "tiny:latest"):
            self.answer({"error": {"message": f"model {asked['model']} not found"}}, 404)
            return None
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        prompts = [one["content"] for one in asked["messages"] if one["role"] == "user"]
        word, _, rest = prompts[-1].partition(" ")
        if word == "silent":
            return self.hang()
        texts = {
            "count": [f"{number} " for number in range(int(rest or 0) if word == "count" else 0)],
            "history": [" | ".join(f"{m['role']}: {m['content']}" for m in asked["messages"])],
            "say": [rest[: len(rest) // 2], rest[len(rest) // 2 :]],
        }.get(word, ["thinking "])
        for text in texts:
            self.piece(is_ollama, text)
            if word == "count":
                time.sleep(0.001)
        if word == "hang":
            return self.hang()
        if word == "die":
            os._exit(9)
        if word == "break":
            self.wfile.write(b"40\r\n{")
            self.close_connection = True
            return None
        if word != "cut":
            self.last(is_ollama)
        self.wfile.write(b"0\r\n\r\n")
        return None

    def piece(self, is_ollama: bool, text: str) -> None:
        if is_ollama:
            self.chunk({"message": {"role": "assistant", "content": text}, "done": False})
        else:
            self.chunk({"choices": [{"index": 0, "delta": {"content": text}}]})

    def last(self, is_ollama: bool) -> None:
        if is_ollama:
            counts = {"prompt_eval_count": 11, "eval_count": 7}
            self.chunk({"message": {"content": ""}, "done": True, **counts})
        else:
            self.chunk({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}})
            self.send(b"data: [DONE]\n\n")

    def chunk(self, facts: dict[str, Any]) -> None:
        data = json.dumps(facts).encode()
        is_line = self.path == "/api/chat"
        self.send(data + b"\n" if is_line else b"data: " + data + b"\n\n")

    def send(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def hang(self) -> None:
        """Say nothing until the client closes the request."""
        self.wfile.flush()
        select.select([self.connection], [], [], 60)
        self.close_connection = True
        count("closed")


class Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, *_: object) -> None:
        pass


server = Server(("127.0.0.1", PORT), Handler)
print("listening", flush=True)
server.serve_forever()
