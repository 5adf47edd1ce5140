"""Keeps a supervisor running: the only policy of the keeper.

Launches the supervisor with one end of a link and with the descriptors that it needs to take our
place (lock, claim, token). Launches it again when it dies: at once if it had run for a while, else
after a back-off, which starts again after a supervisor that served. A supervisor that is replaced
stands by until the next one could take our place. Knows nothing of a supervisor's work.
"""

from __future__ import annotations

import _socket
import os
import sys
import time

from holdfast.keeper import stderr
from holdfast.keeper.memory import SUPERVISOR_ENVIRONMENT
from holdfast.keeper.runs.launch import Launch, SpawnError
from holdfast.keeper.runs.spawn import Spawner
from holdfast.system import own_process, processes, run_marks
from holdfast.system.private_files import open_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.keeper.handover import Table
    from holdfast.keeper.loop import Loop, Timer
    from holdfast.keeper.memory import Memory
    from holdfast.keeper.options import Options
    from holdfast.keeper.protocol.messages import SupervisorExit, SupervisorFacts
    from holdfast.keeper.runs.children import Children

STABLE_SECONDS = 10.0
SERVED_SECONDS = 1.0
FIRST_BACKOFF_SECONDS = 0.25
MAX_BACKOFF_SECONDS = 30.0
_RETIRE_SECONDS = 10.0
_ERR_FILE_LIMIT = 256 << 10
_BUFFER_SIZE = 1 << 20
_CODE = "import sys; sys.path[:0]={path!r}; from holdfast.supervisor_start import main; main()"
_CHECK = """\
import sys
sys.path[:0]={path!r}
import holdfast.supervisor_start, holdfast.supervisor_process
from holdfast.preloading import preload
preload()
"""
NOFILE, OOM_SCORE = "HOLDFAST_NOFILE", "HOLDFAST_OOM_SCORE"
"""Variables with the limits that the first keeper was born with; a supervisor may become one."""
CEILING = "HOLDFAST_CEILING"
"""The variable with the hard limit that the first keeper gave itself (`run_marks`)."""
_KEPT_VARIABLES = (
    "PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH",
)  # fmt: skip
"""The same variables that the command line leaves to a keeper."""
_KEPT_PREFIXES = ("XDG_", "HOLDFAST_")


def default_argv(import_path: list[str]) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", _CODE.format(path=import_path)]


def check_argv(import_path: list[str]) -> list[str]:
    """A command that imports everything that a supervisor does, and then ends."""
    return [sys.executable, "-I", "-S", "-c", _CHECK.format(path=import_path)]


