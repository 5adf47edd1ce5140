"""Logs of random runs: both streams, rotation, gaps, colours, private keys cut anywhere."""

from __future__ import annotations

import random
from pathlib import Path

from tests.logbook.stage import Stage

_PIECES = (
    b"a plain line of a service\n", b"password=hunter2hunter2 in 12 ms\n", b"\n", b"wor", b"ld ",
    b"\x1b[31mred\x1b[0m\n", b"half\r\n", b"old\rnew needle\n", "größer\n".encode(), b"\xff\xc3\n",
    b"needle in the hay\n", b"NEEDLE token: abcdefgh\n", b"nee\x1b[1mdle\n",
    b"{\"level\":\"error\"}\n",
    b"the [hidden] needle\n", b"http://user:pa:s/s@host\n", b"\x00\x01\n", b"x" * 700,
)  # fmt: skip
_KEY = b"""-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj
needleMzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtC
-----END PRIVATE KEY-----
"""


def record(directory: Path, chance: random.Random) -> None:
    """Record a log of a few hundred lines."""
    stage = Stage(str(directory), max_size=chance.choice([3000, 20_000, 1 << 20]))
    run = 1
    stage.recorder.begin_run(run)
    try:
        for _ in range(chance.randrange(10, 60)):
            _step(stage, chance)
            if chance.random() < 0.04:
                run += 1
                stage.recorder.begin_run(run)
            elif chance.random() < 0.03:
                stage.recorder.refuse(OSError(5, "broken"))
                stage.recorder.lose(7)
                stage.recorder._retry_at = 0.0
            elif chance.random() < 0.03:
                stage.lose_keeper()
                stage.recorder.recover(run)
        stage.recorder.flush()
    finally:
        stage.close()


def _step(stage: Stage, chance: random.Random) -> None:
    """Print one text, in one or several pieces."""
    text = b"".join(chance.choices(_PIECES, k=chance.choice([1, 3, 40, 150])))
    if chance.random() < 0.2:
        place = chance.randrange(len(text) + 1)
        text = text[:place] + _KEY + text[place:]
    stream = "out" if chance.random() < 0.7 else "err"
    cuts = sorted(chance.randrange(len(text) + 1) for _ in range(chance.choice([0, 0, 1, 5])))
    for first, last in zip([0, *cuts], [*cuts, len(text)], strict=True):
        if last > first:
            stage.say(text[first:last], "out" if stream == "out" else "err")
            if chance.random() < 0.8:
                stage.recorder._finish_chunk()
