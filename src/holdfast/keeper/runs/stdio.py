"""What a new run prints to and reads from: pipes, or a terminal. Made before it is spawned."""

from __future__ import annotations

import os

from holdfast.keeper.runs import terminal
from holdfast.keeper.runs.launch import Launch, SpawnError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.keeper.runs.run import Facts

_HAS_PROC = os.path.isdir("/proc/self/fd")


def terminal_for(
    asked: Facts, env: dict[str, str], ours: dict[str, int], theirs: list[int]
) -> Launch:
    """A launch on a new terminal; who holds which end is told in `ours` and `theirs`."""
    try:
        master, slave = terminal.open_pair(int(asked["cols"]), int(asked["rows"]))
    except OSError as error:
        raise SpawnError("terminal", error.errno or 0, f"opening a terminal: {error}") from None
    ours["terminal"] = master
    theirs.append(slave)
    if _HAS_PROC:
        ours["transit"] = terminal.open_transit()
    launch = Launch(asked["argv"], env, asked.get("cwd") or "/", slave=slave)
    launch.restrict(asked)
    if launch.user is not None and os.geteuid() == 0:
        os.fchown(slave, launch.user.uid, -1)
    return launch


def pipes_for(
    asked: Facts, env: dict[str, str], null: int, ours: dict[str, int], theirs: list[int]
) -> Launch:
    """The same on pipes; a run that reads nothing gets `null`."""
    source = null
    try:
        is_lasting = asked.get("kind") != "task"
        ours["out"], out = _pipe(theirs, is_lasting)
        ours["err"], err = _pipe(theirs, is_lasting)
        if asked.get("stdin") == "pipe":
            source, ours["stdin"] = os.pipe()
            theirs.append(source)
    except OSError as error:
        raise SpawnError("pipes", error.errno or 0, f"making pipes: {error.strerror}") from None
    launch = Launch(asked["argv"], env, asked.get("cwd") or "/", stdio=(source, out, err))
    launch.restrict(asked)
    return launch


def _pipe(theirs: list[int], is_lasting: bool) -> tuple[int, int]:
    """Our end and the service's. The service's can be read, too, where the system allows:
    then printing never fails, not even while no keeper is there; it waits in the pipe."""
    ours, writer = os.pipe()
    theirs.append(writer)
    if is_lasting and _HAS_PROC:
        writer = os.open(f"/proc/self/fd/{writer}", os.O_RDWR | os.O_CLOEXEC)
        theirs.append(writer)
    return ours, writer
