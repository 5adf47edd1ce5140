"""Where the network doors listen, and what keeps them from being opened to everybody."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.adapters.config import load
from holdfast.vocabulary.errors import ConfigError
from holdfast.vocabulary.specs.settings import DoorSpec, HttpSpec


def doors(folder: Path, text: str, **environ: str) -> tuple[DoorSpec, HttpSpec]:
    path = folder / "holdfast.yaml"
    path.write_text(text)
    settings = load(str(path), environ=environ).settings
    assert settings.door is not None
    assert settings.http is not None
    return settings.door, settings.http


@pytest.mark.parametrize(
    ("written", "is_made"),
    [("self", True), ("true", True), ("{mode: self}", True), ("false", False), ("off", False)],
)
def test_a_certificate_of_its_own(tmp_path: Path, written: str, is_made: bool) -> None:
    """One word is enough."""
    assert doors(tmp_path, f"tls: {written}")[1].self_made is is_made


def test_a_given_certificate(tmp_path: Path) -> None:
    """Relative to the file; `cert` is understood as a slip."""
    for name in ("a.crt", "a.key"):
        (tmp_path / name).write_text("x")
    http = doors(tmp_path, "tls: {certificate: a.crt, key: a.key}")[1]
    assert (http.certificate, http.key) == (str(tmp_path / "a.crt"), str(tmp_path / "a.key"))
    assert http.self_made is False


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tls: {certificate: nowhere.crt, key: nowhere.key}", "cannot be read"),
        ("tls: {certificate: holdfast.yaml}", "belong together"),
        ("tls: {mode: self, certificate: holdfast.yaml, key: holdfast.yaml}", "either"),
        ("tls: {cert: a}", "certificate"),
        ("tls: maybe", "self"),
        ("host: 0.0.0.0", "security: {authentication: {enabled: true}}"),
        (
            "supervisor: {host: 192.0.2.1, security: {bind_to_localhost: false}}",
            "asked for a token",
        ),
        ("{host: 0.0.0.0, security: {bind_to_localhost: true}}", "bind_to_localhost is true"),
        ("{host: '::', security: {authentication: {enabled: false}}}", "reached from the network"),
    ],
)
def test_what_is_refused_and_how_to_mend_it(tmp_path: Path, text: str, said: str) -> None:
    """Before anything is opened; the message says what to write."""
    with pytest.raises(ConfigError) as caught:
        doors(tmp_path, text)
    assert said in f"{caught.value.message} {caught.value.hint}"


def test_as_the_source_writes_it(tmp_path: Path) -> None:
    """Everything below `supervisor`, the token from the environment."""
    text = """
supervisor:
  security:
    bind_to_localhost: true
    allowed_commands: ["status", "restart"]
    authentication:
      enabled: true
      token: "${SUPERVISOR_TOKEN}"
"""
    door, http = doors(tmp_path, text, SUPERVISOR_TOKEN="Kq3-vT9x_Zr7mWp2Lc8Y")
    assert (door.host, http.host) == ("127.0.0.1", "127.0.0.1")
    assert (door.authentication, door.token) == (True, "Kq3-vT9x_Zr7mWp2Lc8Y")
    assert door.allowed_commands == ("status", "restart")
    names = "[Status, HealthCheck, health, ReloadConfig, CustomRestart]"
    door, _ = doors(tmp_path, f"security: {{allowed_commands: {names}}}")
    allowed = ("status", "health_check", "health_check", "reload", "custom_restart")
    assert door.allowed_commands == allowed
    with pytest.raises(ConfigError, match="retsart"):
        doors(tmp_path, "security: {allowed_commands: [status, retsart]}")
    who = "{enabled: true, token: Kq3-vT9x_Zr7mWp2Lc8Y}"
    open_to_all = f"{{host: 0.0.0.0, security: {{authentication: {who}}}}}"
    assert doors(tmp_path, open_to_all)[1].host == "0.0.0.0"


WEAK = ["1234", "hunter2", "changeme-changeme-changeme", "a" * 40, "12345678901234567890"]


@pytest.mark.parametrize("token", WEAK)
def test_a_weak_token_is_refused(tmp_path: Path, token: str) -> None:
    """In the file, by a variable and in the environment: told by its key, with a remedy."""
    ways: list[tuple[str, dict[str, str], str]] = [
        (f'security: {{authentication: {{token: "{token}"}}}}', {}, "authentication.token"),
        ("security: {authentication: {token: '${OURS}'}}", {"OURS": token}, "authentication.token"),
        ("{}", {"SUPERVISOR_TOKEN": token}, "SUPERVISOR_TOKEN"),
    ]
    for text, environ, key in ways:
        with pytest.raises(ConfigError, match="easy to guess") as error:
            doors(tmp_path, text, **environ)
        said = f"{error.value.message} {error.value.hint} {error.value.details}"
        assert key in said
        assert "openssl rand" in said
        assert token not in said
