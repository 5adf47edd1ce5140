"""All living processes of one run: its main process and everything that it started.

Owns the question which process belongs to which run, and signals to all of a run's processes. A
tree never includes the keeper, the supervisor or a process of another run. A process that cannot
be attributed is left alone as long as another run might own it. A Tree is made when its run starts
or is adopted, and is kept until it is empty.

Why it is hard. A process may fork, start a session, drop its environment and lose its parent at any
moment, also between two of our looks at /proc. Its pid may be given to a stranger as soon as it is
reaped. So every fact is tied to a pid *and* a start time, and nothing is concluded from one look
that a later look could contradict.

The walk (`_walk`). The keeper is a child subreaper: when a process of a run loses its parent, it
becomes the keeper's own child. So a run's processes are the main process, its descendants, and
those of the keeper's children that are no main process (*orphans*) and belong to this run, with
their descendants. The walk descends from the main process first and lists the orphans last: a
process that loses its parent during the walk appears in the list of orphans. If nothing was found,
the list is read again until it stays the same, because an orphan that died under our eyes may have
left children to us after the listing. The keeper reaps nobody meanwhile, so a dead process stays
visible as a zombie.

The scan (`_scan`). An adopted process is not our child, and its orphans go to init. Then all
processes of the machine are read once, and the run's processes are picked by the same evidence.

The evidence (`_owns`), strongest first:

1. It was seen in this tree before, with the same start time, or it is in the run's cgroup.
2. It has the mark of the run, a kernel limit that every process inherits (`run_marks`).
3. Another tree has seen it: then it is not ours.
4. It is in the session of the main process, or in the session of a process found already.
5. It has another run's mark: then it is not ours.
6. Its environment names this run (`HOLDFAST_RUN_ID`). If it names another, it is not ours.
7. It prints into the run's pipes.
8. Nobody else can have started it (`_is_sole_candidate`); only where runs are not marked.

Stopping and killing (`_signal_until_stable`). A process may fork while we send signals. A process
with SIGSTOP or SIGKILL pending cannot fork any more, so each process is signalled *before* its
children are listed, and the walk is repeated until it finds nobody new. To kill, everything is
stopped first and killed afterwards.

Cost. A hundred runs are often asked in a row. A *rough* question may miss orphans of the last few
milliseconds, so that one reading of the keeper's children and one scan serve all of them.
"""

from __future__ import annotations

import math
import os
import signal
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping

from holdfast.keeper.processes.cgroups import Cgroups
from holdfast.system import kernel_files, own_process, run_marks
from holdfast.system import processes as host
from holdfast.system.processes import Process

Known = Callable[[], Collection[int]]

_ANY_TIME, _NOW = 0.0, math.inf
_LISTINGS = 10
_LONGEST_SECONDS = 0.03

_living: weakref.WeakValueDictionary[str, Tree] = weakref.WeakValueDictionary()
_cookies: dict[int, tuple[str, str | None]] = {}
_marks: dict[int, tuple[str, int | None]] = {}
_max_marks = 4096


class Members(dict[int, Process]):
    """What a walk has found, by pid. Each process is visited before its children are listed."""

    __slots__ = ("_visit",)

    def __init__(self, visit: Callable[[Process], None] | None) -> None:
        self._visit = visit

    def add(self, process: Process) -> None:
        if process.pid == os.getpid():
            return
        self[process.pid] = process
        if self._visit is not None:
            self._visit(process)


