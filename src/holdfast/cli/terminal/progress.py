"""The progress of a start or a stop: one line of the terminal, until there is an answer.

The supervisor is asked for it only if the answer takes long. Without a terminal nothing is shown.
"""

from __future__ import annotations

import os
import sys
import time

from holdfast.cli.call import Call
from holdfast.cli.terminal.screen import cut
from holdfast.client.connection import Connection
from holdfast.client.discovery import HUNG_SECONDS
from holdfast.vocabulary.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CLEAR = "\r\x1b[K"
_UNDER_WAY = ("starting", "stopping", "backoff")


class Progress:
    """A line that is replaced every second."""

    def __init__(self, call: Call) -> None:
        is_shown = not call.is_json and call.environ.get("TERM") != "dumb"
        self.is_shown = is_shown and sys.stderr.isatty()
        self._call = call
        self._began = time.monotonic()
        self._has_line = False

    def ask(self, command: str, /, **fields: Any) -> dict[str, Any]:
        """Ask as `Call.ask` does, and show what the answer waits for."""
        if self.is_shown:
            self._call.on_progress = self._show
        try:
            return self._call.ask(command, **fields)
        finally:
            self._call.on_progress = None
            self._write("")

    def _show(self, connection: Connection) -> None:
        try:
            services = connection.answer(connection.send("status"), HUNG_SECONDS)["services"]
        except TimeoutError:
            self._call.check_supervisor()
            return
        seconds = time.monotonic() - self._began
        texts = [_text_of(name, service) for name, service in services.items()]
        waits = [text for text in texts if text]
        more = f" (and {len(waits) - 1} more)" if len(waits) > 1 else ""
        self._write(f"{seconds:.0f} s: {waits[0]}{more}" if waits else "")

    def _write(self, text: str) -> None:
        if not text and not self._has_line:
            return
        self._has_line = bool(text)
        sys.stderr.write(_CLEAR + cut(printable(text), _columns()))
        sys.stderr.flush()


def _text_of(name: str, service: dict[str, Any]) -> str | None:
    if waiting_for := service.get("waiting_for"):
        return f"{name}: waiting for {' and '.join(waiting_for)}"
    status = service["status"]
    return f"{name} is {status}" if status in _UNDER_WAY else None


def _columns() -> int | None:
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return None
    return columns - 1 if columns else None
