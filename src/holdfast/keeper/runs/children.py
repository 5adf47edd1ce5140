"""All runs of the keeper: how they begin, are taken over, and live.

Owns the table of runs; `exits` ends them. Decides nothing about restarts, and works the same while
no supervisor is there.
"""

from __future__ import annotations

import os
import signal
from functools import partial

from holdfast.keeper.processes.exit_watch import ExitWatch
from holdfast.keeper.processes.placement import Placement
from holdfast.keeper.processes.tree import Tree
from holdfast.keeper.processes.unlisted_runs import SERVICE, UnlistedRuns, reopen
from holdfast.keeper.runs import stdio
from holdfast.keeper.runs.descriptor_budget import DescriptorBudget
from holdfast.keeper.runs.exits import Exits
from holdfast.keeper.runs.feed import Feed
from holdfast.keeper.runs.launch import SpawnError
from holdfast.keeper.runs.leases import RunLease
from holdfast.keeper.runs.run import HeldRun
from holdfast.system import processes, run_marks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.keeper.descriptors import Descriptors
    from holdfast.keeper.loop import Loop
    from holdfast.keeper.processes.cgroups import Cgroups
    from holdfast.keeper.protocol.messages import (
        AdoptRequest,
        LeaseKind,
        Notice,
        PredecessorRun,
        RunEntry,
        SpawnRequest,
    )
    from holdfast.keeper.recording.logs import ServiceLogs
    from holdfast.keeper.runs.journal import Journal
    from holdfast.keeper.runs.run import Origin
    from holdfast.keeper.runs.run_records import RunRecords
    from holdfast.keeper.runs.spawn import Spawner

_STREAMS = {"out": "out", "err": "err", "terminal": "out"}


