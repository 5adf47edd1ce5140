"""Tokens: shown once, stored as hashes, gone when revoked or expired."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from holdfast.adapters.tokens import PREFIX, Tokens, digest_of
from holdfast.vocabulary.actors import Role, Scopes
from holdfast.vocabulary.errors import HoldfastError, UsageError


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    made = Tokens(str(tmp_path))
    made.load()
    return made


def test_the_first_start_makes_an_admin(tokens: Tokens, tmp_path: Path) -> None:
    """Its file and the store are the owner's alone, and the store holds no secret."""
    text = (tmp_path / "admin.token").read_text().strip()
    found = tokens.find(text)
    assert found is not None
    assert found.role is Role.ADMIN
    for name in ("admin.token", "tokens.json"):
        assert stat.S_IMODE(os.stat(tmp_path / name).st_mode) == 0o600
    assert text.rpartition("_")[2] not in (tmp_path / "tokens.json").read_text()


def test_a_token_survives_a_restart(tokens: Tokens, tmp_path: Path) -> None:
    """With its name, role and limits."""
    scopes = Scopes(services=("web",))
    made = tokens.create("deploy", Role.OPERATOR, scopes=scopes)
    again = Tokens(str(tmp_path))
    again.load()
    found = again.find(made.text)
    assert found is not None
    assert (found.name, found.role, found.scopes) == ("deploy", Role.OPERATOR, scopes)


@pytest.mark.parametrize("which", ["id", "name"])
def test_a_revoked_token_is_none(tokens: Tokens, tmp_path: Path, which: str) -> None:
    """By its id or its name, at once and for good."""
    made = tokens.create("deploy", Role.OPERATOR)
    tokens.revoke(getattr(made.token, which))
    assert tokens.find(made.text) is None
    again = Tokens(str(tmp_path))
    again.load()
    assert again.find(made.text) is None


def test_no_token_outlives_the_one_that_made_it(tmp_path: Path) -> None:
    """Whatever it was asked for, and however long the line is."""
    now = [1000.0]
    tokens = Tokens(str(tmp_path), clock=lambda: now[0])
    tokens.load()
    first = tokens.create("first", Role.ADMIN, expires_in=60.0).token
    second = tokens.create("second", Role.ADMIN, origin=first.id)
    third = tokens.create("third", Role.VIEWER, expires_in=3600.0, origin=second.token.id)
    soon = tokens.create("soon", Role.VIEWER, expires_in=5.0, origin=first.id).token
    ends = [one.expires_at for one in (second.token, third.token, soon)]
    assert ends == [1060.0, 1060.0, 1005.0]
    assert tokens.origin_of(third.token) == first.id
    now[0] += 60.0
    assert [tokens.find(one.text) for one in (second, third)] == [None, None]


def test_all_that_a_token_made_is_revoked_with_it(tokens: Tokens, tmp_path: Path) -> None:
    """And nothing else, for good."""
    first = tokens.create("first", Role.ADMIN).token
    second = tokens.create("second", Role.ADMIN, origin=first.id).token
    third = tokens.create("third", Role.VIEWER, origin=second.id)
    tokens.create("other", Role.VIEWER)
    assert [one.name for one in tokens.revoke("first")] == ["first", "second", "third"]
    assert tokens.find(third.text) is None
    again = Tokens(str(tmp_path))
    again.load()
    assert {one.name for one in again.list()} == {"first admin", "other"}


def test_an_expired_token_is_none(tmp_path: Path) -> None:
    """It is refused and no longer listed, and its name is free again."""
    now = [1000.0]
    tokens = Tokens(str(tmp_path), clock=lambda: now[0])
    tokens.load()
    made = tokens.create("short", Role.VIEWER, expires_in=60.0)
    assert tokens.find(made.text) is not None
    now[0] += 60.0
    assert tokens.find(made.text) is None
    assert "short" not in [token.name for token in tokens.list()]
    tokens.create("short", Role.VIEWER)


