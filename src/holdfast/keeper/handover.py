"""The table that one keeper leaves to the next: one JSON document in a memory file.

Reads, writes and checks the table, and finds the descriptors in it. Decides nothing about runs.

Why there is a table. The keeper is the parent of every service and holds the other ends of their
pipes. If it exits, output and exit codes are lost. So the keeper is never restarted: another
program image takes its place in a living process, by `execv`. A process keeps its pid, its
children and its open descriptors through `execv`; everything in memory is lost. The table is what
must survive. It lies in a memory file, never on disk, because it holds environments and so
secrets. The number of its descriptor is an argument of the new program.

There are two roads to a new keeper, and both use the same table.

The upgrade (`upgrade.py`). The keeper executes a newer version of itself in its own process. It
stays the parent of everything, so pids, exit codes and pipes are as before.

1. A peer asks for `upgrade`. The new code is rehearsed in a child: it reads a copy of the table and
   imports all its modules and the supervisor's (`--check`). If that fails, nothing has changed.
2. The keeper reaps what has ended, so that the table is true, and writes the table: its runs with
   the descriptors of their pipes, half-read requests and half-sent replies of every peer, the
   state of each recorder, each stop that is under way.
3. It blocks all signals, because between two program images no handler exists, makes the
   descriptors in the table inheritable, and calls `execv` with `--resume FD`.
4. The new image restores runs, recorders and connections, answers the peer that asked, unblocks
   signals, and reaps whoever ended meanwhile. Then it replaces the supervisor.

The recovery (`adapters/keeper_link.py`). The keeper was killed. The supervisor holds spare copies
of every descriptor that matters and has remembered every run (`adapters/succession.py`). It writes
the table and executes a keeper in its own process (`--recover FD`). The services are not children
of this process, so their ends are watched through pidfds, and an exit code that the kernel does not
tell is unknown. What was printed meanwhile waits in the pipes. A `spawn` that was not answered may
have begun or not: the table lists it as `pending`, and the new keeper looks for its process in
`runs.jsonl`, by its mark and in the environments of all processes.

At every moment somebody can take over. A supervisor that is replaced stands by with its spares
until the next one has its own. So two supervisors may see the keeper die: each has the *token*, a
pipe with one byte in it, and the one that reads the byte becomes the keeper. The lock of the state
folder is a descriptor in the table; it is never released, so no third keeper can start meanwhile.

The table only grows, because versions differ: a new keeper reads the table of an older one, and an
upgrade may go back. Fields: `version`; `lock`, `claim`, `token` and `listener` (descriptors);
`state`, `runtime`, `started_at`; `kept` (the memory); `held` {name: descriptor}; `runs`, each a
`RunEntry` of the protocol's messages; `pending`; and from an upgrade `connections`, `supervisor`,
`logs`, `journal`, `untold_gaps`, `answer`, `nofile`, `oom_score`, `ceiling`, `umask`.
"""

from __future__ import annotations

import os

from holdfast.system import lean_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Table = dict[str, Any]

VERSION = 1
_SINGLE = ("lock", "claim", "token", "listener")
_RUN = ("run_id", "service", "pid", "start_time", "parts")
_CONNECTION = ("fd", "is_greeted", "watched", "inbox", "inbox_fds", "outbox")
_SUPERVISOR = ("pid", "state", "failures", "last_exit", "last_error")


class HandoverError(Exception):
    """The table cannot be read by this version of the keeper."""


def write(table: Table) -> int:
    """Write the table to a memory file; returns its descriptor, which survives `execv`."""
    data = lean_json.encoded({"version": VERSION, **table})
    fd = _memory_file()
    try:
        _fill(fd, data)
        os.set_inheritable(fd, True)
    except BaseException:
        os.close(fd)
        raise
    return fd


def read(fd: int) -> Table:
    """Read the table from its memory file, and close the file."""
    import mmap

    try:
        with mmap.mmap(fd, os.fstat(fd).st_size, access=mmap.ACCESS_READ) as memory:
            # Some systems round the size up to whole pages.
            table = lean_json.loads(memory[:].rstrip(b"\0"))
    except (OSError, ValueError) as error:
        raise HandoverError(f"the table is not readable: {error}") from None
    finally:
        os.close(fd)
    if not isinstance(table, dict) or table.get("version") != VERSION:
        raise HandoverError("the table has another version")
    return table


def check(table: Table) -> None:
    """Raise HandoverError if a run, a connection or the supervisor could not be taken over."""
    for what, needed, found in (
        ("run", _RUN, table.get("runs")),
        ("connection", _CONNECTION, table.get("connections")),
        ("supervisor", _SUPERVISOR, [table["supervisor"]] if "supervisor" in table else ()),
    ):
        for facts in found or ():
            if missing := [name for name in needed if name not in facts]:
                raise HandoverError(f"a {what} in the table has no {', '.join(missing)}")


def descriptors(table: Table) -> list[int]:
    """Every descriptor number that the table names."""
    fds = [table[key] for key in _SINGLE if table.get(key) is not None]
    fds.extend(table.get("held", {}).values())
    for run in table.get("runs", ()):
        fds.extend(run.get("parts", {}).values())
    for connection in table.get("connections", ()):
        fds.append(connection["fd"])
        fds.extend(connection.get("inbox_fds", ()))
        for _, carried in connection.get("outbox", ()):
            fds.extend(carried)
    return [int(fd) for fd in fds]


def set_inheritable(fds: Iterable[int], inheritable: bool) -> None:
    for fd in fds:
        os.set_inheritable(fd, inheritable)


def recover_argv(
    python: str, package_parent: str, state: str, runtime: str, table_fd: int, import_path: str
) -> list[str]:
    """The command into which a supervisor turns itself when its keeper has died."""
    program = os.path.join(package_parent, "holdfast", "keeper", "__main__.py")
    places = ["--state", state, "--runtime", runtime, "--import-path", import_path]
    return [python, "-I", "-S", program, *places, "--recover", str(table_fd)]


def _fill(fd: int, data: bytes) -> None:
    if hasattr(os, "memfd_create"):
        # Without memory this raises an error. A mapping would be a fatal signal.
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
    else:
        import mmap

        # On macOS, shared memory can be mapped, but neither written nor read.
        os.ftruncate(fd, len(data))
        with mmap.mmap(fd, len(data)) as memory:
            memory[:] = data


def _memory_file() -> int:
    if hasattr(os, "memfd_create"):
        return int(os.memfd_create("holdfast-table"))
    import _posixshmem  # type: ignore[import-not-found]

    # A name may have 31 bytes at most.
    name = f"/holdfast-{os.urandom(8).hex()}"
    fd: int = _posixshmem.shm_open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    _posixshmem.shm_unlink(name)
    return fd
