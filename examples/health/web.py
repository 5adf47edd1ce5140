"""A web server that takes a moment to warm up, and breaks and mends on request.

`/break` makes it answer 500 from then on; `/mend` makes it well again.
"""

import http.server
import os
import time

time.sleep(0.5)


class Page(http.server.BaseHTTPRequestHandler):
    is_well = True

    def do_GET(self) -> None:
        if self.path in ("/break", "/mend"):
            Page.is_well = self.path == "/mend"
        self.send_response(200 if Page.is_well or self.path == "/break" else 500)
        self.end_headers()
        self.wfile.write(b'{"status": "ok"}' if Page.is_well else b'{"status": "ill"}')

    def log_message(self, *_: object) -> None:
        """Say nothing about every check."""


port = int(os.environ["PORT"])
http.server.ThreadingHTTPServer(("127.0.0.1", port), Page).serve_forever()
