"""The keeper's list of its runs on disk, by which a later keeper recognises what lives on."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.keeper.runs.launch import Launch
from holdfast.keeper.runs.run_records import RunRecords
from holdfast.system import processes
from tests.harness import program
from tests.keeper.conftest import KeeperProcess, Message, is_alive, kill, wait_for

MakeKeeper = Callable[..., KeeperProcess]
RUN = f"run-{os.urandom(6).hex()}"
"""Of this process alone: tests run side by side, and a mark is found on the whole machine."""


@pytest.fixture
def pids() -> Iterator[list[int]]:
    """Processes to be ended after the test."""
    found: list[int] = []
    yield found
    for pid in found:
        kill(pid)


@pytest.fixture
def left(make_keeper: MakeKeeper, pids: list[int]) -> Callable[..., tuple[int, Path]]:
    """Runs a service that overwrites its environment, and kills the keeper."""

    def leave(*, unmarked: bool = False) -> tuple[int, Path]:
        keeper = make_keeper(unmarked=unmarked)
        run = keeper.spawn(*program("titled.py"), run_id=RUN, service="web", number=7)
        pids.append(run["pid"])
        environ = Path(f"/proc/{run['pid']}/environ")
        wait_for(lambda: environ.read_bytes()[:1] == b"x", what="its title")
        keeper.process.kill()
        keeper.process.wait()
        return run["pid"], keeper.state / "runs.jsonl"

    return leave


def strays(keeper: KeeperProcess) -> tuple[list[Message], list[Message]]:
    answer = keeper.link.do("strays")
    return answer["strays"], answer["doubts"]


def lines(path: Path) -> list[Message]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_is_known_without_its_environment(left: Any, make_keeper: MakeKeeper) -> None:
    """Pid and start time are on disk before anybody is told of the run."""
    pid, _ = left()
    keeper = make_keeper()
    [found], doubts = strays(keeper)
    assert (found["run_id"], found["service"], found["number"]) == (RUN, "web", 7)
    assert (found["pid"], found["start_time"]) == (pid, processes.start_time(pid))
    assert doubts == []
    facts = {key: found[key] for key in ("run_id", "service", "number", "pid", "start_time")}
    boot = keeper.hello["boot_id"]
    keeper.link.do("adopt", **facts, boot_id=boot, cookie=True, reopen=True)
    assert strays(keeper) == ([], [])
    keeper.link.do("end", run_id=RUN)
    keeper.link.notice("ended")
    wait_for(lambda: not (keeper.state / "runs.jsonl").read_bytes(), what="an empty list")


def cut_short(path: Path) -> None:
    """Leave the list as a keeper does that dies before it learns the pid."""
    begun = [line for line in lines(path) if "begin" in line]
    path.write_text("".join(json.dumps(line) + "\n" for line in begun))


def test_a_start_that_was_cut_short(left: Any, make_keeper: MakeKeeper) -> None:
    """A keeper that died before it learnt the pid leaves a process that is found by its mark."""
    pid, path = left()
    cut_short(path)
    found, doubts = strays(make_keeper())
    assert [(it["run_id"], it["pid"], it["number"]) for it in found] == [(RUN, pid, 7)]
    assert doubts == []


@pytest.mark.usefixtures("only_unmarked")
def test_a_start_that_was_cut_short_and_left_no_mark(left: Any, make_keeper: MakeKeeper) -> None:
    """Where processes cannot be marked, one that may be the run is named until it ends."""
    pid, path = left(unmarked=True)
    cut_short(path)
    keeper = make_keeper(unmarked=True)
    found, [doubt] = strays(keeper)
    assert (found, doubt["service"]) == ([], "web")
    assert pid in [it["pid"] for it in doubt["processes"]]
    kill(pid)
    wait_for(lambda: not is_alive(pid))
    assert pid not in [it["pid"] for doubt in strays(keeper)[1] for it in doubt["processes"]]


@pytest.mark.parametrize("field", ["boot_id", "start_time"])
def test_another_boot_or_start_time_is_another_process(
    left: Any, make_keeper: MakeKeeper, field: str
) -> None:
    """What only has the pid of a recorded run is not taken for it."""
    _, path = left()
    [run] = [line["run"] for line in lines(path) if "run" in line]
    path.write_text(json.dumps({"run": {**run, field: "1"}}) + "\n")
    assert strays(make_keeper()) == ([], [])


def test_a_refused_spawn_leaves_nothing_in_doubt(make_keeper: MakeKeeper) -> None:
    """A program that does not exist is no process that somebody might look for."""
    keeper = make_keeper()
    refused = keeper.link.ask("spawn", **keeper.request("/no/such/program"))
    assert refused["error"]["code"] == "spawn_failed"
    assert (keeper.state / "runs.jsonl").read_bytes() == b""


def run_of(number: int) -> Any:
    return SimpleNamespace(
        run_id=f"run-{number}", service="web", number=number, kind="service", pid=os.getpid(),
        start_time=processes.start_time(os.getpid()), started_at=1.0,
    )  # fmt: skip


def test_a_disk_that_refuses_costs_no_start(tmp_path: Path) -> None:
    """What could not be written is written as a whole once that is possible."""
    runs: dict[str, Any] = {}
    path, refused = tmp_path / "folder" / "runs.jsonl", []
    records = RunRecords(str(path), runs, on_refused=lambda: refused.append(True))
    launch = Launch(["true"], {}, "/")
    records.begin({"run_id": "run-1", "service": "web"}, launch)
    runs["run-1"] = run_of(1)
    records.began(runs["run-1"])
    assert refused
    with pytest.raises(OSError, match="No such file"):
        records.retry()
    path.parent.mkdir()
    records.retry()
    assert [line["run"]["run_id"] for line in lines(path)] == ["run-1"]
    path.unlink()
    records.renew()
    assert [line["run"]["run_id"] for line in lines(path)] == ["run-1"]
    records.close()


def test_the_list_stays_small(tmp_path: Path) -> None:
    """However often services are restarted, the list is about those that run; a torn line costs
    no other."""
    runs: dict[str, Any] = {"other": run_of(0)}
    path = tmp_path / "runs.jsonl"
    records = RunRecords(str(path), cast("Any", runs))
    launch = Launch(["true"], {}, "/")
    for number in range(1, 3000):
        run = run_of(number)
        records.begin({"run_id": run.run_id, "service": "web"}, launch)
        runs[run.run_id] = run
        records.began(run)
        if number < 2999:
            del runs[run.run_id]
            records.over(run.run_id)
    records.close()
    assert path.stat().st_size < 400_000
    with path.open("ab") as file:
        file.write(b'{"over": "run-29')
    again = RunRecords(str(path), {})
    # It has two runs of this very process, which lives.
    assert sorted(it["number"] for it in again.survivors()) == [0, 2999]
    again.close()


def test_the_oldest_process_with_the_mark_is_the_run(
    make_keeper: MakeKeeper, pids: list[int]
) -> None:
    """A daemon that the run has started leads a session of its own, and is younger."""
    keeper = make_keeper()
    daemon = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    both = f"setsid -f {sys.executable} -I -S -c '{daemon}'; exec sleep 600"
    run = keeper.spawn("sh", "-c", both, run_id=RUN, service="web")
    pids += [run["pid"], int(keeper.wait_output("web", b"\n"))]
    keeper.process.kill()
    keeper.process.wait()
    cut_short(keeper.state / "runs.jsonl")
    found, _ = strays(make_keeper())
    assert [it["pid"] for it in found] == [run["pid"]]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_run_that_became_another_users_is_found(make_keeper: MakeKeeper, pids: list[int]) -> None:
    """The mark of its run stays when a program gives its rights up."""
    keeper = make_keeper()
    code = "import os, time; os.setuid(65534); print('done', flush=True); time.sleep(600)"
    run = keeper.spawn(sys.executable, "-I", "-S", "-c", code, run_id=RUN, service="web")
    pids.append(run["pid"])
    keeper.wait_output("web", b"done")
    keeper.process.kill()
    keeper.process.wait()
    cut_short(keeper.state / "runs.jsonl")
    found, _ = strays(make_keeper())
    assert [it["pid"] for it in found if it["number"]] == [run["pid"]]


@pytest.mark.parametrize(
    "damage",
    [
        {"begin": {"run_id": []}},
        {"begin": {"at": "soon"}},
        {"begin": {"service": 5}},
        {"run": {"run_id": {}}},
        {"run": {"pid": "1"}},
        {"run": {"start_time": None}},
        {"run": {"number": "seven"}},
    ],
    ids=str,
)
def test_a_damaged_line_costs_no_other(tmp_path: Path, damage: dict[str, dict[str, Any]]) -> None:
    """Lines that no keeper wrote are passed over, whatever they say."""
    path = tmp_path / "runs.jsonl"
    records = RunRecords(str(path), {})
    records.begin({"run_id": "begun", "service": "web"}, Launch(["true"], {}, "/"))
    records.began(run_of(1))
    records.close()
    [kind] = damage
    [sound] = [line[kind] for line in lines(path) if kind in line]
    with path.open("a") as file:
        file.write(json.dumps({kind: {**sound, "run_id": "other", **damage[kind]}}) + "\n")
    again = RunRecords(str(path), {})
    again.unfinished()
    assert [it["run_id"] for it in again.survivors()] == ["run-1"]
    again.close()


def test_a_pipe_in_its_place_is_never_written_to(tmp_path: Path) -> None:
    """Nobody reads it: a keeper that wrote there would wait for ever."""
    path, refused = tmp_path / "runs.jsonl", []
    os.mkfifo(path)
    records = RunRecords(str(path), {}, is_inherited=True, on_refused=lambda: refused.append(True))
    assert refused
    records.retry()
    assert path.is_file()
    records.close()


def test_a_start_decides_about_the_one_before_it(tmp_path: Path) -> None:
    """What a person decided by a start is not asked again after the next death of a keeper."""
    path = tmp_path / "runs.jsonl"
    first = RunRecords(str(path), {})
    first.begin({"run_id": "lost", "service": "web"}, Launch(["true"], {}, "/"))
    first.close()
    second = RunRecords(str(path), {})
    assert [facts["run_id"] for facts, _ in second.unfinished()] == ["lost"]
    second.began(run_of(1))
    second.close()
    third = RunRecords(str(path), {})
    assert third.unfinished() == []
    third.close()


def test_an_end_that_nobody_knows_outlives_a_rewrite(tmp_path: Path) -> None:
    """A run whose end is not in the history yet stays in the list, also when it is written anew."""
    path = tmp_path / "runs.jsonl"
    first = RunRecords(str(path), {})
    gone = run_of(1)
    gone.start_time = "1"
    first.began(gone)
    first.close()
    second = RunRecords(str(path), {})
    path.unlink()
    second.renew()
    second.close()
    third = RunRecords(str(path), {})
    assert [it["run_id"] for it in third.ended()] == ["run-1"]
    third.close()


@pytest.mark.usefixtures("only_unmarked")
def test_a_doubt_outlives_an_upgrade(left: Any, make_keeper: MakeKeeper) -> None:
    """The next program image knows of starts that an earlier keeper had left open."""
    pid, path = left(unmarked=True)
    cut_short(path)
    keeper = make_keeper(unmarked=True)
    assert len(strays(keeper)[1]) == 1
    keeper.link.do("upgrade")
    _, [doubt] = strays(keeper)
    assert pid in [it["pid"] for it in doubt["processes"]]
