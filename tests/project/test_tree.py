"""The tree holds nothing of the machine it was made on."""

from __future__ import annotations

import os
import re

from tests.project.tree import ROOT, files, named, text_of

# Spelled in pieces, so that this file does not find itself.
HOMES = re.compile(
    "|".join(("/" + "root/", "/" + r"home/(?!me/|you/)[a-z]+/", "/" + r"Users/[a-z]+/"))
)
REGISTRIES = re.compile(
    "|".join(
        ("pypi" + r"\.org", "python" + r"hosted\.org", "npmjs" + r"\.(?:org|com)", "index" + "-url")
    )
)


def test_no_home_folders() -> None:
    """No file names somebody's home folder."""
    found = [named(path) for path in files() if HOMES.search(text_of(path))]
    assert found == []


def test_no_registries() -> None:
    """No file names a package registry: people's own settings decide where packages come from."""
    found = [named(path) for path in files() if REGISTRIES.search(text_of(path))]
    assert found == []


def test_scripts_can_be_run() -> None:
    """Every script without a suffix is executable and begins with its interpreter."""
    scripts = [path for path in (ROOT / "scripts").iterdir() if path.is_file() and not path.suffix]
    assert len(scripts) >= 5
    for path in [*scripts, ROOT / ".ci" / "run"]:
        assert os.access(path, os.X_OK), named(path)
        assert text_of(path).startswith("#!/"), named(path)
