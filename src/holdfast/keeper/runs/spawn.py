"""The only place that creates a process, in stages that have names.

Uses `posix_spawn` where it can do the job, and `fork` with a pipe for the failing stage where a
user, limits or passed sockets are asked for. Never returns a half-made process: the result is the
pid of a program that runs, or a SpawnError that names the stage that failed.
"""

from __future__ import annotations

import errno
import os
import resource

from holdfast.keeper.runs.launch import SpawnError, excess_of, failure
from holdfast.system import run_marks

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import Any, NoReturn

    from holdfast.keeper.runs.launch import Launch, Limits
else:
    # The module `signal` makes enumerations, and the first supervisor would have to wait for it.
    import _signal as signal

# A child would ignore every signal that the keeper ignores, so these are reset.
_DEFAULTED = sorted(
    {*range(1, signal.SIGUSR2 + 20)} & signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
)


class Spawner:
    """Starts programs with the limits that the first keeper was born with."""

    def __init__(
        self, nofile: Limits | None = None, oom_score: int | None = None, umask: int = 0o022
    ) -> None:
        self.umask = umask
        self.nofile: Limits = nofile or resource.getrlimit(resource.RLIMIT_NOFILE)
        self.oom_score = oom_score
        self._oom_fd = -1
        if oom_score is not None:
            self._oom_fd = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
            self._own_oom_score = os.read(self._oom_fd, 16)
        self.null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        self._unmarked = run_marks.own() if run_marks.can_mark() else None

    def spawn(self, launch: Launch) -> int:
        """Start a program; returns its pid once it is executed, or raises SpawnError."""
        if not launch.argv or not launch.argv[0]:
            raise failure("exec", "running the command", errno.EINVAL, "it is empty")
        high = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowers = high != self.nofile and not launch.keeps_high_limits
        # posix_spawn refuses a descriptor beyond the new limit with EBADF.
        is_beyond = lowers and max(launch.stdio or (0,)) >= self.nofile[0]
        forks = launch.needs_fork or is_beyond
        if forks and lowers:
            # The child lowers the limit as its last step: it needs descriptors before.
            lowers, launch.nofile = False, self.nofile
        own_umask = os.umask(self.umask)
        unmarked = self._unmarked if launch.mark is not None else None
        try:
            if unmarked is not None:
                self._set_mark((launch.mark or 0, unmarked[1]))
            if lowers:
                resource.setrlimit(resource.RLIMIT_NOFILE, self.nofile)
            if self._oom_fd >= 0:
                os.pwrite(self._oom_fd, b"%d" % (self.oom_score or 0), 0)
            return _fork(launch) if forks else _posix_spawn(launch)
        finally:
            os.umask(own_umask)
            if unmarked is not None:
                self._set_mark(unmarked)
            if self._oom_fd >= 0:
                os.pwrite(self._oom_fd, self._own_oom_score, 0)
            if lowers:
                resource.setrlimit(resource.RLIMIT_NOFILE, high)

    def _set_mark(self, limits: Limits) -> None:
        try:
            resource.setrlimit(run_marks.RLIMIT, limits)
        except (OSError, ValueError):
            # Our own hard limit was lowered. An unmarked run is better than none.
            self._unmarked = None


def find_program(name: str, env: dict[str, str]) -> str:
    """The file to execute, found in the PATH of the new process."""
    if "/" in name:
        return name
    places = [f"{folder or '.'}/{name}" for folder in env.get("PATH", os.defpath).split(":")]
    for path in places:
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    number = errno.EACCES if any(map(os.path.isfile, places)) else errno.ENOENT
    raise OSError(number, f"{os.strerror(number)} (looked for in PATH)")


