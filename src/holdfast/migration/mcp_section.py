"""The section `mcp_servers:` of a holdfast.yaml: what is in it, and the text with more servers.

Every other line stays as it is, comments included. Where that cannot be had, `adds_only` says so.
"""

from __future__ import annotations

from typing import Any

from holdfast.migration.mcp_clients import FoundServer
from holdfast.migration.writing import block
from holdfast.vocabulary.errors import Failed

SECTION = "mcp_servers"


def _values(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Failed(f"the configuration cannot be read: {error}", "holdfast check") from None


def table_of(text: str, section: str) -> dict[str, Any]:
    """Return what a section of the configuration holds, by name."""
    value = _values(text)
    table = value.get(section) if isinstance(value, dict) else None
    return {str(name): one for name, one in table.items()} if isinstance(table, dict) else {}


def lines_of(servers: list[FoundServer], indent: int, *, has_head: bool = True) -> list[str]:
    """Return the lines of the section; `indent` is that of its entries."""
    step = indent or 2
    lines = [f"{SECTION}:"] if has_head else []
    for server in servers:
        lines.append(f"{' ' * step}{server.name}:")
        for key, value in server.keys.items():
            lines += block(key, value, 2 * step)
    return lines


def adds_only(before: str, after: str, servers: list[FoundServer]) -> bool:
    """Return whether the new text says what the old one said, and the servers."""
    import yaml

    old = _values(before) or {"services": {}}
    wanted = {**(old.get(SECTION) or {}), **{server.name: server.keys for server in servers}}
    try:
        return bool(yaml.safe_load(after) == {**old, SECTION: wanted})
    except yaml.YAMLError:
        return False


def with_servers(before: str, servers: list[FoundServer]) -> str:
    """Return the text with these servers at the head of the section, or with a new section."""
    lines = before.splitlines()
    head = next((place for place, line in enumerate(lines) if _is_head(line)), None)
    if head is None:
        gap = [""] if lines and lines[-1].strip() else []
        start = lines or ["services: {}"]
        return "\n".join([*start, *(gap or ([] if lines else [""])), *lines_of(servers, 0)]) + "\n"
    inside = [line for line in lines[head + 1 :] if line.strip() and line.strip()[0] != "#"]
    first = inside[0] if inside else ""
    indent = len(first) - len(first.lstrip())
    lines[head] = f"{SECTION}:"
    lines[head + 1 : head + 1] = lines_of(servers, indent, has_head=False)
    return "\n".join(lines) + "\n"


def _is_head(line: str) -> bool:
    """Return whether the servers begin behind this line: as a block, or with none yet."""
    return line.partition("#")[0].rstrip() in (f"{SECTION}:", f"{SECTION}: {{}}")
