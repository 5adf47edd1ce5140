"""Moves each new run into its cgroup after it was announced, and removes the cgroup at the end.

It does so late, because the first move after a pause takes the kernel 5 to 13 ms, and a burst of
starts should not wait for that. A run that ends at once is never moved. Processes that a run forked
before its move are brought in by passes, until a pass finds none outside.
"""

from __future__ import annotations

import os

from holdfast.system import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.keeper.loop import Loop
    from holdfast.keeper.processes.cgroups import Cgroups
    from holdfast.keeper.runs.children import Children
    from holdfast.keeper.runs.run import HeldRun

_PLACE_AFTER_SECONDS = 0.02
_LATEST_SECONDS = 1.0
_SLICE_SECONDS = 0.004
_PASS_AFTER_SECONDS = 0.005
_REMOVE_AFTER_SECONDS = 0.05
_CALM_SECONDS = 2.0
_MAX_PASSES = 50


class Placement:
    """The queue of runs to be moved, and the runs whose early children are looked for."""

    def __init__(self, loop: Loop, cgroups: Cgroups, children: Children) -> None:
        self._loop = loop
        self._cgroups = cgroups
        self._children = children
        self._waiting: list[HeldRun] = []
        self._waiting_since = 0.0
        self._last_added = 0.0
        self._settling: dict[str, int] = {}
        self._stale: list[str] = []

    def add(self, run: HeldRun) -> None:
        if self._cgroups.root is None:
            return
        self._last_added = self._loop.now()
        if not self._waiting:
            self._waiting_since = self._last_added
            self._loop.call_later(_PLACE_AFTER_SECONDS, self._place)
        self._waiting.append(run)

    def remove(self, path: str) -> None:
        """Remove a cgroup later: that takes the kernel longer than a restart can wait."""
        if not self._stale:
            self._loop.call_later(_REMOVE_AFTER_SECONDS, self.remove_stale)
        self._stale.append(path)

    def remove_stale(self) -> None:
        stale, self._stale = self._stale, []
        for path in stale:
            self._cgroups.remove(path)

    def sweep(self) -> None:
        """Remove the cgroups that killed keepers left. Those with processes stay."""
        root = self._cgroups.root
        if root is None:
            return
        try:
            with os.scandir(root) as entries:
                found = [entry for entry in entries if entry.is_dir()]
        except OSError:
            return  # a cgroup that stays behind is harmless
        for entry in found:
            if entry.name not in self._children.runs:
                self._cgroups.remove(entry.path)
        # Cgroups of other projects can wait until our services are started.
        steps = self._cgroups.remove_left()
        self._loop.call_later(_CALM_SECONDS, lambda: self._sweep_others(steps))

    def _sweep_others(self, steps: Iterator[None]) -> None:
        until = self._loop.now() + _SLICE_SECONDS
        for _ in steps:
            if self._loop.now() > until:
                self._loop.call_later(_PLACE_AFTER_SECONDS, lambda: self._sweep_others(steps))
                return

    def _place(self) -> None:
        now = self._loop.now()
        if (
            now
            < min(self._last_added, self._waiting_since + _LATEST_SECONDS) + _PLACE_AFTER_SECONDS
        ):
            self._loop.call_later(_PLACE_AFTER_SECONDS, self._place)
            return
        while self._waiting and self._loop.now() < now + _SLICE_SECONDS:
            self._place_one(self._waiting.pop(0))
        if self._waiting:
            self._loop.call_later(0, self._place)

    def _place_one(self, run: HeldRun) -> None:
        if run.exit is not None or self._children.runs.get(run.run_id) is not run:
            return
        path = self._cgroups.create(run.run_id)
        if path is None:
            return
        if not self._cgroups.place(path, run.pid):
            self._cgroups.remove(path)
            return
        run.tree.cgroup = path
        if not self._settling:
            self._loop.call_later(_PASS_AFTER_SECONDS, self._settle)
        self._settling[run.run_id] = _MAX_PASSES

    def _settle(self) -> None:
        known = self._children.known_children()
        has_orphans = any(pid not in known for pid in processes.own_children())
        for run_id, passes in list(self._settling.items()):
            run = self._children.runs.get(run_id)
            path = run.tree.cgroup if run is not None else None
            has_forked = run is not None and (has_orphans or bool(processes.children(run.pid)))
            if run and path and has_forked and passes > 0 and self._bring_in(run, path):
                self._settling[run_id] = passes - 1
            else:
                del self._settling[run_id]
        if self._settling:
            self._loop.call_later(_PASS_AFTER_SECONDS, self._settle)

    def _bring_in(self, run: HeldRun, path: str) -> bool:
        """One pass. True if a process was outside, so that another pass is due."""
        inside = set(self._cgroups.pids(path))
        outside = [found for found in run.tree.processes() if found.pid not in inside]
        moved = [found for found in outside if self._cgroups.place(path, found.pid)]
        return bool(moved)
