"""Starts the keeper of a project, detached, and waits until it is ready.

The only place outside the keeper that creates a process. It decides nothing about services: once
the keeper holds its lock, everything else is asked through the line door. Modules that only read
the keeper's answer are imported while it starts.
"""

from __future__ import annotations

import os
import sys
import time
from errno import E2BIG

import holdfast
from holdfast.client.connection import Connection, error_from
from holdfast.client.discovery import SupervisorAway, connect
from holdfast.system.lean_json import encoded, loads
from holdfast.system.places import Places, digest, lock_is_held, states_root
from holdfast.system.private_files import open_plain
from holdfast.vocabulary.errors import (
    Failed,
    HoldfastError,
    NoDaemon,
    Refused,
    TimedOut,
    UsageError,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

READY_SECONDS = 15.0
TAIL_BYTES = 2000
STICKY = 0o1000
"""The bit of a folder in which everybody may write, such as /tmp."""
ELSEWHERE = "choose another place with --state-dir"
_POLL_SECONDS = 0.01
KEPT_VARIABLES = frozenset(
    {"PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "TZ"}
    # Some Pythons find their own library only through these.
    | {"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"}
)
"""No locale is among them: without one, Python reads names of files as UTF-8, as all of Holdfast
does."""
KEPT_PREFIXES = ("XDG_", "HOLDFAST_")


class KeeperProcess:
    """A keeper that is our child, so that its end can be awaited."""

    __slots__ = ("_code", "pid")

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def exit_code(self, seconds: float) -> int | None:
        """Its exit code, or None if it has not ended in time."""
        deadline = time.monotonic() + seconds
        while self._code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                break  # the handler of SIGCHLD has just reaped it
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
            elif time.monotonic() >= deadline:
                break
            else:
                time.sleep(_POLL_SECONDS)
        return self._code


class Daemon:
    """A running Holdfast: a connection, and the keeper's process if this process started it."""

    __slots__ = ("connection", "keeper")

    def __init__(self, connection: Connection, keeper: KeeperProcess | None) -> None:
        self.connection = connection
        self.keeper = keeper


def ensure_running(places: Places, environ: Mapping[str, str]) -> Daemon:
    """Join the Holdfast of these places, or start it. If several start one, the one that gets the
    lock wins and the others join it."""
    deadline = time.monotonic() + READY_SECONDS
    keeper: KeeperProcess | None = None
    if not os.path.exists(places.line_socket) and not lock_is_held(places.state):
        # Clearly nothing runs, so there is no need to try to connect first.
        keeper = start_keeper(places, environ)
    while True:
        try:
            return Daemon(join(places), keeper)
        except SupervisorAway:
            raise
        except NoDaemon:
            if keeper is not None or time.monotonic() > deadline:
                raise _died(places, keeper) from None
        keeper = start_keeper(places, environ)


def start_keeper(places: Places, environ: Mapping[str, str]) -> KeeperProcess | None:
    """Start a keeper and wait until it is ready; returns None if another one holds the lock."""
    for folder in (places.project, places.state, places.runtime):
        _refuse_undecodable(folder)
    make_private(places.state)
    make_private(places.runtime)
    _refuse_foreign(os.path.dirname(places.runtime), os.getuid(), 0)
    remember_elsewhere(places, environ)
    ready, ready_end = os.pipe()
    try:
        try:
            keeper = _spawn_keeper(places, environ, ready_end)
        finally:
            os.close(ready_end)
        answer = _read_ready(ready)
    except KeyboardInterrupt:
        # A keeper that is half started cannot be ended in order, so wait. If none was started,
        # the pipe is closed and this returns at once.
        _read_ready(ready)
        raise
    finally:
        os.close(ready)
    if answer.get("ready"):
        return keeper
    error = error_from(answer.get("error") or {"message": _last_words(places, "keeper.err")})
    if error.code == "already_running":
        keeper.exit_code(READY_SECONDS)
        if not lock_is_held(places.state):
            # The holder only tested the lock or has just ended: try again.
            return start_keeper(places, environ)
        return None
    raise Failed(f"the keeper could not start: {error.message}", error.hint or _err_hint(places))


def own_keeper(places: Places) -> KeeperProcess | None:
    """The running keeper, if this process started it."""
    from holdfast.system.places import keeper_note

    pid = keeper_note(places.state).get("pid")
    if not isinstance(pid, int) or pid <= 0:
        return None
    try:
        # The pid of a child is not given to another process until the child is reaped.
        has_ended = os.waitpid(pid, os.WNOHANG)[0]
    except ChildProcessError:
        return None
    return None if has_ended else KeeperProcess(pid)


def _spawn_keeper(places: Places, environ: Mapping[str, str], ready_fd: int) -> KeeperProcess:
    """Start it in a session of its own. It leaves our folder and closes inherited descriptors by
    itself."""
    os.set_inheritable(ready_fd, True)
    errors = _open_errors(os.path.join(places.state, "keeper.err"))
    words = [*python_prefix(), keeper_main(), *_arguments(places), "--ready-fd", str(ready_fd)]
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, errors, 2),
    ]
    given = keeper_environment(environ)
    try:
        pid = os.posix_spawn(words[0], words, given, file_actions=actions, setsid=True)
        return KeeperProcess(pid)
    except OSError as error:
        raise _not_spawned(error, words, given) from None
    finally:
        os.close(errors)


