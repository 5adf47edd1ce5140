"""Lines of services as they are shown: the pieces of a very long line are one line."""

from __future__ import annotations

import json
import sys

import pytest

from holdfast.cli.terminal.output import Printer, Style
from holdfast.cli.terminal.screen import PLAIN, Paint
from holdfast.logbook.cursors import BEGINNING
from holdfast.logbook.entries import Line, Note, Stream
from holdfast.logbook.line_pattern import LinePattern
from tests.harness import Hold, wait_for


def line(data: bytes, *, more: bool = False, stream: Stream = "out", run: int = 1) -> Line:
    return Line(1.0, stream, data, BEGINNING, run, more)


def test_pieces_are_joined(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """One prefix, one line end; whoever else speaks in between does so on a line of its own."""
    printer = Printer(Style(PLAIN, prefix=True), ["a", "b"])
    for piece in (line(b"one ", more=True), line(b"two ", more=True), line(b"three")):
        printer.show("a", piece)
    printer.show("a", line(b"long ", more=True))
    printer.show("b", line(b"short"))
    printer.show("a", line(b"rest ", more=True))
    printer.show("a", line(b"error", stream="err"))
    printer.show("a", line(b"left ", more=True))
    printer.show("a", line(b"by the next run", run=2))
    printer.show("a", line(b"lost ", more=True, run=2))
    printer.show("a", Note("gap", 1.0, 0, 2, 7))
    printer.show("a", line(b"said ", more=True, run=2))
    printer.say("b", "it ended", None)
    printer.show("a", line(b"last", more=True, run=2))
    printer.end_line("b")
    printer.end_line()
    printer.end_line()
    printer.flush()
    captured = capsysbinary.readouterr()
    assert captured.err == b"a | -- lost: 7 bytes were not recorded --\n"
    shown = captured.out.decode().splitlines(keepends=True)
    assert [it.rstrip(" \n") for it in shown] == [
        "a | one two three",
        "a | long",
        "b | short",
        "a | rest",
        "a | error",
        "a | left",
        "a | by the next run",
        "a | lost",
        "a | said",
        "b | -- it ended",
        "a | last",
    ]
    assert shown[-1].endswith("\n")


def test_colours_of_pieces(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """A colour that a piece left on holds until its line ends, and no longer."""
    printer = Printer(Style(Paint(is_on=True), prefix=False))
    printer.show("a", line(b"\x1b[31mred ", more=True))
    printer.show("a", line(b"still"))
    printer.show("a", line(b"plain"))
    printer.flush()
    assert capsysbinary.readouterr().out == b"\x1b[31mred still\x1b[0m\nplain\n"


def test_pieces_that_a_pattern_chose(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """They need not belong together: each is a line."""
    printer = Printer(Style(PLAIN, prefix=False, pattern=LinePattern("x")))
    for piece in (line(b"x1", more=True), line(b"y2"), line(b"x3")):
        printer.show("a", piece)
    printer.flush()
    assert capsysbinary.readouterr().out == b"x1\nx3\n"


def test_a_line_of_megabytes() -> None:
    """`logs` shows it as one line; in JSON its pieces are marked."""
    program = "print('x' * 2_500_000 + 'y'); print('next', end='')"
    with Hold() as hold:
        hold.services(big={"command": [sys.executable, "-c", program], "restart_policy": "never"})
        hold.cli("up", "-d")
        wait_for(lambda: "next" in hold.cli("logs", "big", "--tail", "1").stdout)
        assert hold.cli("logs", "big").stdout == "x" * 2_500_000 + "y\nnext\n"
        told = [json.loads(it) for it in hold.cli("logs", "big", "--json").stdout.splitlines()]
        assert [it["partial"] for it in told if "stream" in it][-2:] == [False, True]
        assert any(it.get("partial") for it in told[:-1])
