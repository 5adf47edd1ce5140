"""The table that one keeper leaves to the next: one JSON document in a memory file.

The file and every descriptor named in the table pass through `execv`. Written by a
keeper that upgrades itself, and by a supervisor that turns into a keeper. Only grows.

A table: `version`, `lock` and `claim` (descriptors), `state`, `runtime`, `started_at`, `kept`,
`held` {name: descriptor}, `runs` [RUN + `began` (monotonic) + `parts` {out, err, stdin,
terminal, pidfd: descriptor}], `pending` [spawn requests without an answer]; an upgrade adds
`listener`, `token`, `connections`, `supervisor` and more.
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
    """A descriptor of a memory file that holds the table; it survives `execv`."""
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
    """The table in the memory file, which is closed."""
    import mmap

    try:
        with mmap.mmap(fd, os.fstat(fd).st_size, access=mmap.ACCESS_READ) as memory:
            # Whole pages, where the system counts in them.
            table = lean_json.loads(memory[:].rstrip(b"\0"))
    except (OSError, ValueError) as error:
        raise HandoverError(f"the table is not readable: {error}") from None
    finally:
        os.close(fd)
    if not isinstance(table, dict) or table.get("version") != VERSION:
        raise HandoverError("the table has another version")
    return table


def check(table: Table) -> None:
    """Everything without which a run, a peer or the supervisor could not be taken over."""
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
        # Without room this is an error, where a mapping would be a fatal signal.
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
    else:
        import mmap

        # Shared memory of macOS can be mapped, but neither written nor read.
        os.ftruncate(fd, len(data))
        with mmap.mmap(fd, len(data)) as memory:
            memory[:] = data


def _memory_file() -> int:
    if hasattr(os, "memfd_create"):
        return int(os.memfd_create("holdfast-table"))
    import _posixshmem  # type: ignore[import-not-found]

    # Never a file: the table holds environments, and so secrets. The name has 31 bytes at most.
    name = f"/holdfast-{os.urandom(8).hex()}"
    fd: int = _posixshmem.shm_open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    _posixshmem.shm_unlink(name)
    return fd
