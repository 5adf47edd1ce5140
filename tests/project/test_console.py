"""The commands that the documents show really work."""

from __future__ import annotations

import os
import random
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.console import Command, Write, follow, steps_of
from tests.project.tree import documents, named, text_of

SERVED = re.compile(r"\b(8765|8766|18765)\b")
"""Ports that the documents' servers listen on."""
LEASED = re.compile(r"\b217(\d\d|…)")
"""A range of ports, in the document about leases."""
EXAMPLE = """
<!-- write: greeting.txt -->
```text
good morning
```

```console
$ cat greeting.txt
good …ing
$ false  # exits 1
$ true
```

```sh
not run
```
"""


def shown() -> list[Path]:
    """Documents that tell a story; the examples of the reference stand each for itself."""
    return [
        path
        for path in documents()
        if "```console" in text_of(path) and "docs/reference" not in named(path)
    ]


def elsewhere(text: str) -> str:
    """The same with ports that are free: others may run these tests on this host, too."""
    served: dict[str, str] = {}
    for port in set(SERVED.findall(text)):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            served[port] = str(probe.getsockname()[1])
    hundred = random.SystemRandom().randrange(200, 320)
    text = LEASED.sub(lambda found: f"{hundred}{found[1]}", text)
    return SERVED.sub(lambda found: served[found[1]], text)


def test_blocks_are_understood(tmp_path: Path) -> None:
    """Files are written, commands run, their output and status compared, other blocks left."""
    assert list(steps_of(EXAMPLE)) == [
        Write("greeting.txt", "good morning\n"),
        Command("cat greeting.txt", 0, ("good …ing",)),
        Command("false", 1, ()),
        Command("true", 0, ()),
    ]
    assert follow(EXAMPLE, tmp_path, dict(os.environ)) == 3


def test_a_wrong_document_is_noticed(tmp_path: Path) -> None:
    """A command that fails, or does not print what is shown, fails the test."""
    for text in ("```console\n$ false\n```\n", "```console\n$ echo a\nb\n```\n"):
        with pytest.raises(AssertionError):
            follow(text, tmp_path, dict(os.environ))


@pytest.mark.unprivileged
@pytest.mark.parametrize("document", shown(), ids=named)
def test_document_works(document: Path, tmp_path: Path) -> None:
    """Every `console` block of the document can be typed as it stands."""
    folder = tmp_path / "shop"
    folder.mkdir()
    environ = dict(os.environ)
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    try:
        assert follow(elsewhere(text_of(document)), folder, environ) > 0
    finally:
        subprocess.run(["holdfast", "down"], cwd=folder, env=environ, capture_output=True)
