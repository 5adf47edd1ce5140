"""Numbers of whole trees equal those of the operating system, and none is lost."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from holdfast.adapters.metrics import SampledRun, Sampler
from holdfast.adapters.metrics.extras import extras_of
from holdfast.adapters.metrics.host import host_usage
from holdfast.adapters.metrics.linux import LinuxSampler
from holdfast.adapters.metrics.portable import PortableSampler
from holdfast.adapters.metrics.usage import ProcessSample, UsageTracker
from tests.harness import PYTHON, program, wait_for
from tests.keeper.stage import has_cgroups

linux = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="procfs is Linux's")
Start = Callable[[list[str]], psutil.Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process with a run's cookie; ends it and what it forked."""
    processes: list[psutil.Process] = []
    cookie = f"run-{os.getpid()}-{time.monotonic_ns()}"

    def begin(argv: list[str]) -> psutil.Process:
        environ = {**os.environ, "HOLDFAST_RUN_ID": cookie}
        with (tmp_path / "out").open("wb") as out:
            popen = subprocess.Popen(argv, env=environ, start_new_session=True, stdout=out)
        process = psutil.Process(popen.pid)
        popen.returncode = 0  # reaped below, by psutil
        processes.append(process)
        return process

    begin.cookie = cookie  # type: ignore[attr-defined]
    yield begin
    for one in psutil.process_iter(["pid"]):
        try:
            if one.environ().get("HOLDFAST_RUN_ID") == cookie:
                one.kill()
        except (psutil.Error, OSError):
            continue
    for process in processes:
        process.wait(30)


def watched(process: psutil.Process, run_id: str) -> SampledRun:
    start_time = str(process.create_time())
    if os.path.isdir("/proc/self"):
        stat = Path(f"/proc/{process.pid}/stat").read_text()
        start_time = stat.rpartition(")")[2].split()[19]
    age = time.time() - process.create_time()
    return SampledRun(run_id, process.pid, start_time, time.monotonic() - age)


def samplers() -> list[type]:
    return [LinuxSampler, PortableSampler] if os.path.isdir("/proc/self") else [PortableSampler]


@pytest.mark.parametrize("kind", samplers())
def test_a_known_load_is_told_as_the_system_counts_it(
    kind: type, start: Start, tmp_path: Path
) -> None:
    """CPU of live, ended and orphaned processes, memory, files, bytes and counts are right."""
    load = start(program("load.py", 0.2, 40, 25, 3_000_000, tmp_path / "data"))
    wait_for(lambda: "loaded" in (tmp_path / "out").read_text(), 30)
    orphan = psutil.Process(int((tmp_path / "data.orphan").read_text()))
    sampler: Sampler = kind(None) if kind is LinuxSampler else kind()
    run_id: str = start.cookie  # type: ignore[attr-defined]
    sampler.watch(watched(load, run_id))
    usage = sampler.sample(time.monotonic())[run_id]
    tracker = [load, *load.children(recursive=True), orphan]
    assert sorted(sampler.members(run_id)) == sorted(one.pid for one in tracker)
    assert usage.processes == len(tracker) == 3
    assert usage.threads == sum(one.num_threads() for one in tracker)
    assert usage.handles == sum(one.num_fds() for one in tracker)
    assert usage.memory == pytest.approx(sum(one.memory_info().rss for one in tracker), rel=0.02)
    assert usage.memory > 40_000_000
    used = usage.totals.user + usage.totals.system
    assert 0.58 <= used < 1.5, "three times 0.2 s: itself, a child that ended, an orphan"
    if hasattr(load, "io_counters"):
        assert usage.totals.written_chars >= 3_000_000
        assert usage.totals.written_bytes == sum(one.io_counters().write_bytes for one in tracker)
    orphan.kill()
    wait_for(lambda: not psutil.pid_exists(orphan.pid) or orphan.status() == "zombie")
    sampler.sample(time.monotonic())
    again = sampler.unwatch(run_id)
    assert again is not None
    assert again.totals.user + again.totals.system >= used, "what an orphan used is kept"
    sampler.close()


