"""Listens on the port that it is told, and answers with what it knows."""

import http.server
import os
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        names = sorted(name for name in os.environ if name.startswith("PORT"))
        body = " ".join(f"{name}={os.environ[name]}" for name in names).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Nothing: it is asked every second."""


http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
