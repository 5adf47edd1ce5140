"""The own log on standard error: levels, tracebacks, rotation. The writer is the real one."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.adapters import own_log
from holdfast.cli.own_log import OwnLog


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "own.log"
    own_log.set_level("info")
    root = logging.getLogger("holdfast")
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    root.propagate = True


def write(*levels: int) -> None:
    for level in levels:
        logging.getLogger("holdfast.x").log(level, "of level %d", level)


@pytest.mark.parametrize("style", ["human", "json"])
def test_what_is_shown_is_what_the_file_has(
    path: Path, style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Byte by byte, if all is asked for; from where it ended, and to standard error alone."""
    own_log.open_log(str(path), style=style)
    own_log.set_level("trace")
    write(logging.ERROR)
    before = path.read_text()
    shown = OwnLog(str(path), is_all=True)
    write(own_log.TRACE, logging.DEBUG, logging.INFO, logging.WARNING)
    shown.show()
    shown.show()
    shown.finish()
    told = capsys.readouterr()
    assert told.err == path.read_text().removeprefix(before)
    assert told.err.count("\n") == 4
    assert told.out == ""


@pytest.mark.parametrize("style", ["human", "json"])
def test_without_a_wish_it_is_trouble(
    path: Path, style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Warnings and worse; lines of a traceback are of the record before them."""
    own_log.open_log(str(path), style=style)
    own_log.set_level("trace")
    shown = OwnLog(str(path), is_all=False)
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
    path: Path, every: int, is_there: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether it is read at each line, or when the file was rotated more than once."""
    if is_there:
        own_log.open_log(str(path), size_bytes=1000)
        write(logging.ERROR)
    shown = OwnLog(str(path), is_all=True)
    own_log.open_log(str(path), size_bytes=1000)
    for number in range(180):
        logging.getLogger("holdfast.x").info("line %d", number)
        if number % every == every - 1:
            shown.show()
    shown.finish()
    told = capsys.readouterr().err.splitlines()
    assert [line.rpartition(" ")[2] for line in told] == [str(number) for number in range(180)]


def test_what_was_removed_is_said(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who reads too late is told so, and reads on with the oldest that is there."""
    own_log.open_log(str(path), size_bytes=500)
    shown = OwnLog(str(path), is_all=True)
    for number in range(300):
        logging.getLogger("holdfast.x").info("line %d", number)
    shown.finish()
    told = capsys.readouterr().err.splitlines()
    assert sum("removed before it could be shown" in line for line in told) == 1
    numbers = [int(line.rpartition(" ")[2]) for line in told if "line" in line]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] == 299


def test_a_file_that_was_removed_brings_no_old_lines(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those before it were never new; the next one is."""
    (path.parent / "own.log.1").write_text("ancient\n")
    path.write_text("")
    shown = OwnLog(str(path), is_all=True)
    own_log.open_log(str(path))
    write(logging.ERROR)
    shown.show()
    path.unlink()
    shown.show()
    own_log.open_log(str(path))
    write(logging.CRITICAL)
    shown.finish()
    text = capsys.readouterr().err
    assert "ancient" not in text
    assert "of level 40" in text
    assert "of level 50" in text


def test_an_emptied_file_and_an_unfinished_line(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reading begins again with the file; half a line is shown when it is whole, or at the end."""
    path.write_text("before\n")
    shown = OwnLog(str(path), is_all=True)
    path.write_text("")
    shown.show()
    path.write_text("one\ntw")
    shown.show()
    assert capsys.readouterr().err == "one\n"
    shown.finish()
    assert capsys.readouterr().err == "tw\n"
