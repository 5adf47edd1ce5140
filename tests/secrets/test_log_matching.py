"""Lines are found and redacted in many at a time; the result is that of every line by itself."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from holdfast.logbook.cursors import BEGINNING, at
from holdfast.logbook.entries import Entry, Line
from holdfast.logbook.line_pattern import LinePattern
from holdfast.logbook.lines import blocks, lines
from holdfast.logbook.reader import Reader
from holdfast.secrets.log_matching import MatchingLines
from holdfast.secrets.log_redaction import LineRedactor
from holdfast.secrets.redaction import Redactor
from tests.logbook.random_logs import record
from tests.logbook.stage import SERVICE
from tests.logbook.test_blocks import places, said

REDACTOR = Redactor(["the-configured-value"])
EXPRESSIONS = (
    "needle", "(?i)needle", "needle|level", r"needle in \w+", "hidden", r"\[hidden\]", "d", "^new",
    "password=", r"\d+ ms$", "größer", "x{600}", "world", "KEY", "M[I]+E", "",
)  # fmt: skip


def redacted(reader: Reader, entries: list[Entry], start: int) -> list[Entry]:
    """Every entry by itself."""
    redactor = LineRedactor(lambda: REDACTOR)
    redactor.begin_at(reader, at(start))
    return [one for entry in entries for one in redactor.redact_all([entry])]


@pytest.mark.parametrize("seed", range(40))
def test_the_same_lines_however_they_are_found(tmp_path: Path, seed: int) -> None:
    """For patterns with and without a text that can be looked for, from any place."""
    chance = random.Random(1000 + seed)
    record(tmp_path, chance)
    reader = Reader(str(tmp_path), SERVICE)
    for cursor in places(reader, chance):
        start = cursor.start
        every = redacted(reader, list(lines(reader, cursor)), start)
        redactor = LineRedactor(lambda: REDACTOR)
        redactor.begin_at(reader, cursor)
        assert said(list(redactor.redact_all(blocks(reader, cursor, is_joined=True)))) == said(
            every
        )
        for expression in chance.sample(EXPRESSIONS, 5):
            pattern = LinePattern(expression)
            expected = [e for e in every if not isinstance(e, Line) or pattern.matches(e.data)]
            for is_joined in (False, True):
                redactor = LineRedactor(lambda: REDACTOR)
                redactor.begin_at(reader, cursor)
                matching = MatchingLines(reader, redactor, pattern)
                found = matching.find(blocks(reader, cursor, is_joined=is_joined))
                assert said(list(found)) == said(expected), (expression, cursor, is_joined)


def test_only_lines_that_can_match_are_redacted(tmp_path: Path) -> None:
    """That is what makes it quick."""
    record(tmp_path, random.Random(1))
    seen = []

    class Counting(Redactor):
        def redact_lines(self, lines: bytes, block: object = None) -> bytes:
            seen.append(lines)
            return super().redact_lines(lines)

    counting = Counting()
    reader = Reader(str(tmp_path), SERVICE)
    matching = MatchingLines(reader, LineRedactor(lambda: counting), LinePattern("nothing of it"))
    assert not [e for e in matching.find(blocks(reader, BEGINNING)) if isinstance(e, Line)]
    assert sum(map(len, seen)) < reader.end().start / 2
