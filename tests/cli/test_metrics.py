"""`top` at a terminal: how it is left, and that the terminal is given back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.cli.person import Person
from tests.harness import Hold


@pytest.fixture(scope="module")
def hold() -> Iterator[Hold]:
    with Hold() as one:
        one.services(web=["sleep", "300"])
        one.up()
        yield one


def types(key: bytes) -> Callable[[Person], None]:
    return lambda person: person.type(key)


@pytest.mark.parametrize(
    ("leave", "code"),
    [
        (types(b"xq"), 0),
        (types(b"\x03"), 130),
        (lambda person: os.kill(person.pid, signal.SIGTERM), 143),
    ],
    ids=["q", "ctrl-c", "SIGTERM"],
)
def test_left(hold: Hold, leave: Callable[[Person], None], code: int) -> None:
    """q, Ctrl-C and SIGTERM end it at once, and the terminal is as it was."""
    person = Person(hold, "top", "--interval", "1h")
    person.see(b"\x1b[H\x1b[2JSERVICE")
    person.see(b"running")
    leave(person)
    assert person.exit_code() == code
    assert person.is_given_back()
    os.close(person.fd)


def test_output_that_is_no_terminal(hold: Hold) -> None:
    """Then nobody looks for keys: the terminal is left alone."""
    person = Person(hold, "top", "--count", "2", "--interval", "500ms", through="cat")
    person.see(b"running")
    assert person.is_given_back()
    person.see(b"running")
    assert person.exit_code() == 0
    os.close(person.fd)