class Tree:
    """The processes of one run, looked up again at each question."""

    __slots__ = (
        "__weakref__", "_cgroups", "_collected_at", "_dead", "_is_main_gone", "_is_over",
        "_known_children", "_leads_session", "_mark", "_seen", "_start_time", "_stopped_before",
        "_zombies", "cgroup", "is_child", "is_paused", "parts", "pid", "run_id",
    )  # fmt: skip

    def __init__(
        self,
        run_id: str,
        pid: int,
        start_time: str,
        cgroup: str | None,
        is_child: bool,
        cgroups: Cgroups,
        known_children: Callable[[], Collection[int]],
    ) -> None:
        self.run_id = run_id
        self.pid = pid
        self._start_time = start_time
        self.cgroup = cgroup
        self.is_child = is_child
        self._collected_at = _NOW  # not yet
        self.is_paused = False
        self.parts: dict[str, int] = {}  # of its run
        self._cgroups = cgroups
        self._known_children = known_children
        self._is_main_gone = False
        self._is_over = False
        self._mark = 0
        self._seen: dict[int, str] = {}
        self._dead: set[int] = set()
        self._zombies: Collection[int] = ()
        self._stopped_before: Collection[tuple[int, str]] = ()
        # An adopted process need not lead a session. Then a session of that number is not its own.
        self._leads_session = is_child or self._is_leader()
        _living[run_id] = self

    @property
    def start_time(self) -> str:
        self.identify()
        return self._start_time

    @property
    def mark(self) -> int:
        """The soft limit that marks its processes (`run_marks`), computed when first needed."""
        if not self._mark:
            self._mark = run_marks.mark_of(self.run_id)
        return self._mark

    @property
    def is_collected(self) -> bool:
        """Whether its main process was reaped. From then on another process may get its pid."""
        return self._collected_at < _NOW

    def collect(self) -> None:
        self._collected_at = time.monotonic()

    def identify(self) -> None:
        """Learn the start time of a new child. This is done when it is first needed, and before the
        child is reaped at the latest: until then no other process can have its pid. So many starts
        in a row need not wait for it."""
        if not self._start_time and self.is_child and not self.is_collected:
            self._start_time = host.start_time(self.pid) or ""

    @property
    def is_walkable(self) -> bool:
        """Whether every orphan of this run becomes our child, so that no scan is needed."""
        return self.is_child and own_process.is_subreaper()

    def is_main_alive(self) -> bool:
        if self._is_main_gone:
            return False
        if self.is_child and host.has_exited(self.pid):
            self._is_main_gone = True
            return False
        return self._main() is not None

    def is_empty(self) -> bool:
        """Whether no process of this run is alive. Once this is true, it stays true."""
        if self._is_over:
            return True
        if self.is_main_alive():
            return False
        # Its orphans became our children before it was reaped, so a list from after that has them.
        since = self._collected_at
        if self.is_walkable and not self._orphans(since) and not self._is_populated():
            self._end()
            return True
        return not self.processes()

    def processes(self, is_rough: bool = False) -> list[Process]:
        """Every living process of the run, the main process first.

        Rough: orphans of the last few milliseconds may be missing. That makes the question cheap
        when a hundred runs are asked in a row.
        """
        found = Members(None)
        self._find(found, is_rough)
        return list(found.values())

    def signal(self, number: int) -> int:
        """Send a signal to each process; returns how many got it."""
        if number in (signal.SIGKILL, signal.SIGSTOP):
            return self._signal_until_stable(number)
        return self._signal_each(self.processes(), number)

    def signal_group(self, *numbers: int) -> bool:
        """Send signals to the main process's group; False if it is gone or leads none."""
        if self._is_main_gone:
            return False
        if self.is_child:
            # It is not reaped, so the pid is still its own; and it leads a session, and a group.
            return all(_signal_own_group(self.pid, number) for number in numbers)
        return host.send_group_signals(self.pid, self.start_time, numbers)

    def pause(self) -> bool:
        """Freeze the cgroup, and stop the processes outside it. False if no process was there."""
        processes = self.processes()
        if not self.is_paused:
            self._stopped_before = {p.identity for p in processes if p.state in "Tt"}
        self.is_paused = bool(processes)
        is_frozen = self.cgroup is not None and self._cgroups.freeze(self.cgroup, True)
        self._signal_until_stable(signal.SIGSTOP, self._pids_inside if is_frozen else tuple)
        return self.is_paused

    def resume(self) -> bool:
        """Let the tree go on, except for processes that were stopped before the pause."""
        self.thaw()
        asleep = [p for p in self.processes() if p.identity not in self._stopped_before]
        self.is_paused = False
        self._stopped_before = ()
        return self._signal_each(asleep, signal.SIGCONT) > 0

    def find_pause(self) -> bool:
        """Whether it was paused by an earlier keeper. A frozen cgroup of it is used again."""
        main, frozen = self._main(), self._cgroups.frozen(self.run_id)
        self.cgroup = frozen or self.cgroup
        self.is_paused = frozen is not None or (main is not None and main.state == "T")
        return self.is_paused

    def thaw(self) -> None:
        """Undo a freeze of the cgroup, so that signals reach what is in it."""
        if self.cgroup is not None and self.is_paused and self._cgroups.is_frozen(self.cgroup):
            self._cgroups.freeze(self.cgroup, False)

    def kill_cgroup(self) -> frozenset[int]:
        """Send SIGKILL to the whole cgroup at once; returns the pids that were inside."""
        inside = self._pids_inside()
        if inside and self.cgroup is not None and self._cgroups.kill(self.cgroup):
            return inside
        return frozenset()

    def kill_each(self, spared: Collection[int] = ()) -> list[Process]:
        """Send SIGKILL to each process by its identity. All are stopped first, so that none forks
        meanwhile. Returns the processes that were killed."""
        self._signal_until_stable(signal.SIGSTOP)
        victims = [process for process in self.processes() if process.pid not in spared]
        self._signal_each(victims, signal.SIGKILL)
        return victims

    def _main(self) -> Process | None:
        if self._is_main_gone:
            return None
        main = host.process(self.pid)
        if main is None or main.start_time != self.start_time or not main.is_alive:
            self._is_main_gone = True
            # Another process has our pid, so a session of that number is its own.
            if main is not None and main.start_time != self.start_time:
                self._leads_session = False
            return None
        return main

    def _is_leader(self) -> bool:
        main = host.process(self.pid)
        return main is not None and main.identity == (self.pid, self.start_time) == (
            main.session,
            main.start_time,
        )

    def _end(self) -> None:
        self._is_over = True
        self._seen = {}
        if _living.get(self.run_id) is self:
            del _living[self.run_id]

    def _is_populated(self) -> bool:
        return self.cgroup is not None and self._cgroups.is_populated(self.cgroup)

    def _pids_inside(self) -> frozenset[int]:
        if self.cgroup is None:
            return frozenset()
        return frozenset(self._cgroups.pids(self.cgroup)) - {os.getpid()}

    def _orphans(self, since: float) -> list[int]:
        return [pid for pid in _orphans_since(since, self._known_children) if pid != self.pid]

    def _find(self, found: Members, is_rough: bool = False) -> None:
        if self._is_over:
            return
        self._dead = set()
        inside = frozenset() if is_rough and self.is_walkable else self._pids_inside()
        if self.is_walkable:
            self._walk(found, inside, is_rough)
        else:
            self._scan(found, inside, is_rough)
        for pid in (*inside, *self._seen):
            if pid in found or (process := host.process(pid)) is None or not process.is_alive:
                continue
            if pid in inside or self._seen[pid] == process.start_time:
                found.add(process)
        self._seen = {pid: process.start_time for pid, process in found.items()}
        if not found and not is_rough and not self.is_main_alive():
            self._end()

    def _walk(self, found: Members, inside: frozenset[int], is_rough: bool) -> None:
        if (main := self._main()) is not None:
            found.add(main)
            self._descend(found, main.pid)
        # Last, because a process that loses its parent during the walk becomes an orphan.
        for _ in range(_LISTINGS):
            orphans = self._orphans(_ANY_TIME if is_rough else _NOW)
            # The youngest first: it is the least likely to have ended meanwhile.
            for pid in reversed(orphans):
                if self._take_orphan(pid, found, inside):
                    self._descend(found, pid)
            # An orphan that died under our eyes may have left children to us after the listing.
            if found or not orphans or orphans == self._orphans(_NOW):
                return

    def _take_orphan(self, pid: int, found: Members, inside: frozenset[int]) -> bool:
        if pid in found:
            return False
        if pid in self._zombies:
            self._dead.add(pid)
            return False
        process = host.process(pid)
        if process is None or not process.is_alive or process.ppid != os.getpid():
            self._dead.add(pid)
            return False
        if not self._owns(process, found, inside):
            return False
        found.add(process)
        return True

    def _descend(self, found: Members, ancestor: int) -> None:
        queue = [ancestor]
        for parent in queue:
            for pid in host.children(parent, found[parent].threads):
                if pid in found:
                    continue
                process = host.process(pid)
                # Another parent means that the pid was given to another process since the listing.
                if process is None or not process.is_alive or process.ppid != parent:
                    self._dead.add(pid)
                    continue
                found.add(process)
                queue.append(pid)

    def _owns(self, orphan: Process, found: Members, inside: frozenset[int]) -> bool:
        if self._seen.get(orphan.pid) == orphan.start_time or orphan.pid in inside:
            return True
        mark = mark_of(orphan)
        if mark == self.mark:
            return True
        others = [tree for tree in _living.values() if tree is not self]
        if any(tree._seen.get(orphan.pid) == orphan.start_time for tree in others):
            return False
        if self._leads_session and orphan.session == self.pid:
            return True
        if any(process.session == orphan.session for process in found.values()):
            return True
        if mark is not None:
            return False  # of another run, or of a Holdfast inside a service
        cookie = host.run_id_of(orphan.pid)
        if cookie is not None:
            return cookie == self.run_id
        return _prints_to(orphan.pid, self.parts) or self._is_sole_candidate(orphan, others)

    def _is_sole_candidate(self, orphan: Process, others: Collection[Tree]) -> bool:
        """Whether an orphan without any evidence can only have come from this run. Never true where
        all runs are marked: then the orphan removed its mark on purpose, and may be of any run."""
        if run_marks.marks_all():
            return False
        born = int(orphan.start_time)
        if not self.start_time or born < int(self.start_time):
            return False
        rivals = [tree for tree in others if tree is not self and tree.is_child]
        if any(int(tree.start_time) <= born for tree in rivals):
            return False
        for pid in self._known_children():
            if (cookie := host.run_id_of(pid)) is not None and cookie != self.run_id:
                return False
        return True

    def _scan(self, found: Members, inside: frozenset[int], is_rough: bool) -> None:
        """Look at every process of the machine, for a run whose orphans go to init."""
        everybody = {process.pid: process for process in host.all_processes(is_rough)}
        _forget_cookies(everybody)
        if (main := self._main()) is not None:
            found.add(main)
        barred = {os.getpid(), 1, *self._known_children()}
        offspring: dict[int, list[Process]] = {}
        for process in everybody.values():
            if not process.is_alive:
                self._dead.add(process.pid)
            if not process.is_alive or process.pid in barred:
                continue
            offspring.setdefault(process.ppid, []).append(process)
            if process.pid == self.pid:
                continue
            if (
                process.pid in inside
                or self._seen.get(process.pid) == process.start_time
                or (self._leads_session and process.session == self.pid)
                or _cookie_of(process) == self.run_id
                or (process.session and mark_of(process) == self.mark)
            ):
                found.add(process)
        queue = list(found)
        for parent in queue:
            for process in offspring.get(parent, ()):
                if process.pid not in found:
                    found.add(process)
                    queue.append(process.pid)

    def _signal_each(self, processes: Iterable[Process], number: int) -> int:
        return sum(host.send_signal(p.pid, p.start_time, number) for p in processes)

    def _signal_until_stable(
        self, number: int, spared: Callable[[], Collection[int]] = tuple
    ) -> int:
        """Send a signal to each process as it is found, until a walk finds no new one. Returns how
        many got it. Also repeats the walk if a process died since the last one, which may have left
        a child. Gives up after a moment, because the keeper has to reap.
        """
        reached: set[tuple[int, str]] = set()
        left_out: Collection[int] = ()
        count = 0

        def reach(process: Process) -> None:
            nonlocal count
            if process.identity not in reached and process.pid not in left_out:
                reached.add(process.identity)
                count += host.send_signal(process.pid, process.start_time, number)

        until = time.monotonic() + _LONGEST_SECONDS
        self._dead = set()
        dead: set[int] | None = None
        before = -1
        while before < len(reached) or dead != self._dead:
            if dead is not None and time.monotonic() > until:
                break
            before = len(reached)
            # Nothing is reaped meanwhile, so a dead process stays listed as a zombie.
            dead = self._zombies = self._dead
            left_out = spared()
            self._find(Members(reach))
        self._zombies = ()
        return count


