"""What looks like a secret is never shown, and what does not is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.secrets.redaction import (
    HIDDEN,
    is_secret_name,
    redact,
    redact_arguments,
    redact_fields,
    redact_value,
    shown_address,
    shown_environment,
)

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVPmB92K27uhbUJU1p1r"
KEY_BLOCK = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----"
SECRETS = [
    ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
    ("ghp_" + "a1B2" * 9, "ghp_"),
    ("github_pat_" + "a1B2c" * 8, "github_pat_"),
    ("glpat-abcdefghij0123456789", "glpat-"),
    ("xoxb-1234567890-abcdefgh", "xoxb"),
    ("sk-proj-abcdefghijklmnopqrstuvwx", "sk-proj"),
    ("sk_live_" + "4eC39HqLyjWDarjtT1", "sk_live"),
    (JWT, "eyJ"),
    (KEY_BLOCK, "MIIEow"),
    ("Authorization: Bearer abcdefgh12345", "abcdefgh12345"),
    ("authorization: token s3cr3t", "s3cr3t"),
    ("curl -u https://joe:hunter2@example.com/x", "hunter2"),
    ("postgres://app:p4ss@db:5432/x", "p4ss"),
    ("token=abc123def rest", "abc123def"),
    ('{"password": "a b c", "x": 1}', "a b c"),
    ("AWS_SECRET_ACCESS_KEY='x y z'", "x y z"),
    ("GET /?api_key=12345&b=2", "12345"),
    ("https://hooks.slack.com/services/T0/B0/XXXX", "T0/B0"),
    ("https://discord.com/api/webhooks/1/abc", "webhooks/1"),
]
HARMLESS = [
    "exit code 1 within 1 s of its start",
    "entering directory /srv/tokenizer: No such file or directory",
    "listening on http://127.0.0.1:3000/health",
    "Error: listen EADDRINUSE: address already in use :::3000",
    "git@github.com:owner/project.git",
    "the monkey: a keyboard",
]


@pytest.mark.parametrize(("text", "secret"), SECRETS, ids=[secret for _, secret in SECRETS])
def test_known_shapes_are_hidden(text: str, secret: str) -> None:
    """A token, key or password is hidden wherever it stands in a line."""
    for line in (text, f"2030-01-01 error: {text}\nnext line", f"x {text}"):
        assert secret not in redact(line)
        assert HIDDEN in redact(line)


@pytest.mark.parametrize("text", HARMLESS)
def test_plain_text_is_left_alone(text: str) -> None:
    """What holds no secret is not touched."""
    assert redact(text) == text


def test_what_surrounds_a_secret_stays() -> None:
    """A redacted line still says what it is about."""
    assert redact("GET /?api_key=12345&b=2 HTTP/1.1") == f"GET /?api_key={HIDDEN}&b=2 HTTP/1.1"
    assert redact("https://joe:hunter2@example.com/x") == f"https://joe:{HIDDEN}@example.com/x"


@given(st.text())
def test_redacting_twice_changes_nothing(text: str) -> None:
    """What is redacted once can pass through again; nothing raises."""
    once = redact(text)
    assert redact(once) == once


@given(st.text(alphabet="abcdef0123456789", min_size=20, max_size=40))
def test_a_bearer_token_never_passes(token: str) -> None:
    """Whatever the token is."""
    assert token not in redact(f"Authorization: Bearer {token}")
    assert token not in redact(f"proxy says Bearer {token} is unknown")


def test_arguments_behind_secret_flags_are_hidden() -> None:
    """`--token abc` and `--token=abc` are both hidden, other arguments are not."""
    words = ["curl", "--token", "abc", "--password=xyz", "-v", "--api-key", "-q", "https://a:b@h/"]
    shown = redact_arguments(words)
    assert shown[:6] == ["curl", "--token", HIDDEN, f"--password={HIDDEN}", "-v", "--api-key"]
    assert shown[6:] == ["-q", f"https://a:{HIDDEN}@h/"]


def test_values_of_any_shape() -> None:
    """Nested data is searched; below a secret name everything is hidden."""
    data = {"args": ["--x", "token=abcdefgh"], "headers": {"Authorization": "abc"}, "n": 3}
    shown = redact_value(data)
    assert shown == {
        "args": ["--x", f"token={HIDDEN}"],
        "headers": {"Authorization": HIDDEN},
        "n": 3,
    }
    assert redact_fields({"reason": "bad token=abcdefgh", "to": "failed"}) == {
        "reason": f"bad token={HIDDEN}",
        "to": "failed",
    }


def test_an_address_is_shown_by_its_host_only() -> None:
    """Path, query and user of a webhook are its secret."""
    assert shown_address("https://u:p@hooks.example.com:8443/T/B?x=1") == (
        "https://hooks.example.com:8443"
    )
    assert shown_address("nonsense") == HIDDEN


def test_an_environment_is_shown_by_its_names() -> None:
    """Only values that cannot be a secret are shown."""
    shown = shown_environment(
        {"PATH": "/bin", "API_TOKEN": "x", "HOLDFAST_TOKEN": "y", "PORT": "80", "OTHER": "z"}
    )
    assert shown == {
        "API_TOKEN": None, "HOLDFAST_TOKEN": None, "OTHER": None, "PATH": "/bin", "PORT": "80",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["API_KEY", "GITHUB_TOKEN", "DATABASE_URL", "db_password"])
def test_secret_names(name: str) -> None:
    """Names that tell that their value is a secret."""
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "text",
    ["Authorization: Bearer abcdefgh12345", "--token=abc --password: x1y2", "my_key = 'a b'"],
)
def test_what_is_hidden_stays_as_it_is(text: str) -> None:
    """Texts pass through more than once on their way."""
    once = redact(text)
    assert redact(once) == once
