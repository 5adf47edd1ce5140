"""The cgroup v2 directory of each run, and the limits in it, where the kernel allows them.

Owns `holdfast-HASH/` in the keeper's own cgroup, and everything in it. Many machines have no
writable tree: then `root` is None, and every call does nothing. Where a controller is not ours to
use, its limit is not enforced, and the answer says so. Never moves the keeper itself, and never
touches a directory that no keeper made.

A living keeper shares a lock on its directory, and the kernel releases it when the keeper dies. So
a process that gets the lock exclusively knows that no keeper uses the directory.
"""

from __future__ import annotations

import fcntl
import os
import time

from holdfast.system import kernel_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX, _HASH_DIGITS = "holdfast-", 16
_TRIES, _LOOK_SECONDS = 20, 0.001
_PERIOD_MICROSECONDS = 100_000
_CONTROLLERS = {"memory": "memory", "cpu": "cpu", "processes": "pids"}


class Cgroups:
    """Makes, fills, empties and removes the cgroups of one keeper."""

    __slots__ = ("_lock", "project", "root")

    def __init__(self, project_hash: str) -> None:
        self.project = project_hash
        self.root = _make_root(project_hash)
        self._lock = None if self.root is None else _share(self.root)

    @property
    def can_kill(self) -> bool:
        return self.root is not None and os.path.exists(f"{self.root}/cgroup.kill")

    def create(self, run_id: str) -> str | None:
        """Make a directory for a run; an existing one is used."""
        if self.root is None or not run_id or "/" in run_id or run_id in (".", ".."):
            return None
        path = f"{self.root}/{run_id}"
        return path if _make(path) else None

    def create_limited(
        self, run_id: str, limits: dict[str, float] | None
    ) -> tuple[str | None, list[str]]:
        """A cgroup for the run with those limits that the kernel takes, and their names.

        None: there are none, and the run is placed later like any other.
        """
        wanted = {name: value for name, value in (limits or {}).items() if name in _CONTROLLERS}
        if not wanted or self.root is None:
            return None, []
        available = _switch_on(self.root, [_CONTROLLERS[name] for name in wanted])
        if not any(_CONTROLLERS[name] in available for name in wanted):
            return None, []
        path = self.create(run_id)
        if path is None:
            return None, []
        enforced = [
            name
            for name, value in wanted.items()
            if _CONTROLLERS[name] in available and _limit(path, name, float(value))
        ]
        if not enforced:
            self.remove(path)
            return None, []
        return path, enforced

    def place(self, path: str, pid: int) -> bool:
        """Move a process with all its threads in. Its children stay where they are."""
        return kernel_files.write(f"{path}/cgroup.procs", b"%d" % pid)

    def pids(self, path: str) -> list[int]:
        """The living processes in the cgroup and in nested ones."""
        data = kernel_files.read(f"{path}/cgroup.procs") or b""
        found = [pid for pid in map(int, data.split()) if pid > 0]
        for child in _nested(path):
            found.extend(self.pids(child))
        return found

    def is_populated(self, path: str) -> bool:
        return b"populated 1" in (kernel_files.read(f"{path}/cgroup.events") or b"")

    def is_frozen(self, path: str) -> bool:
        return (kernel_files.read(f"{path}/cgroup.freeze") or b"").startswith(b"1")

    def frozen(self, run_id: str) -> str | None:
        """The directory of a run that an earlier keeper froze."""
        path = f"{self.root}/{run_id}"
        return path if self.root is not None and self.is_frozen(path) else None

    def kill(self, path: str) -> bool:
        """Send SIGKILL to all processes inside at once; False before Linux 5.14."""
        return kernel_files.write(f"{path}/cgroup.kill", b"1")

    def freeze(self, path: str, on: bool) -> bool:
        return kernel_files.write(f"{path}/cgroup.freeze", b"1" if on else b"0")

    def remove(self, path: str) -> None:
        """Remove the directory, nested ones first. A busy one stays."""
        if self.root is None or not path.startswith(f"{self.root}/"):
            return
        _remove(path)

    def remove_left(self) -> Iterator[None]:
        """Remove the empty roots of killed keepers, one directory with each step."""
        parent = None if self.root is None else os.path.dirname(self.root)
        for path in _nested(parent) if parent else ():
            if not _is_root(path) or path == self.root or self.is_populated(path):
                continue
            for part in (*_nested(path), path):
                # The lock is asked for again each time: its next keeper may have started.
                _remove_if_left(path, part)
                yield

    def close(self) -> None:
        """Remove our own root if it is empty."""
        if self.root is not None:
            _rmdir(self.root)
            self.root = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _make_root(project_hash: str) -> str | None:
    wish = os.environ.get("HOLDFAST_CGROUP", "")
    if wish == "off":
        return None
    parent = wish if wish.startswith("/") else _own_directory()
    if parent is None or not os.path.exists(f"{parent}/cgroup.procs"):
        return None
    path = f"{parent.rstrip('/')}/{_PREFIX}{project_hash}"
    if not _make(path):
        return None
    # A cgroup v1 hierarchy has cgroup.procs, too, but no cgroup.events.
    if os.access(f"{path}/cgroup.procs", os.W_OK) and os.path.exists(f"{path}/cgroup.events"):
        return path
    _rmdir(path)
    return None


