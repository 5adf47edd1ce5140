"""What a configuration says about other MCP servers, beyond how their processes run.

How a process runs is in the service of the same name, as for every service.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class ToolHints(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the user says about a tool that its server does not annotate. None: nothing."""

    read_only: bool | None = None
    idempotent: bool | None = None


class McpServerSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One MCP server whose tools assistants reach through Holdfast."""

    name: str
    url: str | None = None
    """The address of a server that somebody else runs."""
    path: str | None = None
    """The path below which a server that Holdfast runs speaks HTTP. None: it speaks over its
    standard input and output."""
    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    """Patterns of tools; `deny` wins."""
    always: tuple[str, ...] = ()
    """Patterns of tools that are listed also where tools have to be searched for."""
    hints: dict[str, ToolHints] = {}
    pins: Literal["first", "ask"] = "first"
    """Whether the definitions that are seen first are taken as they are, or held for approval."""
    scope: Literal["shared", "session"] = "shared"
    idle_stop: float | None = 900.0
    """It is stopped when nobody has called it for so long; None: never."""
    start_timeout: float = 60.0
    call_timeout: float = 50.0
    concurrency: int = 8
    max_instances: int = 5
    roots: tuple[str, ...] = ()
    """Folders that it is told it may work in."""
    sampling: bool = False
    """Whether it may ask the client's model."""
    headers: dict[str, str] = {}
    auth: Literal["oauth"] | None = None
    """Whether it is asked only with a login. None: if it asks for one."""

    @property
    def transport(self) -> Literal["stdio", "http", "remote"]:
        if self.url is not None:
            return "remote"
        return "stdio" if self.path is None else "http"
