"""The runs of this state folder on disk, each from before its process exists until it is over.

Owns STATE/runs.jsonl. A later keeper recognises a process by its line here (pid, start time, boot),
because a process may overwrite its own environment, and because the supervisor's database may not
know the run yet. There are three kinds of lines: `begin` before the process is created, `run` when
its pid is known, `over` when no process of it is left. A full disk never prevents a start: the file
is written again as a whole as soon as that is possible.

If a keeper dies between `begin` and `run`, nobody knows whether there is a process. It would lead a
session and be born right after `begin`. Where the kernel keeps the mark of a run (`run_marks`), the
process is found by its mark. Elsewhere the service is in doubt.
"""

from __future__ import annotations

import os
import time

from holdfast.keeper.processes.tree import mark_of
from holdfast.system import lean_json, processes, run_marks
from holdfast.system.private_files import open_plain, replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from holdfast.keeper.protocol.messages import PredecessorRun
    from holdfast.keeper.runs.launch import Launch
    from holdfast.keeper.runs.run import HeldRun, Origin
    from holdfast.system.processes import Process

    Facts = dict[str, Any]
    Kinds = dict[str, type | tuple[type, ...]]

_COMPACT_ABOVE = 1 << 18
_SPAWN_SECONDS = 2.0
"""A process is created within this time after its `begin`, even on a very busy machine."""

_COMMON: Kinds = {"run_id": str, "service": str, "number": int, "boot_id": str}
_BEGIN: Kinds = {**_COMMON, "namespace": int, "at": (int, float), "user": int}
_RUN: Kinds = {**_COMMON, "pid": int, "start_time": str, "started_at": (int, float)}


