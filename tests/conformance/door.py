"""Said in the gate's process before it begins: the suite cannot send a token, so one is added.

With `fixtures`, the server also has what the suite's scenarios call by name.
"""

from __future__ import annotations

from typing import Any

from holdfast.gate.mcp import door


def open_without_token(token: str) -> None:
    """Requests without a token are the test's own."""
    shipped = door.McpDoor.answer

    async def answer(self: Any, scope: Any, receive: Any, send: Any) -> None:
        if not any(name == b"authorization" for name, _ in scope["headers"]):
            bearer = (b"authorization", f"Bearer {token}".encode())
            scope = {**scope, "headers": [*scope["headers"], bearer]}
        await shipped(self, scope, receive, send)

    door.McpDoor.answer = answer  # type: ignore[method-assign]


def add_fixtures() -> None:
    from tests.conformance import fixtures

    fixtures.install()
