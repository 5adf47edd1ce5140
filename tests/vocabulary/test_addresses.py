"""Addresses of this machine, and those that only look like one."""

from __future__ import annotations

import pytest

from holdfast.vocabulary.addresses import is_loopback


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "::ffff:127.0.0.1",
     "0:0:0:0:0:0:0:1"],
)  # fmt: skip
def test_this_machine(host: str) -> None:
    """However it is written."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    ["", "0.0.0.0", "::", "128.0.0.1", "127.0.0.1.x", "127.0.0.1.example.com", "127.1.2",
     "localhost.example.com", "web.localhost", "127.0.0.999", "::ffff:10.0.0.1", "::2", "10.0.0.1"],
)  # fmt: skip
def test_not_this_machine(host: str) -> None:
    """All addresses of this machine, others' names, and what is no address."""
    assert not is_loopback(host)
