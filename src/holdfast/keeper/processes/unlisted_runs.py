"""Runs that live and are in no table: the protocol calls them strays.

A keeper that dies between a spawn and its reply leaves such a run. It is found by its environment,
by `runs.jsonl`, and by its mark (`run_marks`), which stays when the environment is emptied. This
reads all processes of the machine, which is slow, so only a keeper that has just started does it.
Ends nothing, except for leftovers of a run whose main process is gone, when it is asked to.
"""

from __future__ import annotations

import os
import stat
import sys
import time

from holdfast.keeper.processes.tree import mark_of
from holdfast.system import kernel_files, processes, run_marks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from holdfast.keeper.processes.cgroups import Cgroups
    from holdfast.keeper.protocol.messages import (
        Doubt,
        EndRestRequest,
        PredecessorRun,
        ProcessName,
        SpawnRequest,
    )
    from holdfast.keeper.runs.children import Children
    from holdfast.keeper.runs.journal import Journal
    from holdfast.keeper.runs.run import Origin
    from holdfast.system.processes import Process

    Marks = dict[str, str]

RUN_ID, SERVICE, STATE = "HOLDFAST_RUN_ID", "HOLDFAST_SERVICE", "HOLDFAST_STATE"
_EXEC_SECONDS = 0.02


class UnlistedRun:
    """An unlisted run, by its main process. Without a start time the main process is gone."""

    __slots__ = ("marks", "number", "pid", "start_time")

    def __init__(self, pid: int, start_time: str, marks: Marks, number: int = 0) -> None:
        self.pid = pid
        self.start_time = start_time
        self.marks = marks
        self.number = number
        """The number of the run; 0 if only its environment tells of it."""

    @property
    def run_id(self) -> str:
        return self.marks[RUN_ID]

    def facts(self) -> PredecessorRun:
        """The run as the protocol describes it."""
        return {
            "run_id": self.run_id,
            "service": self.marks[SERVICE],
            "number": self.number,
            "pid": self.pid,
            "start_time": self.start_time,
            "started_at": time.time() - processes.age_of(self.start_time),
        }


