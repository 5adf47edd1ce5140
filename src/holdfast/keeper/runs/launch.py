"""A program to be started, with its environment and its restrictions.

Checks them before anything is created. A request that cannot be met is a SpawnError that names the
stage. Starts nothing.
"""

from __future__ import annotations

import errno
import os
import resource
import sys

from holdfast.system.users import NoSuchUser, User

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.keeper.protocol.messages import ConfinementFields, SpawnRequest

    Limits = tuple[int, int]


LONGEST_STRING = 32 * os.sysconf("SC_PAGE_SIZE")
"""Most bytes of one argument or variable, with the byte at its end, on Linux."""
MOST_BYTES = 6 << 20
"""Most bytes of all of them together, however large the stack may be."""
_POINTER = 8


class SpawnError(Exception):
    """A process could not be created: the stage, and the reason."""

    def __init__(self, stage: str, number: int, message: str) -> None:
        super().__init__(message)
        self.stage = stage
        self.errno = number


def failure(stage: str, doing: str, number: int, why: str = "") -> SpawnError:
    return SpawnError(stage, number, f"{doing}: {why or os.strerror(number)}")


def excess_of(launch: Launch) -> str:
    """Why the system refuses arguments and environment as too long: one string is too long, or all
    of them together are. Tells names and sizes only, because values may be secrets."""
    sizes = {
        f"the variable {name}": _bytes_of(f"{name}={text}") for name, text in launch.env.items()
    }
    sizes.update((f"argument {place}", _bytes_of(text)) for place, text in enumerate(launch.argv))
    longest = max(sizes, key=lambda name: sizes[name])
    told = f"{longest} has {sizes[longest]:,} bytes"
    if sys.platform == "linux" and sizes[longest] >= LONGEST_STRING:
        return f"{told}; one string may have at most {LONGEST_STRING - 1:,}"
    total = sum(sizes.values()) + (1 + _POINTER) * len(sizes)
    most = min(os.sysconf("SC_ARG_MAX"), MOST_BYTES)
    count = f"{len(launch.argv)} arguments and {len(launch.env)} variables"
    return f"{count} have {total:,} bytes together, of at most {most:,}; {told}"


def _bytes_of(text: str) -> int:
    return len(os.fsencode(text))


class Launch:
    """Everything needed to start one program."""

    __slots__ = (
        "argv",
        "beneath",
        "cgroup",
        "confine",
        "cwd",
        "env",
        "keeps_high_limits",
        "mark",
        "nice",
        "nofile",
        "passed",
        "ready",
        "rlimits",
        "slave",
        "stdio",
        "umask",
        "user",
    )

    def __init__(
        self,
        argv: Sequence[str],
        env: dict[str, str],
        cwd: str,
        *,
        stdio: tuple[int, int, int] | None = None,
        slave: int | None = None,
    ) -> None:
        self.argv = list(argv)
        self.env = env
        self.cwd = cwd
        self.stdio = stdio
        self.slave = slave
        self.beneath: str | None = None
        """The folder that `cwd` must lie below after all links are followed."""
        self.user: User | None = None
        self.rlimits: dict[int, Limits] = {}
        self.cgroup: str | None = None
        """A cgroup with limits, entered before the program is executed."""
        self.confine: ConfinementFields | None = None
        """The only paths that it may `read` and `write`, and folders that are `open` for it, by the
        variable that tells their place."""
        self.umask: int | None = None
        self.nice: int | None = None
        self.passed: list[tuple[str, int]] = []
        self.ready: tuple[int, int] | None = None
        """A descriptor over which it can say that it is ready: the number at which the program
        finds it, and ours."""
        self.keeps_high_limits = False
        self.mark: int | None = None
        """The mark of its run (`run_marks`)."""
        self.nofile: Limits | None = None
        """The limit of descriptors, set last: until then more may be needed."""

    def restrict(self, request: SpawnRequest) -> None:
        """Take user, limits, umask, niceness and confinement from a request."""
        self.beneath = request.get("beneath")
        if user := request.get("user"):
            try:
                self.user = User(str(user))
            except NoSuchUser as error:
                doing = f"changing to user {user}"
                raise failure("user", doing, errno.ENOENT, str(error)) from None
            if self.user.is_own:
                self.user = None
        for name, pair in (request.get("rlimits") or {}).items():
            self.rlimits[_limit_number(name)] = _limit_pair(name, pair)
        umask = request.get("umask")
        if umask is not None:
            self.umask = int(umask, 8) if isinstance(umask, str) else int(umask)
        if request.get("nice") is not None:
            self.nice = int(request["nice"])
        self.confine = request.get("confine")

    @property
    def needs_fork(self) -> bool:
        if self.slave is not None and sys.platform != "linux":
            return True
        return bool(
            self.user
            or self.cgroup
            or self.rlimits
            or self.passed
            or self.ready
            or self.umask is not None
            or self.nice is not None
            or self.confine is not None
        )


def _limit_number(name: str) -> int:
    number = getattr(resource, f"RLIMIT_{name.upper()}", None)
    if number is None:
        raise failure("limits", f"setting limit {name}", errno.EINVAL, "no such limit here")
    return int(number)


def _limit_pair(name: str, pair: Any) -> Limits:
    values = pair if isinstance(pair, (list, tuple)) else [pair, pair]
    try:
        soft, hard = (
            resource.RLIM_INFINITY if v in (None, -1, "unlimited") else int(v) for v in values
        )
    except (TypeError, ValueError):
        raise failure("limits", f"setting limit {name}", errno.EINVAL) from None
    return soft, hard
