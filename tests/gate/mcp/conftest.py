"""A real Holdfast with its gate, and the protocol's own client at the end of a real relay."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from tests.harness import PYTHON, Hold, program, wait_for

ERAS = ("legacy", "2026-07-28")
HOLD_ON = "exec sleep 1000"
HELLO = ["sh", "-c", "printf '\\033[31mhello\\033[0m\\n'; exec sleep 1000"]
NOISY = (
    "import os, sys\n"
    "w = sys.stdout.buffer.write\n"
    "w(b'10%\\r50%\\r100%\\n')\n"
    "w(b'again\\n' * 200)\n"
    "w(b'\\xff\\xfe broken\\n')\n"
    "w(b'x' * 10_000_000 + b'\\n')\n"
    "sys.stdout.flush()\n"
)


def quick(command: Any, **more: Any) -> dict[str, Any]:
    return {"command": command, "start_seconds": 0.1, "stop": {"grace": "500ms"}, **more}


class McpHold(Hold):
    """With a gate that assistants can reach."""

    def __init__(self, mcp: dict[str, Any] | None = None, **services: Any) -> None:
        super().__init__(HOLDFAST_HTTP="on")
        self.write(
            {
                "http_port": 0,
                "mcp": mcp or {},
                "files": {"roots": {"project": {"path": ".", "write": True}}},
                "services": services or {"web": quick(HELLO)},
                "backends": {
                    "talker": {"kind": "claude", "command": program("fake_claude.py"), "mcp": False}
                },
            }
        )

    def make_repository(self) -> None:
        (self.project / "a.txt").write_text("one\ntwo\nthree\n")
        for line in (
            "init -q -b main",
            "config user.name A",
            "config user.email a@example.com",
            "add a.txt",
            "commit -qm one",
        ):
            words = ["git", *line.split()]
            subprocess.run(words, cwd=self.project, env=self.environ, check=True)

    @property
    def token(self) -> str:
        return (self.state / "admin.token").read_text().strip()

    @property
    def url(self) -> str:
        return str(self.status()["supervisor"]["doors"]["http"]) + "/mcp"

    def gate_pid(self) -> int:
        def started() -> list[dict[str, Any]]:
            events = self.ask("events", limit=1000)["events"]
            kind = "process:started"
            return [e for e in events if e["kind"] == kind and e["service"] == "holdfast.gate"]

        return int(wait_for(started)[-1]["data"]["pid"])

    def client(self, *options: str, era: str = "legacy", **more: Any) -> Client:
        parameters = StdioServerParameters(
            command=PYTHON,
            args=["-m", "holdfast", "mcp", *options],
            cwd=str(self.project),
            env=self.environ,
        )
        return Client(parameters, mode=era, **more)

    def talk(
        self,
        story: Callable[[Client], Awaitable[Any]],
        *options: str,
        era: str = "legacy",
        **more: Any,
    ) -> Any:
        """Tell a story over one line; everything is bounded in time."""

        async def told() -> Any:
            async with self.client(*options, era=era, **more) as client:
                return await story(client)

        return asyncio.run(asyncio.wait_for(told(), 60))


def text_of(result: Any) -> str:
    return str(result.content[0].text)


@pytest.fixture(scope="module")
def assistants() -> Iterator[McpHold]:
    """One Holdfast for the stories of a module that leave it as it was."""
    services = {
        "web": quick(HELLO),
        "bad": quick(["sh", "-c", "echo oh no; exit 3"], autostart=False, start_retries=0),
        "noisy": quick([PYTHON, "-c", NOISY], restart_policy="never"),
        "cat": quick(["cat"], stdin="pipe"),
        "idle": quick(["sleep", "1000"], autostart=False),
        "never": quick(["sleep", "1000"], autostart=False),
        "sick": quick(["sleep", "1000"], readiness={"log": "fine"}),
        "long": quick(["sh", "-c", f"echo needle; seq 20000; {HOLD_ON}"]),
        "slow": {
            "command": ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"],
            "autostart": False,
            "start_seconds": 60,
            "stop": {"grace": "60s"},
        },
    }
    with McpHold({"run": True, "send": True, "delegate": True}, **services) as hold:
        hold.make_repository()
        hold.up("web", "noisy", "cat", "long")
        hold.ask("start", services=["sick"], wait=False)
        yield hold
