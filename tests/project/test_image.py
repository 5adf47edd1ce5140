"""The Dockerfile, as far as it can be judged without a container engine."""

from __future__ import annotations

import re

from tests.project.tree import ROOT


def test_the_image() -> None:
    """Two stages; the second has no tools, a user of its own, and says its ports and health."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    stages = re.split(r"(?m)^FROM ", text)[1:]
    assert len(stages) == 2
    last = [line.split(maxsplit=1) for line in stages[1].splitlines() if line[:1].isupper()]
    words = {word: rest for word, rest in last if word.isupper()}
    assert words["USER"] == "holdfast"
    assert words["EXPOSE"].split() == ["8081", "3001"]
    assert words["CMD"] == '["holdfast", "up"]'
    assert '"holdfast", "health"' in words["HEALTHCHECK"]
    assert "ca-certificates" in words["RUN"]
    assert not re.search(r"gcc|build-essential|nodejs", stages[1])
    assert "--require-hashes" in stages[0]


def test_what_stays_outside() -> None:
    """Nothing that the build needs is left out of what it is sent."""
    left_out = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv", "tests", "**/node_modules"} <= set(left_out)
    assert not {"src", "web", "requirements", "README.md", "LICENSE"} & set(left_out)
