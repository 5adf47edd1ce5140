"""Samples runs through psutil, where there is neither procfs nor a cgroup."""

from __future__ import annotations

import time

from holdfast.adapters.metrics.usage import ProcessSample, SampledRun, Totals, Usage, UsageTracker

_COOKIE = "HOLDFAST_RUN_ID"


class PortableSampler:
    """Samples all runs: descendants of the main processes, and orphans by their environment."""

    def __init__(self) -> None:
        self._trackers: dict[str, UsageTracker] = {}
        self._cookies: dict[tuple[int, float], str | None] = {}
        self._members: dict[str, list[int]] = {}

    def watch(self, run: SampledRun) -> None:
        self._trackers[run.run_id] = UsageTracker(run, time.monotonic())

    def unwatch(self, run_id: str) -> Usage | None:
        self._members.pop(run_id, None)
        tracker = self._trackers.pop(run_id, None)
        return tracker.usage if tracker is not None else None

    def sample(self, now: float, *, is_full: bool = False) -> dict[str, Usage]:
        if not self._trackers:
            return {}
        self._members = self._grouped()
        changed: dict[str, Usage] = {}
        for run_id, tracker in self._trackers.items():
            pids = self._members.get(run_id, ())
            processes = [found for pid in pids if (found := sample_process(pid))]
            before = tracker.usage
            if processes and (usage := tracker.add(now, processes, None)) != before:
                changed[run_id] = usage
        return changed

    def members(self, run_id: str) -> list[int]:
        return list(self._members.get(run_id, ()))

    def carried_totals(self, run_id: str) -> Totals:
        tracker = self._trackers.get(run_id)
        return tracker.carried if tracker is not None else Totals()

    def close(self) -> None:
        self._trackers.clear()

    def _grouped(self) -> dict[str, list[int]]:
        import psutil

        parents: dict[int, int] = {}
        born: dict[int, float] = {}
        for one in psutil.process_iter():
            try:
                parents[one.pid], born[one.pid] = one.ppid(), one.create_time()
            except psutil.Error:
                continue
        owners = {tracker.pid: run_id for run_id, tracker in self._trackers.items()}
        grouped: dict[str, list[int]] = {run_id: [] for run_id in self._trackers}
        for pid in parents:
            line, owner = [pid], owners.get(pid)
            while owner is None and (parent := parents.get(line[-1], 0)) > 1 and parent not in line:
                line.append(parent)
                owner = owners.get(parent)
            if owner is None:
                owner = self._cookie(line[-1], born.get(line[-1], 0.0))
            if owner in grouped:
                grouped[owner].append(pid)
        identities = {(pid, born[pid]) for pid in parents}
        self._cookies = {key: run for key, run in self._cookies.items() if key in identities}
        return grouped

    def _cookie(self, pid: int, created: float) -> str | None:
        """Return the run in the environment of an orphan, which is read once."""
        import psutil

        key = (pid, created)
        if key not in self._cookies:
            try:
                self._cookies[key] = psutil.Process(pid).environ().get(_COOKIE)
            except (psutil.Error, OSError):
                self._cookies[key] = None
        return self._cookies[key]


def sample_process(pid: int) -> ProcessSample | None:
    """Sample one process; None if it is gone."""
    import psutil

    try:
        one = psutil.Process(pid)
        with one.oneshot():
            times, memory = one.cpu_times(), one.memory_info()
            ended = one.status() == psutil.STATUS_ZOMBIE
            threads = 0 if ended else one.num_threads()
            read = written = read_chars = written_chars = 0
            if hasattr(one, "io_counters"):
                io = one.io_counters()
                read, written = io.read_bytes, io.write_bytes
                read_chars = getattr(io, "read_chars", 0)
                written_chars = getattr(io, "write_chars", 0)
            user = times.user + getattr(times, "children_user", 0.0)
            system = times.system + getattr(times, "children_system", 0.0)
            return ProcessSample(
                pid,
                str(one.create_time()),
                one.ppid(),
                user,
                system,
                memory.rss,
                threads,
                None if ended else one.num_fds(),
                (read, written, read_chars, written_chars),
            )
    except psutil.Error:
        return None
