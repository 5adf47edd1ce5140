"""Whom a process belongs to: the peer of a socket, its ancestors, its user, its cgroup.

Keeper and supervisor ask this of those who speak to them, and must judge alike. Reads only;
standard library only.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
import sys

if sys.platform == "darwin":
    from holdfast.system import darwin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol, TypeVar

    class Seen(Protocol):
        """A process as it was at one moment."""

        @property
        def pid(self) -> int: ...
        @property
        def ppid(self) -> int: ...
        @property
        def start_time(self) -> str: ...

    One = TypeVar("One", bound=Seen)

_SO_PEERPIDFD = 77
_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2
_MAX_STEPS = 1000
_NOT_OFFERED = (errno.ENOPROTOOPT, errno.EOPNOTSUPP, errno.ENOSYS)


def credentials(sock: socket.socket) -> tuple[int, int]:
    """User and pid of who connected, as the kernel says; OSError where it does not."""
    if sys.platform == "darwin":
        # struct xucred: version, uid, …
        uid = struct.unpack_from("=II", sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76))[1]
        return uid, struct.unpack("=i", sock.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID, 4))[0]
    pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return uid, pid


def has_left(sock: socket.socket) -> bool:
    """Whether the process that connected has ended, where the kernel (6.5) can tell. To be asked
    after a look at the process: while it lives, its pid is nobody else's."""
    if sys.platform == "darwin":
        return False
    try:
        pidfd: int = struct.unpack("i", sock.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4))[0]
    except OSError as error:
        return error.errno not in _NOT_OFFERED
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(0))
    finally:
        os.close(pidfd)


def lineage(first: One, look: Callable[[int], One | None]) -> list[One]:
    """The process and its ancestors, nearest first; nothing where they change too fast."""
    line = [first]
    for _ in range(_MAX_STEPS):
        last = line[-1]
        if last.ppid <= 0:
            return line
        parent, again = look(last.ppid), look(last.pid)
        if again is None or again.start_time != last.start_time:
            line.pop()
            if not line:
                return []
        elif again.ppid != last.ppid:
            line[-1] = again
        elif parent is None:
            # It exists, since it is still the parent, and is hidden: another user's.
            return line
        else:
            line.append(parent)
    return []


def speaks_for(
    main: tuple[int, str],
    run_id: str,
    spoke: tuple[int, int],
    look: Callable[[int], One | None],
    run_id_of: Callable[[int], str | None],
) -> bool:
    """Whether a process with this pid and user is of the run, whose main process is named by pid
    and start time. One that ended meanwhile is believed if it was of the run's user: where it
    spoke is a secret of the run. `look` sees who is alive."""
    pid, uid = spoke
    if pid == main[0] > 0:
        return True
    process = look(pid) if pid > 0 else None
    if process is not None:
        if run_id_of(pid) == run_id:
            return True
        if any((it.pid, it.start_time) == main for it in lineage(process, look)):
            return True
        # Asked last: of a process that ends meanwhile, nothing above was read for sure.
        if not is_leaving(pid):
            return False
    return uid in (os.geteuid(), user_of(main[0]))


def is_in_cgroup(pid: int, root: str) -> bool:
    """Whether a process is in a cgroup beneath this one; yes if nobody can tell."""
    try:
        with open(f"/proc/{pid}/cgroup", "rb") as file:
            return is_below(root, file.read())
    except OSError:
        return True


def is_below(root: str, membership: bytes) -> bool:
    """The same of a process with this /proc/PID/cgroup."""
    name = os.fsencode(os.path.basename(root))
    return any(
        line.startswith(b"0::") and name in line[3:].split(b"/") for line in membership.splitlines()
    )


def is_leaving(pid: int) -> bool:
    """Whether it has ended, or is about to: then nothing can be read of it any more."""
    if sys.platform == "darwin":
        found = darwin.process(pid)
        return found is None or found[3] == "Z"
    try:
        os.readlink(f"/proc/{pid}/exe")
    except PermissionError:
        return False
    except OSError:
        return True
    return False


def user_of(pid: int) -> int | None:
    """Whose process it is."""
    if sys.platform == "darwin":
        return darwin.user_of(pid)
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None
