"""Start of a keeper: fresh, resumed after its own upgrade, or recovered by a supervisor.

Reads the arguments, takes the lock, puts the keeper together, says that it is ready and
runs the loop. What a fresh one needs to start its supervisor is imported first: the rest
loads while the supervisor does.
"""

from __future__ import annotations

import os
import sys
import time

import holdfast
from holdfast.keeper import lock, stderr
from holdfast.keeper.options import Options
from holdfast.keeper.supervisor_launcher import CEILING, NOFILE, OOM_SCORE, Launcher, check_argv
from holdfast.system import claims, lean_json
from holdfast.system.private_files import read_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

    from holdfast.keeper.handover import Table
    from holdfast.keeper.keeper import Keeper

_FLAGS = ("--no-supervisor",)
ELDER_SECONDS = 5.0
_LOOK_SECONDS = 0.05


class StartError(Exception):
    """The keeper cannot start, with a code for the one who launched it."""

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


def main(arguments: list[str]) -> int:
    asked = _parse(arguments)
    if "--check" in asked:
        return _check(int(asked["--check"]), asked)
    stderr.install()
    ready_fd = int(asked["--ready-fd"]) if "--ready-fd" in asked else None
    try:
        keeper = _start(asked)
    except (StartError, OSError) as error:
        told = error if isinstance(error, StartError) else StartError("start_failed", str(error))
        _say(ready_fd, {"error": {"code": told.code, "message": str(told), "hint": told.hint}})
        stderr.say(str(error))
        return 1
    _say(ready_fd, {"ready": True})
    keeper.loop.run()
    keeper.close()
    return keeper.exit_code


def _parse(arguments: list[str]) -> dict[str, str]:
    asked: dict[str, str] = {}
    rest = iter(arguments)
    for name in rest:
        asked[name] = "" if name in _FLAGS else next(rest)
    return asked


def _check(table_fd: int, asked: dict[str, str]) -> int:
    """Rehearsal of an upgrade: the table is legible, and everything can be imported. Last what the
    supervisor needs, if one is to be launched: this process turns into one that loads it."""
    from holdfast.keeper import handover, keeper  # noqa: F401

    table = handover.read(table_fd)
    handover.check(table)
    program = os.path.join(os.path.dirname(holdfast.__file__), "supervisor.py")
    if not os.path.exists(program):
        raise StartError("start_failed", f"there is no {program}")
    # An earlier keeper passes no path.
    is_relaunched = "supervisor" in table and table["supervisor"]["state"] != "off"
    if is_relaunched and "--import-path" in asked and "--supervisor-argv" not in asked:
        os.execv(sys.executable, check_argv(_import_path(asked)))
    return 0


def _start(asked: dict[str, str]) -> Keeper:
    os.chdir("/")
    _tidy_descriptors(asked)
    umask = os.umask(0o077)
    table = _table(asked)
    options = _options(asked)
    if table:
        lock_fd, claimed = int(table["lock"]), table.get("claim")
        if claimed is None:
            claimed = claims.claim(options.state)
    else:
        lock_fd, claimed = _lock(options.state)
    if "--recover" in asked:
        _take_origin(table)
    token = table.get("token")
    shared = {"lock": lock_fd, "token": claims.new_token() if token is None else int(token)}
    if claimed is not None:
        shared["claim"] = claimed
    launcher = Launcher(options, shared, table, table.get("umask", umask))
    if not table and "--link" not in asked and "--no-supervisor" not in asked:
        launcher.start_early()
    try:
        keeper = _put_together(asked, options, shared, table, launcher)
    except BaseException:
        launcher.abandon_early()
        raise
    if claimed is not None:
        _heed(claimed, keeper)
    return keeper


def _take_origin(table: Table) -> None:
    """What the first keeper was born with, as it told the supervisor that this process was."""
    if text := os.environ.get(NOFILE):
        table.setdefault("nofile", [int(number) for number in text.split(":")])
    if text := os.environ.get(OOM_SCORE):
        table.setdefault("oom_score", int(text))
    if text := os.environ.get(CEILING):
        table.setdefault("ceiling", int(text))


