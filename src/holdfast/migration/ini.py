"""INI files as supervisord and circus write them: sections with the line of each entry."""

from __future__ import annotations

import re
from typing import NamedTuple

_SECTION = re.compile(r"^\[([^\]]+)\]")
_REMARK = re.compile(r"\s;.*$")


class IniValue(NamedTuple):
    line: int
    value: str


Section = dict[str, IniValue]


def read_ini(
    text: str, *, keeps_case: bool = False, is_included: bool = False
) -> dict[str, Section]:
    """Return the entries of each section. Indented lines continue an entry. Those of an included
    file have no lines: a line always belongs to the file that is imported."""
    found: dict[str, Section] = {}
    section: Section = {}
    key = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = _REMARK.sub("", raw).rstrip()
        if not line.strip() or raw.lstrip()[:1] in ("#", ";"):
            continue
        if title := _SECTION.match(line):
            section, key = found.setdefault(title[1].strip(), {}), ""
        elif raw[:1] in (" ", "\t") and key:
            entry = section[key]
            section[key] = IniValue(entry.line, f"{entry.value}\n{line.strip()}".strip())
        else:
            key, sign, value = line.partition("=") if "=" in line else line.partition(":")
            key = key.strip() if keeps_case else key.strip().lower()
            if sign:
                section[key] = IniValue(0 if is_included else number, value.strip())
            else:
                key = ""
    return found


def first_line(section: Section) -> int | None:
    return min((entry.line for entry in section.values()), default=None)


def is_no(value: str) -> bool:
    return value.strip().lower() in ("false", "0", "no", "off")
