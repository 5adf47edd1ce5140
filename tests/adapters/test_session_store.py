"""The file of the sessions."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from holdfast.adapters.sessions import SessionStore, StoredSession

STORED = StoredSession(
    id="0" * 32, digest="d", client="c", opened_by="me", opened_at=1.0, fate="stop", grace=120.0
)


def test_storing_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done on the supervisor's loop; kill -9 loses nothing of it all the same."""

    def never(descriptor: int) -> None:
        raise AssertionError("the loop waits for the disk")

    monkeypatch.setattr(os, "fsync", never)
    SessionStore(str(tmp_path)).save([STORED])
    assert SessionStore(str(tmp_path)).load() == [STORED]
    assert [path.name for path in tmp_path.iterdir()] == ["sessions.json"]
    assert stat.S_IMODE((tmp_path / "sessions.json").stat().st_mode) == 0o600


def test_what_cannot_be_read_is_over(tmp_path: Path) -> None:
    """Nobody gets in by a file that is broken."""
    for text in ("", "[{", "{}"):
        (tmp_path / "sessions.json").write_text(text)
        assert SessionStore(str(tmp_path)).load() == []