@linux
@pytest.mark.skipif(not has_cgroups(), reason="no writable cgroup v2 tracker")
def test_a_cgroup_counts_what_was_used_before_it_was_entered(start: Start, tmp_path: Path) -> None:
    """The kernel's count of a cgroup begins late; the total does not."""
    from holdfast.keeper.processes.cgroups import Cgroups

    cgroups = Cgroups(f"metrics{os.getpid()}")
    assert cgroups.root is not None
    run_id: str = start.cookie  # type: ignore[attr-defined]
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint(1, flush=True)\ninput()"
    process = start([PYTHON, "-I", "-S", "-c", code.replace("input()", "time.sleep(1000)")])
    wait_for(lambda: (tmp_path / "out").read_text())
    path = cgroups.create(run_id)
    assert path is not None
    try:
        assert cgroups.place(path, process.pid)
        sampler = LinuxSampler(cgroups.root)
        sampler.watch(watched(process, run_id))
        usage = sampler.sample(time.monotonic())[run_id]
        assert usage.totals.user + usage.totals.system >= 0.28
        assert sampler.sample(time.monotonic()) in ({}, {run_id: usage._replace(cpu_percent=0.0)})
        assert sampler.sample(time.monotonic()) == {}, "what has not run is no news"
        sampler.close()
    finally:
        process.kill()
        process.wait(30)
        wait_for(lambda: not cgroups.is_populated(path))
        cgroups.remove(path)
        cgroups.close()


def test_the_first_percent_counts_from_the_start() -> None:
    """However long the sampler was busy before it heard of the run."""
    tracker = UsageTracker(SampledRun("run-x", 7, "1", began=10.0), now=10.5)
    usage = tracker.add(10.5, [ProcessSample(7, "1", 1, 0.04, 0.01, 4096, 1)], None)
    assert usage.cpu_percent == 10.0


@linux
def test_a_recycled_pid_is_not_taken_for_the_run(start: Start) -> None:
    """Pid and start time together are the run; another process of that pid is not looked at."""
    process = start(["sleep", "1000"])
    sampler = LinuxSampler(None)
    sampler.watch(SampledRun("run-x", process.pid, "1", time.monotonic() - 1.0))
    assert sampler.sample(time.monotonic()) == {}
    sampler.close()


@linux
def test_idle_trees_are_looked_at_less_often_unless_limited(start: Start) -> None:
    """Without cgroups what rests costs an eighth; what has a limit is looked at every time."""
    process = start(["sleep", "1000"])
    for is_limited in (False, True):
        sampler = LinuxSampler(None)
        run = replace(watched(process, "run-i"), is_limited=is_limited)
        sampler.watch(run)
        for _ in range(60):
            sampler.sample(time.monotonic())
        tracker = sampler._trackers["run-i"]
        looked = []
        for _ in range(16):
            before = tracker.sampled_at
            sampler.sample(time.monotonic())
            looked.append(tracker.sampled_at != before)
        assert sum(looked) == (16 if is_limited else 2)
        sampler.close()


def test_the_dear_numbers_are_of_the_whole_tree(start: Start, tmp_path: Path) -> None:
    """Proportional memory and listening ports, on demand."""
    code = (
        "import socket,time,os\n"
        "s=socket.create_server(('127.0.0.1',0))\n"
        "print(s.getsockname()[1],flush=True)\ntime.sleep(1000)"
    )
    process = start([PYTHON, "-I", "-S", "-c", code])
    port = int(wait_for(lambda: (tmp_path / "out").read_text().strip()))
    extras = extras_of([process.pid])
    assert extras.ports == [port]
    assert extras.handles == process.num_fds()
    assert extras.pss is not None
    assert 0 < extras.pss <= process.memory_info().rss


def test_the_host_is_told_as_psutil_tells_it() -> None:
    """Memory in use and processors' time are those of the machine."""
    ours, memory = host_usage(), psutil.virtual_memory()
    assert ours.memory_total == memory.total
    assert ours.memory_used == pytest.approx(memory.total - memory.available, rel=0.1)
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    percent = host_usage().percent_since(ours)
    assert percent is not None
    assert 0 < percent <= 100
