"""Files of KEY=VALUE lines, as `env_file` names them.

Comments, `export`, single and double quotes (with \\n, \\t, \\" and \\\\ in double ones, also over
several lines) are understood; nothing is expanded. Values never appear in problems.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from holdfast.adapters.config.problems import Problem
from holdfast.vocabulary.patterns import pattern

VARIABLE_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_.-]*")
LARGEST_ENV_FILE = 1024 * 1024
_START = pattern(r"\s*(?:export\s+)?([^=\s]*)\s*=[ \t]*")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "$": "$"}


def read_env_file(path: str) -> tuple[dict[str, str], list[Problem]]:
    """The variables of a file; raises OSError when it cannot be read."""
    with open(path, "rb") as file:
        data = file.read(LARGEST_ENV_FILE + 1)
    if len(data) > LARGEST_ENV_FILE:
        return {}, [Problem(path, None, None, "", None, "larger than 1 MiB", "")]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return {}, [Problem(path, line, None, "", None, "not UTF-8 text", "save it as UTF-8")]
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
        quote, body = rest[0], rest[1:]
        while (value := _unquoted(body, quote)) is None and at < len(lines):
            body += "\n" + lines[at].rstrip("\r")
            at += 1
        if value is None:
            message = "the quote is not closed"
            problems.append(Problem(path, number, None, name, None, message, "close it"))
            break
        variables[name], after = value
        if after.strip() and not after.lstrip().startswith("#"):
            message = "text after the closing quote"
            problems.append(Problem(path, number, None, name, None, message, "remove it"))
    return variables, problems


def _unquoted(body: str, quote: str) -> tuple[str, str] | None:
    parts: list[str] = []
    at = 0
    while at < len(body):
        char = body[at]
        if char == quote:
            return "".join(parts), body[at + 1 :]
        if char == "\\" and quote == '"' and body[at + 1 : at + 2] in _ESCAPES:
            parts.append(_ESCAPES[body[at + 1]])
            at += 2
        else:
            parts.append(char)
            at += 1
    return None


def resolved(path: str, folder: str, environ: Mapping[str, str]) -> str:
    """A path of the configuration, relative to the configuration's folder; `~` is home."""
    if path == "~" or path.startswith("~/"):
        path = (environ.get("HOME") or os.path.expanduser("~")) + path[1:]
    return os.path.normpath(os.path.join(folder, path))
