"""Limits that the kernel itself holds a run to, where the cgroup's controllers are ours to use.

A machine without them is normal: then nothing is enforced, the answer says so, and the
supervisor watches instead. Writes only into cgroups of this keeper.
"""

from __future__ import annotations

from holdfast.system import kernel_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.keeper.processes.cgroups import Cgroups

_PERIOD_MICROSECONDS = 100_000
_CONTROLLERS = {"memory": "memory", "cpu": "cpu", "processes": "pids"}


def prepare(
    cgroups: Cgroups, run_id: str, limits: dict[str, float] | None
) -> tuple[str | None, list[str]]:
    """A cgroup for the run with those limits that it can have, and their names.

    None: there are none, and the run is placed later as any other.
    """
    wanted = {name: value for name, value in (limits or {}).items() if name in _CONTROLLERS}
    if not wanted or cgroups.root is None:
        return None, []
    available = controllers(cgroups.root, [_CONTROLLERS[name] for name in wanted])
    if not any(_CONTROLLERS[name] in available for name in wanted):
        return None, []
    path = cgroups.create(run_id)
    if path is None:
        return None, []
    enforced = [
        name
        for name, value in wanted.items()
        if _CONTROLLERS[name] in available and _limit(path, name, float(value))
    ]
    if not enforced:
        cgroups.remove(path)
        return None, []
    return path, enforced


def controllers(root: str, wanted: list[str]) -> set[str]:
    """Which of these the cgroups below this one have; switched on if that is allowed."""
    on = _words(f"{root}/cgroup.subtree_control")
    for name in wanted:
        if name in on:
            continue
        if name not in _words(f"{root}/cgroup.controllers"):
            parent = root.rpartition("/")[0]
            # Refused by the kernel where processes are in the parent itself: our own, mostly.
            kernel_files.write(f"{parent}/cgroup.subtree_control", f"+{name}".encode())
        kernel_files.write(f"{root}/cgroup.subtree_control", f"+{name}".encode())
    return _words(f"{root}/cgroup.subtree_control")


def oom_kills(path: str) -> int:
    """How many processes of the cgroup the kernel has killed because of its limit."""
    for line in (kernel_files.read(f"{path}/memory.events") or b"").splitlines():
        name, _, count = line.partition(b" ")
        if name == b"oom_kill" and count.isdigit():
            return int(count)
    return 0


def _limit(path: str, name: str, value: float) -> bool:
    if name == "memory":
        # One process that is killed alone leaves a tree that nobody understands.
        kernel_files.write(f"{path}/memory.oom.group", b"1")
        return kernel_files.write(f"{path}/memory.max", b"%d" % value)
    if name == "cpu":
        quota = max(1000, int(value / 100 * _PERIOD_MICROSECONDS))
        return kernel_files.write(f"{path}/cpu.max", b"%d %d" % (quota, _PERIOD_MICROSECONDS))
    return kernel_files.write(f"{path}/pids.max", b"%d" % value)


def _words(path: str) -> set[str]:
    return set((kernel_files.read(path) or b"").decode().split())
