"""What services say about themselves: the protocol of sd_notify, and s6's newline on a descriptor.

Makes and reads the sockets and pipes; the caller decides who may speak on them. A message is
bounded in size, and so is what is taken from it. Received descriptors are closed.
"""

from __future__ import annotations

import array
import errno
import math
import os
import socket
import struct
import sys
import zlib

import msgspec

from holdfast.system.patterns import pattern

MESSAGE_BYTES = 8192
MESSAGES_AT_ONCE = 64
STATUS_CHARACTERS = 200
METRICS_IN_MESSAGE = 64
METRIC_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_.:]{0,63}")
_METRIC = "X_METRIC_"
_DESCRIPTORS = 16
_IS_LINUX = sys.platform.startswith("linux")
_SO_PASSCRED, _SCM_CREDENTIALS = 16, 2
_NAME_FILE = "notify.name"


class Message(msgspec.Struct, frozen=True):
    """What one message, or several in a row, said."""

    is_ready: bool | None = None
    """READY=1; False is RELOADING=1 or STOPPING=1."""
    is_stopping: bool = False
    status: str | None = None
    watchdog: bool | None = None
    """WATCHDOG=1; False is WATCHDOG=trigger."""
    watchdog_seconds: float | None = None
    extend_seconds: float | None = None
    metrics: tuple[tuple[str, float], ...] = ()


class Sender(msgspec.Struct, frozen=True):
    """The sender of a message, as the kernel says."""

    pid: int
    uid: int


def parse(data: bytes) -> Message:
    """Parse the known fields of a message, and ignore the rest."""
    said: dict[str, object] = {}
    metrics: list[tuple[str, float]] = []
    for line in data.decode("utf-8", "replace").split("\n"):
        name, _, value = line.partition("=")
        match name, value:
            case "READY", "1":
                said["is_ready"] = True
            case "RELOADING", "1":
                said["is_ready"] = False
            case "STOPPING", "1":
                said["is_ready"], said["is_stopping"] = False, True
            case "STATUS", _:
                said["status"] = _plain(value)
            case "WATCHDOG", ("1" | "trigger"):
                said["watchdog"] = value == "1"
            case "WATCHDOG_USEC", _ if seconds := _seconds(value):
                said["watchdog_seconds"] = seconds
            case "EXTEND_TIMEOUT_USEC", _ if seconds := _seconds(value):
                said["extend_seconds"] = seconds
            case _ if name.startswith(_METRIC) and len(metrics) < METRICS_IN_MESSAGE:
                metric = _metric(name[len(_METRIC) :], value)
                metrics += [metric] if metric is not None else []
            case _:
                pass
    return Message(**said, metrics=tuple(metrics))  # type: ignore[arg-type]


def _plain(text: str) -> str:
    printable = "".join(
        letter if letter.isprintable() else " " for letter in text[: STATUS_CHARACTERS * 4]
    )
    return printable.strip()[:STATUS_CHARACTERS]


def _seconds(text: str) -> float | None:
    return int(text) / 1e6 if text.isdecimal() and 0 < len(text) <= 15 and int(text) else None


def _metric(name: str, text: str) -> tuple[str, float] | None:
    try:
        value = float(text) if len(text) <= 40 else math.nan
    except ValueError:
        return None
    return (name, value) if METRIC_NAME.fullmatch(name) and math.isfinite(value) else None


def secret_of(state: str) -> str:
    """Return the secret part of the addresses.

    It stays the same as long as the state folder exists, so that a surviving service finds its
    socket again.
    """
    path = os.path.join(state, _NAME_FILE)
    try:
        with open(path, encoding="ascii") as file:
            if len(found := file.read(64).strip()) == 16:
                return found
    except (OSError, ValueError):
        pass
    made = os.urandom(8).hex()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(made)
    return made


def address(secret: str, service: str) -> str:
    """Return the address for NOTIFY_SOCKET.

    Services of other users can reach it, so the name is a secret, and senders are checked.
    """
    if _IS_LINUX:
        return f"@holdfast/{secret}/{service}"
    # This system has no abstract names, and only short paths.
    return f"/tmp/holdfast-notify-{os.getuid()}/{secret}-{zlib.crc32(service.encode()):08x}"


def make_socket(where: str) -> socket.socket:
    """Return a bound socket; raises OSError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        if where.startswith("@"):
            sock.bind("\0" + where[1:])
        else:
            _bind_path(sock, where)
        prepare(sock)
    except BaseException:
        sock.close()
        raise
    return sock


def _bind_path(sock: socket.socket, where: str) -> None:
    """Bind in a folder that others may enter, but not list."""
    folder = os.path.dirname(where)
    os.makedirs(folder, exist_ok=True)
    if os.lstat(folder).st_uid != os.getuid():
        raise PermissionError(errno.EPERM, f"{folder} belongs to somebody else")
    os.chmod(folder, 0o711)  # noqa: S103
    if os.path.lexists(where):
        os.unlink(where)
    sock.bind(where)
    os.chmod(where, 0o666)  # noqa: S103


def prepare(sock: socket.socket) -> None:
    """Set the options that the socket needs, whoever made it."""
    sock.setblocking(False)
    if _IS_LINUX:
        sock.setsockopt(socket.SOL_SOCKET, _SO_PASSCRED, 1)


def receive(sock: socket.socket) -> list[tuple[bytes, Sender | None]]:
    """Return some of the waiting messages; raises OSError if the socket is unusable."""
    found: list[tuple[bytes, Sender | None]] = []
    room = socket.CMSG_SPACE(12) + socket.CMSG_SPACE(_DESCRIPTORS * array.array("i").itemsize)
    while len(found) < MESSAGES_AT_ONCE:
        try:
            data, ancillary, flags, _ = sock.recvmsg(MESSAGE_BYTES, room)
        except BlockingIOError:
            break
        sender: Sender | None = None
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, _SCM_CREDENTIALS) and _IS_LINUX:
                pid, uid, _ = struct.unpack("3i", content[:12])
                sender = Sender(pid, uid)
            elif (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                # Closing it is also what BARRIER=1 waits for.
                _close_all(content)
        if not flags & socket.MSG_TRUNC:
            found.append((data, sender))
    return found


def _close_all(content: bytes) -> None:
    fds = array.array("i")
    fds.frombytes(content[: len(content) - len(content) % fds.itemsize])
    for fd in fds:
        os.close(fd)


def heard_newline(fd: int) -> bool | None:
    """Return whether a newline came through the pipe; None: nobody can write one any more."""
    while True:
        try:
            data = os.read(fd, 4096)
        except BlockingIOError:
            return False
        if not data:
            return None
        if b"\n" in data:
            return True