def _put_together(
    asked: dict[str, str],
    options: Options,
    shared: dict[str, int],
    table: Table,
    launcher: Launcher,
) -> Keeper:
    import signal
    import socket

    from holdfast.keeper.keeper import Keeper
    from holdfast.keeper.loop import Loop

    is_resumed = "--resume" in asked
    loop = Loop()
    keeper = Keeper(options, loop, shared, table, launcher)
    loop.on_signal(signal.SIGCHLD, keeper.children.departures.on_child_signal)
    loop.on_signal(signal.SIGHUP, keeper.reopen)
    on_end = keeper.end_requests.on_signal
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.on_signal(number, lambda number=number: on_end(number))  # type: ignore[misc]
    keeper.restore_runs(table)
    keeper.open(_inherited_listener(table) if is_resumed else None)
    if is_resumed:
        keeper.supervisor.resume(table["supervisor"])
        keeper.restore_connections(table)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    if "--link" in asked:
        keeper.set_link(socket.socket(fileno=int(asked["--link"])))
    elif is_resumed:
        if table["supervisor"]["state"] != "off":
            loop.at_turn_end(keeper.retire_and_relaunch)
    elif "--no-supervisor" not in asked:
        keeper.supervisor.launch()
    # Whoever ended while there was no handler.
    loop.at_turn_end(keeper.children.departures.reap)
    return keeper


def _heed(claimed: int, keeper: Keeper) -> None:
    """Who finds no files of ours calls here, and has them made anew."""
    import socket

    from holdfast.keeper.protocol.connections import Door

    def on_called(sock: socket.socket, _: object) -> None:
        sock.close()
        keeper.reopen()

    Door(socket.socket(fileno=claimed), keeper.loop, on_called)


def _table(asked: dict[str, str]) -> Table:
    """What a predecessor left, or nothing."""
    found = [asked[name] for name in ("--resume", "--recover") if name in asked]
    if not found:
        return {}
    from holdfast.keeper import handover

    try:
        return handover.read(int(found[0]))
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


def _options(asked: dict[str, str]) -> Options:
    state = os.path.abspath(asked["--state"])
    runtime = os.path.abspath(asked["--runtime"])
    is_successor = "--resume" in asked or "--recover" in asked
    if "--recover" in asked:
        # What was the supervisor complained in another file.
        stderr.use(os.path.join(state, "keeper.err"))
    for folder in (state, runtime):
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
            os.chmod(folder, 0o700)
        except OSError as error:
            if not is_successor:
                raise
            stderr.say(f"making {folder}: {error}")
    project = asked.get("--project")
    if project is None and "--recover" in asked:
        project = _project_of_predecessor(state)
    return Options(
        state,
        runtime,
        _import_path(asked),
        project,
        _argv_of(asked["--supervisor-argv"]) if "--supervisor-argv" in asked else None,
    )


def _import_path(asked: dict[str, str]) -> list[str]:
    return [path for path in asked.get("--import-path", "").split(os.pathsep) if path]


def _argv_of(text: str) -> list[str]:
    return [str(word) for word in lean_json.loads(text.encode())]


def _project_of_predecessor(state: str) -> str | None:
    try:
        note = lean_json.loads(read_plain(os.path.join(state, "keeper.json")))
    except (OSError, ValueError):
        return None
    project = note.get("project") if isinstance(note, dict) else None
    return project if isinstance(project, str) else None


def _lock(state: str) -> tuple[int, int | None]:
    """One keeper per state folder: its lock, and the claim that outlives the deletion of files."""
    deadline, is_alone = time.monotonic() + ELDER_SECONDS, False
    while True:
        try:
            fd = lock.take(state)
        except lock.Held as held:
            raise StartError("already_running", str(held)) from None
        claimed = claims.claim(state)
        if claimed is not None or is_alone:
            return fd, claimed
        # The files of another were deleted: it locks the new one when called, or it is ending.
        os.close(fd)
        is_alone = not claims.call(state)
        if not is_alone and time.monotonic() > deadline:
            raise _held_by_the_deaf(state)
        time.sleep(0.0 if is_alone else _LOOK_SECONDS)


def _held_by_the_deaf(state: str) -> StartError:
    """Two keepers would start every service twice; somebody has to decide about the first."""
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


def _tidy_descriptors(asked: dict[str, str]) -> None:
    """The first three exist; of the others none is inherited by what we start. Those that a fresh
    keeper got from whoever launched it are closed: who waits for their end must not wait for us."""
    fd = os.open(os.devnull, os.O_RDWR)
    while fd <= 2:
        fd = os.open(os.devnull, os.O_RDWR)
    os.close(fd)
    is_fresh = not {"--resume", "--recover", "--link"} & asked.keys()
    folder = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    for name in os.listdir(folder):
        fd = int(name)
        if fd <= 2 or not os.path.lexists(f"{folder}/{name}"):
            continue
        if is_fresh and name != asked.get("--ready-fd"):
            os.close(fd)
        else:
            os.set_inheritable(fd, False)


def _say(ready_fd: int | None, message: dict[str, object]) -> None:
    if ready_fd is not None:
        os.write(ready_fd, lean_json.encoded(message) + b"\n")
        os.close(ready_fd)