def is_owned(orphan: Process, trees: Collection[Tree]) -> bool:
    """Whether one of these runs owns an orphan: the evidence of `Tree`, without a walk."""
    mark = mark_of(orphan)
    for tree in trees:
        if mark == tree.mark or tree._seen.get(orphan.pid) == orphan.start_time:
            return True
        if tree._leads_session and orphan.session == tree.pid:
            return True
    if mark is None and (cookie := host.run_id_of(orphan.pid)) is not None:
        return any(tree.run_id == cookie for tree in trees)
    membership = kernel_files.read(f"/proc/{orphan.pid}/cgroup") or b""
    for tree in trees:
        if tree.cgroup is not None and host.is_below(tree.cgroup, membership):
            return True
        if mark is None and _prints_to(orphan.pid, tree.parts):
            return True
    return mark is None and any(tree._is_sole_candidate(orphan, trees) for tree in trees)


def _signal_own_group(pid: int, number: int) -> bool:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _cookie_of(process: Process) -> str | None:
    """The run id in a process's environment. Remembered, because scans are repeated."""
    start_time, cookie = _cookies.get(process.pid, ("", None))
    if start_time != process.start_time:
        # Session 0 is a kernel thread, which never has an environment.
        seconds = 0.001 if process.session else 0
        cookie, is_final = host.find_run_id(process.pid, seconds)
        if is_final or not process.session:
            _cookies[process.pid] = (process.start_time, cookie)
    return cookie


