"""Stages for runners, closed after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.engine.stage import Stage


@pytest.fixture
def make_stage() -> Iterator[Callable[..., Stage]]:
    """Make stages; their loops are closed at the end."""
    made: list[Stage] = []

    def make(**fields: Any) -> Stage:
        made.append(Stage(**fields))
        return made[-1]

    yield make
    for stage in made:
        stage.close()