def test_what_is_no_token_is_none(tokens: Tokens, tmp_path: Path) -> None:
    """Near misses, nothing, and what was never meant to be one."""
    text = (tmp_path / "admin.token").read_text().strip()
    for wrong in (
        "",
        "holdfast_",
        text[:-1],
        text + "x",
        text.upper(),
        "x" * 10_000,
        "holdfast_\x00_ü",
    ):
        assert tokens.find(wrong) is None, wrong


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 101, "first admin"])
def test_a_name_is_needed_and_unique(tokens: Tokens, name: str) -> None:
    """A token without a printable name of its own is not made."""
    with pytest.raises(UsageError):
        tokens.create(name, Role.VIEWER)


@pytest.mark.parametrize("role", [Role.OWNER, Role.STRANGER])
def test_no_token_makes_an_owner(tokens: Tokens, role: Role) -> None:
    """Owner and stranger are no roles of tokens."""
    with pytest.raises(UsageError):
        tokens.create("me", role)


def test_a_broken_store_lets_nobody_in(tokens: Tokens, tmp_path: Path) -> None:
    """It is not replaced by a new one either: that would be a new admin."""
    text = (tmp_path / "admin.token").read_text().strip()
    (tmp_path / "tokens.json").write_text("{")
    again = Tokens(str(tmp_path))
    again.load()
    assert again.find(text) is None
    assert (tmp_path / "tokens.json").read_text() == "{"


def test_what_cannot_be_stored_is_not_given_out(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: the caller is told, and nothing is half done."""

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(HoldfastError, match="No space"):
        tokens.create("deploy", Role.OPERATOR)
    assert [token.name for token in tokens.list()] == ["first admin"]


def test_a_token_that_was_written_by_hand_and_is_short(tmp_path: Path) -> None:
    """Its hash is in the file, but a secret that can be guessed opens nothing."""
    tokens = Tokens(str(tmp_path))
    tokens.load()
    made = tokens.create("ci", Role.ADMIN).token
    path = tmp_path / "tokens.json"
    path.write_text(path.read_text().replace(made.digest, digest_of("1234")))
    again = Tokens(str(tmp_path))
    again.load()
    assert again.get(made.id) is not None
    assert again.find(f"{PREFIX}{made.id}_1234") is None


def test_a_rotated_token_has_a_new_text(tmp_path: Path) -> None:
    """The old text is refused, also after a restart; name, role, limits and period stay, and so do
    the tokens that were made with it."""
    now = [1000.0]
    tokens = Tokens(str(tmp_path), clock=lambda: now[0])
    tokens.load()
    scopes = Scopes(services=("web",))
    first = tokens.create("ci", Role.OPERATOR, scopes=scopes, expires_in=100)
    child = tokens.create("step", Role.VIEWER, origin=first.token.id)
    now[0] += 60
    old, made = tokens.rotate("ci")
    again = Tokens(str(tmp_path), clock=lambda: now[0])
    again.load()
    for store in (tokens, again):
        assert store.find(first.text) is None
        found = store.find(made.text)
        assert found is not None
        assert (found.name, found.role, found.scopes) == ("ci", Role.OPERATOR, scopes)
        assert found.expires_at == now[0] + 100
        step = store.find(child.text)
        assert step is not None
        assert store.origin_of(step) == made.token.id != old.id
    tokens.revoke("ci")
    assert tokens.find(child.text) is None


def test_the_first_admins_file_follows_a_rotation(tokens: Tokens, tmp_path: Path) -> None:
    """What reads the file goes on working."""
    tokens.rotate("first admin")
    text = (tmp_path / "admin.token").read_text().strip()
    assert tokens.find(text) is not None


def test_a_login_is_not_rotated(tokens: Tokens) -> None:
    """It has no text that a person keeps; an unknown name is told with the known ones."""
    link = tokens.make_link(Role.VIEWER, valid_for=60, session_seconds=60)
    with pytest.raises(UsageError, match="is a login"):
        tokens.rotate(link.token.id)
    with pytest.raises(UsageError, match="no token"):
        tokens.rotate("nobody")
