"""A small web server that says how long it has been up; takes a free port unless PORT names one."""

import http.server
import os
import sys
import time

STARTED = time.monotonic()


class Page(http.server.BaseHTTPRequestHandler):
    """Answers every GET with one line."""

    def do_GET(self) -> None:
        body = f"up for {time.monotonic() - STARTED:.1f} seconds\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "0"))), Page)
    sys.stdout.write(f"web: serving on http://127.0.0.1:{server.server_address[1]}/\n")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        sys.stdout.write("web: asked to stop, goodbye\n")
