"""Runs the `console` blocks of a document, so that no command in it can rot.

In such a block every line that starts with `$ ` is a command; it must succeed, or exit as a comment
at its end says (`# exits 3`). Lines below it must occur in its output, `…` standing for anything.
`<!-- write: PATH -->` before a fenced block writes that block to a file instead.
"""

from __future__ import annotations

import re
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

BLOCK = re.compile(
    r"(?:^ *<!-- write: (?P<file>\S+) -->\n)?"
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
EXITS = re.compile(r"\s+# exits (\d+)$")
TIMEOUT_SECONDS = 60.0


class Write(NamedTuple):
    path: str
    text: str


class Command(NamedTuple):
    line: str
    status: int
    expected: tuple[str, ...]


def steps_of(text: str) -> Iterator[Write | Command]:
    """What a document asks for, in order."""
    for block in BLOCK.finditer(text):
        body = textwrap.dedent(block["body"])
        if block["file"]:
            yield Write(block["file"], body)
        elif block["language"] == "console":
            yield from _commands(body)


def _commands(body: str) -> Iterator[Command]:
    command, expected = "", list[str]()
    for line in [*body.splitlines(), "$ "]:
        if not line.startswith("$ "):
            expected.append(line)
            continue
        if command:
            ending = EXITS.search(command)
            yield Command(EXITS.sub("", command), int(ending[1]) if ending else 0, tuple(expected))
        command, expected = line[2:], []


def follow(text: str, folder: Path, environ: dict[str, str]) -> int:
    """Does what a document shows; returns how many commands were run, or raises AssertionError."""
    count = 0
    for step in steps_of(text):
        match step:
            case Write(path, body):
                (folder / path).write_text(body)
            case Command(line, status, expected):
                count += 1
                _run(line, status, expected, folder, environ)
    return count


def _run(
    line: str, status: int, expected: tuple[str, ...], folder: Path, environ: dict[str, str]
) -> None:
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=TIMEOUT_SECONDS,
        check=False,
        text=True,
    )
    assert done.returncode == status, f"$ {line}\nexited {done.returncode}:\n{done.stdout}"
    output = _plain(done.stdout)
    for wanted in expected:
        pattern = ".*?".join(re.escape(_plain(part)) for part in wanted.split("…"))
        assert re.search(pattern, output), f"$ {line}\nno «{wanted}» in:\n{done.stdout}"


def _plain(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text).strip()
