"""The files that a configuration is read from: their digests, their variables.

Files of NAME=VALUE lines, which `env_file` names, may have comments, `export`, single and double
quotes (with \\n, \\t, \\" and \\\\ in double ones, also over several lines). Nothing in them is
expanded, and their values never appear in problems.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from holdfast.adapters.config.problems import Problem
from holdfast.adapters.file_digests import digest_of, read_content
from holdfast.system.patterns import pattern


def note_source(sources: dict[str, str], path: str, data: bytes | None) -> None:
    """Record the digest of a file. A file that changed between two reads gets no digest."""
    digest = digest_of(data)
    if sources.setdefault(path, digest) != digest:
        sources[path] = "changed while it was read"


def remedy_for(error: OSError) -> str:
    """Return what to do about a file that cannot be read."""
    match error:
        case IsADirectoryError():
            return "name a file in this folder"
        case PermissionError():
            return "allow yourself to read it, with chmod"
        case _:
            return "name another file"


VARIABLE_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_.-]*")
LARGEST_ENV_FILE = 1024 * 1024
_START = pattern(r"\s*(?:export\s+)?([^=\s]*)\s*=[ \t]*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "$": "$"}


def read_env_file(
    path: str, sources: dict[str, str] | None = None
) -> tuple[dict[str, str], list[Problem]]:
    """Return the variables of a file; raises OSError if it cannot be read.

    `sources` gets the digest of the file."""
    data = read_content(path, LARGEST_ENV_FILE)
    if sources is not None:
        note_source(sources, path, data)
    if len(data) > LARGEST_ENV_FILE:
        return {}, [Problem(path, None, None, "", None, "larger than 1 MiB", "name another file")]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return {}, [Problem(path, line, None, "", None, "not UTF-8 text", "save it as UTF-8")]
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        return {}, [Problem(path, line, None, "", None, "contains a NUL character", "remove it")]
    return parse_env_text(text, path)


def parse_env_text(text: str, path: str) -> tuple[dict[str, str], list[Problem]]:
    variables: dict[str, str] = {}
    problems: list[Problem] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        number = at + 1
        line = lines[at].rstrip("\r")
        at += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _START.match(line)
        name = found[1] if found else ""
        if found is None or not VARIABLE_NAME.fullmatch(name):
            message = "not a NAME=VALUE line"
            problems.append(
                Problem(path, number, None, "", None, message, "write NAME=VALUE or # comment")
            )
            continue
        rest = line[found.end() :]
        if rest[:1] not in ("'", '"'):
            variables[name] = re.sub(r"(?:^|\s)#.*$", "", rest).strip()
            continue
        quote = rest[0]
        value, after = _read_quoted(rest[1:], quote)
        values = [value]
        while after is None and at < len(lines):
            value, after = _read_quoted(lines[at].rstrip("\r"), quote)
            values.append(value)
            at += 1
        if after is None:
            message = "the quote is not closed"
            problems.append(Problem(path, number, None, name, None, message, "close it"))
            break
        variables[name] = "\n".join(values)
        if after.strip() and not after.lstrip().startswith("#"):
            message = "text after the closing quote"
            problems.append(Problem(path, number, None, name, None, message, "remove it"))
    return variables, problems


def _read_quoted(line: str, quote: str) -> tuple[str, str | None]:
    """Return the quoted text in a line, and the rest behind the closing quote if there is one."""
    parts: list[str] = []
    at = 0
    while at < len(line):
        char = line[at]
        if char == quote:
            return "".join(parts), line[at + 1 :]
        if char == "\\" and quote == '"' and line[at + 1 : at + 2] in _ESCAPES:
            parts.append(_ESCAPES[line[at + 1]])
            at += 2
        else:
            parts.append(char)
            at += 1
    return "".join(parts), None


def resolve_path(path: str, folder: str, environ: Mapping[str, str]) -> str:
    """Resolve a path relative to the folder of the configuration; `~` is the home folder."""
    if path == "~" or path.startswith("~/"):
        path = (environ.get("HOME") or os.path.expanduser("~")) + path[1:]
    return os.path.normpath(os.path.join(folder, path))
