"""Files of our own: replaced as a whole, whatever dies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from holdfast.system.private_files import remove_torn, replace_file

KILLED = """
import os, signal, sys
from holdfast.system import private_files
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
private_files.replace_file(sys.argv[1], b"half")
"""


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    """And nothing else: not the file itself, not what a living process writes just now."""
    path = tmp_path / "keeper.json"
    replace_file(str(path), b"whole")
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    others = (
        "journal.new",
        f"tokens.json.{os.getpid()}.new",
        "notes.1x.new",
        ".5.new",
        "a.5.newer",
    )
    for name in others:
        (tmp_path / name).write_bytes(b"")
    assert len(os.listdir(tmp_path)) == len(others) + 2
    remove_torn(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "keeper.json"])
    assert path.read_bytes() == b"whole"
    remove_torn(str(tmp_path / "nowhere"))
