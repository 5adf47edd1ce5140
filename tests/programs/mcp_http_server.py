"""The MCP server of `mcp_server.py` over HTTP, at the port that PORT names, below /mcp.

It knows sessions: a request of a session that it has not begun is refused with 404. `add` answers
with a stream of events, everything else with JSON. A call with a `status` is done, and then
answered with this status of HTTP; one of `whoami`, the first time. Standard library only.
"""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SESSIONS: set[str] = set()
FAILED: set[int] = set()
TOKEN = os.environ.get("NEEDED_TOKEN", "")
TOOLS: list[dict[str, Any]] = [
    {
        "name": "add",
        "description": "Add a line to the ledger.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "status": {"type": "integer"}},
        },
    },
    {
        "name": "whoami",
        "description": "Tell the process id.",
        "inputSchema": {"type": "object", "properties": {"status": {"type": "integer"}}},
        "annotations": {"readOnlyHint": True},
    },
]


def result_of(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params") or {}
    if message["method"] == "initialize":
        version = params["protocolVersion"]
        info = {"name": "web", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if message["method"] == "tools/list":
        return {"tools": TOOLS}
    if message["method"] == "tools/call":
        text = str(os.getpid())
        if params["name"] == "add":
            time.sleep(params["arguments"].get("seconds", 0))
            text = f"added {params['arguments']['text']}"
            with open(os.environ["LEDGER"], "a") as file:
                file.write(params["arguments"]["text"] + "\n")
        return {"content": [{"type": "text", "text": text}]}
    return {}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if TOKEN and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.answer(401, b"")
        elif message["method"] == "initialize":
            session = os.urandom(8).hex()
            SESSIONS.add(session)
            self.answer(200, self.body(message), session=session)
        elif self.headers.get("Mcp-Session-Id") not in SESSIONS:
            self.answer(404, b"{}")
        elif message.get("id") is None:
            self.answer(202, b"")
        elif (message.get("params") or {}).get("name") == "add":
            stream = b"event: message\ndata: " + self.body(message) + b"\n\n"
            status = message["params"]["arguments"].get("status", 200)
            self.answer(status, stream, kind="text/event-stream")
        else:
            self.answer(self.status_of(message), self.body(message))

    def status_of(self, message: dict[str, Any]) -> int:
        arguments = (message.get("params") or {}).get("arguments") or {}
        wanted = int(arguments.get("status", 200))
        is_first = wanted not in FAILED
        FAILED.add(wanted)
        return wanted if is_first else 200

    def body(self, message: dict[str, Any]) -> bytes:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result_of(message)}
        return json.dumps(answer).encode()

    def answer(
        self, status: int, body: bytes, kind: str = "application/json", session: str = ""
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if session:
            self.send_header("Mcp-Session-Id", session)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


SERVER = ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler)
sys.stderr.write("listening\n")
SERVER.serve_forever()
