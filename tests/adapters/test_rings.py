"""History in files of a fixed size that outlive whoever writes them."""

from __future__ import annotations

import os
import time
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.adapters.metrics.rings import FILE_BYTES, RESOLUTIONS, Point, Ring, RunTotals
from holdfast.adapters.metrics.usage import Totals

NOBODY = RunTotals("", Totals(), Totals())


def point(at: int, cpu: float = 10.0, memory: int = 1000, seconds: int = 1) -> Point:
    return Point(at, seconds, 1, cpu, cpu, memory, memory, 3, 1, 0.0, 5.0)


def write(ring: Ring, kept: RunTotals, *points: Point) -> None:
    for it in points:
        ring.add(it)
    ring.flush(kept)


def test_points_and_totals_come_back_after_a_restart(tmp_path: Path) -> None:
    """Another object on the same file reads what the first one wrote."""
    path, now = str(tmp_path / "m" / "web.ring"), int(time.time())
    kept = RunTotals("run-1", Totals(1.5, 0.5, 1, 2, 3, 4), Totals(0.1, 0.2))
    write(Ring(path), kept, point(now - 2), point(now))
    again = Ring(path)
    assert again.read_totals() == kept
    assert [it.time for it in again.points(1, now - 60, now)] == [now - 2, now]
    again.remove()
    again.remove()
    assert not os.path.exists(path)
    assert again.points(1, 0, now) == []
    assert again.read_totals() is None


def test_a_record_that_was_begun_is_gone_on_with(tmp_path: Path) -> None:
    """A killed supervisor loses nothing of the minute it was in."""
    path, now = str(tmp_path / "web.ring"), int(time.time()) // 60 * 60
    write(Ring(path), NOBODY, point(now + 1, cpu=10, seconds=5))
    write(Ring(path), NOBODY, point(now + 6, cpu=30, seconds=5))
    (minute,) = Ring(path).points(60, now - 60, now + 60)
    assert (minute.seconds, minute.cpu, minute.cpu_max) == (10, 20, 30)


def test_a_file_of_rubbish_is_written_over(tmp_path: Path) -> None:
    """What is not ours is no history, and does not keep us from writing one."""
    path = tmp_path / "web.ring"
    path.write_bytes(b"rubbish")
    ring, now = Ring(str(path)), int(time.time())
    assert ring.read_totals() is None
    assert ring.points(10, 0, now) == []
    write(ring, NOBODY, point(now))
    assert [it.time for it in ring.points(1, now - 5, now)] == [now]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4000), st.floats(0, 800)), min_size=1, max_size=60))
def test_the_file_is_bounded_and_reads_back_what_it_reaches(
    steps: list[tuple[int, float]],
) -> None:
    """Whatever is written: a fixed size, ordered points of one slot each, none too old."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        ring, at = Ring(f"{folder}/x.ring"), 1_700_000_000
        peak: dict[tuple[int, int], float] = {}
        for step, cpu in steps:
            at += step
            write(ring, NOBODY, point(at, cpu, seconds=min(step, 60)))
            for resolution in RESOLUTIONS:
                slot = at // resolution
                peak[resolution, slot] = max(peak.get((resolution, slot), 0), cpu)
        assert os.path.getsize(f"{folder}/x.ring") <= FILE_BYTES
        for resolution, count in RESOLUTIONS.items():
            found = ring.points(resolution, 0, at)
            assert [it.time for it in found] == sorted({it.time for it in found})
            assert all(at - resolution * count < it.time <= at for it in found)
            for it in found:
                wanted = peak[resolution, it.time // resolution]
                assert abs(it.cpu_max - wanted) <= 1e-3 * max(1, wanted)
            slots = {s for r, s in peak if r == resolution and s > at // resolution - count + 1}
            assert slots <= {it.time // resolution for it in found}
