"""What a configuration says about the assistants' door."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.vocabulary.names import TOOLSETS


class McpSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Whether assistants may connect, and which tools they are offered."""

    enabled: bool | None = None
    """None: it is served if HTTP is."""
    read_only: bool = False
    toolsets: tuple[str, ...] = TOOLSETS
    run: bool = False
    """Whether assistants may run programs."""
    programs: tuple[tuple[str, ...], ...] | None = None
    """The only beginnings of command lines that they may run. None: no limit."""
    send: bool = False
    """Whether assistants may type into services."""
    changes_files: bool = True
    """Whether a folder may be written below. Otherwise tools that change files always refuse."""
    delegate: bool = False
    """Whether assistants may hand tasks to AI backends."""
    supervised: bool = False
    """Whether processes that Holdfast runs may use more than the tools that only read."""
    legacy_sse: bool = False
    aliases: bool = False
    """Whether tools can be called by the names that other programs have for them, too."""
    tools: Literal["auto", "list", "search"] = "auto"
    """Whether the tools of other servers are listed, or have to be searched for. `auto`: listed
    while all tools fit `tools_budget`."""
    tools_budget: int = 8000
    """Tokens that all definitions together may take in `auto`."""

    @property
    def aliases_for_changes(self) -> bool:
        """Whether the other names of tools that change files are offered."""
        return self.aliases and self.changes_files

    def offer(self) -> dict[str, Any]:
        """Return what decides which tools are offered, for processes that know no specs."""
        return {
            "read_only": self.read_only,
            "toolsets": list(self.toolsets),
            "run": self.run,
            "send": self.send,
            "changes_files": self.changes_files,
            "delegate": self.delegate,
            "aliases": self.aliases,
            "aliases_for_changes": self.aliases_for_changes,
            "tools": self.tools,
            "tools_budget": self.tools_budget,
        }