def _share(path: str) -> int | None:
    """Share the lock of the directory; None if that is not possible. Another keeper may hold it
    exclusively for a moment and remove the directory, which is then made again."""
    for _ in range(_TRIES):
        fd = _locked(path, fcntl.LOCK_SH)
        try:
            if fd is not None and os.path.samestat(os.fstat(fd), os.stat(path)):
                return fd
        except OSError:
            pass  # removed
        if fd is not None:
            os.close(fd)
        time.sleep(_LOOK_SECONDS)
        _make(path)
    return None


def _locked(path: str, kind: int) -> int | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def _remove_if_left(root: str, path: str) -> None:
    """Remove this part of a root if its keeper is gone. A busy part stays."""
    fd = _locked(root, fcntl.LOCK_EX)
    if fd is not None:
        _remove(path)
        os.close(fd)


def _is_root(path: str) -> bool:
    """Whether a keeper gave this name. Others may begin with the same prefix."""
    name = os.path.basename(path)
    digits = name[len(_PREFIX) :]
    is_hash = len(digits) == _HASH_DIGITS and not digits.strip("0123456789abcdef")
    return name.startswith(_PREFIX) and is_hash


def _own_directory() -> str | None:
    """The directory of this process's own cgroup, if it is visible from here."""
    own = None
    for line in (kernel_files.read("/proc/self/cgroup") or b"").decode().splitlines():
        if line.startswith("0::"):
            own = line[3:]
    if own is None or own.startswith("/.."):
        return None
    for line in (kernel_files.read("/proc/self/mounts") or b"").decode().splitlines():
        fields = line.split(" ")
        if len(fields) > 2 and fields[2] == "cgroup2":
            return fields[1].replace("\\040", " ") + own.rstrip("/")
    return None


def _make(path: str) -> bool:
    try:
        os.mkdir(path, 0o755)
    except FileExistsError:
        return os.path.isdir(path)
    except OSError:
        return False
    return True


def _nested(path: str) -> list[str]:
    try:
        # The link count of a cgroup directory tells whether it has nested ones.
        if os.stat(path).st_nlink <= 2:
            return []
        with os.scandir(path) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _remove(path: str) -> None:
    for child in _nested(path):
        _remove(child)
    _rmdir(path)


def _rmdir(path: str) -> None:
    try:
        os.rmdir(path)
    except OSError:
        # It is busy, or gone already. A cgroup that stays behind is harmless.
        return


def _switch_on(root: str, wanted: list[str]) -> set[str]:
    """Switch these controllers on for the cgroups below this one, if that is allowed. Returns all
    that are on."""
    on = _names_in(f"{root}/cgroup.subtree_control")
    for name in wanted:
        if name in on:
            continue
        if name not in _names_in(f"{root}/cgroup.controllers"):
            parent = root.rpartition("/")[0]
            # The kernel refuses this if processes are in the parent itself, as we often are.
            kernel_files.write(f"{parent}/cgroup.subtree_control", f"+{name}".encode())
        kernel_files.write(f"{root}/cgroup.subtree_control", f"+{name}".encode())
    return _names_in(f"{root}/cgroup.subtree_control")


def oom_kills(path: str) -> int:
    """How many processes of the cgroup the kernel killed because of its memory limit."""
    for line in (kernel_files.read(f"{path}/memory.events") or b"").splitlines():
        name, _, count = line.partition(b" ")
        if name == b"oom_kill" and count.isdigit():
            return int(count)
    return 0


def _limit(path: str, name: str, value: float) -> bool:
    if name == "memory":
        # Kill the whole tree: a tree without one of its processes would be in a strange state.
        kernel_files.write(f"{path}/memory.oom.group", b"1")
        return kernel_files.write(f"{path}/memory.max", b"%d" % value)
    if name == "cpu":
        quota = max(1000, int(value / 100 * _PERIOD_MICROSECONDS))
        return kernel_files.write(f"{path}/cpu.max", b"%d %d" % (quota, _PERIOD_MICROSECONDS))
    return kernel_files.write(f"{path}/pids.max", b"%d" % value)


def _names_in(path: str) -> set[str]:
    return set((kernel_files.read(path) or b"").decode().split())


def hash_of(state: str) -> str:
    """A hash that names the cgroup; the same for every keeper of one state folder."""
    value = 0xCBF29CE484222325
    for byte in os.fsencode(os.path.realpath(state)):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"
