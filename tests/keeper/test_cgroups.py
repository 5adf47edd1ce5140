"""Cgroups where the kernel lets us have them, and quiet answers where not."""

from __future__ import annotations

import fcntl
import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.keeper.processes.cgroups import Cgroups
from tests.keeper.conftest import KeeperProcess
from tests.keeper.stage import has_cgroups, wait_for

needs_cgroups = pytest.mark.skipif(not has_cgroups(), reason="no writable cgroup v2 tree")


def _is_left(cgroups: Cgroups, path: str) -> bool:
    return not cgroups.is_populated(path)


@pytest.fixture
def cgroups() -> Iterator[Cgroups]:
    made = Cgroups(f"test{os.getpid()}")
    root = made.root
    yield made
    if root is not None and os.path.isdir(root):
        made.root = root
        for name in os.listdir(root):
            if os.path.isdir(f"{root}/{name}"):
                made.kill(f"{root}/{name}")
                wait_for(functools.partial(_is_left, made, f"{root}/{name}"))
                made.remove(f"{root}/{name}")
        made.close()


@needs_cgroups
def test_place_list_and_remove(cgroups: Cgroups) -> None:
    """A process that is placed is listed; the directory goes when it is empty."""
    path = cgroups.create("run-1")
    assert path is not None
    assert not cgroups.is_populated(path)
    with subprocess.Popen(["sleep", "100"]) as process:
        try:
            assert cgroups.place(path, process.pid)
            assert cgroups.pids(path) == [process.pid]
            assert cgroups.is_populated(path)
            cgroups.remove(path)
            assert os.path.isdir(path), "a busy cgroup stays"
        finally:
            process.kill()
    wait_for(lambda: not cgroups.is_populated(path))
    cgroups.remove(path)
    assert not os.path.exists(path)
    root = cgroups.root
    assert root is not None
    cgroups.close()
    assert not os.path.exists(root)
    assert cgroups.create("run-2") is None


@needs_cgroups
def test_nested_cgroups_count(cgroups: Cgroups) -> None:
    """What sits in a cgroup below ours is ours, and is removed with it."""
    path = cgroups.create("run-1")
    assert path is not None
    os.makedirs(f"{path}/inner/most")
    with subprocess.Popen(["sleep", "100"]) as process:
        try:
            assert cgroups.place(f"{path}/inner/most", process.pid)
            assert cgroups.pids(path) == [process.pid]
            assert cgroups.is_populated(path)
        finally:
            process.kill()
    wait_for(lambda: not cgroups.is_populated(path))
    cgroups.remove(path)
    assert not os.path.exists(path)


@needs_cgroups
def test_kill(cgroups: Cgroups) -> None:
    """One write kills everything inside."""
    path = cgroups.create("run-1")
    assert path is not None
    with subprocess.Popen(["sleep", "100"]) as process:
        cgroups.place(path, process.pid)
        assert cgroups.can_kill
        assert cgroups.kill(path)
        assert process.wait(30) == -9


@needs_cgroups
def test_freeze_and_thaw(cgroups: Cgroups) -> None:
    """A frozen cgroup is known as frozen until it is thawed."""
    path = cgroups.create("run-1")
    assert path is not None
    assert not cgroups.is_frozen(path)
    assert cgroups.freeze(path, True)
    assert cgroups.is_frozen(path)
    assert cgroups.freeze(path, False)
    assert not cgroups.is_frozen(path)


@needs_cgroups
def test_existing_root_is_taken_over(cgroups: Cgroups) -> None:
    """A new keeper of the same project finds the runs of the old one."""
    path = cgroups.create("run-1")
    again = Cgroups(f"test{os.getpid()}")
    assert again.root == cgroups.root
    assert again.create("run-1") == path
    again.close()
    assert path is not None
    assert os.path.isdir(path), "a root with runs in it stays"


@needs_cgroups
def test_named_directory(cgroups: Cgroups, monkeypatch: pytest.MonkeyPatch) -> None:
    """HOLDFAST_CGROUP=/path makes the runs' cgroups there."""
    path = cgroups.create("run-1")
    assert path is not None
    monkeypatch.setenv("HOLDFAST_CGROUP", path)
    other = Cgroups("other")
    assert other.root == f"{path}/holdfast-other"
    other.close()


@needs_cgroups
@pytest.mark.parametrize("run_id", ["", ".", "..", "a/b", "../x"])
def test_run_id_is_one_name(cgroups: Cgroups, run_id: str) -> None:
    """A run id that would leave our directory gets no cgroup."""
    assert cgroups.create(run_id) is None


