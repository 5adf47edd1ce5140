"""The standard streams of a run: pipes, or a pseudo-terminal.

Makes them before the run is spawned, tells a terminal its size, and knows its end of input. The
keeper keeps one end of each; the other end belongs to the run and is closed here once it has it.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios

from holdfast.keeper.runs.launch import Launch, SpawnError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import SpawnRequest

DEFAULT_COLS = 80
DEFAULT_ROWS = 24
DEFAULT_TERM = "xterm-color"
_HAS_PROC = os.path.isdir("/proc/self/fd")


def terminal_for(
    request: SpawnRequest, env: dict[str, str], ours: dict[str, int], theirs: list[int]
) -> Launch:
    """A launch on a new terminal. Adds the descriptors of both sides to `ours` and `theirs`."""
    try:
        master, slave = _open_pair(int(request["cols"]), int(request["rows"]))
    except OSError as error:
        raise SpawnError("terminal", error.errno or 0, f"opening a terminal: {error}") from None
    ours["terminal"] = master
    theirs.append(slave)
    if _HAS_PROC:
        ours["transit"] = _open_transit()
    launch = Launch(request["argv"], env, request.get("cwd") or "/", slave=slave)
    launch.restrict(request)
    if launch.user is not None and os.geteuid() == 0:
        os.fchown(slave, launch.user.uid, -1)
    return launch


def pipes_for(
    request: SpawnRequest, env: dict[str, str], null: int, ours: dict[str, int], theirs: list[int]
) -> Launch:
    """A launch on new pipes. A run without standard input reads `null`.

    With a channel, standard input and output are a conversation with somebody to whom the
    supervisor lends our ends. We hold them and never read or write."""
    source = null
    try:
        is_lasting = request.get("kind") != "task"
        if request.get("stdin") == "channel":
            source, ours["channel_in"] = os.pipe()
            theirs.append(source)
            ours["channel_out"], out = os.pipe()
            theirs.append(out)
        else:
            ours["out"], out = _pipe(theirs, is_lasting)
        ours["err"], err = _pipe(theirs, is_lasting)
        if request.get("stdin") == "pipe":
            source, ours["stdin"] = os.pipe()
            theirs.append(source)
    except OSError as error:
        raise SpawnError("pipes", error.errno or 0, f"making pipes: {error.strerror}") from None
    launch = Launch(request["argv"], env, request.get("cwd") or "/", stdio=(source, out, err))
    launch.restrict(request)
    return launch


def _pipe(theirs: list[int], is_lasting: bool) -> tuple[int, int]:
    """Our end of a pipe, and the service's. The service's end can be read, too, where the system
    allows that: then a service can print while no keeper is there, and output waits in the pipe."""
    ours, writer = os.pipe()
    theirs.append(writer)
    if is_lasting and _HAS_PROC:
        writer = os.open(f"/proc/self/fd/{writer}", os.O_RDWR | os.O_CLOEXEC)
        theirs.append(writer)
    return ours, writer


def _open_pair(cols: int, rows: int) -> tuple[int, int]:
    """The master (non-blocking) and the slave of a new terminal of this size."""
    master, slave = os.openpty()
    try:
        os.set_blocking(master, False)
        resize_terminal(master, cols, rows)
    except OSError:
        os.close(master)
        os.close(slave)
        raise
    return master, slave


def _open_transit() -> int:
    """Both ends of a pipe in one descriptor: bytes wait in it for its holder."""
    reader, writer = os.pipe()
    try:
        return os.open(f"/proc/self/fd/{reader}", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.close(reader)
        os.close(writer)


def resize_terminal(master: int, cols: int, rows: int) -> None:
    """Set the size; the kernel sends SIGWINCH to the foreground group."""
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))


def end_of_input(master: int) -> bytes:
    """The bytes that this terminal takes as end of file."""
    try:
        character = termios.tcgetattr(master)[6][termios.VEOF]
    except termios.error:
        return b"\x04"
    return character if isinstance(character, bytes) else bytes([character])
