"""Runs that live, but of which no table tells: found by what their environment says.

A keeper that dies between a spawn and its answer leaves such a run. Looks through all
processes, which is slow: only for a keeper that has just begun. Ends none of them.
"""

from __future__ import annotations

import os
import stat
import sys
import time

from holdfast.keeper import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from holdfast.keeper.children import Children
    from holdfast.keeper.host import Process
    from holdfast.keeper.journal import Journal
    from holdfast.keeper.runs import Facts

    Marks = dict[str, str]

RUN_ID, SERVICE, STATE = "HOLDFAST_RUN_ID", "HOLDFAST_SERVICE", "HOLDFAST_STATE"
_EXEC_PATIENCE_SECONDS = 0.02


class Stray:
    """The main process of a run, or the place where it was: then it has no start time."""

    __slots__ = ("marks", "pid", "start_time")

    def __init__(self, pid: int, start_time: str, marks: Marks) -> None:
        self.pid = pid
        self.start_time = start_time
        self.marks = marks

    @property
    def run_id(self) -> str:
        return self.marks[RUN_ID]

    def facts(self) -> Facts:
        """Itself as the protocol describes it."""
        return {
            "run_id": self.run_id,
            "service": self.marks[SERVICE],
            "pid": self.pid,
            "start_time": self.start_time,
            "started_at": time.time() - host.age_of(self.start_time),
        }


class Strays:
    """Marks the runs of one state folder, and finds those that are in no table."""

    def __init__(self, children: Children, journal: Journal, project: str) -> None:
        self._children = children
        self._journal = journal
        self._project = project

    def marks(self, run_id: str, service: str, kind: str, told: str | None = None) -> Marks:
        """What the environment of a new run is to say."""
        if kind == "task":
            # Never to be taken for the service itself, for which it may say that it works.
            return {RUN_ID: run_id, SERVICE: told or service, STATE: ""}
        return {RUN_ID: run_id, SERVICE: service, STATE: self._project}

    def take_pending(self, pending: list[Facts]) -> None:
        """Go on with those of these runs that an earlier keeper began before it could say so.

        A process that is about to execute its program holds the other end of our link; so
        whatever there will ever be is there by now.
        """
        wanted = {facts["run_id"]: facts for facts in pending if self._is_new(facts["run_id"])}
        if not wanted:
            return
        for stray in find(lambda marks: marks[RUN_ID] in wanted, self._barred()):
            facts = {**wanted[stray.run_id], **stray.facts(), "age": host.age_of(stray.start_time)}
            try:
                self._children.restore({**facts, "parts": reopen(stray.pid)}, None)
            except Exception:  # noqa: BLE001 - every other run must go on
                sys.excepthook(*sys.exc_info())

    def unknown(self) -> list[Stray]:
        """Services of this state folder that live although neither table nor journal has them."""

        def is_unknown(marks: Marks) -> bool:
            is_ours = marks.get(STATE) == self._project and SERVICE in marks
            return is_ours and self._is_new(marks[RUN_ID])

        return [it for it in find(is_unknown, self._barred()) if it.start_time]

    def _is_new(self, run_id: str) -> bool:
        return run_id not in self._children.runs and run_id not in self._journal

    def _barred(self) -> set[int]:
        return {os.getpid(), *self._children.known_children()}


def find(is_wanted: Callable[[Marks], bool], barred: Collection[int]) -> list[Stray]:
    """One stray for each run that is wanted and of which a process lives."""
    runs: dict[str, list[tuple[Process, Marks]]] = {}
    for process in host.all_processes():
        # Session 0: a kernel thread.
        if not process.session or not process.is_alive or process.pid in barred:
            continue
        marks = host.marks_of(process.pid, _EXEC_PATIENCE_SECONDS)
        if RUN_ID in marks and is_wanted(marks):
            runs.setdefault(marks[RUN_ID], []).append((process, marks))
    return [_main_of(members) for members in runs.values()]


def _main_of(members: list[tuple[Process, Marks]]) -> Stray:
    """A run's main process leads the session it was born in; daemons of its own are younger."""
    leaders = [(it, marks) for it, marks in members if it.session == it.pid]
    if leaders:
        process, marks = min(leaders, key=lambda it: (_order(it[0].start_time), it[0].pid))
        return Stray(process.pid, process.start_time, marks)
    process, marks = members[0]
    return Stray(process.session, "", marks)


def _order(start_time: str) -> float:
    return float(start_time)


def reopen(pid: int) -> dict[str, int]:
    """Our own ends of the pipes a process writes to, where the kernel lets us have them."""
    parts: dict[str, int] = {}
    seen: set[tuple[int, int]] = set()
    for part, number, flags in (("out", 1, os.O_RDONLY), ("err", 2, os.O_RDONLY)):
        path = f"/proc/{pid}/fd/{number}"
        try:
            facts = os.stat(path)
            if not stat.S_ISFIFO(facts.st_mode) or (facts.st_dev, facts.st_ino) in seen:
                continue
            seen.add((facts.st_dev, facts.st_ino))
            parts[part] = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
    return parts