@needs_cgroups
def test_remove_stays_inside(cgroups: Cgroups) -> None:
    """Nothing outside our root is ever removed."""
    assert cgroups.root is not None
    stranger = os.path.dirname(cgroups.root) + f"/stranger{os.getpid()}"
    os.mkdir(stranger)
    try:
        cgroups.remove(stranger)
        cgroups.remove(cgroups.root)
        assert os.path.isdir(stranger)
        assert os.path.isdir(cgroups.root)
    finally:
        os.rmdir(stranger)


@needs_cgroups
def test_what_killed_keepers_left_is_removed(
    cgroups: Cgroups, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keeper that starts removes the empty folders of those that were killed; not that of one
    that lives, though it is empty just now, none with a process in it, nobody else's."""
    parent = cgroups.create("parent")
    assert parent is not None
    monkeypatch.setenv("HOLDFAST_CGROUP", parent)
    keepers = {name: KeeperProcess(folder / name) for name in ("living", "killed", "populated")}
    roots = {name: it.hello["host"]["cgroup"] for name, it in keepers.items()}
    foreign = f"{parent}/holdfast-0123456789abcdef.service"
    os.mkdir(foreign)
    try:
        pid = keepers["populated"].spawn("sleep", "300")["pid"]
        wait_for(lambda: cgroups.is_populated(roots["populated"]))
        for name in ("killed", "populated"):
            keepers[name].process.kill()
            keepers[name].process.wait(30)
        os.mkdir(f"{roots['killed']}/run-1")
        keepers["next"] = KeeperProcess(folder / "next")
        wait_for(lambda: not os.path.exists(roots["killed"]))
        for _ in (last := Cgroups("f" * 16)).remove_left():
            pass  # once more from beginning to end, since the keeper may not be done
        last.close()
        assert cgroups.pids(roots["populated"]) == [pid]
        assert os.path.isdir(foreign)
        assert os.path.isdir(roots["living"])
        keepers["living"].spawn("sleep", "300")
        wait_for(lambda: cgroups.is_populated(roots["living"]))
    finally:
        os.rmdir(foreign)
        for keeper in keepers.values():
            keeper.end()
        cgroups.kill(parent)


@needs_cgroups
def test_a_root_that_is_removed_while_a_keeper_begins(
    cgroups: Cgroups, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever removes it is faster: it is made anew, and nobody else can remove it then."""
    parent = cgroups.create("parent")
    assert parent is not None
    monkeypatch.setenv("HOLDFAST_CGROUP", parent)
    root = f"{parent}/holdfast-{'0' * 16}"
    flock = fcntl.flock
    removed: list[str] = []

    def late(fd: int, kind: int) -> None:
        if not removed:
            os.rmdir(root)
            removed.append(root)
        flock(fd, kind)

    monkeypatch.setattr(fcntl, "flock", late)
    begun, other = Cgroups("0" * 16), Cgroups("1" * 16)
    assert removed == [root]
    assert begun.root == root
    assert list(other.remove_left()) == [None]
    assert os.path.isdir(root)
    begun.close()
    other.close()


@pytest.mark.parametrize("wish", ["off", "/nowhere", "plain"])
def test_without_a_tree(wish: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Switched off, missing or no cgroup at all: no root, and every call answers quietly."""
    monkeypatch.setenv("HOLDFAST_CGROUP", str(tmp_path) if wish == "plain" else wish)
    cgroups = Cgroups("none")
    assert cgroups.root is None
    assert cgroups.create("run-1") is None
    assert not cgroups.can_kill
    path = str(tmp_path / "missing")
    assert not cgroups.place(path, os.getpid())
    assert cgroups.pids(path) == []
    assert not cgroups.is_populated(path)
    assert not cgroups.kill(path)
    assert not cgroups.freeze(path, True)
    cgroups.remove(path)
    cgroups.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_without_privileges() -> None:
    """A user who may not write the tree gets no root and no error."""
    code = "from holdfast.keeper.processes.cgroups import Cgroups; print(Cgroups('nobody').root)"
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "HOLDFAST_CGROUP": ""}
    # The system's Python, because the project's may be out of that user's reach.
    answer = subprocess.run(
        ["/usr/bin/env", "python3", "-c", code],
        env={**environment, "PATH": os.environ["PATH"]},
        user=65534,
        group=65534,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.stdout, answer.stderr) == ("None\n", "")
