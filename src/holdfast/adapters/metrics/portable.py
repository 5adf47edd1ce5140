"""Looks at runs through psutil, where there is neither procfs nor a cgroup."""

from __future__ import annotations

import time

from holdfast.adapters.metrics.usage import Process, Totals, Tree, Usage, Watched

_COOKIE = "HOLDFAST_RUN_ID"


class PortableSampler:
    """All trees: descendants of the main processes, and orphans by their environment."""

    def __init__(self) -> None:
        self._trees: dict[str, Tree] = {}
        self._cookies: dict[tuple[int, float], str | None] = {}
        self._members: dict[str, list[int]] = {}

    def watch(self, run: Watched) -> None:
        self._trees[run.run_id] = Tree(run, time.monotonic())

    def unwatch(self, run_id: str) -> Usage | None:
        self._members.pop(run_id, None)
        tree = self._trees.pop(run_id, None)
        return tree.usage if tree is not None else None

    def look(self, now: float, *, is_full: bool = False) -> dict[str, Usage]:
        if not self._trees:
            return {}
        self._members = self._grouped()
        changed: dict[str, Usage] = {}
        for run_id, tree in self._trees.items():
            processes = [it for pid in self._members.get(run_id, ()) if (it := process(pid))]
            before = tree.usage
            if processes and (usage := tree.take(now, processes, None)) != before:
                changed[run_id] = usage
        return changed

    def members(self, run_id: str) -> list[int]:
        return list(self._members.get(run_id, ()))

    def carried(self, run_id: str) -> Totals:
        tree = self._trees.get(run_id)
        return tree.carried if tree is not None else Totals()

    def close(self) -> None:
        self._trees.clear()

    def _grouped(self) -> dict[str, list[int]]:
        import psutil

        parents: dict[int, int] = {}
        born: dict[int, float] = {}
        for one in psutil.process_iter():
            try:
                parents[one.pid], born[one.pid] = one.ppid(), one.create_time()
            except psutil.Error:
                continue
        owners = {tree.pid: run_id for run_id, tree in self._trees.items()}
        grouped: dict[str, list[int]] = {run_id: [] for run_id in self._trees}
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
        self._cookies = {key: it for key, it in self._cookies.items() if key in identities}
        return grouped

    def _cookie(self, pid: int, created: float) -> str | None:
        """The run that an orphan says it belongs to; asked once."""
        import psutil

        key = (pid, created)
        if key not in self._cookies:
            try:
                self._cookies[key] = psutil.Process(pid).environ().get(_COOKIE)
            except (psutil.Error, OSError):
                self._cookies[key] = None
        return self._cookies[key]


def process(pid: int) -> Process | None:
    """One process as it is now."""
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
            return Process(
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
