"""The audit: appended, chained, verified; whatever is taken away or changed is found."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.adapters import audit_log
from holdfast.adapters.audit_log import AuditLog, AuditVerification


class Kept:
    """Where the head is kept elsewhere."""

    def __init__(self) -> None:
        self.head: str | None = None

    def keep(self, head: str) -> None:
        self.head = head


def opened(folder: Path, kept: Kept) -> AuditLog:
    log = AuditLog(str(folder), kept.keep)
    log.open(kept.head)
    return log


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def log(tmp_path: Path, kept: Kept) -> AuditLog:
    made = opened(tmp_path / "audit", kept)
    for number in range(10):
        made.record({"command": "stop", "actor": "operator", "n": number})
    return made


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "audit").iterdir())


def test_what_is_recorded_is_read_and_whole(log: AuditLog, kept: Kept, tmp_path: Path) -> None:
    """All of it, from any number on, in files that are the owner's alone."""
    assert [entry["n"] for entry in log.entries()] == list(range(10))
    assert [entry["n"] for entry in log.entries(since=7)] == [7, 8, 9]
    assert log.verify(kept.head) == AuditVerification(True, 10, 1, 10, None)
    assert stat.S_IMODE(os.stat(files(tmp_path)[0]).st_mode) == 0o600


def test_it_goes_on_after_a_restart(log: AuditLog, kept: Kept, tmp_path: Path) -> None:
    """A new process continues the chain where the last one ended."""
    again = opened(tmp_path / "audit", kept)
    again.record({"command": "start"})
    assert again.verify(kept.head) == AuditVerification(True, 11, 1, 11, None)


def test_a_head_that_is_behind_is_no_fault(log: AuditLog, kept: Kept, tmp_path: Path) -> None:
    """We were killed after a record was written and before its head was kept."""
    before = kept.head
    again = opened(tmp_path / "audit", Kept())
    assert str(again.head) == before
    again.record({"command": "start"})
    assert again.verify(before).is_whole


def change(lines: list[bytes]) -> None:
    lines[4] = lines[4].replace(b'"operator"', b'"somebody"')


def remove(lines: list[bytes]) -> None:
    del lines[4]


def swap(lines: list[bytes]) -> None:
    lines[4], lines[5] = lines[5], lines[4]


def cut(lines: list[bytes]) -> None:
    del lines[7:]


def empty(lines: list[bytes]) -> None:
    lines.clear()


def forge(lines: list[bytes]) -> None:
    """Somebody computes the whole chain anew after changing a record."""
    before = audit_log.ORIGIN
    for number, line in enumerate(lines):
        entry = json.loads(line)
        entry.pop("hash")
        entry["actor"] = "somebody"
        entry["prev"] = before
        before = audit_log.digest_of(entry)
        lines[number] = json.dumps({**entry, "hash": before}).encode() + b"\n"


@pytest.mark.parametrize("tamper", [change, remove, swap, cut, empty, forge])
def test_tampering_is_found(log: AuditLog, kept: Kept, tmp_path: Path, tamper: object) -> None:
    """Altered, removed, swapped, cut off, emptied, forged: each is found and named."""
    path = files(tmp_path)[0]
    lines = path.read_bytes().splitlines(keepends=True)
    tamper(lines)  # type: ignore[operator]
    path.write_bytes(b"".join(lines))
    verdict = log.verify(kept.head)
    assert not verdict.is_whole
    assert verdict.problem


def extend(lines: list[bytes]) -> None:
    """Forged, and longer than it was: no record stands where the head says."""
    last = json.loads(lines[-1])
    lines.append(json.dumps({**last, "seq": last["seq"] + 1}).encode() + b"\n")
    forge(lines)


def append(lines: list[bytes]) -> None:
    """Nothing is altered, and somebody wrote one record more."""
    last = json.loads(lines[-1])
    entry = {"seq": last["seq"] + 1, "actor": "nobody", "prev": last["hash"]}
    lines.append(json.dumps({**entry, "hash": audit_log.digest_of(entry)}).encode() + b"\n")


@pytest.mark.parametrize("tamper", [extend, append])
def test_what_others_add_is_found(
    log: AuditLog, kept: Kept, tmp_path: Path, tamper: Callable[[list[bytes]], None]
) -> None:
    """Behind the head, nobody but us writes."""
    path = files(tmp_path)[0]
    lines = path.read_bytes().splitlines(keepends=True)
    tamper(lines)
    path.write_bytes(b"".join(lines))
    assert not log.verify(kept.head).is_whole


@pytest.mark.parametrize("tamper", [forge, extend])
def test_a_forged_chain_is_found_after_a_restart(
    log: AuditLog, kept: Kept, tmp_path: Path, tamper: Callable[[list[bytes]], None]
) -> None:
    """The next supervisor does not take a forged end for its own, however much it writes then."""
    path = files(tmp_path)[0]
    lines = path.read_bytes().splitlines(keepends=True)
    tamper(lines)
    path.write_bytes(b"".join(lines))
    again = opened(tmp_path / "audit", kept)
    for _ in range(3):
        again.record({"command": "start"})
    assert not again.verify(kept.head).is_whole
    assert not opened(tmp_path / "audit", kept).verify(kept.head).is_whole


