"""Killed in the middle of a change of many files: afterwards all of it is done, or none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.adapters.files.stage import Stage
from tests.harness import wait_for

FILES = 25
WRITER = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from tests.adapters.files.stage import Stage
stage = Stage(Path(sys.argv[1]))
patch = "".join(
    f"--- a/f{n}\\n+++ b/f{n}\\n@@ -1 +1 @@\\n-old\\n+new\\n"
    f"diff --git a/g{n} b/made/g{n}\\nrename from g{n}\\nrename to made/g{n}\\n"
    for n in range(int(sys.argv[3]))
)
print("ready", flush=True)
sys.stdin.readline()
stage.patch(patch)
print("done", flush=True)
sys.stdin.readline()
"""


def attempt(folder: Path, seconds: float) -> str:
    """Begin a patch, kill the process after a while, and start anew."""
    folder.mkdir()
    stage = Stage(folder)
    for number in range(FILES):
        stage.put(f"f{number}", "old\n")
        stage.put(f"g{number}", "moves\n")
    root = Path(__file__).parents[3]
    words = [sys.executable, "-c", WRITER, str(folder), str(root), str(FILES)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdout.readline()
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
        pending = stage.state / "files" / "pending"
        wait_for(lambda: list(pending.glob("*")) or list(pending.parent.glob("changes/*")))
        time.sleep(seconds)
        writer.send_signal(signal.SIGKILL)
    settled = stage.files.recover()
    found = {(stage.tree / f"f{n}").read_text() for n in range(FILES)}
    moved = {(stage.tree / "made" / f"g{n}").exists() for n in range(FILES)}
    stayed = {(stage.tree / f"g{n}").exists() for n in range(FILES)}
    assert len(found) == len(moved) == len(stayed) == 1, (found, moved, stayed)
    is_done = found == {"new\n"}
    assert (moved, stayed) == ({is_done}, {not is_done})
    assert not any(".tmp" in name for name in stage.names())
    assert (stage.tree / "made").exists() is is_done
    assert os.listdir(stage.state / "files" / "pending") == [] if stage.state.exists() else True
    states = [one.state for one in stage.changes().changes]
    assert states == (["done"] if is_done else ["rolled_back"] * len(settled))
    assert stage.files.recover() == []
    return "done" if is_done else "rolled back" if settled else "not begun"


def test_all_or_none_whenever_it_is_killed(tmp_path: Path) -> None:
    """At several moments, from the beginning on."""
    moments = (0.0, 0.005, 0.01, 0.02, 0.04, 0.08)
    outcomes = [attempt(tmp_path / str(n), moment) for n, moment in enumerate(moments)]
    assert "rolled back" in outcomes


def test_what_others_wrote_meanwhile_is_left_and_said(tmp_path: Path) -> None:
    """A file that was changed after the death is nobody's to take back."""
    stage = Stage(tmp_path)
    stage.put("a", "old\n")
    stage.put("b", "old\n")
    patch = "".join(f"--- a/{n}\n+++ b/{n}\n@@ -1 +1 @@\n-old\n+new\n" for n in "ab")
    done = stage.patch(patch)
    store = stage.state / "files"
    os.rename(store / "changes" / f"{done.change}.json", store / "pending" / f"{done.change}.json")
    stage.put("a", "others\n")
    settled = stage.files.recover()
    assert [(one.state, one.left) for one in settled] == [("unclear", ("a",))]
    assert (stage.tree / "a").read_text() == "others\n"
    assert (stage.tree / "b").read_text() == "old\n"
    assert stage.changes().changes[0].left == ["a"]
