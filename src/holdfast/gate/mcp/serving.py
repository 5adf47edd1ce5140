"""Everything of the assistants' door that needs the protocol's library, put together."""

from __future__ import annotations

from holdfast.client.channel import Channel
from holdfast.gate.browser.guard import Allowed
from holdfast.gate.mcp.http import HttpTransport
from holdfast.gate.mcp.relays import Links
from holdfast.gate.mcp.server import make_server
from holdfast.vocabulary.specs.mcp import McpSpec


class Serving:
    """One server object, and the transports that it is reached by."""

    def __init__(
        self, channel: Channel, line_socket: str, offer: McpSpec, allowed: Allowed
    ) -> None:
        self.server = make_server(lambda: Channel(line_socket))
        self.links = Links(self.server, channel, line_socket, offer)
        self.http = HttpTransport(self.server, allowed, has_sse=offer.legacy_sse)

    async def start(self) -> None:
        await self.http.start()
