"""The reference page is what the table of verbs says."""

from __future__ import annotations

from pathlib import Path

from holdfast.cli.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"


def test_the_page_is_not_stale() -> None:
    """docs/reference/cli.md is what `python -m holdfast.cli.reference` prints."""
    assert PAGE.read_text() == reference()
