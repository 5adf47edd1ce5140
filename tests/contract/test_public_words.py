"""What clients and people rely on changes only on purpose."""

from __future__ import annotations

import pytest

from tests.contract.public_words import FOLDER, texts


@pytest.mark.parametrize("name", sorted(texts()))
def test_public_words_are_as_they_were(name: str) -> None:
    """Help, the tools of assistants and the REST description equal the reviewed copies."""
    assert texts()[name] == (FOLDER / name).read_text(encoding="utf-8")