class UnlistedRuns:
    """Marks the runs of one state folder, and finds those that are not in the table."""

    def __init__(self, children: Children, journal: Journal, cgroups: Cgroups) -> None:
        self._children = children
        self._journal = journal
        self._cgroups = cgroups
        self._project = cgroups.project
        self._living: Collection[str] | None = None
        self._unlisted_marks: frozenset[int] = frozenset()
        self._found: Collection[UnlistedRun] = ()
        self.doubts: list[Doubt] = []
        """Starts that an earlier keeper had begun, with the processes that may be theirs."""

    def marks(self, run_id: str, service: str, kind: str, told: str | None = None) -> Marks:
        """The variables that mark the environment of a new run."""
        if kind == "task":
            # A task must not be taken for the service, in whose name it may say that it is ready.
            return {RUN_ID: run_id, SERVICE: told or service, STATE: ""}
        return {RUN_ID: run_id, SERVICE: service, STATE: self._project}

    def take_pending(self, pending: list[SpawnRequest]) -> None:
        """Go on with those of these runs that a dead keeper began and could not announce.

        A process between fork and exec holds the other end of the link, and that is closed by now.
        So every process that there will be is there.
        """
        wanted = {facts["run_id"]: facts for facts in pending if self._is_new(facts["run_id"])}
        if not wanted:
            return
        strays = find(lambda marks: marks[RUN_ID] in wanted, self._barred())
        found = {stray.run_id: stray for stray in strays}
        found.update((run.run_id, run) for run in self._recorded() if run.run_id in wanted)
        for stray in found.values():
            asked = wanted[stray.run_id]
            facts = {**asked, **stray.facts(), "number": asked.get("number") or stray.number}
            facts["age"] = processes.age_of(stray.start_time)
            try:
                self._children.restore({**facts, "parts": reopen(stray.pid)}, None)
            except Exception:  # noqa: BLE001 - every other run must go on
                sys.excepthook(*sys.exc_info())

    def unknown(self) -> Collection[UnlistedRun]:
        """The live runs of this state folder that are not in the table. A run whose exit is in the
        journal is told without a start time."""
        known = self._children.runs

        def is_unknown(marks: Marks) -> bool:
            is_ours = marks.get(STATE) == self._project and SERVICE in marks
            return is_ours and marks[RUN_ID] not in known

        everybody = _candidates(self._barred())
        members = _members(is_unknown, everybody).values()
        found = {run.run_id: run for run in map(_main_of, members)}
        self._living = set(found)
        for run_id, stray in found.items():
            if run_id in self._journal:
                stray.start_time = ""
        found.update((run.run_id, run) for run in self._recorded())
        self.doubts = [doubt for doubt in self.doubts if doubt["run_id"] not in found]
        listed = {run_marks.mark_of(run_id) for run_id in (*known, *found)}
        marks = {mark for process in everybody if (mark := mark_of(process)) is not None}
        self._unlisted_marks = frozenset(marks - listed)
        self._found = list(found.values())
        return self._found

    def unlisted_marks(self) -> Collection[int]:
        """The marks of further runs with a living process, as of the last look. They may belong to
        another Holdfast."""
        return self._unlisted_marks

    def _recorded(self) -> list[UnlistedRun]:
        """Runs that are found without their environment: by pid and start time, or by the mark of
        an unfinished start. Starts that may have left a process go into `doubts`."""
        records = self._children.records
        found = [_of_record(facts, facts["pid"]) for facts in records.survivors()]
        self.doubts = []
        barred = self._barred()
        for begun, candidates in records.unfinished():
            may_be = [process for process in candidates if process.pid not in barred]
            mark = run_marks.mark_of(begun["run_id"])
            marked = [process for process in may_be if mark_of(process) == mark]
            if marked:
                main = min(marked, key=_age_order)
                found.append(_of_record({**begun, "start_time": main.start_time}, main.pid))
            elif run_marks.can_mark() or not may_be:
                records.forget(begun["run_id"])
            else:
                # A complete environment would name the run, so it is not this one.
                told: list[ProcessName] = [
                    {"pid": process.pid, "name": process.name}
                    for process in may_be
                    if not processes.is_environment_whole(process.pid)
                    and not run_marks.is_above_own(process.pid)
                ]
                if told:
                    self.doubts.append(
                        {
                            "run_id": begun["run_id"],
                            "service": begun["service"],
                            "number": begun["number"],
                            "processes": told,
                        }
                    )
        return found

    def are_left(self) -> bool:
        """Whether a run that was found is still alive, and nobody has adopted it."""
        found = [run for run in self._found if run.start_time]
        mains = [(processes.process(run.pid), run.start_time) for run in found]
        return any(
            main is not None and main.is_alive and main.start_time == start_time
            for main, start_time in mains
        )

    def end_rest(self, asked: EndRestRequest, then: Callable[[], None]) -> list[int]:
        """End the leftovers of a run whose main process is gone, and call `then` when none is left.
        Returns their pids; if there are none, `then` is not called. Output that waits in their
        pipes is recorded if the number of the run is known."""
        rest = self._rest_of(asked["run_id"])
        if not rest:
            return rest
        kind, parts = ("service", reopen(*rest)) if asked.get("number") else ("task", {})
        facts: Origin = {
            "pid": 0,
            "start_time": "",
            **asked,
            "kind": kind,
            "parts": parts,
            "exited": True,
            "adopted": True,
            "cgroup": self._cgroups.create(asked["run_id"]),
        }
        run = self._children.restore(facts, None)
        if run.exit is not None and kind == "service" and run.run_id not in self._journal:
            # Nobody is told, but the next supervisor finds the run in the table, and this exit.
            run.exit["empty"], run.exit["leftovers"] = False, rest
            self._journal.add([run.exit])
        self._children.exits.when_over(run, then)
        return rest

    def _rest_of(self, run_id: str) -> list[int]:
        """The leftovers of a run. The last look at all processes tells whether there are any: a new
        look for each of many runs would take long."""
        if self._living is None:
            self.unknown()
        mark = run_marks.mark_of(run_id)
        if run_id not in (self._living or ()) and mark not in self._unlisted_marks:
            return []
        everybody = _candidates(self._barred())
        members = _members(lambda marks: marks[RUN_ID] == run_id, everybody).get(run_id, ())
        named = {process.pid for process, _ in members}
        return [
            process.pid for process in everybody if process.pid in named or mark_of(process) == mark
        ]

    def _is_new(self, run_id: str) -> bool:
        return run_id not in self._children.runs and run_id not in self._journal

    def _barred(self) -> set[int]:
        return {os.getpid(), *self._children.known_children()}


