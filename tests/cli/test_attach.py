"""`attach` on a real terminal, to a real service."""

from __future__ import annotations

import os
import termios
from collections.abc import Iterator

import pytest

from holdfast.cli.attach import DetachKeys
from tests.cli.person import Person
from tests.harness import Hold, is_alive


@pytest.mark.parametrize(
    ("typed", "sent", "is_detached"),
    [
        ([b"ls\r"], b"ls\r", False),
        ([b"a\x10\x11b"], b"a", True),
        ([b"\x10", b"\x11"], b"", True),
        ([b"\x10", b"x"], b"\x10x", False),
        ([b"\x10", b"\x10", b"\x11"], b"\x10", True),
    ],
)
def test_detach_keys(typed: list[bytes], sent: bytes, is_detached: bool) -> None:
    """Only ctrl-p followed by ctrl-q detaches; a lone ctrl-p reaches the service."""
    keys = DetachKeys()
    seen = [keys.feed(data) for data in typed]
    assert b"".join(data for data, _ in seen) == sent
    assert seen[-1][1] == is_detached


@pytest.fixture
def hold() -> Iterator[Hold]:
    with Hold() as one:
        one.services(shell={"command": ["sh"], "terminal": True, "env": {"PS1": "> "}})
        one.up()
        yield one


def test_attach_detach_attach_and_end(hold: Hold) -> None:
    """Typing reaches the service; after a detach it goes on, and the screen comes back."""
    pid = hold.service("shell")["pid"]
    first = Person(hold, "attach", "shell")
    first.see(b"detach with ctrl-p ctrl-q")
    first.type(b"echo one-$((40+2))\r")
    first.see(b"one-42")
    first.type(b"\x10\x11")
    first.see(b"detached; shell goes on")
    assert first.exit_code() == 0
    assert termios.tcgetattr(first.fd)[:4] == first.modes[:4]
    os.close(first.fd)
    assert is_alive(pid)

    looking = Person(hold, "attach", "shell")
    looking.type(b"printf '\\033[?47h\\033[?1h'; echo full-$((40+2))\r")
    looking.see(b"full-42")
    looking.type(b"\x10\x11")
    looking.see(b"\x1b[?1l")  # the keys are a shell's again
    looking.see(b"\x1b[?47l")  # and so is the screen
    looking.see(b"detached; shell goes on")
    assert looking.exit_code() == 0
    os.close(looking.fd)

    second = Person(hold, "attach", "shell")
    second.see(b"one-42")
    second.type(b"exit 0\r")
    second.see(b"shell: exit 0")
    assert second.exit_code() == 0
    os.close(second.fd)