def test_numbers_are_not_used_twice_after_a_cut(log: AuditLog, kept: Kept, tmp_path: Path) -> None:
    """A cut tail stays visible also after later records."""
    path = files(tmp_path)[0]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:7]))
    again = opened(tmp_path / "audit", kept)
    again.record({"command": "start"})
    assert [entry["seq"] for entry in again.entries(since=7)] == [11, 12]
    verdict = again.verify(kept.head)
    assert not verdict.is_whole
    assert "8 to 10" in (verdict.problem or "")


def test_files_rotate_and_the_chain_goes_on(
    tmp_path: Path, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounded: the oldest files go, and what is left still verifies."""
    monkeypatch.setattr(audit_log, "FILE_BYTES", 2000)
    monkeypatch.setattr(audit_log, "MOST_FILES", 4)
    log = opened(tmp_path / "audit", kept)
    for number in range(100):
        log.record({"command": "stop", "n": number})
    assert 2 <= len(files(tmp_path)) <= 4
    verdict = log.verify(kept.head)
    assert verdict.is_whole
    assert verdict.last == 100
    assert verdict.first > 1


def test_a_missing_file_in_between_is_found(
    tmp_path: Path, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole file that was taken away breaks the chain."""
    monkeypatch.setattr(audit_log, "FILE_BYTES", 2000)
    log = opened(tmp_path / "audit", kept)
    for number in range(50):
        log.record({"command": "stop", "n": number})
    files(tmp_path)[2].unlink()
    assert not log.verify(kept.head).is_whole


@pytest.mark.parametrize("what", ["file", "folder"])
def test_who_removes_the_file_does_not_end_the_record(
    log: AuditLog, kept: Kept, tmp_path: Path, what: str
) -> None:
    """What comes after it is written to another, and what is missing is found."""
    shutil.rmtree(tmp_path / "audit")
    if what == "file":
        (tmp_path / "audit").mkdir()
    before = log.head.seq
    log.record({"command": "stop"})
    assert [entry["command"] for entry in log.entries()] == ["stop"]
    assert log.verify().problem == f"records 1 to {before} are missing at the beginning"
    assert [entry["seq"] for entry in opened(tmp_path / "audit", kept).entries()] == [before + 1]


def test_half_a_record_is_taken_off(log: AuditLog, kept: Kept, tmp_path: Path) -> None:
    """A power cut in the middle of a write."""
    path = files(tmp_path)[0]
    path.write_bytes(path.read_bytes() + b'{"seq": 11, "comm')
    again = opened(tmp_path / "audit", kept)
    again.record({"command": "start"})
    assert again.verify(kept.head) == AuditVerification(True, 11, 1, 11, None)


def test_a_full_disk_is_told_by_the_next_record(
    log: AuditLog, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing stops working; how many records are lost is on record, and the chain is whole."""
    write = os.write

    def half(descriptor: int, data: bytes) -> int:
        return write(descriptor, data[:10])

    monkeypatch.setattr(os, "write", half)
    log.record({"command": "a"})
    log.record({"command": "b"})
    monkeypatch.undo()
    log.record({"command": "c"})
    assert next(log.entries(since=10))["lost_before"] == 2
    assert log.verify(kept.head).is_whole


def test_lines_that_are_no_records_are_found_and_passed_over(
    log: AuditLog, kept: Kept, tmp_path: Path
) -> None:
    """Whatever somebody wrote there, the rest can be read and the fault is told."""
    path = files(tmp_path)[0]
    path.write_bytes(b'{"seq":"abc"}\n[]\n\xff\n{"seq":null}\n' + path.read_bytes())
    assert [entry["n"] for entry in log.entries()] == list(range(10))
    assert log.verify(kept.head).problem == f"{path.name} line 1: this is no record"


def test_only_files_that_matter_are_read(
    log: AuditLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who follows a long audit does not read all of it for every record."""
    monkeypatch.setattr(audit_log, "FILE_BYTES", 300)
    for number in range(10, 20):
        log.record({"command": "stop", "actor": "operator", "n": number})
    assert len(files(tmp_path)) > 5
    read: list[str] = []
    lines = audit_log._lines

    def reading(path: str) -> Iterator[bytes]:
        read.append(path)
        return lines(path)

    monkeypatch.setattr(audit_log, "_lines", reading)
    for since in range(21):
        read.clear()
        assert [entry["seq"] for entry in log.entries(since)] == list(range(since + 1, 21))
    assert len(read) == 1


def test_without_a_folder_the_rest_goes_on(kept: Kept, tmp_path: Path) -> None:
    """Records are lost, and nothing else."""
    (tmp_path / "audit").write_text("in the way")
    log = opened(tmp_path / "audit", kept)
    log.record({"command": "stop"})
    assert list(log.entries()) == []
    assert log.verify(kept.head).records == 0