class Children:
    """The table of runs, by run id and by pid."""

    def __init__(
        self,
        loop: Loop,
        spawner: Spawner,
        logs: ServiceLogs,
        cgroups: Cgroups,
        journal: Journal,
        descriptors: Descriptors,
        announce: Callable[[Notice], None],
        new_records: Callable[[Mapping[str, HeldRun]], RunRecords],
    ) -> None:
        self.runs: dict[str, HeldRun] = {}
        self.records = new_records(self.runs)
        # Direct children that are no runs: the supervisor, a rehearsal of an upgrade.
        self.others: dict[int, Callable[[int], None]] = {}
        self.has_supervisor = False
        self.by_pid: dict[int, HeldRun] = {}
        self._new: list[HeldRun] = []
        self._loop = loop
        self._spawner = spawner
        self._logs = logs
        self._cgroups = cgroups
        self._journal = journal
        self._descriptors = descriptors
        self._announce = announce
        self._budget = DescriptorBudget(self.runs, descriptors)
        self._exit_watch = ExitWatch(loop)
        self.exits = Exits(self, loop, logs, journal, announce)
        self.placement = Placement(loop, cgroups, self)
        self.unlisted = UnlistedRuns(self, journal, cgroups)

    # Beginning.

    def spawn(self, request: SpawnRequest) -> tuple[HeldRun, dict[str, int]]:
        """Start a run. A task's pipes are returned: the caller hands them over and closes them."""
        run_id, kind = request["run_id"], request.get("kind") or "service"
        self._budget.check(request)
        env = dict(request.get("env") or {})
        env.update(self.unlisted.marks(run_id, request["service"], kind, env.get(SERVICE)))
        ours: dict[str, int] = {}
        theirs: list[int] = []
        cgroup: str | None = None
        try:
            if kind == "terminal":
                request.setdefault("cols", stdio.DEFAULT_COLS)
                request.setdefault("rows", stdio.DEFAULT_ROWS)
                env.setdefault("TERM", stdio.DEFAULT_TERM)
                launch = stdio.terminal_for(request, env, ours, theirs)
            else:
                launch = stdio.pipes_for(request, env, self._spawner.null, ours, theirs)
            for name in request.get("pass_fds") or ():
                launch.passed.append((name, self._held(name)))
            if ready := request.get("ready_fd"):
                launch.ready = int(ready["fd"]), self._held(ready["name"])
            cgroup, enforced = self._cgroups.create_limited(run_id, request.get("limits"))
            launch.cgroup = cgroup
            launch.mark = run_marks.mark_of(run_id)
            if kind != "task":
                self.records.begin(request, launch)
            pid = self._spawner.spawn(launch)
        except BaseException:
            if kind != "task":
                self.records.over(run_id)
            if cgroup is not None:
                self._cgroups.remove(cgroup)
            for fd in ours.values():
                os.close(fd)
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        handed, ours = (ours, {}) if kind == "task" else ({}, ours)
        try:
            return self._begin(
                {**request, "cgroup": cgroup, "enforced": enforced}, pid, ours
            ), handed
        except BaseException:
            self._undo(run_id, pid)
            for fd in handed.values():
                os.close(fd)
            raise

    def _held(self, name: str) -> int:
        fd = self._descriptors.get(name)
        if fd is None:
            raise SpawnError("pipes", 9, f"passing descriptor {name}: none is held")
        return fd

    def _begin(self, asked: Origin, pid: int, parts: dict[str, int]) -> HeldRun:
        """Make a run of a process that was just created."""
        try:
            run = self._make(asked, pid, "", is_child=True)
        except BaseException:
            for fd in parts.values():
                os.close(fd)
            raise
        self._new.append(run)
        if run.kind != "task":
            self.records.began(run)
        self._equip(run, parts, None)
        if run.kind != "task":
            self._record(run, None)
        if lease := asked.get("lease"):
            self.lease(run, lease["seconds"], lease.get("kind") or "job")
        if run.tree.cgroup is None:
            self.placement.add(run)
        return run

    def identify(self) -> None:
        """Learn the start times of new children before they are reaped."""
        for run in self._new:
            run.tree.identify()
        self._new.clear()

    def _undo(self, run_id: str, pid: int) -> None:
        """Kill a process whose run could not be set up: nobody would know of it."""
        run = self.runs.get(run_id)
        if run is not None:
            self.exits.begin(run, signal.SIGKILL, 0.0)
        else:
            processes.send_group_signals(pid, processes.start_time(pid) or "", (signal.SIGKILL,))

    def adopt(
        self, request: AdoptRequest, pid: int, start_time: str, parts: dict[str, int]
    ) -> HeldRun:
        """Take over a process that somebody else started. Its identity was verified."""
        asked = {"age": processes.age_of(start_time), **request, "adopted": True}
        run = self._make(asked, pid, start_time, is_child=False)
        self._equip(run, parts, processes.pidfd_open(pid))
        # The log of a run that outlived its keeper goes on.
        self._record(run, None, is_recovery=bool(asked.get("reopen")))
        self._watch_foreign(run)
        run.is_paused = run.tree.find_pause()
        for process in run.tree.processes():
            run_marks.impose(process.pid, run.tree.mark)
        self.placement.add(run)
        self.records.began(run)
        return run

    def ended_unseen(self) -> list[PredecessorRun]:
        """Runs that ended while their keeper was dead: no process lives, and no exit is known."""
        return [record for record in self.records.ended() if record["run_id"] not in self._journal]

    def restore(self, facts: Origin, log_state: dict[str, int] | None) -> HeldRun:
        """Go on with a run of an earlier keeper, with the descriptors that it left."""
        is_child = bool(facts.get("is_child"))
        # The journal has exits that the dead keeper wrote and did not announce.
        facts = {**facts, "exit": facts.get("exit") or self._journal.get(facts["run_id"])}
        run = self._make(facts, int(facts["pid"]), facts["start_time"], is_child=is_child)
        parts = {name: int(fd) for name, fd in facts["parts"].items()}
        pidfd = parts.pop("pidfd", None)
        if run.kind == "task":
            # The supervisor that wanted to read the output of this task is gone.
            for fd in parts.values():
                os.close(fd)
            parts = {}
        if pidfd is None and not is_child and processes.start_time(run.pid) == run.start_time:
            pidfd = processes.pidfd_open(run.pid)
            if run.kind == "service" and not parts:
                # There were no spares of its pipes. Somebody must read them, or it would block.
                parts = reopen(run.pid)
        self._equip(run, parts, pidfd)
        run.exit = facts["exit"]
        if run.exit is None and facts.get("exited"):
            run.exit = run.describe_exit(None, None, ())
        if run.kind != "task":
            printed = int(facts.get("log_bytes") or 0)
            self._record(
                run,
                log_state or {},
                is_recovery=log_state is None,
                printed=printed,
                is_within_gap=bool(facts.get("is_within_gap")),
            )
        if (lease := facts.get("lease")) and run.exit is None:
            self.lease(run, lease["seconds"], lease["kind"], lease.get("remaining"))
        if run.feed is not None and (fed := facts.get("feed")):
            run.feed.write(fed[0].encode("latin-1"), fed[1])
        if run.is_paused:
            run.tree.is_paused = True
        if run.exit is None and not is_child:
            self._watch_foreign(run)
        if run.exit is None and run.tree.cgroup is None:
            self.placement.add(run)
        run.is_end_asked = bool(facts.get("is_end_asked"))
        if ending := facts.get("end"):
            self.exits.begin(run, ending["signal"], ending["grace"], ending)
        elif run.exit is not None:
            self.exits.begin(run, run.stop["signal"], run.stop["grace"])
        return run

    def _make(self, asked: Origin, pid: int, start_time: str, *, is_child: bool) -> HeldRun:
        tree = Tree(
            asked["run_id"],
            pid,
            start_time,
            asked.get("cgroup"),
            is_child,
            self._cgroups,
            self.known_children,
        )
        run = HeldRun(asked, tree)
        self.runs[run.run_id] = run
        if asked.get("exit") is None and not asked.get("exited"):
            self.by_pid[pid] = run
        else:
            tree.collect()
        return run

    def known_children(self) -> set[int]:
        return {*self.by_pid, *self.others}

    def _equip(self, run: HeldRun, parts: dict[str, int], pidfd: int | None) -> None:
        # A child needs no pidfd: SIGCHLD tells its death, and every descriptor slows down spawns.
        run.parts = run.tree.parts = dict(parts)
        if pidfd is not None:
            run.parts["pidfd"] = pidfd
        entrance = run.parts.get("stdin", run.parts.get("terminal"))
        if entrance is not None:
            os.set_blocking(entrance, False)
            run.feed = Feed(entrance, self._loop, lambda: self._on_input_end(run))

    def _record(
        self,
        run: HeldRun,
        state: dict[str, int] | None,
        *,
        is_recovery: bool = False,
        printed: int = 0,
        is_within_gap: bool = False,
    ) -> None:
        run.recorder = self._logs.use(run.service, run.log, state or None)
        if is_recovery:
            run.track = run.recorder.recover(run.number, is_within_gap=is_within_gap)
        elif state is None:
            run.track = run.recorder.begin_run(run.number)
        else:
            run.track = run.recorder.resume_run(run.number, printed)
        for part, stream in _STREAMS.items():
            if part in run.parts:
                source = run.recorder.attach(
                    run.parts[part],
                    stream,
                    on_eof=partial(self._on_output_end, run, part),
                    transit=run.parts.get("transit"),
                    track=run.track,
                )
                run.sources.append(source)

    def _on_output_end(self, run: HeldRun, part: str) -> None:
        # The master of a terminal stays open: closing it would hang up the next process there.
        if part != "terminal" and part in run.parts:
            os.close(run.parts.pop(part))

    def _on_input_end(self, run: HeldRun) -> None:
        if "stdin" in run.parts:
            os.close(run.parts.pop("stdin"))
            run.feed = None
            self._announce({"notice": "stdin_closed", "run_id": run.run_id})

    def _watch_foreign(self, run: HeldRun) -> None:
        self._exit_watch.watch(
            run.pid,
            run.pidfd,
            run.start_time,
            lambda status: self.exits.foreign_exit(run, status),
            lambda: self.exits.on_zombie(run),
        )

    def unwatch(self, run: HeldRun) -> None:
        self._exit_watch.unwatch(run.pid)

    # Living.

    def lease(
        self, run: HeldRun, seconds: float | None, kind: LeaseKind, remaining: float | None = None
    ) -> None:
        if run.lease is not None:
            run.lease.pause()
            run.lease = None
        if seconds is not None:
            run.lease = RunLease(
                float(seconds), kind, self._loop, lambda: self._on_lease_expired(run), remaining
            )
            if kind != "session" or self.has_supervisor:
                run.lease.arm()

    def supervisor_present(self, is_present: bool) -> None:
        """Let the leases of sessions run only while a supervisor could renew them."""
        self.has_supervisor = is_present
        for run in self.runs.values():
            if run.lease is not None and run.lease.kind == "session":
                if is_present:
                    run.lease.arm()
                else:
                    run.lease.pause()

    def _on_lease_expired(self, run: HeldRun) -> None:
        run.cause = "lease"
        self.exits.end(run, run.stop["signal"], run.stop["grace"])

    def table(self) -> list[RunEntry]:
        """Every run as an entry of a handover's table."""
        return [run.entry() for run in self.runs.values()]
