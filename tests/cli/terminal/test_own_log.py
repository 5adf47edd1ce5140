"""The own log on standard error: levels, tracebacks, rotation. The writer is the real one."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from holdfast.adapters import own_log
from holdfast.cli.terminal.own_log import OwnLog


def everything(path: Path) -> OwnLog:
    shown = OwnLog(str(path))
    shown.show_all()
    return shown


def write(*levels: int) -> None:
    for level in levels:
        logging.getLogger("holdfast.x").log(level, "of level %d", level)


@pytest.mark.parametrize("style", ["human", "json"])
def test_what_is_shown_is_what_the_file_has(
    own_log_path: Path, style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Byte by byte, if all is asked for; from where it ended, and to standard error alone."""
    own_log.open_log(str(own_log_path), style=style)
    own_log.set_level("trace")
    write(logging.ERROR)
    before = own_log_path.read_text()
    shown = everything(own_log_path)
    write(own_log.TRACE, logging.DEBUG, logging.INFO, logging.WARNING)
    shown.show()
    shown.show()
    shown.finish()
    told = capsys.readouterr()
    assert told.err == own_log_path.read_text().removeprefix(before)
    assert told.err.count("\n") == 4
    assert told.out == ""


@pytest.mark.parametrize("style", ["human", "json"])
def test_without_a_wish_it_is_trouble(
    own_log_path: Path, style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Warnings and worse; lines of a traceback are of the record before them."""
    own_log.open_log(str(own_log_path), style=style)
    own_log.set_level("trace")
    shown = OwnLog(str(own_log_path))
    write(own_log.TRACE, logging.INFO, logging.WARNING, logging.DEBUG, logging.CRITICAL)
    log = logging.getLogger("holdfast.x")
    for told in (log.error, log.debug):
        try:
            raise ValueError("{ not a record")
        except ValueError:
            told(f"broke at {told.__name__}", exc_info=True)
    shown.finish()
    text = capsys.readouterr().err
    assert re.findall(r"of level (\d+)", text) == ["30", "50"]
    assert "broke at error" in text
    assert "broke at debug" not in text
    assert text.count("ValueError: { not a record") == 1


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("every", [1, 7, 60])
def test_a_rotation_takes_nothing_away(
    own_log_path: Path, every: int, is_there: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether it is read at each line, or when the file was rotated more than once."""
    if is_there:
        own_log.open_log(str(own_log_path), size_bytes=1000)
        write(logging.ERROR)
    shown = everything(own_log_path)
    own_log.open_log(str(own_log_path), size_bytes=1000)
    for number in range(180):
        logging.getLogger("holdfast.x").info("line %d", number)
        if number % every == every - 1:
            shown.show()
    shown.finish()
    told = capsys.readouterr().err.splitlines()
    assert [line.rpartition(" ")[2] for line in told] == [str(number) for number in range(180)]


def test_what_was_removed_is_said(own_log_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who reads too late is told so, and reads on with the oldest that is there."""
    own_log.open_log(str(own_log_path), size_bytes=500)
    shown = everything(own_log_path)
    for number in range(300):
        logging.getLogger("holdfast.x").info("line %d", number)
    shown.finish()
    told = capsys.readouterr().err.splitlines()
    assert sum("removed before it could be shown" in line for line in told) == 1
    numbers = [int(line.rpartition(" ")[2]) for line in told if "line" in line]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 299


def test_a_file_that_was_removed_brings_no_old_lines(
    own_log_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those before it were never new; the next one is."""
    (own_log_path.parent / "own.log.1").write_text("ancient\n")
    own_log_path.write_text("")
    shown = everything(own_log_path)
    own_log.open_log(str(own_log_path))
    write(logging.ERROR)
    shown.show()
    own_log_path.unlink()
    shown.show()
    own_log.open_log(str(own_log_path))
    write(logging.CRITICAL)
    shown.finish()
    text = capsys.readouterr().err
    assert "ancient" not in text
    assert "of level 40" in text
    assert "of level 50" in text


def test_an_emptied_file_and_an_unfinished_line(
    own_log_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reading begins again with the file; half a line is shown when it is whole, or at the end."""
    own_log_path.write_text("before\n")
    shown = everything(own_log_path)
    own_log_path.write_text("")
    shown.show()
    own_log_path.write_text("one\ntw")
    shown.show()
    assert capsys.readouterr().err == "one\n"
    shown.finish()
    assert capsys.readouterr().err == "tw\n"
