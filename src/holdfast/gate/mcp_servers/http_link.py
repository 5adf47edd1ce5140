"""A way to an MCP server that speaks HTTP: one run by Holdfast, or one that somebody else runs.

Each request is a POST, whose answer is JSON or a stream of events. A server that was restarted does
not know our session any more, says so, and has done nothing: such a request may be sent again. The
client library is loaded when the first such server is reached.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.gate.mcp_servers.links import LONGEST_MESSAGE, LinkLost, Message, NotSent
from holdfast.gate.mcp_servers.logins import Login, open_client

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 10.0
SESSION = "mcp-session-id"
_LOGIN = "authorization"
_ACCEPT = "application/json, text/event-stream"
_log = logging.getLogger(__name__)


class SessionLost(NotSent):
    """The server does not know our session; it has done nothing."""


class LoginNeeded(NotSent):
    """The server does not accept the request without a login; it has done nothing."""


class HttpLink:
    """Requests to one address."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        on_message: Callable[[Message], None],
        login: Login | None = None,
    ) -> None:
        self._login = login
        self._url = url
        self._headers = dict(headers)
        self._on_message: Callable[[Message], None] | None = on_message
        self._session: str | None = None
        self._version: str | None = None
        self._client: httpx2.AsyncClient | None = None

    @property
    def place(self) -> int:
        return 0

    def has_read(self, place: int) -> bool:
        """Nobody knows what a server read of a request that broke off."""
        return True

    @property
    def is_answered_at_once(self) -> bool:
        """When `send` returns, the answer has come, or never will."""
        return True

    def speak(self, version: str) -> None:
        """Name the revision of the protocol that was agreed on."""
        self._version = version

    async def send(self, message: Message) -> None:
        if message.get("method") == "initialize":
            self._session = self._version = None
        import httpx2

        try:
            if not await self._post(message):
                # The token was refused, and there is another one now.
                await self._post(message, is_last=True)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise NotSent(f"it cannot be reached: {error or 'no answer'}") from None
        except (httpx2.HTTPError, OSError) as error:
            why = str(error) or type(error).__name__
            raise LinkLost(f"the connection broke: {why}") from None

    async def _post(self, message: Message, *, is_last: bool = False) -> bool:
        """Send a message; returns False if it may be sent again with another token."""
        headers = {**self._headers, "content-type": "application/json", "accept": _ACCEPT}
        if self._session is not None:
            headers[SESSION] = self._session
        if self._version is not None:
            headers["mcp-protocol-version"] = self._version
        token = await self._login.valid_token() if self._login is not None else ""
        if token:
            headers = {name: one for name, one in headers.items() if name.lower() != _LOGIN}
            headers[_LOGIN] = f"Bearer {token}"
        body = msgspec.json.encode(message)
        async with self._open().stream(
            "POST", self._url, content=body, headers=headers
        ) as response:
            self._session = response.headers.get(SESSION, self._session)
            if response.status_code in (400, 404) and SESSION in headers:
                await response.aread()
                if response.status_code == 404 or b"ession" in response.content[:2000]:
                    raise SessionLost("it does not know our session any more")
            if response.status_code >= 500 and _is_request(message):
                # It, or a proxy before it, failed at some moment: perhaps after it was done.
                raise LinkLost(f"it failed with HTTP {response.status_code}")
            if response.status_code == 401:
                login = self._login
                if not is_last and login is not None and await login.renew(token):
                    return False
                raise LoginNeeded("it asks for a login")
            if response.status_code >= 400:
                self._answer_failure(message, response.status_code)
                return True
            kind = response.headers.get("content-type", "").partition(";")[0].strip()
            if kind == "text/event-stream":
                await self._read_events(response)
            elif kind == "application/json":
                self._take(await response.aread())
        return True

    def _answer_failure(self, message: Message, status: int) -> None:
        """Answer a request that the server refuses as HTTP."""
        if not _is_request(message):
            return
        why = "its login does not allow that" if status == 403 else "it refused the request"
        error = {"code": -32000, "message": f"{why} (HTTP {status})"}
        self._deliver({"jsonrpc": "2.0", "id": message["id"], "error": error})

    async def _read_events(self, response: httpx2.Response) -> None:
        data: list[str] = []
        size = 0
        async for line in response.aiter_lines():
            if line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
                size += len(line)
                if size > LONGEST_MESSAGE:
                    raise LinkLost(f"it sent a message of more than {LONGEST_MESSAGE} bytes")
            elif not line and data:
                self._take("\n".join(data).encode())
                data, size = [], 0

    def _take(self, text: bytes) -> None:
        if not text.strip():
            return
        try:
            message = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            _log.info("%s: what it sent is no message", self._url)
            return
        for one in message if isinstance(message, list) else [message]:
            if isinstance(one, dict):
                self._deliver(one)

    def _deliver(self, message: Message) -> None:
        if self._on_message is not None:
            self._on_message(message)

    def _open(self) -> httpx2.AsyncClient:
        if self._client is None:
            import httpx2

            timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS)
            self._client = open_client(self._url, timeout=timeout)
        return self._client

    async def close(self) -> None:
        self._on_message = None
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def _is_request(message: Message) -> bool:
    """Return whether it waits for an answer."""
    return message.get("id") is not None and message.get("method") is not None


def is_http(item: Mapping[str, Any]) -> bool:
    return item.get("transport") != "stdio"
