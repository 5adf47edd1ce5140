"""What tools of other MCP servers are called here: `SERVER__TOOL`. Pure.

Clients put more in front and have limits of their own, so a name is short and has only letters,
digits, `_` and `-`. A name that had to be shortened ends in a digest of what it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256

from holdfast.vocabulary.mcp_servers import AMONG_TOOLS

LONGEST_NAME = 48
_DIGEST = 6
_STRANGE = re.compile(r"[^A-Za-z0-9_-]")


def public_name(server: str, tool: str) -> str:
    """Return the name of a tool as assistants see it."""
    name = f"{server}{AMONG_TOOLS}{_STRANGE.sub('_', tool)}"
    if len(name) <= LONGEST_NAME:
        return name
    digest = sha256(tool.encode("utf-8", "replace")).hexdigest()[:_DIGEST]
    return f"{name[: LONGEST_NAME - _DIGEST - 1]}_{digest}"


def public_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Return the names of a server's tools by their public names. Of two that would have the same
    name, the second has a digest."""
    found: dict[str, str] = {}
    for tool in tools:
        name = public_name(server, tool)
        if name in found:
            digest = sha256(tool.encode("utf-8", "replace")).hexdigest()[:_DIGEST]
            name = f"{name[: LONGEST_NAME - _DIGEST - 1]}_{digest}"
        found[name] = tool
    return found


def server_of(name: str) -> str:
    """Return the server in a tool's public name; empty if there is none."""
    server, found, _ = name.partition(AMONG_TOOLS)
    return server if found else ""


def is_among(tool: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(tool, pattern) for pattern in patterns)


def is_allowed(tool: str, allow: Sequence[str], deny: Sequence[str]) -> bool:
    """Return whether the configuration offers a tool; `deny` wins."""
    return is_among(tool, allow) and not is_among(tool, deny)
