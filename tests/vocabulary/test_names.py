"""What may be the name of a service."""

from __future__ import annotations

import pytest

from holdfast.vocabulary.names import GATE_SERVICE, is_service_name


@pytest.mark.parametrize("name", ["web", "web.api_2-x", "holdfast", "holdfast-web", "web@3"])
def test_names(name: str) -> None:
    """Letters, digits and what joins them."""
    assert is_service_name(name)


@pytest.mark.parametrize("name", ["", "Web", "-web", "a b", "a" * 64, "../x", GATE_SERVICE])
def test_no_names(name: str) -> None:
    """Not what Holdfast runs for itself is called: its ends would be taken for ours."""
    assert not is_service_name(name)
