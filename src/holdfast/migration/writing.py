"""Writes a holdfast.yaml of what was found, with a comment where each part comes from."""

from __future__ import annotations

import os
from typing import Any

from holdfast.migration.findings import Findings

_SHORT = 3
"""A mapping with more keys gets a line for each."""


def merged(found: list[Findings]) -> Findings:
    """Return the findings of several files as one; names that are taken get a number."""
    first = found[0]
    for other in found[1:]:
        other.rename({service.name: first.free_name(service.name) for service in other.services})
        first.services += other.services
        for key, value in other.top.items():
            known = first.top.setdefault(key, value)
            if isinstance(known, dict) and isinstance(value, dict):
                first.top[key] = {**value, **known}
    return first


def yaml_of(found: list[Findings], folder: str) -> str:
    """Return the text of the configuration, for a file in `folder`."""
    places = [
        (os.path.relpath(one.path, folder), service.line)
        for one in found
        for service in one.services
    ]
    files = ", ".join(os.path.relpath(one.path, folder) for one in found)
    top, services = merged(found).top, found[0].services
    lines = [
        f"# Taken over from {files} by `holdfast import`.",
        "# Check and start: holdfast up    See: holdfast status, holdfast logs -f",
        "",
    ]
    for key, value in top.items():
        lines += [*block(key, value, 0), ""]
    lines.append("services:")
    for (file, line), service in zip(places, services, strict=True):
        place = file if line is None else f"{file}:{line}"
        lines += [f"  # {place}", f"  {service.name}:"]
        for key, value in service.keys.items():
            lines += block(key, value, 4)
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def block(key: str, value: Any, indent: int) -> list[str]:
    """Return the lines of one key: on a line, or a long mapping as a block."""
    import yaml

    is_long = isinstance(value, dict) and len(value) > _SHORT
    text = yaml.safe_dump(
        {key: value} if is_long else value,
        sort_keys=False,
        default_flow_style=not is_long,
        width=float("inf"),
        allow_unicode=True,
    ).removesuffix("...\n")
    lines = text.rstrip("\n").splitlines()
    if not is_long:
        lines = [f"{key}: {lines[0]}", *lines[1:]]
    return [" " * indent + line for line in lines]