def _posix_spawn(launch: Launch) -> int:
    _enter(launch)
    try:
        program = find_program(launch.argv[0], launch.env)
        actions: list[tuple[Any, ...]] = []
        if launch.slave is not None:
            # A session leader without a terminal gets the first one it opens as its own.
            actions.append((os.POSIX_SPAWN_OPEN, 0, os.ttyname(launch.slave), os.O_RDWR, 0))
            actions += [(os.POSIX_SPAWN_DUP2, 0, 1), (os.POSIX_SPAWN_DUP2, 0, 2)]
        elif launch.stdio is not None:
            actions += [(os.POSIX_SPAWN_DUP2, fd, to) for to, fd in enumerate(launch.stdio)]
        return os.posix_spawn(
            program,
            launch.argv,
            launch.env,
            file_actions=actions,
            setsid=True,
            setsigmask=[],
            setsigdef=_DEFAULTED,
        )
    except OSError as error:
        raise _exec_failure(launch, error) from None
    except ValueError as error:
        raise failure("environment", "preparing the command", errno.EINVAL, str(error)) from None
    finally:
        os.chdir("/")


def _fork(launch: Launch) -> int:
    if launch.confine is not None:
        from holdfast.system import landlock

        landlock.version()  # loads what every confined child needs, once
    reader, writer = os.pipe()
    everything = signal.valid_signals()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, everything)
    try:
        pid = os.fork()
        if pid == 0:
            _become(launch, writer)
    except OSError as error:
        os.close(reader)
        os.close(writer)
        raise failure("session", "starting a process", error.errno or 0) from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.close(writer)
    report = b""
    while piece := os.read(reader, 4096):
        report += piece
    os.close(reader)
    if report:
        os.waitpid(pid, 0)
        stage, number, message = report.decode(errors="replace").split("\0", 2)
        raise SpawnError(stage, int(number), message)
    return pid


def _become(launch: Launch, writer: int) -> NoReturn:
    """In the child: go through the stages, report the one that fails, and end."""
    stage, doing = "session", "starting a session"
    try:
        writer = _lift(writer, max(_targets(launch)) + 1)
        signal.set_wakeup_fd(-1)
        stages: list[tuple[str, str, Callable[[Launch], None]]] = [
            ("session", "starting a session", _start_session),
            ("terminal", "opening the terminal", _connect),
            ("limits", "entering its cgroup", _enter_cgroup),
            ("limits", "setting limits", _limit),
            ("user", f"changing to user {launch.user.name if launch.user else ''}", _change_user),
            ("directory", f"entering directory {launch.cwd}", _change_directory),
            ("confinement", "confining it to its folders", _confine),
            ("exec", f"running {launch.argv[0]}", _execute),
        ]
        for stage, doing, step in stages:  # noqa: B007 - the failing one is reported
            step(launch)
    except OSError as error:
        why = _why(launch, error) if stage == "exec" else error.strerror
        _report(writer, stage, error.errno or 0, f"{doing}: {why or error}")
    except BaseException as error:  # noqa: BLE001 - a child must never go on as a second keeper
        _report(writer, stage, errno.EINVAL, f"{doing}: {error}")
    finally:
        os._exit(127)


def _report(writer: int, stage: str, number: int, message: str) -> None:
    os.write(writer, f"{stage}\0{number}\0{message}".encode(errors="replace"))


def _start_session(launch: Launch) -> None:
    for number in _DEFAULTED:
        signal.signal(number, signal.SIG_DFL)
    os.setsid()


def _connect(launch: Launch) -> None:
    if launch.slave is not None:
        import fcntl
        import termios

        fcntl.ioctl(launch.slave, termios.TIOCSCTTY, 0)
        launch.stdio = (launch.slave, launch.slave, launch.slave)
    sources = list(launch.stdio or (0, 1, 2)) + [fd for _, fd in launch.passed]
    if launch.ready is not None:
        sources.append(launch.ready[1])
    # Make copies above every target first: a source may have the number of another target.
    targets = _targets(launch)
    lifted = [_lift(fd, max(targets) + 1) for fd in sources]
    for target, fd in zip(targets, lifted, strict=True):
        os.dup2(fd, target, inheritable=True)
    if launch.passed:
        launch.env["LISTEN_PID"] = str(os.getpid())
        launch.env["LISTEN_FDS"] = str(len(launch.passed))
        launch.env["LISTEN_FDNAMES"] = ":".join(name for name, _ in launch.passed)


