from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.fake_daemon import FakeDaemon


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, with a configuration; the test works in it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "holdfast.yaml").write_text("services: {}\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NO_COLOR", "1")
    return folder


@pytest.fixture
def daemon(project: Path) -> Iterator[FakeDaemon]:
    """Somebody who answers for the project."""
    fake = FakeDaemon(str(project))
    yield fake
    fake.close()
