"""Makes `schema/mcp.json`: what the server answers to every client alike, for the relay.

The relay answers these requests itself, at once and also when nothing runs. They are asked of the
real server here, so that both say the same. Run by `scripts/reference.py`, never by the gate.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

from mcp.server.runner import serve_dual_era_loop
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

import holdfast
from holdfast.client.channel import Caller, Channel
from holdfast.gate.mcp.call import McpClient
from holdfast.gate.mcp.relays import Incoming, Outgoing
from holdfast.gate.mcp.server import make_server
from holdfast.gate.mcp.tools import ALIASES, TABLE
from holdfast.system import deadlines
from holdfast.vocabulary.specs.mcp import McpSpec

PATH = Path(holdfast.__file__).parent / "schema" / "mcp.json"
LISTS = ("tools/list", "prompts/list", "resources/templates/list")
_SECONDS = 30.0
_META = "io.modelcontextprotocol/"


class _Output:
    """What the server writes, in the place of a connection."""

    def __init__(self, expected: int) -> None:
        self.lines: list[bytes] = []
        self.is_complete = asyncio.Event()
        self._expected = expected

    def write(self, data: bytes) -> None:
        self.lines.append(data)
        if len(self.lines) == self._expected:
            self.is_complete.set()

    async def drain(self) -> None:
        return None


def text() -> str:
    """Return the whole file, which a test compares with the one in the tree."""
    return json.dumps(asyncio.run(_make()), indent=1, ensure_ascii=False) + "\n"


async def _make() -> dict[str, Any]:
    newest, modern = HANDSHAKE_PROTOCOL_VERSIONS[-1], MODERN_PROTOCOL_VERSIONS[-1]
    info = {"name": "relay", "version": "0"}
    handshake = {"protocolVersion": newest, "capabilities": {}, "clientInfo": info}
    initialized, *lists = await _ask([("initialize", handshake), *((one, {}) for one in LISTS)])
    del initialized["protocolVersion"], initialized["serverInfo"]["version"]
    meta = {"protocolVersion": modern, "clientInfo": info, "clientCapabilities": {}}
    params = {"_meta": {_META + name: value for name, value in meta.items()}}
    discovered, *modern_lists = await _ask([(one, params) for one in ("server/discover", *LISTS)])
    for one in (initialized, discovered):
        # The gate is another process after a reload; only the relay can tell its client.
        one["capabilities"]["tools"]["listChanged"] = True
    for one in (discovered, *modern_lists):
        del one["_meta"][_META + "serverInfo"]["version"]
    return {
        "about": "Made by scripts/reference.py; do not edit.",
        "versions": list(HANDSHAKE_PROTOCOL_VERSIONS),
        "modern_versions": list(MODERN_PROTOCOL_VERSIONS),
        "results": {"initialize": initialized, **dict(zip(LISTS, lists, strict=True))},
        "modern_results": {
            "server/discover": discovered,
            **{
                method: {key: value for key, value in new.items() if key not in old}
                for method, old, new in zip(LISTS, lists, modern_lists, strict=True)
            },
        },
        "tools": {
            tool.name: {
                "toolset": tool.toolset,
                "setting": tool.setting,
                "only_reads": tool.only_reads,
            }
            for tool in (*TABLE, *ALIASES)
        },
    }


async def _ask(requests: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Ask the server these, in one connection; return the results in order."""
    everything = McpSpec(run=True, send=True, delegate=True, aliases=True)
    client = McpClient(Channel(""), Caller("", "mcp"), everything)
    reader, output = asyncio.StreamReader(limit=1 << 20), _Output(len(requests))
    for number, (method, params) in enumerate(requests):
        frame = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        reader.feed_data(json.dumps(frame).encode() + b"\n")
        if method == "initialize":
            reader.feed_data(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    writer = cast("asyncio.StreamWriter", output)
    server = make_server(lambda: Channel(""))
    serving = asyncio.get_running_loop().create_task(
        serve_dual_era_loop(
            server, Incoming(reader, writer, client), Outgoing(writer), lifespan_state={}
        )
    )
    await deadlines.wait_for(output.is_complete.wait(), _SECONDS)
    reader.feed_eof()
    await serving
    answers = [json.loads(line) for line in output.lines]
    return [one["result"] for one in sorted(answers, key=lambda one: int(one["id"]))]


def main() -> None:
    PATH.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
