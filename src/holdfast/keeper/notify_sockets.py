"""The notify sockets of services, read by the keeper while no supervisor listens.

A socket that nobody reads is full after a few messages, and a service that sends one more blocks:
a service with a watchdog would hang because of us. So the newest messages go into the memory that
the next supervisor reads. Decides nothing about their meaning.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

from holdfast.keeper.memory import HEARD
from holdfast.system import lean_json, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.keeper.descriptors import Descriptors
    from holdfast.keeper.loop import Loop
    from holdfast.keeper.memory import Memory
    from holdfast.keeper.runs.run import HeldRun

SOCKETS = "notify:"
_STATES = (b"READY=1", b"RELOADING=1", b"STOPPING=1")
_MESSAGE_BYTES = 8192
_AT_ONCE = 16
_STATUS_BYTES = 800
_CREDENTIALS = 2
_DESCRIPTORS = 16


class NotifyReader:
    """Reads every held notify socket while no supervisor does."""

    def __init__(
        self, loop: Loop, held: Descriptors, memory: Memory, runs: Mapping[str, HeldRun]
    ) -> None:
        self._loop = loop
        self._held = held
        self._memory = memory
        self._runs = runs
        self._sockets: dict[str, socket.socket] = {}

    def listen(self) -> None:
        """Begin to read: no supervisor is there."""
        for name, fd in self._held:
            if name.startswith(SOCKETS) and name not in self._sockets:
                sock = self._sockets[name] = socket.socket(fileno=os.dup(fd))
                sock.setblocking(False)
                self._loop.watch(sock.fileno(), lambda name=name: self._on_ready(name))  # type: ignore[misc]

    def leave(self) -> None:
        """Stop reading: a supervisor reads them now."""
        sockets, self._sockets = self._sockets, {}
        for sock in sockets.values():
            self._loop.unwatch(sock.fileno())
            sock.close()

    def addresses(self) -> list[str]:
        """The paths of those sockets that have one."""
        found = []
        for name, fd in self._held:
            if name.startswith(SOCKETS):
                with socket.socket(fileno=os.dup(fd)) as sock:
                    found.append(sock.getsockname())
        return [path for path in found if isinstance(path, str) and path.startswith("/")]

    def _on_ready(self, name: str) -> None:
        sock = self._sockets[name]
        service = name[len(SOCKETS) :]
        for _ in range(_AT_ONCE):
            try:
                data, ancillary, _, _ = sock.recvmsg(_MESSAGE_BYTES, 24 + 16 + 4 * _DESCRIPTORS)
            except BlockingIOError:
                return
            pid, uid = _sender(ancillary)
            for run in self._runs.values():
                if run.service == service and run.exit is None and _is_of(run, pid, uid):
                    self._note(service, run.run_id, data)

    def _note(self, service: str, run_id: str, data: bytes) -> None:
        key = HEARD + service
        known = lean_json.loads((self._memory.values.get(key) or "{}").encode())
        if known.get("run_id") != run_id:
            known = {"run_id": run_id}
        for line in data.split(b"\n"):
            if line in _STATES:
                known["state"] = line.decode()
            elif line.startswith(b"STATUS="):
                known["status"] = line[:_STATUS_BYTES].decode(errors="replace")
        if len(known) > 1:
            self._memory.keep({key: lean_json.encoded(known).decode()})


def _sender(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, int]:
    """The pid and user of a sender; 0 and -1 if the system does not tell. Closes descriptors that
    came along."""
    found = (0, -1)
    for level, kind, content in ancillary:
        if level != socket.SOL_SOCKET:
            continue
        if kind == socket.SCM_RIGHTS:
            for fd in struct.unpack(f"{len(content) // 4}i", content[: len(content) // 4 * 4]):
                os.close(fd)
        elif kind == _CREDENTIALS and sys.platform != "darwin":
            found = struct.unpack("3i", content[:12])[:2]
    return found


def _is_of(run: HeldRun, pid: int, uid: int) -> bool:
    if uid < 0:
        return True
    main = (run.pid, run.start_time)
    return processes.belongs_to_run((pid, uid), main, run.run_id)