def _of_record(facts: Origin, pid: int) -> UnlistedRun:
    marks = {RUN_ID: facts["run_id"], SERVICE: facts["service"]}
    return UnlistedRun(pid, facts["start_time"], marks, int(facts["number"] or 0))


def find(is_wanted: Callable[[Marks], bool], barred: Collection[int]) -> list[UnlistedRun]:
    """Each wanted run of which a process lives."""
    return [_main_of(members) for members in _members(is_wanted, _candidates(barred)).values()]


def _candidates(barred: Collection[int]) -> list[Process]:
    # Session 0 is a kernel thread.
    return [
        process
        for process in processes.all_processes()
        if process.session and process.is_alive and process.pid not in barred
    ]


def _members(
    is_wanted: Callable[[Marks], bool], candidates: list[Process]
) -> dict[str, list[tuple[Process, Marks]]]:
    runs: dict[str, list[tuple[Process, Marks]]] = {}
    for process in candidates:
        marks = processes.marks_of(process.pid, _EXEC_SECONDS)
        if RUN_ID in marks and is_wanted(marks):
            runs.setdefault(marks[RUN_ID], []).append((process, marks))
    return runs


def _main_of(members: list[tuple[Process, Marks]]) -> UnlistedRun:
    """The main process of a run leads a session. Daemons that lead one, too, are younger."""
    leaders = [member for member in members if member[0].session == member[0].pid]
    if leaders:
        process, marks = min(leaders, key=lambda leader: _age_order(leader[0]))
        return UnlistedRun(process.pid, process.start_time, marks)
    process, marks = members[0]
    return UnlistedRun(process.session, "", marks)


def _age_order(process: Process) -> tuple[float, int]:
    """The oldest first."""
    return float(process.start_time), process.pid


def _can_be_read(pid: int, number: int) -> bool:
    """Whether a descriptor is open for reading and writing, as the ends of our pipes are."""
    for line in (kernel_files.read(f"/proc/{pid}/fdinfo/{number}") or b"").splitlines():
        if line.startswith(b"flags:"):
            return int(line.split()[1], 8) & os.O_ACCMODE == os.O_RDWR
    return False


def reopen(*pids: int) -> dict[str, int]:
    """Open our own ends of the pipes that processes of one run write to, where the kernel allows
    it."""
    parts: dict[str, int] = {}
    seen: set[tuple[int, int]] = set()
    places = [(pid, part, number) for pid in pids for part, number in (("out", 1), ("err", 2))]
    for pid, part, number in places:
        path = f"/proc/{pid}/fd/{number}"
        if part in parts:
            continue
        try:
            facts = os.stat(path)
            if not stat.S_ISFIFO(facts.st_mode) or (facts.st_dev, facts.st_ino) in seen:
                continue
            if not _can_be_read(pid, number):
                continue  # a pipe to another reader, who would miss what we take
            seen.add((facts.st_dev, facts.st_ino))
            parts[part] = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
    return parts