def minimal_environment() -> dict[str, str]:
    """The variables that keeper and supervisor need. A service's environment comes with its
    request."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT_VARIABLES or name.startswith(_KEPT_PREFIXES)
    }


def _ceiling(table: Table) -> int | None:
    """The hard limit of this keeper and of all processes that it starts. A fresh keeper lowers its
    own. A keeper that took over has it already, unless its predecessor's version had none: then
    some of our processes are above every ceiling, and the ceiling tells nothing."""
    if not table:
        return run_marks.lower_ceiling(processes.start_time(os.getpid()))
    ceiling: int | None = table.get("ceiling")
    return ceiling if ceiling and run_marks.is_beneath(ceiling) else None


class Launcher:
    """Creates the supervisor's process. Needs few modules of the keeper, so that the first
    supervisor can load while the keeper still does."""

    def __init__(self, options: Options, shared: dict[str, int], table: Table, umask: int) -> None:
        # Children get the limits that the first keeper was born with.
        nofile, now = table.get("nofile"), own_process.raise_descriptor_limit()
        score = table["oom_score"] if "oom_score" in table else own_process.lower_oom_score()
        self.ceiling = _ceiling(table)
        self.spawner = Spawner((nofile[0], nofile[1]) if nofile else now, score, umask)
        self._argv = options.supervisor_argv or default_argv(options.import_path)
        self._places = ["--state", options.state, "--runtime", options.runtime]
        self._err_path = os.path.join(options.state, "supervisor.err")
        self._err_begin = 0
        self._shared = shared
        self._early: tuple[int, int] | None = None
        self.memory: Memory | None = None

    def start_early(self) -> None:
        """Start the first supervisor early; `start` returns it. A failure is tried again there."""
        try:
            self._early = self.start()
        except (SpawnError, OSError):
            self._early = None

    def abandon_early(self) -> None:
        """Kill a supervisor that was started early: there is no keeper, and it holds the lock."""
        if self._early is not None:
            os.kill(self._early[0], 9)

    def start(self) -> tuple[int, int]:
        """Start a supervisor; returns its pid and the descriptor of our end of the link."""
        if self._early is not None:
            early, self._early = self._early, None
            return early
        ours, theirs = _pair()
        try:
            err = self._open_err()
        except OSError:
            ours.close()
            theirs.close()
            raise
        passed = {"link": theirs.fileno(), **self._shared}
        words = [word for name, fd in passed.items() for word in (f"--{name}", str(fd))]
        argv = [*self._argv, *self._places, *words]
        environment = {**minimal_environment(), **self._asked_for()}
        environment[NOFILE] = "{}:{}".format(*self.spawner.nofile)
        score = self.spawner.oom_score
        environment[OOM_SCORE] = "" if score is None else str(score)
        environment[CEILING] = str(self.ceiling or "")
        launch = Launch(argv, environment, "/", stdio=(self.spawner.null, err, err))
        launch.keeps_high_limits = True
        for fd in passed.values():
            os.set_inheritable(fd, True)
        try:
            return self.spawner.spawn(launch), ours.detach()
        except BaseException:
            ours.close()
            raise
        finally:
            for fd in passed.values():
                os.set_inheritable(fd, False)
            theirs.close()
            os.close(err)

    def _asked_for(self) -> dict[str, str]:
        if self.memory is None or SUPERVISOR_ENVIRONMENT not in self.memory.values:
            return {}
        try:
            asked = self.memory.environment(SUPERVISOR_ENVIRONMENT)
            return {str(name): str(value) for name, value in asked.items()}
        except Exception as error:  # noqa: BLE001 - start a supervisor without it rather than none
            stderr.say(f"the environment of the supervisor is not understood: {error}")
            return {}

    def _open_err(self) -> int:
        try:
            fd = open_plain(self._err_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            if os.fstat(fd).st_size > _ERR_FILE_LIMIT:
                os.ftruncate(fd, 0)
            self._err_begin = os.fstat(fd).st_size
            return fd
        except OSError:
            return os.dup(self.spawner.null)

    def read_err(self) -> str | None:
        """The last lines that it wrote to standard error: they may tell why it does not start."""
        try:
            with open(open_plain(self._err_path, os.O_RDONLY), "rb") as file:
                file.seek(max(self._err_begin, os.fstat(file.fileno()).st_size - 2000))
                return file.read().decode(errors="replace").strip() or None
        except OSError:
            return None


def _pair() -> tuple[_socket.socket, _socket.socket]:
    """The two ends of a link, with large buffers for a burst."""
    # The module `socket` would take time before the first supervisor is started.
    ours, theirs = _socket.socketpair()
    for sock in (ours, theirs):
        sock.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, _BUFFER_SIZE)
    return ours, theirs


class SupervisorChild:
    """The supervisor process, which may be absent."""

    def __init__(
        self,
        loop: Loop,
        launcher: Launcher,
        children: Children,
        on_link: Callable[[int], object],
    ) -> None:
        self.state = "off"
        self.pid: int | None = None
        self.failures = 0
        self.last_exit: SupervisorExit | None = None
        self.last_error: str | None = None
        self.since = time.time()
        self._loop = loop
        self._launcher = launcher
        self._children = children
        self._on_link = on_link
        self._launched = 0.0
        self._greeted: float | None = None
        self._has_served = False
        self._backoff: Timer | None = None
        self._due = 0.0
        self._insist_timer: Timer | None = None
        self._on_retired: Callable[[], None] | None = None
        self._standbys: set[int] = set()
        self._on_alone: Callable[[], None] | None = None

    def facts(self) -> SupervisorFacts:
        return {
            "pid": self.pid,
            "state": self.state,
            "failures": self.failures,
            "last_exit": self.last_exit,
            "last_error": self.last_error,
            "since": self.since,
            "next_in": self._due - self._loop.now() if self._backoff is not None else None,
            "standbys": sorted(self._standbys),
        }

    def launch(self) -> None:
        """Start a supervisor now, unless there is one."""
        if self._backoff is not None:
            self._backoff.cancel()
            self._backoff = None
        if self.pid is not None:
            return
        try:
            pid, ours = self._launcher.start()
        except (SpawnError, OSError) as error:
            self._set("backoff")
            self.last_error = str(error)
            self._wait(has_served=False)
            return
        self._launched, self._greeted = self._loop.now(), None
        self._adopt(pid)
        self._on_link(ours)

    def greeted(self) -> None:
        """It has said hello and got its descriptors, so it can serve."""
        self._greeted = self._loop.now()

    def forget_failures(self) -> None:
        """Forget earlier failures: somebody asked for a new supervisor."""
        self.failures, self.last_error = 0, None

    def resume(self, facts: SupervisorFacts) -> None:
        """Go on with the supervisor of the program image before this one, until a new one replaces
        it. Failures of earlier supervisors are forgotten: the new version may do better."""
        self.last_exit = facts["last_exit"]
        for pid in facts.get("standbys") or ():
            self.resume_standby(pid)
        if facts["pid"] is not None:
            self._adopt(facts["pid"])

    def retire(self, tell: Callable[[], None], then: Callable[[], None] | None = None) -> None:
        """Ask it to go by calling `tell`. It is not launched again. `then` is called when it is
        gone."""
        if self._backoff is not None:
            self._backoff.cancel()
            self._backoff = None
        self._on_retired = then
        if self.pid is None:
            self._set("off")
            tell()
            self._retired()
            return
        self._set("retiring")
        tell()
        self._insist([15, 9])

    def stand_by(self) -> int | None:
        """It has finished, and waits in case the keeper dies. The next one can be launched. Returns
        its pid."""
        if (pid := self.pid) is None:
            return None
        self.pid = None
        self._stop_insisting()
        self.resume_standby(pid)
        self._set("off")
        self._retired()
        return pid

    def resume_standby(self, pid: int) -> None:
        self._standbys.add(pid)
        self._children.others[pid] = lambda _: self._on_standby_left(pid)

    def insist_on_leave(self) -> None:
        """Supervisors that stand by were told to go. Kill those that do not."""
        told = [*self._standbys]
        self._loop.call_later(_RETIRE_SECONDS, lambda: self._kill_standbys(told))

    def when_alone(self, then: Callable[[], None]) -> None:
        """Kill the supervisors that stand by, and call back when none is left."""
        self._on_alone = then
        self._kill_standbys([*self._standbys])
        self._check_alone()

    def _kill_standbys(self, pids: list[int]) -> None:
        for pid in self._standbys.intersection(pids):
            os.kill(pid, 9)

    def _on_standby_left(self, pid: int) -> None:
        self._standbys.discard(pid)
        self._check_alone()

    def _check_alone(self) -> None:
        if not self._standbys and (then := self._on_alone) is not None:
            self._on_alone = None
            then()

    def hung_up(self) -> None:
        """It closed its link. Without a link it is of no use, so it is ended."""
        if self.pid is not None and self._insist_timer is None:
            self._insist([15, 9])

    def _adopt(self, pid: int) -> None:
        self.pid = pid
        self._set("running")
        self._children.others[pid] = self._on_exit

    def _insist(self, signals: list[int]) -> None:
        if self._insist_timer is not None:
            self._insist_timer.cancel()
        self._insist_timer = self._loop.call_later(_RETIRE_SECONDS, lambda: self._press(signals))

    def _stop_insisting(self) -> None:
        if self._insist_timer is not None:
            self._insist_timer.cancel()
            self._insist_timer = None

    def _press(self, signals: list[int]) -> None:
        self._insist_timer = None
        if self.pid is not None and signals:
            os.kill(self.pid, signals[0])
            self._insist(signals[1:])

    def _on_exit(self, status: int) -> None:
        outcome = os.waitstatus_to_exitcode(status)
        self.pid = None
        self.last_exit = {
            "code": outcome if outcome >= 0 else None,
            "signal": -outcome if outcome < 0 else None,
            "at": time.time(),
        }
        self._stop_insisting()
        if self.state == "retiring":
            self._set("off")
            self._retired()
            return
        self.last_error = self._launcher.read_err()
        self._set("backoff")
        now = self._loop.now()
        if now - self._launched >= STABLE_SECONDS:
            self.failures = 0
            self.launch()
        else:
            self._wait(
                has_served=self._greeted is not None and now - self._greeted >= SERVED_SECONDS
            )

    def _retired(self) -> None:
        then, self._on_retired = self._on_retired, None
        if then is not None:
            then()

    def _wait(self, *, has_served: bool) -> None:
        if has_served and not self._has_served:
            # Whatever kept earlier ones from starting is over. This death counts from one.
            self.failures = 0
        self._has_served = has_served
        self.failures += 1
        seconds = min(FIRST_BACKOFF_SECONDS * 2 ** min(self.failures - 1, 10), MAX_BACKOFF_SECONDS)
        self._due = self._loop.now() + seconds
        self._backoff = self._loop.call_later(seconds, self.launch)

    def _set(self, state: str) -> None:
        self.state = state
        self.since = time.time()
