"""Limits in a cgroup: written where the controllers are, left to the supervisor elsewhere.

A stand-in folder plays the tree; the kernel's part is only to accept what is written.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.keeper.processes.cgroups import Cgroups, oom_kills
from holdfast.keeper.runs.launch import Launch
from holdfast.keeper.runs.spawn import Spawner
from holdfast.system import kernel_files
from tests.harness import wait_for


class StandIn(Cgroups):
    """A folder with the files that a kernel would make."""

    def __init__(self, folder: Path, controllers: str) -> None:
        self.project = "x"
        self.root = str(folder)
        for name, text in (("cgroup.controllers", controllers), ("cgroup.subtree_control", "")):
            (folder / name).write_text(text)
        self.offered = controllers.split()

    def create(self, run_id: str) -> str | None:
        path = super().create(run_id)
        assert path is not None
        names = {"memory": ["memory.max", "memory.oom.group"], "cpu": ["cpu.max"]}
        names["pids"] = ["pids.max"]
        for controller in self.offered:
            for name in names[controller]:
                Path(path, name).write_text("max")
        Path(path, "cgroup.procs").write_text("")
        return path


@pytest.fixture(autouse=True)
def switched_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel turns «+memory» into an entry of the list; so does the stand-in."""
    write = kernel_files.write

    def accept(path: str, data: bytes) -> bool:
        if path.endswith("cgroup.subtree_control"):
            name = data.decode().removeprefix("+")
            folder = Path(path).parent
            offered = folder / "cgroup.controllers"
            if not offered.exists() or name not in offered.read_text().split():
                return False
            text = Path(path).read_text()
            Path(path).write_text(f"{text} {name}")
            return True
        return write(path, data)

    monkeypatch.setattr(kernel_files, "write", accept)


def test_limits_are_written_in_the_kernels_words(tmp_path: Path) -> None:
    """Bytes, quota and period, a count; and the whole tree goes together."""
    cgroups = StandIn(tmp_path, "cpu memory pids")
    asked = {"memory": 512_000_000, "cpu": 150.0, "processes": 100}
    path, enforced = cgroups.create_limited("run-1", asked)
    assert path == f"{tmp_path}/run-1"
    assert enforced == ["memory", "cpu", "processes"]
    found = {name: Path(path, name).read_text() for name in os.listdir(path)}
    assert found["memory.max"] == "512000000"
    assert found["memory.oom.group"].startswith("1")
    assert found["cpu.max"].startswith("150000 100000")
    assert found["pids.max"].startswith("100")


def test_what_the_host_does_not_offer_is_not_claimed(tmp_path: Path) -> None:
    """Only what the kernel took is enforced; without any there is no early cgroup."""
    path, enforced = StandIn(tmp_path, "pids").create_limited(
        "run-1", {"memory": 5, "processes": 10}
    )
    assert path is not None
    assert enforced == ["processes"]
    (tmp_path / "none").mkdir()
    nothing = StandIn(tmp_path / "none", "")
    assert nothing.create_limited("run-2", {"memory": 5}) == (None, [])
    assert not (tmp_path / "none" / "run-2").exists()
    assert nothing.create_limited("run-3", None) == (None, [])


def test_the_kernels_kills_are_counted(tmp_path: Path) -> None:
    """`oom_kill` of memory.events tells the cause of a SIGKILL."""
    events = tmp_path / "memory.events"
    events.write_text("low 0\nhigh 0\nmax 21\noom 2\noom_kill 3\noom_group_kill 1\n")
    assert oom_kills(str(tmp_path)) == 3
    assert oom_kills(str(tmp_path / "nowhere")) == 0


def test_a_program_is_in_its_cgroup_before_it_is_executed(tmp_path: Path) -> None:
    """The child enters by itself: nothing of the program runs outside."""
    (tmp_path / "cgroup.procs").write_text("")
    out = tmp_path / "seen"
    script = f"cat {tmp_path}/cgroup.procs > {out}.part; mv {out}.part {out}"
    launch = Launch(["sh", "-c", script], dict(os.environ), "/")
    launch.cgroup = str(tmp_path)
    assert launch.needs_fork
    pid = Spawner().spawn(launch)
    os.waitpid(pid, 0)
    assert wait_for(out.exists)
    assert out.read_text() == "0", "the kernel reads 0 as: whoever writes"
