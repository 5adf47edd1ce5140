"""Files that are read at once: the same answer as by waiting, or none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.files import page_cache
from holdfast.vocabulary.errors import NotFound, Refused, UsageError
from holdfast.vocabulary.files import ReadFile
from tests.adapters.files.stage import OPENERS, Stage
from tests.harness import wait_for


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """One that has found out that files of this device can be read at once."""
    made = Stage(tmp_path)
    made.put("a.txt", "one\ntwo\n")
    made.files.read(ReadFile(path="a.txt"))
    if made.files.read_at_once(ReadFile(path="a.txt")) is None:
        pytest.skip("this kernel or this file system cannot")
    return made


@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"one\ntwo\n\nfour", b"\xef\xbb\xbfmark\r\nline\r\n", b"\xff\xfea\0b\0", b"a\0b",
     b"\xe9\n", b"line\n" * 9000],
)  # fmt: skip
@pytest.mark.parametrize(
    "more",
    [{}, {"offset": 2, "limit": 1}, {"tail": 2}, {"from_byte": 3}, {"max_bytes": 5},
     {"encoding": "base64"}],
)  # fmt: skip
def test_the_same_answer(stage: Stage, data: bytes, more: dict[str, Any]) -> None:
    """Whatever part of whatever file."""
    stage.put("sub/b", data)
    command = ReadFile(path="sub/b", **more)
    assert stage.files.read_at_once(command) == stage.files.read(command)


def test_what_has_to_be_waited_for_is_left_to_others(stage: Stage) -> None:
    """What is large, or not in memory; and what cannot be read, so that they say why."""
    stage.put("large", b"x" * (page_cache.MOST_BYTES + 1))
    cold = stage.put("cold", b"x" * 5000)
    os.mkfifo(stage.tree / "pipe")
    (stage.tree / "link").symlink_to("a.txt")
    (stage.tree / "out").symlink_to(stage.tree.parent)
    for path in ("large", "pipe", "link", "out/x", "nothing", ".", "a.txt/x"):
        assert stage.files.read_at_once(ReadFile(path=path)) is None, path

    def is_left() -> bool:
        # A quick disk may have brought it between the look and the reading.
        with cold.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return stage.files.read_at_once(ReadFile(path="cold")) is None

    wait_for(is_left, what="a file that is not in memory")
    assert stage.read("cold").size == 5000
    assert stage.files.read_at_once(ReadFile(path="cold")) is not None


def test_what_is_refused_is_refused_at_once(stage: Stage) -> None:
    """Denied files and senseless requests do not get as far as the file."""
    stage.put(".env", "secret")
    with pytest.raises(Refused):
        stage.files.read_at_once(ReadFile(path=".env"))
    with pytest.raises(Refused):
        stage.files.read_at_once(ReadFile(path="../a.txt"))
    with pytest.raises(UsageError):
        stage.files.read_at_once(ReadFile(path="a.txt", limit=0))


def test_only_known_devices_and_the_kernels_own_way(tmp_path: Path) -> None:
    """Before anybody waited for a file of a device, it is not known to make nobody wait."""
    stage = Stage(tmp_path, OPENERS["kernel"])
    stage.put("a.txt", "x")
    assert stage.files.read_at_once(ReadFile(path="a.txt")) is None
    stage = Stage(tmp_path, OPENERS["steps"])
    stage.files.read(ReadFile(path="a.txt"))
    assert stage.files.read_at_once(ReadFile(path="a.txt")) is None


def test_a_root_that_became_a_link_leads_nowhere(stage: Stage) -> None:
    """As for who waits: a root is the folder that it was, not what somebody puts in its place."""
    other = stage.tree.parent / "other"
    other.mkdir()
    (other / "a.txt").write_text("theirs")
    stage.tree.rename(stage.tree.parent / "away")
    stage.tree.symlink_to(other)
    command = ReadFile(path="a.txt")
    assert stage.files.read_at_once(command) is None
    with pytest.raises(NotFound):
        stage.files.read(command)