def _targets(launch: Launch) -> list[int]:
    """The numbers at which the program finds its descriptors."""
    targets = list(range(3 + len(launch.passed)))
    return targets if launch.ready is None else [*targets, launch.ready[0]]


def _lift(fd: int, above: int) -> int:
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above)


def _enter_cgroup(launch: Launch) -> None:
    if launch.cgroup is not None:
        with open(f"{launch.cgroup}/cgroup.procs", "wb", 0) as file:
            file.write(b"0")


def _limit(launch: Launch) -> None:
    for number, pair in launch.rlimits.items():
        resource.setrlimit(number, pair if number != run_marks.RLIMIT else _within_ceiling(pair))
    if launch.nice is not None:
        os.setpriority(os.PRIO_PROCESS, 0, launch.nice)
    if launch.umask is not None:
        os.umask(launch.umask)


def _within_ceiling(pair: Limits) -> Limits:
    """The limits that were asked for, at most the keeper's own hard limit."""
    ceiling = resource.getrlimit(run_marks.RLIMIT)[1]
    soft, hard = (ceiling if limit == resource.RLIM_INFINITY else limit for limit in pair)
    if ceiling == resource.RLIM_INFINITY:
        return pair
    return min(soft, ceiling), min(hard, ceiling)


def _change_user(launch: Launch) -> None:
    if launch.user:
        launch.user.become()


def _confine(launch: Launch) -> None:
    if launch.confine is None:
        return
    from holdfast.system import landlock

    # Opened first: a confined process does not reach the descriptors of another one.
    for name, path in (launch.confine.get("open") or {}).items():
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        os.set_inheritable(folder, True)
        launch.env[name] = f"/proc/self/fd/{folder}"
    landlock.restrict(launch.confine.get("read") or (), launch.confine.get("write") or ())


def _execute(launch: Launch) -> None:
    program = find_program(launch.argv[0], launch.env)
    if launch.nofile is not None and resource.RLIMIT_NOFILE not in launch.rlimits:
        resource.setrlimit(resource.RLIMIT_NOFILE, launch.nofile)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    os.execve(program, launch.argv, launch.env)


def _change_directory(launch: Launch) -> None:
    """Enter the directory, and check afterwards where we are: no link can be swapped in between."""
    os.chdir(launch.cwd)
    if launch.beneath is not None:
        here = os.getcwd()
        if not f"{here}/".startswith(f"{launch.beneath.rstrip('/')}/"):
            raise OSError(errno.EXDEV, f"it leads to {here}, which is not below {launch.beneath}")


def _enter(launch: Launch) -> None:
    doing = f"entering directory {launch.cwd}"
    try:
        _change_directory(launch)
    except OSError as error:
        os.chdir("/")
        raise failure("directory", doing, error.errno or 0, error.strerror or "") from None
    except ValueError as error:
        raise failure("directory", "entering directory", errno.EINVAL, str(error)) from None


def _exec_failure(launch: Launch, error: OSError) -> SpawnError:
    why = _why(launch, error)
    if error.errno in (errno.EAGAIN, errno.ENOMEM):
        return failure("session", "starting a process", error.errno)
    if error.errno == errno.ENOENT and "/" in launch.argv[0]:
        path = os.path.join(launch.cwd, launch.argv[0])
        if os.path.exists(path):
            why += " (the interpreter that its first line names does not exist)"
    return failure("exec", f"running {launch.argv[0]}", error.errno or 0, why)


def _why(launch: Launch, error: OSError) -> str:
    why = error.strerror or ""
    return f"{why}: {excess_of(launch)}" if error.errno == errno.E2BIG else why
