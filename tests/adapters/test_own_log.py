"""Holdfast's own log: where it goes, and how large it may grow."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.adapters import own_log


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    logger = logging.getLogger(own_log.ROOT)
    before = logger.handlers[:], logger.level, logger.propagate
    logger.handlers = []
    yield logger
    for handler in logger.handlers:
        handler.close()
    logger.handlers, logger.level, logger.propagate = before


def test_a_long_log_is_rotated(
    tmp_path: Path, root: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest lines are in the file, the older ones in a bounded number of others."""
    monkeypatch.setattr(own_log, "_SIZE", 1000)
    path = tmp_path / "holdfast.log"
    own_log.open_log(str(path))
    for number in range(200):
        own_log.logger("test").info("line %d \udcff", number)
    assert sorted(it.name for it in tmp_path.iterdir()) == [
        "holdfast.log",
        *(f"holdfast.log.{number}" for number in (1, 2, 3)),
    ]
    assert all(it.stat().st_size < 1200 for it in tmp_path.iterdir())
    files = [tmp_path / f"holdfast.log.{number}" for number in (3, 2, 1)]
    lines = "".join(it.read_text() for it in [*files, path]).splitlines()
    numbers = [int(line.split("line ")[1].split()[0]) for line in lines]
    assert numbers == list(range(numbers[0], 200))