def _forget_cookies(everybody: dict[int, Process]) -> None:
    global _max_marks
    _max_marks = max(_max_marks, 2 * len(everybody))
    for remembered in (_cookies, _marks):
        for pid in [pid for pid in remembered if pid not in everybody]:
            remembered.pop(pid, None)


def shows_run(process: Process) -> bool:
    """Whether a process itself tells which run it belongs to."""
    return mark_of(process) is not None or host.run_id_of(process.pid) is not None


def mark_of(process: Process) -> int | None:
    """The mark of a run that a process was born with, if any; remembered at the first look."""
    start_time, mark = _marks.get(process.pid, ("", None))
    if start_time != process.start_time:
        if len(_marks) >= _max_marks:
            _marks.clear()
        limits = run_marks.read(process.pid)
        mark = limits[0] if limits is not None and run_marks.is_mark(limits[0]) else None
        _marks[process.pid] = (process.start_time, mark)
    return mark


class _OrphanReading:
    """The keeper's direct children that are no run's main process, as of one moment."""

    __slots__ = ("at", "known", "pids")

    def __init__(self) -> None:
        self.at = 0.0
        self.known: Known | None = None
        self.pids: list[int] = []


_last_orphans = _OrphanReading()


def _orphans_since(moment: float, known: Known) -> list[int]:
    """The orphans, read a few milliseconds ago at most, and not before that moment."""
    now = time.monotonic()
    if (
        _last_orphans.at < moment
        or _last_orphans.at <= now - host.ROUGH_SECONDS
        or known != _last_orphans.known
    ):
        _last_orphans.at, _last_orphans.known, mains = now, known, known()
        _last_orphans.pids = [pid for pid in host.own_children() if pid not in mains]
    return _last_orphans.pids


def _prints_to(pid: int, parts: Mapping[str, int]) -> bool:
    """Whether the process prints into a pipe of which we have the other end. No new environment and
    no new session takes this evidence away. False if it cannot be read."""
    try:
        ours = [os.fstat(parts[name]) for name in ("out", "err") if name in parts]
    except OSError:
        return False
    return any(_is_at(pid, number, ours) for number in (1, 2)) if ours else False


def _is_at(pid: int, number: int, ours: list[os.stat_result]) -> bool:
    try:
        theirs = os.stat(f"/proc/{pid}/fd/{number}")
    except OSError:
        return False
    return any(os.path.samestat(theirs, pipe) for pipe in ours)
