"""`holdfast doctor`: what this host allows, what is missing, and how to get it.

Each check tries something and undoes it. What a running keeper says of itself is shown beside the
checks, because that counts for the services it holds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from holdfast.cli import systemd
from holdfast.cli.call import Call
from holdfast.cli.parser.verbs import Verb
from holdfast.cli.terminal import durations, screen
from holdfast.client.discovery import keeper_facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.keeper.protocol.messages import HostFacts, KeeperFacts

DESCRIPTORS_PER_SERVICE = 6
OWN_DESCRIPTORS = 32
FLOOR_BYTES = 64 << 20
PIPE_BYTES_PER_SERVICE = 2 << 20
DISTRIBUTION = "holdfast-supervisor"
PIDFD_GET_INFO = 0xC040FF0B
PR_SET_CHILD_SUBREAPER = 36
COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


class DoctorCheck(NamedTuple):
    """The result of one check; `fix` is empty if all is well."""

    name: str
    level: str
    found: str
    fix: str = ""


@Verb(
    "doctor",
    "Check what this host allows, and how to get more",
    examples=(("holdfast doctor", "each check: ok, or what is missing and the fix"),),
)
def doctor(call: Call) -> int:
    checks = list(all_checks(call))
    is_bad = any(check.level == "fail" for check in checks)
    if call.is_json:
        call.emit({"checks": [check._asdict() for check in checks]})
        return int(is_bad)
    width = max(len(check.name) for check in checks)
    for check in checks:
        level = call.paint(f"{check.level:<4}", COLOURS[check.level])
        call.say(f"{level}  {check.name:<{width}}  {check.found}")
        if check.fix:
            call.say(f"{'':<4}  {'':<{width}}  → {check.fix}")
    return int(is_bad)


def all_checks(call: Call) -> Iterator[DoctorCheck]:
    yield check_python()
    yield from check_package()
    if sys.platform == "linux":
        yield check_cgroup()
        yield check_controllers()
        yield check_pidfd()
        yield check_pidfd_info()
        yield check_subreaper()
        yield check_splice()
        yield check_pipes()
    else:
        yield DoctorCheck(
            "process trees",
            "warn",
            f"{sys.platform} has no cgroups, pidfd or subreaper",
            "trees are followed by session and environment: daemons that empty theirs are missed,"
            " and those that are programs of the system",
        )
    yield check_descriptors()
    yield check_state(call.places.state)
    yield check_runtime(call)
    keeper = keeper_facts(call.places)
    if sys.platform == "linux":
        cgroup = f"/proc/{keeper['pid'] if keeper else 'self'}/cgroup"
        yield from check_systemd(cgroup, is_booted=systemd.is_booted())
        yield from check_boot(call)
    yield check_desktop(call.environ)
    yield check_daemon(call, keeper)
    yield from check_unclaimed(keeper)
    yield from check_doors(call)


def check_python() -> DoctorCheck:
    return DoctorCheck("python", "ok", f"{sys.version.split()[0]} ({sys.executable})")


def check_package() -> Iterator[DoctorCheck]:
    """Whether another distribution wrote, or may overwrite, the files of this package."""
    from importlib.metadata import distributions

    mine = os.path.realpath(os.path.join(os.path.dirname(__file__), os.pardir, "__init__.py"))
    owners = {
        str(found.metadata["Name"])
        for found in distributions()
        for file in found.files or ()
        if str(file) == "holdfast/__init__.py" and os.path.realpath(file.locate()) == mine
    }
    for owner in sorted(owners - {DISTRIBUTION}):
        yield DoctorCheck(
            "package",
            "fail",
            f'the distribution "{owner}", another program, owns the same files as {DISTRIBUTION}',
            f"pip uninstall {owner}; pip install --force-reinstall {DISTRIBUTION}",
        )


def check_cgroup() -> DoctorCheck:
    folder = own_cgroup()
    if os.environ.get("HOLDFAST_CGROUP") == "off":
        return DoctorCheck("cgroup v2", "warn", "switched off", "unset HOLDFAST_CGROUP")
    fix = "start it with: systemd-run --user --scope -p Delegate=yes holdfast up -d"
    without = "trees are then found by the mark of each process"
    if folder is None:
        return DoctorCheck("cgroup v2", "warn", f"not mounted; {without}", "boot with cgroup v2")
    probe = os.path.join(folder, f"holdfast-doctor-{os.getpid()}")
    try:
        os.mkdir(probe)
    except OSError as error:
        return DoctorCheck("cgroup v2", "warn", f"{folder}: {error.strerror}; {without}", fix)
    try:
        has_kill = os.path.exists(os.path.join(probe, "cgroup.kill"))
        can_enter = os.access(os.path.join(probe, "cgroup.procs"), os.W_OK) and os.access(
            os.path.join(folder, "cgroup.procs"), os.W_OK
        )
    finally:
        os.rmdir(probe)
    if not can_enter:
        return DoctorCheck(
            "cgroup v2", "warn", f"{folder}: processes cannot be moved; {without}", fix
        )
    extra = "with" if has_kill else "without"
    return DoctorCheck("cgroup v2", "ok", f"writable, {extra} cgroup.kill")


def check_controllers() -> DoctorCheck:
    """Which limits the kernel can enforce; Holdfast itself watches the others every few seconds."""
    wanted = ("memory", "cpu", "pids")
    without = "limits are then watched, every monitoring_interval"
    folder = own_cgroup()
    try:
        with open(os.path.join(folder or "", "cgroup.controllers"), encoding="ascii") as file:
            offered = file.read().split()
        with open(os.path.join(folder or "", "cgroup.subtree_control"), encoding="ascii") as file:
            passed_on = file.read().split()
    except OSError:
        return DoctorCheck(
            "limits", "warn", f"no cgroup controllers; {without}", "boot with cgroup v2"
        )
    usable = [name for name in wanted if name in passed_on]
    if len(usable) == len(wanted):
        return DoctorCheck("limits", "ok", "the kernel enforces memory, cpu and process limits")
    missing = ", ".join(name for name in wanted if name not in usable)
    fix = "systemd-run --user --scope -p Delegate=yes holdfast up -d, or HOLDFAST_CGROUP=FOLDER"
    if not any(name in offered for name in wanted):
        fix = "boot with cgroup v2 alone (systemd.unified_cgroup_hierarchy=1)"
    return DoctorCheck("limits", "warn", f"no controller for {missing}; {without}", fix)


def own_cgroup() -> str | None:
    """The folder of our own cgroup, wherever the tree is mounted."""
    mount = path = None
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                fields = line.split()
                if len(fields) > 2 and fields[2] == "cgroup2":
                    mount = fields[1]
        with open("/proc/self/cgroup", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("0::"):
                    path = line[3:].strip()
    except OSError:
        return None
    if mount is None or path is None:
        return None
    return os.path.normpath(mount + path)


def _pidfd_open(pid: int) -> int:
    """Open a pidfd; raises OSError where the system has none."""
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        raise OSError("this system has no pidfd")
    return int(opener(pid))


def check_pidfd() -> DoctorCheck:
    try:
        os.close(_pidfd_open(os.getpid()))
    except OSError:
        return DoctorCheck(
            "pidfd", "warn", "missing: processes are told apart by start time", "Linux 5.3 or newer"
        )
    return DoctorCheck("pidfd", "ok", "signals cannot reach a recycled pid")


def check_pidfd_info() -> DoctorCheck:
    fix = "Linux 6.15 or newer"
    missing = "exit codes of services are unknown if the keeper itself is killed"
    import fcntl
    import struct

    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    try:
        fd = _pidfd_open(os.getpid())
    except OSError:
        return DoctorCheck("exit codes", "warn", missing, fix)
    try:
        fcntl.ioctl(fd, PIDFD_GET_INFO, bytearray(struct.pack("<Q", 1) + bytes(56)))
    except OSError:
        return DoctorCheck("exit codes", "warn", missing, fix)
    finally:
        os.close(fd)
    if release < (6, 15):
        return DoctorCheck("exit codes", "warn", missing, fix)
    return DoctorCheck(
        "exit codes", "ok", "known even if the keeper itself is killed (PIDFD_GET_INFO)"
    )


def check_subreaper() -> DoctorCheck:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        return DoctorCheck(
            "subreaper", "warn", "missing: daemonised children may escape", "Linux 3.4"
        )
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    return DoctorCheck("subreaper", "ok", "daemonised children stay below the keeper")


def check_splice() -> DoctorCheck:
    splice = getattr(os, "splice", None)
    if splice is None:
        return DoctorCheck(
            "splice", "warn", "this Python has none: output is copied", "Python built on Linux"
        )
    ends = [*os.pipe(), *os.pipe()]
    try:
        os.write(ends[1], b"x")
        splice(ends[0], ends[3], 1)
    except OSError as error:
        return DoctorCheck(
            "splice", "warn", f"{error.strerror}: output is copied", "allow splice(2)"
        )
    finally:
        for fd in ends:
            os.close(fd)
    return DoctorCheck("splice", "ok", "output goes from pipe to file without copying")


def check_pipes() -> DoctorCheck:
    largest = _number("/proc/sys/fs/pipe-max-size")
    pages = _number("/proc/sys/fs/pipe-user-pages-soft")
    if largest is None or pages is None:
        return DoctorCheck("pipes", "warn", "cannot tell how large they may be", "mount /proc")
    size = durations.show_size(largest)
    if os.geteuid() == 0 or pages == 0:
        return DoctorCheck("pipes", "ok", f"up to {size} each, no limit on their sum")
    count = pages * os.sysconf("SC_PAGE_SIZE") // PIPE_BYTES_PER_SERVICE
    return DoctorCheck(
        "pipes", "ok", f"up to {size} each; about {count} services get large ones, others 64 KiB"
    )


def check_descriptors() -> DoctorCheck:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if sys.platform == "darwin":
        from holdfast.system.darwin import OPEN_MAX

        # The system says «infinite», but refuses more than that.
        hard = min(hard, OPEN_MAX)
    if hard == resource.RLIM_INFINITY:
        return DoctorCheck("open files", "ok", "unlimited")
    count = max(0, (hard - OWN_DESCRIPTORS) // DESCRIPTORS_PER_SERVICE)
    found = f"hard limit {hard}: about {count} services"
    if count < 100:
        return DoctorCheck(
            "open files", "warn", found, "raise it: ulimit -Hn 65536, or LimitNOFILE= in a unit"
        )
    return DoctorCheck("open files", "ok", found)


def check_state(state: str) -> DoctorCheck:
    folder = state
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        return DoctorCheck(
            "state folder", "fail", f"{folder} is not writable", "choose --state-dir DIR"
        )
    room = os.statvfs(folder)
    free = room.f_bavail * room.f_frsize
    found = f"{state}, {durations.show_size(free)} free"
    if free < FLOOR_BYTES:
        return DoctorCheck(
            "state folder", "warn", found, "free some space, or `holdfast prune --older-than 1d`"
        )
    if folder == state and os.stat(state).st_mode & 0o077:
        return DoctorCheck(
            "state folder", "warn", f"{state} is open to others", f"chmod 700 {state}"
        )
    return DoctorCheck("state folder", "ok", found)


def check_runtime(call: Call) -> DoctorCheck:
    given = call.environ.get("XDG_RUNTIME_DIR")
    runtime = call.places.runtime
    if given and not os.path.isdir(given):
        return DoctorCheck(
            "sockets", "warn", f"XDG_RUNTIME_DIR {given} is no folder", f"mkdir -m 700 {given}"
        )
    if not given and sys.platform == "linux":
        return DoctorCheck(
            "sockets",
            "warn",
            f"XDG_RUNTIME_DIR is not set; they are in {runtime}",
            "log in through logind (loginctl), or set it to a private folder; all shells alike",
        )
    return DoctorCheck("sockets", "ok", runtime)


def check_boot(call: Call) -> Iterator[DoctorCheck]:
    """Whether the unit that install-service wrote still starts Holdfast in this folder."""
    from holdfast.cli.boot import installed, judge_installed

    home = call.environ.get("HOME") or os.path.expanduser("~")
    for path, text in installed(call.places.project, home):
        yield DoctorCheck("boot", *judge_installed(path, text))


def check_systemd(cgroup: str, *, is_booted: bool) -> Iterator[DoctorCheck]:
    """Whether a stop of the systemd unit around Holdfast would kill the keeper and its services."""
    unit = systemd.unit_of(_text(cgroup)) if is_booted else None
    if unit is not None:
        settings = systemd.settings_of(unit) if unit.name.endswith(".service") else None
        yield DoctorCheck("systemd", *systemd.judge(unit, settings, lingers=_lingers()))


def check_desktop(environ: Mapping[str, str]) -> DoctorCheck:
    """Whether `alerts: [{desktop: true}]` can show something."""
    program = "osascript" if sys.platform == "darwin" else "notify-send"
    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    if any(os.access(os.path.join(folder, program), os.X_OK) for folder in folders if folder):
        return DoctorCheck("desktop alerts", "ok", f"shown by {program}")
    has_desktop = any(environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if not has_desktop and sys.platform != "darwin":
        return DoctorCheck("desktop alerts", "ok", "no desktop here; webhooks and commands work")
    fix = "install it (Debian, Ubuntu: libnotify-bin)"
    return DoctorCheck("desktop alerts", "warn", f"{program} is missing", fix)


def check_daemon(call: Call, facts: KeeperFacts | None) -> DoctorCheck:
    if facts is None:
        return DoctorCheck("daemon", "ok", "none runs for this project")
    supervisor = facts["supervisor"]
    held = len(facts.get("runs", []))
    found = f"keeper {facts.get('pid')} ({facts.get('version')}) holds "
    found += screen.counted(held, "run")
    if supervisor.get("state") == "running":
        allows = _keeper_limits(facts.get("host"))
        return DoctorCheck("daemon", "ok", f"{found}, supervisor {supervisor.get('pid')}{allows}")
    errors = os.path.join(call.places.state, "supervisor.err")
    why = supervisor.get("last_error") or ""
    return DoctorCheck(
        "daemon",
        "warn",
        f"{found}, supervisor {supervisor.get('state')} {why}".rstrip(),
        f"see {errors}; then `holdfast up`",
    )


def check_unclaimed(facts: KeeperFacts | None) -> Iterator[DoctorCheck]:
    """Processes of services that removed every mark of the service they belong to."""
    if facts is not None and (unclaimed := facts.get("unclaimed")):
        yield DoctorCheck(
            "processes",
            "warn",
            f"belongs to no service: {screen.process_list(unclaimed)}",
            "end it yourself (kill), or with everything else: holdfast down",
        )


def check_doors(call: Call) -> Iterator[DoctorCheck]:
    """Where the network doors of a running Holdfast are, or why they are closed."""
    from holdfast.vocabulary.errors import HoldfastError

    try:
        supervisor: dict[str, Any] = call.ask("status").get("supervisor") or {}
    except HoldfastError:
        return
    doors: dict[str, str] = supervisor.get("doors") or {}
    notes: dict[str, str] = supervisor.get("door_notes") or {}
    for name in sorted({*doors, *notes}):
        if name not in doors:
            yield DoctorCheck(
                f"{name} door", "warn", notes[name], "free the port, then `holdfast up`"
            )
        else:
            note = f" ({notes[name]})" if name in notes else ""
            yield DoctorCheck(f"{name} door", "ok", doors[name] + note)
    if fingerprint := supervisor.get("fingerprint"):
        yield DoctorCheck("certificate", "ok", f"SHA-256 {fingerprint}")


def _keeper_limits(host: HostFacts | None) -> str:
    if not host:
        return ""
    missing = [name for name in ("cgroup", "pidfd", "subreaper", "splice") if not host.get(name)]
    return f"; it works without {', '.join(missing)}" if missing else ""


def _number(path: str) -> int | None:
    try:
        return int(_text(path))
    except ValueError:
        return None


def _lingers() -> bool:
    import pwd

    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return False
    return os.path.exists(f"/var/lib/systemd/linger/{name}")


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
