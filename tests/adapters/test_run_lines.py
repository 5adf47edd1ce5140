"""Lines that a start or `wait` waits for are found in the same places, however they are read."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from holdfast.adapters.output import LogQuery, RunLines
from holdfast.logbook.entries import Line, Note
from holdfast.logbook.lines import lines
from holdfast.logbook.plain_text import shown
from holdfast.logbook.reader import Reader
from holdfast.secrets.log_redaction import LineRedactor
from holdfast.vocabulary.output import Logs
from tests.logbook.random_logs import record
from tests.logbook.stage import SERVICE, Stage

EXPRESSIONS = ("needle", "(?i)needle", r"needle in \w+", "hidden", "^new", r"\d+ ms$", "wor|KEY")


@pytest.mark.parametrize("seed", range(20))
def test_every_line_that_may_match(tmp_path: Path, seed: int) -> None:
    """With and without redaction, of a run and those after it."""
    chance = random.Random(seed)
    record(tmp_path, chance)
    reader = Reader(str(tmp_path), SERVICE)
    run = chance.choice([1, 2])
    every: list[Line | Note] = list(lines(reader, reader.start_of(run)))
    plain = [line.data for line in every if isinstance(line, Line) and line.run >= run]
    redacted = [
        line.data
        for line in LineRedactor().redact_all(every)
        if isinstance(line, Line) and line.run >= run
    ]
    for expression in EXPRESSIONS:
        search = re.compile(expression.encode()).search
        for redactor, texts in ((None, plain), (LineRedactor(), redacted)):
            found: list[bytes] = []
            run_lines = RunLines(str(tmp_path), SERVICE, run, expression, redactor)
            while not run_lines.is_at_end:
                found += run_lines.batch(is_last=True)
            run_lines.close()
            expected = [text for text in texts if search(shown(text))]
            assert [text for text in found if search(shown(text))] == expected, expression


def test_a_line_of_a_long_log_is_found_at_once(stage: Stage) -> None:
    """Of what cannot match, nothing is looked at closely."""
    stage.recorder.begin_run(1)
    text = b"a line that nobody waits for password=hunter2\n" * 20_000
    for _ in range(20):
        stage.say(text)
    stage.say(b"ready to accept connections\n")
    stage.recorder.flush()
    run_lines = RunLines(stage.directory, SERVICE, 1, r"ready to \w+", LineRedactor())
    found = []
    batches = 0
    while not run_lines.is_at_end:
        found += run_lines.batch(is_last=False)
        batches += 1
    run_lines.close()
    assert found == [b"ready to accept connections"]
    assert batches <= 1 + 20 * len(text) // (4 << 20)


@pytest.mark.parametrize("seed", range(20))
def test_a_query_with_a_pattern(tmp_path: Path, seed: int) -> None:
    """`logs` with `grep` gives the same lines, times and cursors as if each line were tried."""
    chance = random.Random(100 + seed)
    record(tmp_path, chance)
    reader = Reader(str(tmp_path), SERVICE)
    every = list(LineRedactor().redact_all(lines(reader, reader.beginning())))
    for expression in EXPRESSIONS:
        search = re.compile(expression.encode()).search
        query = LogQuery(str(tmp_path), Logs(service=SERVICE, grep=expression))
        found: list[Line | Note] = []
        while not query.is_done:
            found += query.batch()
        found += query.unfinished()
        query.close()
        expected = [e for e in every if not isinstance(e, Line) or search(shown(e.data))]
        assert [e for e in found if not isinstance(e, Line) or search(shown(e.data))] == expected
