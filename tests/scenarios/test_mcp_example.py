"""The example of assistants is what the guide says."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.gate.mcp.conftest import McpHold, text_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "assistants" / "holdfast.yaml"


def test_the_example_lets_an_assistant_in() -> None:
    """With the tools that it names, and no others."""
    with McpHold() as hold:
        (hold.project / "holdfast.json").unlink()
        shutil.copy(EXAMPLE, hold.project)
        hold.environ["HOLDFAST_HTTP_PORT"] = "0"
        hold.up()

        async def story(client: Any) -> None:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"status", "run", "read", "search"} <= names
            assert not {"git", "git_change", "send"} & names
            ready = await client.call_tool("wait", {"names": ["web"], "until": "ready"})
            assert "web: met" in text_of(ready)
            done = await client.call_tool("run", {"argv": ["echo", "fine"]})
            assert "exit code 0" in text_of(done)
            refused = await client.call_tool("run", {"argv": ["rm", "-rf", "."]})
            assert refused.is_error

        hold.talk(story)
