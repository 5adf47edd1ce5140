"""The browser's part of `holdfast mcp login`: an address to open, and the address where it ends.

The end is a port of this machine that only this command listens at, once. Where the browser runs
elsewhere, the user pastes the address that it ended at.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time

from holdfast.vocabulary.errors import Failed, TimedOut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.cli.call import Call

USER_SECONDS = 600.0
LONGEST_REQUEST = 16 * 1024
_PAGE = "<!doctype html><title>Holdfast</title><p>You can close this page."
_ANSWER = (
    "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n"
    f"content-length: {len(_PAGE)}\r\n\r\n{_PAGE}"
)


def log_in(call: Call, server: str) -> dict[str, Any]:
    """Log in, and return what the supervisor says of it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        callback = f"http://127.0.0.1:{listener.getsockname()[1]}/callback"
        begun = call.ask("login_mcp_server", service=server, callback=callback)
        call.note(f"open this address in a browser and log in:\n{begun['address']}")
        if sys.stdin.isatty():
            call.note("if the browser is on another machine, paste the address where it ends here")
            _open_browser(str(begun["address"]))
        address = _wait(listener, callback)
    return call.ask("finish_mcp_login", service=server, address=address)


def _open_browser(address: str) -> None:
    if sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        import webbrowser

        webbrowser.open(address)


def _wait(listener: socket.socket, callback: str) -> str:
    """Return the address where the browser ended."""
    deadline = time.monotonic() + USER_SECONDS
    sources: list[Any] = [listener]
    if sys.stdin.isatty():
        sources.append(sys.stdin)
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select(sources, [], [], left)
        if sys.stdin in ready:
            line = sys.stdin.readline()
            if not line:
                raise Failed("the login was broken off")
            if line.strip():
                return line.strip()
        elif listener in ready and (target := _take(listener)) is not None:
            return callback.removesuffix("/callback") + target
    raise TimedOut("nobody finished the login", "try again")


def _take(listener: socket.socket) -> str | None:
    """Answer one request; returns its target if it is what the login ends with."""
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(5.0)
        data = b""
        try:
            while b"\r\n\r\n" not in data and len(data) < LONGEST_REQUEST:
                more = connection.recv(4096)
                if not more:
                    break
                data += more
            words = data.split(b"\r\n", 1)[0].decode("ascii", "replace").split(" ")
            connection.sendall(_ANSWER.encode())
        except OSError:
            return None
    is_end = len(words) == 3 and words[0] == "GET" and words[1].startswith("/callback?")
    return words[1] if is_end else None
