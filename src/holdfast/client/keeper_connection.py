"""A connection to the keeper itself, for the CLI when no supervisor answers.

Speaks the keeper's protocol over keeper.sock in the role `control`. It asks and reads; the CLI
decides what the answers mean for a verb.
"""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any, Literal, overload

from holdfast import __version__
from holdfast.client.connection import error_from
from holdfast.system.lines import LineBuffer
from holdfast.vocabulary.errors import KeeperGone

if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import KeeperFacts, Notice

PROTOCOL = 1


class KeeperConnection:
    """A control connection to a keeper. `facts` is the answer to its hello."""

    def __init__(self, path: str, *, seconds: float = 2.0) -> None:
        self.path = path
        self._line_buffer = LineBuffer()
        self._lines: list[bytes] = []
        """Received, and not read yet."""
        self._last_id = 0
        self._notices: list[Notice] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(seconds)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise KeeperGone(f"no keeper answers at {path}: {error.strerror or error}") from None
        try:
            self.facts: KeeperFacts = self.ask(
                "hello", protocol=PROTOCOL, role="control", version=__version__, seconds=seconds
            )
        except BaseException:
            self._socket.close()
            raise

    @overload
    def ask(
        self, word: Literal["hello", "list"], /, seconds: float = 10.0, **fields: Any
    ) -> KeeperFacts: ...

    @overload
    def ask(self, word: str, /, seconds: float = 10.0, **fields: Any) -> dict[str, Any]: ...

    def ask(self, word: str, /, seconds: float = 10.0, **fields: Any) -> Any:
        """Ask one word of the protocol; raises the keeper's error, or KeeperGone."""
        self._last_id += 1
        request = {"id": self._last_id, "do": word, **fields}
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        except OSError:
            raise _gone(self.path) from None
        deadline = time.monotonic() + seconds
        while True:
            message = self._read(deadline)
            if message is None:
                raise KeeperGone(f"the keeper did not answer `{word}` within {seconds:g} s")
            if message.get("id") == self._last_id:
                if message.get("ok"):
                    return message
                raise error_from(message.get("error") or {})
            if "notice" in message:
                self._notices.append(message)

    def notice(self, seconds: float) -> Notice | None:
        """The next notice, or None if none came in time; raises KeeperGone when the keeper ends."""
        if self._notices:
            return self._notices.pop(0)
        deadline = time.monotonic() + seconds
        while (message := self._read(deadline)) is not None:
            if "notice" in message:
                notice: Notice = message
                return notice
        return None

    def close(self) -> None:
        self._socket.close()

    def _read(self, deadline: float) -> Any:
        """The next message, or None if none came in time."""
        while not self._lines:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                piece = self._socket.recv(256 * 1024)
            except TimeoutError:
                return None
            except OSError:
                piece = b""
            if not piece:
                raise _gone(self.path)
            self._lines = self._line_buffer.feed(piece)
        return json.loads(self._lines.pop(0))


def _gone(path: str) -> KeeperGone:
    return KeeperGone(f"the keeper at {path} went away")