class RunRecords:
    """Writes the runs of this keeper, and reads those that an earlier keeper left."""

    def __init__(
        self,
        path: str,
        runs: Mapping[str, HeldRun],
        *,
        is_inherited: bool = False,
        on_refused: Callable[[], None] | None = None,
    ) -> None:
        """`is_inherited`: the program image before this one hands all its runs over. Then only
        unfinished starts are read from the file."""
        self._path = path
        self._runs = runs
        self._on_refused = on_refused
        self._boot_id = processes.boot_id()
        self._namespace = _pid_namespace()
        self._earlier: dict[str, PredecessorRun] = {}
        self._unfinished: dict[str, Facts] = {}
        self._size = 0
        self._compacted_size = 0
        self._is_stale = False
        self._fd = -1
        self._try(lambda: self._open(is_read=True))
        if is_inherited:
            self._earlier = {}

    # Writing.

    def begin(self, asked: Origin, launch: Launch) -> None:
        """A process is about to be created."""
        self._append(
            {
                "begin": {
                    "run_id": asked["run_id"],
                    "service": asked["service"],
                    "number": asked.get("number") or 0,
                    "boot_id": self._boot_id,
                    "namespace": self._namespace,
                    "at": _now(),
                    "user": launch.user.uid if launch.user is not None else os.geteuid(),
                }
            }
        )

    def began(self, run: HeldRun) -> None:
        """The process has a pid. This also settles unfinished starts of the same service."""
        settled = [run_id for run_id, begun in self._unfinished.items() if _is_of(begun, run)]
        for run_id in settled:
            del self._unfinished[run_id]
            if run_id != run.run_id:
                self._append({"over": run_id})
        self._earlier.pop(run.run_id, None)
        self._append({"run": self._record(run)})

    def over(self, run_id: str) -> None:
        """No process of it is left, or its process could not be created."""
        if self._is_idle() and self._empty():
            return
        self._append({"over": run_id})

    def retry(self) -> None:
        """Write the file as a whole if a line could not be written. Raises OSError if it still
        cannot."""
        if self._is_stale:
            self._compact()

    def renew(self) -> None:
        """Write the file again if it was deleted. Raises OSError if that cannot be done now."""
        if self._fd >= 0 and os.fstat(self._fd).st_nlink == 0:
            self._compact()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # Runs that an earlier keeper left.

    def survivors(self) -> list[PredecessorRun]:
        """Recorded runs that are not in the table, and whose process is alive."""
        return [facts for facts in self._left() if _is_alive(facts)]

    def unfinished(self) -> list[tuple[Facts, list[Process]]]:
        """Starts that may have created a process, and the processes that may be theirs."""
        left = [begun for begun in self._unfinished.values() if begun["run_id"] not in self._runs]
        if not left:
            return []
        everybody = processes.all_processes()
        leaders = [one for one in everybody if one.is_alive and one.session == one.pid]
        return [(begun, [one for one in leaders if _may_be(begun, one)]) for begun in left]

    def forget_known(self) -> None:
        """The runs of a predecessor are in the table now."""
        self._earlier = {record["run_id"]: record for record in self._left()}

    def ended(self) -> list[PredecessorRun]:
        """Recorded runs that are not in the table, and whose process has ended."""
        return [facts for facts in self._left() if not _is_alive(facts)]

    def forget(self, run_id: str) -> None:
        """The supervisor knows how this start or run of an earlier keeper ended."""
        found = self._unfinished.pop(run_id, None), self._earlier.pop(run_id, None)
        if found != (None, None):
            self.over(run_id)

    def _left(self) -> list[PredecessorRun]:
        return [
            facts
            for run_id, facts in self._earlier.items()
            if run_id not in self._runs and facts.get("boot_id") == self._boot_id
        ]

    # The file.

    def _record(self, run: HeldRun) -> PredecessorRun:
        return {
            "run_id": run.run_id,
            "service": run.service,
            "number": run.number,
            "pid": run.pid,
            "start_time": run.start_time,
            "boot_id": self._boot_id,
            "started_at": run.started_at,
        }

    def _is_idle(self) -> bool:
        is_busy = any(run.kind != "task" for run in self._runs.values())
        return not is_busy and not self._unfinished and not self._left()

    def _open(self, *, is_read: bool) -> None:
        fd = open_plain(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        try:
            self._size = os.fstat(fd).st_size
            if is_read:
                data = os.pread(fd, self._size, 0)
                self._load(data)
                if data and not data.endswith(b"\n"):
                    os.write(fd, b"\n")
        except OSError:
            os.close(fd)
            raise
        self._fd = fd

    def _load(self, data: bytes) -> None:
        for entry in lean_json.objects_in(data):
            if begun := _sound(entry.get("begin"), _BEGIN):
                self._unfinished[begun["run_id"]] = begun
            if run := _sound(entry.get("run"), _RUN):
                self._unfinished.pop(run["run_id"], None)
                self._earlier[run["run_id"]] = run
            if isinstance(over := entry.get("over"), str):
                self._unfinished.pop(over, None)
                self._earlier.pop(over, None)
        self._earlier = {record["run_id"]: record for record in self._left()}
        # No process is left of another boot, or of a container that is gone.
        here = (self._boot_id, self._namespace)
        self._unfinished = {
            run_id: begun
            for run_id, begun in self._unfinished.items()
            if (begun["boot_id"], begun["namespace"]) == here
        }

    def _append(self, entry: Facts) -> None:
        if self._is_stale:
            return  # the file will be written as a whole
        if self._size > _COMPACT_ABOVE + 2 * self._compacted_size:
            self._try(self._compact)
        data = lean_json.encoded(entry) + b"\n"
        try:
            written = os.write(self._fd, data)
        except OSError:
            written = 0
        self._size += written
        if written < len(data):
            self._refused()

    def _try(self, do: Callable[[], None]) -> None:
        try:
            do()
        except OSError:
            self._refused()

    def _refused(self) -> None:
        self._is_stale = True
        if self._on_refused is not None:
            self._on_refused()

    def _empty(self) -> bool:
        """Empty the file, because no run is left. False if that is refused."""
        try:
            os.ftruncate(self._fd, 0)
        except OSError:
            return False
        self._earlier, self._size, self._is_stale = {}, 0, False
        return True

    def _compact(self) -> None:
        """Replace the file by one without runs that are over."""
        entries: list[Facts] = [{"begin": facts} for facts in self._unfinished.values()]
        entries += [{"run": facts} for facts in self._left()]
        entries += [{"run": self._record(run)} for run in self._runs.values() if run.kind != "task"]
        data = b"".join(lean_json.encoded(entry) + b"\n" for entry in entries)
        replace_file(self._path, data, is_synced=False)
        self.close()
        self._open(is_read=False)
        self._compacted_size, self._is_stale = self._size, False


def _sound(facts: Any, kinds: Kinds) -> Any:
    """The facts of a line, or None if one is missing or of another type."""
    if not isinstance(facts, dict):
        return None
    is_sound = all(isinstance(facts.get(key), kind) for key, kind in kinds.items())
    return facts if is_sound else None


def _is_of(begun: Facts, run: HeldRun) -> bool:
    return bool(run.run_id == begun["run_id"] or run.service == begun["service"])


def _is_alive(facts: PredecessorRun) -> bool:
    found = processes.process(facts["pid"])
    return found is not None and found.is_alive and found.start_time == str(facts["start_time"])


def _may_be(begun: Facts, process: Process) -> bool:
    """Whether this leader of a session may be the process of that start: it was born right after
    `begin`, and has the mark of the run, or belongs to its user or to ours."""
    seconds = (float(process.start_time) - begun["at"]) / _TICKS
    # A start time is rounded down.
    if not -1.5 / _TICKS <= seconds <= _SPAWN_SECONDS:
        return False
    if mark_of(process) == run_marks.mark_of(begun["run_id"]):
        return True
    return processes.user_of(process.pid) in (begun["user"], os.geteuid())


_TICKS = os.sysconf("SC_CLK_TCK") if processes.ticks_now() is not None else 1
"""How many units of start times a second has."""


def _pid_namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0  # there are none here


def _now() -> float:
    """The current time, in the unit of start times."""
    ticks = processes.ticks_now()
    return time.time() if ticks is None else ticks
