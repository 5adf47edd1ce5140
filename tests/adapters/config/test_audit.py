"""`audit:`: where the head of the audit is written as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.vocabulary.specs.audit import AnchorSpec
from tests.adapters.config.test_policies import problems, settings


def test_anchors_are_read(tmp_path: Path) -> None:
    """Files relative to the configuration; addresses and times as everywhere."""
    text = "audit: {anchor: {file: ../heads, syslog: true, url: 'https://a.example/x', every: 5m}}"
    assert settings(tmp_path, text).audit_anchor == AnchorSpec(
        file=str(tmp_path.parent / "heads"), syslog=True, url="https://a.example/x", every=300.0
    )
    assert settings(tmp_path, "").audit_anchor.is_empty
    local = "audit: {anchor: {url: 'http://127.0.0.1:9/x'}}"
    assert settings(tmp_path, local).audit_anchor.url == "http://127.0.0.1:9/x"


@pytest.mark.parametrize(
    ("anchor", "told"),
    [
        ("{}", "an anchor needs a place"),
        ("{every: 1m}", "an anchor needs a place"),
        ("{url: 'http://a.example/hunter2'}", "write https"),
        ("{url: 'hunter2'}", "not a URL"),
        ("{file: heads, every: 1ms}", "at least 1s"),
        ("{fil: heads}", "file"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, anchor: str, told: str) -> None:
    """With what to write instead, and without the address."""
    found = problems(tmp_path, f"audit: {{anchor: {anchor}}}")
    assert told in found
    assert "hunter2" not in found
