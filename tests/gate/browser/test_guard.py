"""By which names a gate may be called."""

from __future__ import annotations

import pytest

from holdfast.gate.body_limits import LARGEST_BODY
from holdfast.gate.browser.guard import AllowedOrigins, check


@pytest.mark.parametrize(
    ("listening", "came_to", "name"),
    [
        ("0.0.0.0", "192.0.2.7", "192.0.2.7:3001"),
        ("::", "2001:db8::7", "[2001:db8::7]:3001"),
        ("::", "::ffff:192.0.2.7", "192.0.2.7:3001"),
    ],
)
def test_listening_everywhere_the_address_is_a_name(
    listening: str, came_to: str, name: str
) -> None:
    """The one that a client came to, with our own pages there; no other name."""
    allowed = AllowedOrigins.at(listening, 3001, is_tls=False)
    assert name not in allowed.hosts
    here = allowed.at_address({"server": (came_to, 3001), "scheme": "http"})
    assert here.hosts == allowed.hosts | {name}
    assert here.is_own(f"http://{name}", name)
    assert "evil.example:3001" not in here.hosts
    assert "0.0.0.0:3001" not in here.hosts


def test_listening_at_one_address_no_other_is_a_name() -> None:
    """Whatever a connection says that it came to."""
    allowed = AllowedOrigins.at("127.0.0.1", 3001, is_tls=True)
    assert allowed.at_address({"server": ("192.0.2.7", 3001), "scheme": "https"}) == allowed


def test_a_usual_port_may_be_left_out() -> None:
    """As browsers do, also where the address is the name."""
    allowed = AllowedOrigins.at("0.0.0.0", 443, is_tls=True)
    here = allowed.at_address({"server": ("192.0.2.7", 443), "scheme": "https"})
    assert {"localhost", "192.0.2.7", "192.0.2.7:443"} <= here.hosts
    assert here.is_own("https://192.0.2.7", "192.0.2.7")


@pytest.mark.parametrize(
    ("length", "is_taken"),
    [
        (str(LARGEST_BODY).encode(), True),
        (str(LARGEST_BODY + 1).encode(), False),
        *((text, False) for text in (b"\xb2", b"9" * 5000, b"-1", b"", b"1 1")),
    ],
)
def test_lengths_of_bodies(length: bytes, is_taken: bool) -> None:
    """What is no number, or none that can be meant, is refused as others are that are too much."""
    headers = [(b"host", b"localhost:3001"), (b"content-length", length)]
    scope = {"type": "http", "method": "POST", "path": "/api/status", "headers": headers}
    rejection = check(scope, AllowedOrigins.at("127.0.0.1", 3001, is_tls=False))
    assert (rejection is None) is is_taken
    assert rejection is None or rejection.status == 413
