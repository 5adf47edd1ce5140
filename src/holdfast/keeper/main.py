"""Start of a keeper: fresh, resumed after its own upgrade, or recovered by a supervisor.

Takes the lock, builds the keeper, says that it is ready and runs the loop. Imports first what
a fresh keeper needs to launch its supervisor; the other modules load while the supervisor does.
"""

from __future__ import annotations

import os
import sys
import time

import holdfast
from holdfast.keeper import lock, options, stderr
from holdfast.keeper.supervisor_launcher import CEILING, NOFILE, OOM_SCORE, Launcher, check_argv
from holdfast.system import claims, lean_json
from holdfast.system.private_files import read_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

    from holdfast.keeper.handover import Table
    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.options import Options

ELDER_SECONDS = 5.0
_LOOK_SECONDS = 0.05


class StartError(Exception):
    """The keeper cannot start, with a code for the program that launched it."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


def main(arguments: list[str]) -> int:
    started = options.parse(arguments)
    if started.check_fd is not None:
        return _check(started.check_fd, started)
    stderr.install()
    try:
        keeper = _start(started)
    except (StartError, OSError) as error:
        told = error if isinstance(error, StartError) else StartError("start_failed", str(error))
        facts = {"code": told.code, "message": str(told), "hint": told.hint}
        _say(started.ready_fd, {"error": facts})
        stderr.say(str(error))
        return 1
    _say(started.ready_fd, {"ready": True})
    keeper.loop.run()
    keeper.close()
    return keeper.exit_code


def _check(table_fd: int, options: Options) -> int:
    """Rehearse an upgrade: read the table, and import everything. At last exec into a process that
    imports what the supervisor needs, if one is to be launched."""
    from holdfast.keeper import handover, keeper  # noqa: F401

    table = handover.read(table_fd)
    handover.check(table)
    program = os.path.join(os.path.dirname(holdfast.__file__), "supervisor.py")
    if not os.path.exists(program):
        raise StartError("start_failed", f"there is no {program}")
    is_relaunched = "supervisor" in table and table["supervisor"]["state"] != "off"
    # An earlier version of the keeper passes no import path.
    if is_relaunched and options.has_import_path and options.supervisor_argv is None:
        os.execv(sys.executable, check_argv(options.import_path))
    return 0


def _start(options: Options) -> Keeper:
    os.chdir("/")
    _tidy_descriptors(options)
    umask = os.umask(0o077)
    table = _table(options)
    _prepare_folders(options)
    if table:
        lock_fd, claimed = int(table["lock"]), table.get("claim")
        if claimed is None:
            claimed = claims.claim(options.state)
    else:
        lock_fd, claimed = _lock(options.state)
    if options.recover_fd is not None:
        _take_origin(table)
    token = table.get("token")
    shared = {"lock": lock_fd, "token": claims.new_token() if token is None else int(token)}
    if claimed is not None:
        shared["claim"] = claimed
    launcher = Launcher(options, shared, table, table.get("umask", umask))
    if not table and options.link_fd is None and options.launches_supervisor:
        launcher.start_early()
    try:
        keeper = _build(options, shared, table, launcher)
    except BaseException:
        launcher.abandon_early()
        raise
    if claimed is not None:
        _answer_calls(claimed, keeper)
    return keeper


def _take_origin(table: Table) -> None:
    """Add the limits that the first keeper was born with. The supervisor that turned into this
    keeper has them in its environment."""
    if text := os.environ.get(NOFILE):
        table.setdefault("nofile", [int(number) for number in text.split(":")])
    if text := os.environ.get(OOM_SCORE):
        table.setdefault("oom_score", int(text))
    if text := os.environ.get(CEILING):
        table.setdefault("ceiling", int(text))


def _build(options: Options, shared: dict[str, int], table: Table, launcher: Launcher) -> Keeper:
    import signal
    import socket

    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.loop import Loop

    is_resumed = options.resume_fd is not None
    loop = Loop()
    keeper = Keeper(options, loop, shared, table, launcher)
    loop.on_signal(signal.SIGCHLD, keeper.children.exits.on_child_signal)
    loop.on_signal(signal.SIGHUP, keeper.reopen)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.on_signal(number, lambda number=number: keeper.on_shutdown_signal(number))  # type: ignore[misc]
    keeper.restore_runs(table)
    keeper.open(_inherited_listener(table) if is_resumed else None)
    if is_resumed:
        keeper.supervisor.resume(table["supervisor"])
        keeper.restore_connections(table)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    if options.link_fd is not None:
        keeper.set_link(socket.socket(fileno=options.link_fd))
    elif is_resumed:
        if table["supervisor"]["state"] != "off":
            loop.at_turn_end(keeper.retire_and_relaunch)
    elif options.launches_supervisor:
        keeper.supervisor.launch()
    # Children that ended while SIGCHLD had no handler.
    loop.at_turn_end(keeper.children.exits.reap)
    return keeper


def _answer_calls(claimed: int, keeper: Keeper) -> None:
    """Make our files anew when somebody connects to the claim: then they were deleted."""
    import socket

    from holdfast.keeper.protocol.connections import ListeningSocket

    def on_call(sock: socket.socket, _: object) -> None:
        sock.close()
        keeper.reopen()

    ListeningSocket(socket.socket(fileno=claimed), keeper.loop, on_call)


def _table(options: Options) -> Table:
    """The table that a predecessor left; empty if there was none."""
    if options.table_fd is None:
        return {}
    from holdfast.keeper import handover

    try:
        return handover.read(options.table_fd)
    except handover.HandoverError as error:
        raise StartError("start_failed", str(error)) from None


def _inherited_listener(table: Table) -> socket.socket | None:
    import socket

    fd = table.get("listener")
    try:
        return socket.socket(fileno=fd) if fd is not None else None
    except OSError as error:
        stderr.say(f"taking over keeper.sock: {error}")
        return None


def _prepare_folders(options: Options) -> None:
    """Make the folders. A keeper that takes over processes must go on without them if need be."""
    if options.recover_fd is not None:
        # This process was the supervisor, whose standard error is another file.
        stderr.use(os.path.join(options.state, "keeper.err"))
    for folder in (options.state, options.runtime):
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
            os.chmod(folder, 0o700)
        except OSError as error:
            if options.table_fd is None:
                raise
            stderr.say(f"making {folder}: {error}")
    if options.project is None and options.recover_fd is not None:
        options.project = _project_of_predecessor(options.state)


def _project_of_predecessor(state: str) -> str | None:
    try:
        note = lean_json.loads(read_plain(os.path.join(state, "keeper.json")))
    except (OSError, ValueError):
        return None
    project = note.get("project") if isinstance(note, dict) else None
    return project if isinstance(project, str) else None


def _lock(state: str) -> tuple[int, int | None]:
    """Take the lock of the state folder, and the claim that outlives the deletion of its files."""
    deadline, is_alone = time.monotonic() + ELDER_SECONDS, False
    while True:
        try:
            fd = lock.take(state)
        except lock.AlreadyLocked as held:
            raise StartError("already_running", str(held)) from None
        claimed = claims.claim(state)
        if claimed is not None or is_alone:
            return fd, claimed
        # The files of another keeper were deleted. It locks the new file when it is called,
        # unless it is ending.
        os.close(fd)
        is_alone = not claims.call(state)
        if not is_alone and time.monotonic() > deadline:
            raise _unanswered(state)
        time.sleep(0.0 if is_alone else _LOOK_SECONDS)


def _unanswered(state: str) -> StartError:
    """Another keeper lives and does not answer. Two keepers would start every service twice, so a
    person has to decide about the first."""
    what = f"the Holdfast of {state}, whose files were deleted, still runs and does not answer"
    pids = " ".join(map(str, claims.holders(state)))
    if not pids:
        return StartError("start_failed", what, "end it first; `holdfast doctor` checks this host")
    return StartError(
        "start_failed",
        f"{what} (pid {pids})",
        f"`kill -CONT {pids}` lets it go on if it was stopped; `kill -KILL {pids}` ends it, and "
        "the next `holdfast up` takes its services over",
    )


def _tidy_descriptors(options: Options) -> None:
    """Open the first three descriptors if they are closed, and let no child inherit the others. A
    fresh keeper closes those that its launcher left open: somebody may wait for their end."""
    fd = os.open(os.devnull, os.O_RDWR)
    while fd <= 2:
        fd = os.open(os.devnull, os.O_RDWR)
    os.close(fd)
    folder = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    for name in os.listdir(folder):
        fd = int(name)
        if fd <= 2 or not os.path.lexists(f"{folder}/{name}"):
            continue
        if options.is_fresh and fd != options.ready_fd:
            os.close(fd)
        else:
            os.set_inheritable(fd, False)


def _say(ready_fd: int | None, message: dict[str, object]) -> None:
    if ready_fd is not None:
        os.write(ready_fd, lean_json.encoded(message) + b"\n")
        os.close(ready_fd)