def _not_spawned(error: OSError, words: list[str], given: dict[str, str]) -> Failed:
    """The error that no keeper could be created; names the longest value if the system found all of
    them too long."""
    why = f"the keeper could not be started with {words[0]}: {error.strerror or error}"
    if error.errno != E2BIG:
        return Failed(why, "`holdfast doctor` checks this host")
    sizes = {f"the variable {name}": len(os.fsencode(value)) for name, value in given.items()}
    for place, word in enumerate(words[1:]):
        sizes[f"the value of {words[place]}"] = len(os.fsencode(word))
    longest = max(sizes, key=lambda name: sizes[name])
    total = sum(sizes.values())
    return Failed(
        f"{why}: {longest} has {sizes[longest]:,} bytes, of {total:,} in all",
        "make it shorter, or the environment smaller, and try again",
    )


def _open_errors(path: str) -> int:
    """Open the file for the keeper's standard error. The start does not fail for want of it."""
    from fcntl import F_DUPFD_CLOEXEC, fcntl

    try:
        fd = open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    except OSError:
        fd = os.open(os.devnull, os.O_WRONLY)
    # Not 0, 1 or 2, which the new process opens for itself.
    high = fcntl(fd, F_DUPFD_CLOEXEC, 3)
    os.close(fd)
    return high


def python_prefix() -> list[str]:
    return [sys.executable, "-I", "-S"]


def package_parent() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(holdfast.__file__)))


def keeper_main() -> str:
    return os.path.join(package_parent(), "holdfast", "keeper", "__main__.py")


def import_path() -> list[str]:
    """The package's parent, then the folders this Python imports from.

    Never the caller's own folder, which Python may put first: a project's `json.py` is not
    for Holdfast to import.
    """
    folders = [package_parent()]
    is_safe = sys.flags.isolated or getattr(sys.flags, "safe_path", False)
    for entry in sys.path if is_safe else sys.path[1:]:
        folder = os.path.abspath(entry) if entry else ""
        if folder and folder not in folders and os.path.isdir(folder):
            folders.append(folder)
    return folders


def keeper_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Only the variables that Holdfast itself needs. Services get the environment of the caller of
    `up`."""
    return {
        name: value
        for name, value in environ.items()
        if name in KEPT_VARIABLES or name.startswith(KEPT_PREFIXES)
    }


def make_private(folder: str) -> None:
    """Create a folder that only this user may enter; refuse one that belongs to another."""
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        _refuse_foreign(folder, os.getuid())
        mode = os.stat(folder).st_mode
        is_shared = mode & STICKY and mode & 0o022
        if not os.path.isdir(folder) or is_shared:
            why = "is shared with other users" if is_shared else "is no folder"
            raise UsageError(f"{folder} {why}", ELSEWHERE) from None
        if mode & 0o077:
            os.chmod(folder, 0o700)


def _refuse_foreign(folder: str, *users: int) -> None:
    """Raise Refused unless one of these users owns the folder: its owner could replace what is in
    it."""
    if os.stat(folder).st_uid not in users:
        raise Refused(
            f"{folder} belongs to another user",
            f"remove it, or {ELSEWHERE}",
        )


def _refuse_undecodable(folder: str) -> None:
    """Raise UsageError for a name that is not UTF-8: answers name the folder, and are text."""
    try:
        folder.encode()
    except UnicodeEncodeError:
        name = os.fsencode(folder).decode(errors="backslashreplace")
        raise UsageError(f"{name} is not UTF-8", "give the folder another name") from None


def remember_elsewhere(places: Places, environ: Mapping[str, str]) -> None:
    """Leave a note for `holdfast ls` if the state is not in the usual folder."""
    root = states_root(environ)
    if os.path.dirname(places.state) == root:
        return
    folder = elsewhere_folder(environ)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, digest(places.state))
    with open(path, "wb", opener=open_plain) as note:
        note.write(encoded({"project": places.project, "state": places.state}))


def elsewhere_folder(environ: Mapping[str, str]) -> str:
    return os.path.join(states_root(environ), "elsewhere")


def tail_of(path: str) -> str:
    """The last lines of a file, or nothing."""
    try:
        with open(open_plain(path, os.O_RDONLY), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            text = file.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-12:])


def join(places: Places) -> Connection:
    """A connection to the supervisor, which is switched on again if it is off."""
    try:
        return connect(places)
    except SupervisorAway as away:
        if not away.is_off:
            raise
    from holdfast.client.keeper_connection import KeeperConnection

    keeper = KeeperConnection(places.keeper_socket)
    try:
        keeper.ask("supervise", on=True)
    finally:
        keeper.close()
    return connect(places)


def _arguments(places: Places) -> list[str]:
    return [
        "--state", places.state,
        "--runtime", places.runtime,
        "--import-path", os.pathsep.join(import_path()),
        "--project", places.project,
    ]  # fmt: skip


def _read_ready(fd: int) -> dict[str, Any]:
    import select

    deadline = time.monotonic() + READY_SECONDS
    line = b""
    while b"\n" not in line:
        left = deadline - time.monotonic()
        readable = select.select([fd], [], [], max(0.0, left))[0]
        if not readable:
            raise TimedOut(
                f"the keeper was not ready within {READY_SECONDS:g} s", "`holdfast doctor` may help"
            )
        piece = os.read(fd, 65536)
        if not piece:
            break
        line += piece
    try:
        answer: dict[str, Any] = loads(line)
    except ValueError:
        return {}
    return answer


def _died(places: Places, keeper: KeeperProcess | None) -> HoldfastError:
    code = keeper.exit_code(0) if keeper else None
    ended = f" (exit {code})" if code is not None else ""
    words = _last_words(places, "keeper.err")
    return Failed(f"the keeper ended at once{ended}: {words}", _err_hint(places))


def _last_words(places: Places, name: str) -> str:
    return tail_of(os.path.join(places.state, name)) or "it said nothing"


def _err_hint(places: Places) -> str:
    return f"see {os.path.join(places.state, 'keeper.err')}; `holdfast doctor` checks this host"
