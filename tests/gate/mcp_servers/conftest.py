"""A real Holdfast that runs a small MCP server, whose ledger tells what was really done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gate.mcp.conftest import McpHold
from tests.harness import program, wait_for


class GatewayHold(McpHold):
    """With one server, `counter`, or those that are given."""

    def __init__(
        self,
        mcp: dict[str, Any] | None = None,
        authority: dict[str, Any] | None = None,
        **servers: Any,
    ) -> None:
        super().__init__()
        self.ledger = self.project / "ledger"
        self.mcp, self.authority = mcp or {}, authority or {}
        self.declare(**(servers or {"counter": {}}))

    def declare(self, **servers: Any) -> None:
        """Write a configuration with these servers; what is left out is the counting one."""
        self.write(
            {
                "http_port": 0,
                "mcp": self.mcp,
                **self.authority,
                "services": {},
                "mcp_servers": {name: self.counting(**keys) for name, keys in servers.items()},
            }
        )

    def counting(self, **keys: Any) -> dict[str, Any]:
        env = {"LEDGER": str(self.ledger), **keys.pop("env", {})}
        own: dict[str, Any] = {"command": program("mcp_server.py"), "stop": {"grace": "500ms"}}
        return {**({} if "url" in keys else {**own, "env": env}), **keys}

    def server(self, name: str = "counter") -> dict[str, Any]:
        found: dict[str, Any] = self.ask("mcp_servers", services=[name])["servers"][0]
        return found

    def await_listing(self, name: str = "counter") -> None:
        def is_listed() -> bool:
            server = self.server(name)
            return bool(server["tools"] or server["held"])

        wait_for(is_listed, what=f"the tools of {name}")

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.ask("call_mcp_tool", tool=tool, arguments=arguments)
        return answer

    def text(self, tool: str, **arguments: Any) -> str:
        return str(self.call(tool, **arguments)["result"]["content"][0]["text"])

    def lines(self) -> list[str]:
        """What was really done, without handshakes."""
        if not self.ledger.exists():
            return []
        return [line for line in self.ledger.read_text().split("\n") if line not in ("", *SHAKEN)]

    def handshakes(self) -> int:
        return Path(self.ledger).read_text().split("\n").count("initialize")


SHAKEN = ("initialize",)


@pytest.fixture(scope="module")
def counter() -> Iterator[GatewayHold]:
    """One Holdfast for the stories of a module that leave it as it was."""
    with GatewayHold() as hold:
        hold.up()
        hold.await_listing()
        yield hold
